//! The figures as Prometheus reads them.
//!
//! Called by: http. Calls: nothing.
//! Invariants: each series has a type and a help line once, before its samples.
//! Locks: none. Sources: the Prometheus text exposition format, version 0.0.4.

use std::fmt::Write;

use super::figures::{Figures, Zone};

impl Figures {
    /// The figures as Prometheus reads them.
    pub(super) fn to_prometheus(&self) -> String {
        let mut out = Exposition(String::with_capacity(8 << 10));
        self.expose_gateway(&mut out);
        self.expose_stack(&mut out);
        self.expose_buffers(&mut out);
        out.0
    }

    fn expose_gateway(&self, out: &mut Exposition) {
        let (c, g) = (&self.counters, &self.gauges);
        let up_down = |up, down| [("direction=\"up\"", up), ("direction=\"down\"", down)];
        for (name, help, now) in [
            ("uptime_seconds", "Time since the start.", self.uptime_s),
            (
                "connections",
                "TCP connections right now.",
                g.connections_active as f64,
            ),
            ("udp_flows", "UDP flows right now.", g.flows_active as f64),
        ] {
            out.gauge(name, help, &[("", now)]);
        }
        for (name, help, samples) in [
            (
                "connections_total",
                "TCP connections between guest and host, by who began them.",
                [
                    ("by=\"guest\"", c.connections_out),
                    ("by=\"client\"", c.connections_in),
                ],
            ),
            (
                "tcp_payload_bytes_total",
                "TCP payload that went through; up is from guest to host.",
                up_down(c.bytes_up, c.bytes_down),
            ),
            (
                "udp_datagrams_total",
                "UDP datagrams that went through.",
                up_down(c.datagrams_up, c.datagrams_down),
            ),
            (
                "udp_payload_bytes_total",
                "UDP payload that went through.",
                up_down(c.datagram_bytes_up, c.datagram_bytes_down),
            ),
        ] {
            out.counter(name, help, &samples);
        }
        self.expose_events(out);
    }

    fn expose_events(&self, out: &mut Exposition) {
        let c = &self.counters;
        for (name, help, n) in [
            (
                "connections_refused_total",
                "TCP connections refused, either way.",
                c.connections_refused,
            ),
            (
                "connections_moved_total",
                "Times that a TCP connection went on to a worker with much less to do.",
                c.connections_moved,
            ),
            ("udp_flows_total", "UDP flows that were opened.", c.flows),
            (
                "udp_refused_total",
                "Datagrams answered with an ICMP error.",
                c.datagrams_refused,
            ),
            (
                "udp_lost_total",
                "Datagrams lost to full queues or a lack of buffers.",
                c.datagrams_lost,
            ),
            ("pings_total", "Pings of the guest to other hosts.", c.pings),
            (
                "pings_answered_total",
                "Pings that the other host answered.",
                c.pings_answered,
            ),
            (
                "pings_refused_total",
                "Pings answered with an ICMP error.",
                c.pings_refused,
            ),
            (
                "status_requests_total",
                "Requests for the status page.",
                c.status_requests,
            ),
            (
                "descriptors_exhausted_total",
                "Times that no descriptor was left for a socket.",
                c.descriptors_exhausted,
            ),
        ] {
            out.counter(name, help, &[("", n)]);
        }
    }

    fn expose_stack(&self, out: &mut Exposition) {
        let help = "Packets that the stack took in.";
        out.counter(
            "packets_received_total",
            help,
            &[("", self.packets_received)],
        );
        let help = "Packets that reached whom they were for.";
        out.counter(
            "packets_delivered_total",
            help,
            &[("", self.packets_delivered)],
        );
        let drops = self.drops.iter();
        let drops: Vec<_> = drops
            .map(|d| (format!("reason=\"{}\"", d.reason), d.packets))
            .collect();
        out.counter(
            "drops_total",
            "Packets that were dropped, by reason.",
            &drops,
        );
        let mut frames = Vec::new();
        let mut bytes = Vec::new();
        for i in &self.interfaces {
            let label = |direction| format!("interface=\"{}\",direction=\"{direction}\"", i.name);
            frames.extend([(label("in"), i.frames_in), (label("out"), i.frames_out)]);
            bytes.extend([(label("in"), i.bytes_in), (label("out"), i.bytes_out)]);
        }
        out.counter("frames_total", "Frames on an interface.", &frames);
        out.counter(
            "frame_bytes_total",
            "Bytes of frames on an interface.",
            &bytes,
        );
        let t = &self.tcp;
        let help = "TCP connections of the stack in any state, those that linger included.";
        out.gauge("tcp_connections", help, &[("", t.connections as f64)]);
        for (name, help, n) in [
            ("tcp_segments_in_total", "Segments received.", t.segments_in),
            (
                "tcp_segments_out_total",
                "Segments sent; one cut by a device counts once.",
                t.segments_out,
            ),
            (
                "tcp_retransmitted_segments_total",
                "Segments sent again.",
                t.retransmitted_segments,
            ),
            (
                "tcp_retransmitted_bytes_total",
                "Bytes sent again.",
                t.retransmitted_bytes,
            ),
            ("tcp_timeouts_total", "Retransmission timeouts.", t.timeouts),
            (
                "tcp_fast_retransmits_total",
                "Losses repaired without a timeout.",
                t.fast_retransmits,
            ),
            (
                "tcp_duplicate_acks_total",
                "Duplicate acknowledgements received.",
                t.duplicate_acks,
            ),
            (
                "tcp_out_of_order_total",
                "Segments that came before their turn.",
                t.out_of_order,
            ),
            (
                "tcp_resets_in_total",
                "Connections that a reset ended.",
                t.resets_in,
            ),
            ("tcp_resets_out_total", "Resets sent.", t.resets_out),
        ] {
            out.counter(name, help, &[("", n)]);
        }
    }

    fn expose_buffers(&self, out: &mut Exposition) {
        let of = |value: fn(&Zone) -> u64| -> Vec<(String, u64)> {
            let zones = self.zones.iter();
            zones
                .map(|z| (format!("zone=\"{}\"", z.name), value(z)))
                .collect()
        };
        let gauges = |samples: Vec<(String, u64)>| -> Vec<(String, f64)> {
            samples
                .into_iter()
                .map(|(label, n)| (label, n as f64))
                .collect()
        };
        out.gauge(
            "buffers_used",
            "Buffers in use.",
            &gauges(of(|z| z.used as u64)),
        );
        let help = "Buffers that lie ready.";
        out.gauge("buffers_free", help, &gauges(of(|z| z.free as u64)));
        let help = "Memory behind the buffers.";
        out.gauge("buffer_bytes", help, &gauges(of(|z| z.bytes as u64)));
        out.counter(
            "buffer_requests_total",
            "Buffers handed out.",
            &of(|z| z.requests),
        );
        let help = "Requests for a buffer that failed.";
        out.counter("buffer_failures_total", help, &of(|z| z.failures));
    }
}

/// Text in Prometheus's format.
struct Exposition(String);

impl Exposition {
    /// A figure that only grows.
    fn counter<L: AsRef<str>>(&mut self, name: &str, help: &str, samples: &[(L, u64)]) {
        self.head(name, help, "counter");
        for (labels, n) in samples {
            self.sample(name, labels.as_ref(), n);
        }
    }

    /// A figure that comes and goes.
    fn gauge<L: AsRef<str>>(&mut self, name: &str, help: &str, samples: &[(L, f64)]) {
        self.head(name, help, "gauge");
        for (labels, n) in samples {
            self.sample(name, labels.as_ref(), n);
        }
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        // Writing to a string cannot fail.
        let _ = write!(
            self.0,
            "# HELP mbuma_{name} {help}\n# TYPE mbuma_{name} {kind}\n"
        );
    }

    fn sample(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = match labels {
            "" => writeln!(self.0, "mbuma_{name} {value}"),
            _ => writeln!(self.0, "mbuma_{name}{{{labels}}} {value}"),
        };
    }
}

#[cfg(test)]
mod tests;
