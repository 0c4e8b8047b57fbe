//! The gateway's own figures: each declared once, with its series, its unit and its meaning.
//!
//! The structs, their sums over the workers, JSON, Prometheus, `netstat -s`, the status page and the summary are made
//! from this table.

use kern::Unit;
use serde::Serialize;

use super::sample::{MetricType, Sample, Series};

/// Declares a struct of figures: for each series its fields, with their labels where it has several.
macro_rules! figures {
    ($(#[$doc:meta])* $name:ident, $kind:ident {
        $($series:literal $unit:ident $help:literal { $($field:ident $([$labels:literal])?,)* })*
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, Serialize)]
        pub(in super::super) struct $name {
            $($(#[doc = $help] $(#[doc = $labels])? pub(in super::super) $field: u64,)*)*
        }

        impl $name {
            /// Adds the figures of another worker.
            pub(super) fn add(&mut self, other: &Self) {
                $($(self.$field += other.$field;)*)*
            }

            /// Each figure, in the order of the table.
            pub(in super::super) fn samples(&self) -> Vec<Sample> {
                vec![$($(Sample {
                    name: stringify!($field).into(),
                    series: Series {
                        name: $series.into(),
                        kind: MetricType::$kind,
                        unit: Unit::$unit,
                        help: $help,
                    },
                    labels: concat!($($labels)?).into(),
                    value: self.$field as f64,
                },)*)*]
            }
        }
    };
}

figures! {
    /// The counters of the gateway itself.
    Counters, Counter {
        "connections_total" Count "TCP connections between guest and host, by the side that began them." {
            connections_out ["by=\"guest\""],
            connections_in ["by=\"client\""],
        }
        "connections_refused_total" Count "TCP connections refused, either way." { connections_refused, }
        "connections_stalled_total" Count "TCP connections reset: a side took nothing while buffers were short." {
            connections_stalled,
        }
        "connections_moved_total" Count "Migrations of TCP connections to a worker with much less load." {
            connections_moved,
        }
        "tcp_payload_bytes_total" Bytes "TCP payload that was relayed; up is from guest to host." {
            bytes_up ["direction=\"up\""],
            bytes_down ["direction=\"down\""],
        }
        "udp_flows_total" Count "UDP flows that were opened." { flows, }
        "udp_datagrams_total" Count "UDP datagrams that were relayed." {
            datagrams_up ["direction=\"up\""],
            datagrams_down ["direction=\"down\""],
        }
        "udp_payload_bytes_total" Bytes "UDP payload that was relayed." {
            datagram_bytes_up ["direction=\"up\""],
            datagram_bytes_down ["direction=\"down\""],
        }
        "udp_refused_total" Count "Datagrams answered with an ICMP error." { datagrams_refused, }
        "udp_lost_total" Count "Datagrams lost to full queues or a lack of buffers." { datagrams_lost, }
        "udp_filtered_total" Count "Datagrams of hosts to which the guest's socket has sent nothing." {
            datagrams_filtered,
        }
        "pings_total" Count "Pings of the guest to other hosts." { pings, }
        "pings_answered_total" Count "Pings that the other host answered." { pings_answered, }
        "pings_refused_total" Count "Pings answered with an ICMP error." { pings_refused, }
        "pings_lost_total" Count "Pings for which the host had no room: others wait there for absent neighbours."
            { pings_lost, }
        "dhcp_replies_total" Count "Replies to DHCP clients." { dhcp_replies, }
        "dhcp6_replies_total" Count "Replies to DHCPv6 clients." { dhcp6_replies, }
        "router_adverts_total" Count "Router advertisements to guests that asked for routers." {
            router_adverts,
        }
        "status_requests_total" Count "Requests for the status page." { status_requests, }
        "file_requests_total" Count "Requests for served files." { file_requests, }
        "files_from_copies_total" Count "Ranges of served files that were sent from copies in memory." {
            files_from_copies,
        }
        "file_reads_total" Count "Reads of served files that may wait for a disk, in threads of their own." {
            file_reads,
        }
        "file_lookups_total" Count "Requests for served files whose lookup may wait for a disk, in threads." {
            file_lookups,
        }
        "files_failed_total" Count "Served files that could not be read to their end." { files_failed, }
        "http_sent_bytes_total" Bytes "Responses of the status page and of served files, with heads." {
            http_bytes,
        }
        "tls_handshakes_total" Count "TLS handshakes with clients of served files." { tls_handshakes, }
        "tls_handshakes_failed_total" Count "TLS handshakes that failed, took too long, or were ended for newer ones." {
            tls_handshakes_failed,
        }
        "log_lines_lost_total" Count "Lines of the access log that could not be written." { log_lines_lost, }
        "descriptors_exhausted_total" Count "Times that no descriptor was left for a socket." {
            descriptors_exhausted,
        }
    }
}

figures! {
    /// The gauges.
    Gauges, Gauge {
        "connections" Count "TCP connections between guest and host right now." { connections_active, }
        "udp_flows" Count "UDP flows right now." { flows_active, }
        "http_connections" Count "Connections to the status page and for served files right now." { http_active, }
    }
}

impl Counters {
    /// Bytes that were moved.
    pub(in super::super) fn moved(&self) -> u64 {
        self.bytes_up
            + self.bytes_down
            + self.datagram_bytes_up
            + self.datagram_bytes_down
            + self.http_bytes
    }
}
