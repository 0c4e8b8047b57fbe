//! What went through, counted; and those figures as Prometheus reads them and as the status page
//! shows them.
//!
//! Called by: everything in the gateway (counting), http and summary (showing). Calls: the stack's
//! statistics.
//! Locks: none; one thread counts.
//! Sources: the Prometheus text exposition format, version 0.0.4.

use std::fmt::Write;
use std::time::Duration;

use mbuf::PoolStats;
use mbuma::{StackStats, TcpStats};
use serde::Serialize;

use crate::guest::GuestEnd;
use crate::sys::tap::Offloads;

/// What the gateway itself counts.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Counters {
    /// TCP connections from the guest that were joined with the host's side.
    pub(super) connections_out: u64,
    /// TCP connections of clients of published ports that were begun into the guest.
    pub(super) connections_in: u64,
    /// TCP connections in either direction that were refused.
    pub(super) connections_refused: u64,
    /// TCP payload bytes, guest to host.
    pub(super) bytes_up: u64,
    /// TCP payload bytes, host to guest.
    pub(super) bytes_down: u64,
    /// UDP flows that were opened.
    pub(super) flows: u64,
    /// Datagrams and their payload bytes, guest to host.
    pub(super) datagrams_up: u64,
    pub(super) datagram_bytes_up: u64,
    /// Datagrams and their payload bytes, host to guest.
    pub(super) datagrams_down: u64,
    pub(super) datagram_bytes_down: u64,
    /// Datagrams of the guest that were answered with an ICMP error.
    pub(super) datagrams_refused: u64,
    /// Datagrams that a full queue or the lack of buffers cost.
    pub(super) datagrams_lost: u64,
    /// Pings of the guest to other hosts.
    pub(super) pings: u64,
    /// Pings that the other host answered.
    pub(super) pings_answered: u64,
    /// Pings that were answered with an ICMP error.
    pub(super) pings_refused: u64,
    /// Requests for the status page.
    pub(super) status_requests: u64,
    /// Times that no descriptor was left for a socket.
    pub(super) descriptors_exhausted: u64,
}

/// What there is right now.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Gauges {
    /// TCP connections between guest and host.
    pub(super) connections_active: usize,
    /// UDP flows.
    pub(super) flows_active: usize,
}

/// All that can be said at a moment.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figures {
    pub(super) guest: GuestEnd,
    pub(super) mtu: u16,
    pub(super) offloads: Offloads,
    pub(super) uptime_s: f64,
    #[serde(flatten)]
    pub(super) counters: Counters,
    #[serde(flatten)]
    pub(super) gauges: Gauges,
    /// Packets that the stack took in, and those of them that reached whom they were for.
    pub(super) packets_received: u64,
    pub(super) packets_delivered: u64,
    /// Packets that were dropped, by reason.
    pub(super) drops: Vec<Drop>,
    /// Frames on the TAP, before a device cuts them.
    pub(super) interfaces: Vec<Interface>,
    pub(super) tcp: Tcp,
    pub(super) zones: Vec<Zone>,
    #[serde(skip)]
    pub(super) pool: PoolStats,
}

/// Packets dropped for one reason.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Drop {
    pub(super) reason: &'static str,
    pub(super) packets: u64,
}

/// Traffic of an interface.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Interface {
    pub(super) name: String,
    pub(super) frames_in: u64,
    pub(super) bytes_in: u64,
    pub(super) frames_out: u64,
    pub(super) bytes_out: u64,
}

/// A zone that buffers come from.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Zone {
    pub(super) name: &'static str,
    pub(super) item_bytes: usize,
    pub(super) used: usize,
    pub(super) free: usize,
    pub(super) limit: Option<usize>,
    pub(super) requests: u64,
    pub(super) failures: u64,
    pub(super) bytes: usize,
    pub(super) bytes_peak: usize,
}

/// TCP on the guest's side.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Tcp {
    /// In any state, those that linger included.
    pub(super) connections: usize,
    pub(super) segments_in: u64,
    pub(super) segments_out: u64,
    pub(super) retransmitted_segments: u64,
    pub(super) retransmitted_bytes: u64,
    pub(super) timeouts: u64,
    pub(super) fast_retransmits: u64,
    pub(super) duplicate_acks: u64,
    pub(super) out_of_order: u64,
    pub(super) resets_in: u64,
    pub(super) resets_out: u64,
}

impl Tcp {
    fn of(stats: &TcpStats) -> Tcp {
        Tcp {
            connections: stats.connections,
            segments_in: stats.segments_in,
            segments_out: stats.segments_out,
            retransmitted_segments: stats.retransmitted_segments,
            retransmitted_bytes: stats.retransmitted_bytes,
            timeouts: stats.timeouts,
            fast_retransmits: stats.fast_retransmits,
            duplicate_acks: stats.duplicate_acks,
            out_of_order: stats.out_of_order,
            resets_in: stats.reset_in,
            resets_out: stats.reset_out,
        }
    }
}

/// What does not change while a guest is served.
#[derive(Clone, Debug)]
pub(super) struct Fixed {
    pub(super) guest: GuestEnd,
    pub(super) mtu: u16,
    pub(super) offloads: Offloads,
}

impl Figures {
    /// Puts together what is known from all sides.
    pub(super) fn new(
        fixed: &Fixed,
        uptime: Duration,
        counters: Counters,
        gauges: Gauges,
        stack: StackStats,
    ) -> Figures {
        Figures {
            guest: fixed.guest.clone(),
            mtu: fixed.mtu,
            offloads: fixed.offloads,
            uptime_s: uptime.as_secs_f64(),
            counters,
            gauges,
            packets_received: stack.received,
            packets_delivered: stack.delivered,
            drops: drops(&stack),
            interfaces: interfaces(&stack),
            tcp: Tcp::of(&stack.tcp),
            zones: zones(&stack.pool),
            pool: stack.pool,
        }
    }
}

fn drops(stack: &StackStats) -> Vec<Drop> {
    let reasons = stack.dropped.iter();
    let named = reasons.map(|&(reason, packets)| Drop {
        reason: reason.name(),
        packets,
    });
    named.collect()
}

fn interfaces(stack: &StackStats) -> Vec<Interface> {
    let all = stack.interfaces.iter().map(|i| Interface {
        name: i.name.clone(),
        frames_in: i.in_packets,
        bytes_in: i.in_bytes,
        frames_out: i.out_packets,
        bytes_out: i.out_bytes,
    });
    all.collect()
}

fn zones(pool: &PoolStats) -> Vec<Zone> {
    let all = std::iter::once(&pool.mbufs).chain(&pool.clusters);
    let all = all.map(|z| Zone {
        name: z.name,
        item_bytes: z.size,
        used: z.used,
        free: z.cached + z.free_in_slabs,
        limit: z.limit,
        requests: z.requests,
        failures: z.failures,
        bytes: z.bytes,
        bytes_peak: z.bytes_peak,
    });
    all.collect()
}

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

impl Figures {
    /// Puts figures where `template` has their names in double braces.
    pub(super) fn fill(&self, template: &str) -> String {
        let mut out = String::with_capacity(template.len() * 2);
        let mut rest = template;
        while let Some((before, (name, after))) = next_name(rest) {
            out.push_str(before);
            out.push_str(&self.named(name.trim()));
            rest = after;
        }
        out + rest
    }

    /// A figure as the page shows it; nothing for a name that there is not.
    fn named(&self, name: &str) -> String {
        let (c, g) = (&self.counters, &self.gauges);
        match name {
            "uptime" => span(self.uptime_s),
            "guest" => self.guest.addr.to_string(),
            "gateway" => self.guest.gateway.to_string(),
            "dns" => self.guest.dns.to_string(),
            "mtu" => self.mtu.to_string(),
            "active" => g.connections_active.to_string(),
            "out" => c.connections_out.to_string(),
            "in" => c.connections_in.to_string(),
            "refused" => c.connections_refused.to_string(),
            "bytes_up" => size(c.bytes_up),
            "bytes_down" => size(c.bytes_down),
            "flows_active" => g.flows_active.to_string(),
            "flows" => c.flows.to_string(),
            "datagrams_up" => c.datagrams_up.to_string(),
            "datagrams_down" => c.datagrams_down.to_string(),
            "pings" => c.pings.to_string(),
            "pings_answered" => c.pings_answered.to_string(),
            "received" => self.packets_received.to_string(),
            "delivered" => self.packets_delivered.to_string(),
            "retransmitted" => self.tcp.retransmitted_segments.to_string(),
            "drops" => self.drop_rows(),
            "zones" => self.zone_rows(),
            _ => String::new(),
        }
    }

    fn drop_rows(&self) -> String {
        let row = |d: &Drop| {
            let reason = d.reason.replace('_', " ");
            format!("<tr><th>{reason}</th><td>{}</td></tr>\n", d.packets)
        };
        match self.drops.is_empty() {
            true => "<tr><th>none</th><td>0</td></tr>\n".to_owned(),
            false => self.drops.iter().map(row).collect(),
        }
    }

    fn zone_rows(&self) -> String {
        let row = |z: &Zone| {
            format!(
                "<tr><th>{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                z.name,
                z.used,
                z.free,
                size(z.bytes as u64),
                z.failures
            )
        };
        self.zones.iter().map(row).collect()
    }
}

/// What comes before the next name in double braces, the name, and what comes after it.
fn next_name(template: &str) -> Option<(&str, (&str, &str))> {
    let (before, rest) = template.split_once("{{")?;
    Some((before, rest.split_once("}}")?))
}

/// Bytes in the unit that suits them.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut scaled = bytes as f64 / 1000.0;
    let mut unit = 0;
    while scaled >= 1000.0 && unit + 1 < UNITS.len() {
        scaled /= 1000.0;
        unit += 1;
    }
    let unit = UNITS.get(unit).copied().unwrap_or_default();
    format!("{scaled:.1} {unit}")
}

/// Seconds in the unit that suits them.
pub(super) fn span(seconds: f64) -> String {
    let whole = seconds as u64;
    let (hours, minutes) = (whole / 3600, whole / 60 % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds:.2} s"),
        (0, _) => format!("{minutes} min {} s", whole % 60),
        _ => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests;
