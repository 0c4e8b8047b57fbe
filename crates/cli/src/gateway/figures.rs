//! All figures of the gateway and its stack at one moment.
//!
//! [`table`] declares the gateway's own; the stack declares its own ([`TcpStats::figures`]). [`all`] lists both as
//! samples, for Prometheus, the templates (status page, summary, overview) and `netstat -s`.
//!
//! Locks: none; each worker counts for itself.

mod all;
mod link;
mod sample;
mod table;

use std::sync::Arc;
use std::time::Duration;

use mbuf::{PoolStats, SizeCounts};
use mbuma::{GiantStats, StackStats, TcpHistogram, TcpStats};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::args::{OutwardRequest, Publish};
use crate::guest::GuestEnd;
use crate::ports::{OutwardSpec, PortSpec};
use crate::sandbox::Isolation;
use crate::sys::tap::Offloads;

pub(super) use link::{ImpairedLink, LinkFigures};
pub(super) use sample::{MetricType, Sample};
pub(super) use table::{Counters, Gauges};

/// One worker's part of the figures.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    pub(super) counters: Counters,
    pub(super) gauges: Gauges,
}

/// The load of one worker, which shows whether it is spread.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Load {
    pub(super) connections: u64,
    pub(super) connections_active: u64,
    pub(super) bytes_up: u64,
    pub(super) bytes_down: u64,
}

impl From<&Share> for Load {
    fn from(Share { counters, gauges }: &Share) -> Load {
        Load {
            connections: counters.connections_out + counters.connections_in,
            connections_active: gauges.connections_active,
            bytes_up: counters.bytes_up,
            bytes_down: counters.bytes_down,
        }
    }
}

/// Every figure at one moment.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Figures {
    /// Of this mbuma: after an upgrade, those that run may be older.
    pub(super) version: &'static str,
    pub(super) guest: GuestEnd,
    pub(super) mtu: u16,
    pub(super) offloads: Offloads,
    pub(super) uptime_s: f64,
    #[serde(flatten)]
    pub(super) counters: Counters,
    #[serde(flatten)]
    pub(super) gauges: Gauges,
    /// Workers that were asked for.
    pub(super) workers_asked: usize,
    /// Ports of the host that lead into the guest.
    pub(super) published: Vec<Publish>,
    /// Ports of the guest's loopback that lead to the host's.
    pub(super) outward: Vec<OutwardRequest>,
    /// The rights that the process gave up before it read the first packet.
    pub(super) isolation: Isolation,
    /// Names are answered at the name server's address.
    pub(super) answers_names: bool,
    /// Each worker that there is: one a queue of the TAP.
    pub(super) workers: Vec<Load>,
    /// Packets that the stack took in, and those of them that reached their receiver.
    pub(super) packets_received: u64,
    pub(super) packets_delivered: u64,
    /// Packets that were dropped, by reason.
    pub(super) drops: Vec<Drop>,
    /// Frames on the TAP, before a device cuts them.
    pub(super) interfaces: Vec<Interface>,
    /// The bad link before the guest, up and down; nothing without one.
    pub(super) links: Vec<LinkFigures>,
    /// TCP on the guest's side.
    #[serde(serialize_with = "tcp")]
    pub(super) tcp: TcpStats,
    #[serde(skip)]
    pub(super) tcp_histograms: Vec<TcpHistogram>,
    /// Giant: whether it covers the whole stack, and which components run under it.
    #[serde(serialize_with = "giant")]
    pub(super) giant: GiantStats,
    pub(super) zones: Vec<ZoneFigures>,
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
    pub(super) mtu: u16,
    pub(super) frames_in: u64,
    pub(super) bytes_in: u64,
    pub(super) frames_merged: u64,
    pub(super) frames_out: u64,
    pub(super) bytes_out: u64,
    #[serde(skip)]
    pub(super) sizes_in: SizeCounts,
    #[serde(skip)]
    pub(super) sizes_out: SizeCounts,
}

/// A zone that buffers come from.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct ZoneFigures {
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

/// The figures that stay while a guest is served.
#[derive(Clone, Debug)]
pub(super) struct Fixed {
    pub(super) guest: GuestEnd,
    pub(super) mtu: u16,
    pub(super) offloads: Offloads,
    pub(super) workers_asked: usize,
    pub(super) published: Vec<PortSpec>,
    pub(super) outward: Vec<OutwardSpec>,
    /// Servers on the guest's 127.0.0.1 are reached through published ports.
    pub(super) loopback: bool,
    /// The bad link before the guest, if one was asked for.
    pub(super) link: Option<Arc<ImpairedLink>>,
    /// The rights that this process gave up.
    pub(super) isolation: Isolation,
    /// Names are answered at the name server's address.
    pub(super) answers_names: bool,
}

impl Figures {
    /// Puts the figures of all parts together; `shares` are the workers', in their order.
    pub(super) fn new(
        fixed: &Fixed,
        uptime: Duration,
        shares: Vec<Share>,
        stack: StackStats,
    ) -> Figures {
        let (mut counters, mut gauges) = <(Counters, Gauges)>::default();
        for share in &shares {
            counters.add(&share.counters);
            gauges.add(&share.gauges);
        }
        Figures {
            guest: fixed.guest.clone(),
            mtu: fixed.mtu,
            offloads: fixed.offloads,
            version: env!("CARGO_PKG_VERSION"),
            uptime_s: uptime.as_secs_f64(),
            counters,
            gauges,
            workers_asked: fixed.workers_asked,
            published: fixed.published.iter().map(|port| port.publish).collect(),
            outward: fixed.outward.iter().map(|port| port.port).collect(),
            isolation: fixed.isolation.clone(),
            answers_names: fixed.answers_names,
            workers: shares.iter().map(Load::from).collect(),
            packets_received: stack.received,
            packets_delivered: stack.delivered,
            drops: drops(&stack),
            interfaces: interfaces(&stack),
            links: fixed
                .link
                .iter()
                .flat_map(|link| LinkFigures::of(link))
                .collect(),
            tcp: stack.tcp,
            tcp_histograms: stack.tcp_histograms,
            giant: stack.giant,
            zones: zones(&stack.pool),
            pool: stack.pool,
        }
    }
}

/// `{"connections": 3, "segments_in": 31, ...}`
fn tcp<S: Serializer>(tcp: &TcpStats, to: S) -> Result<S::Ok, S::Error> {
    let counted = tcp.figures().map(|(figure, n)| (figure.name, n));
    to.collect_map(
        [("connections", tcp.connections as u64)]
            .into_iter()
            .chain(counted),
    )
}

/// `{"over_all": true, "components": [{"name": "tap0", "mp_safe": true, "entered": 0}]}`
fn giant<S: Serializer>(giant: &GiantStats, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct GiantComponent<'a> {
        name: &'a str,
        mp_safe: bool,
        entered: u64,
    }
    let components = giant.components.iter().map(|c| GiantComponent {
        name: &c.name,
        mp_safe: c.mp_safe,
        entered: c.entered,
    });
    let components: Vec<_> = components.collect();
    let mut object = to.serialize_struct("Giant", 2)?;
    object.serialize_field("over_all", &giant.over_all)?;
    object.serialize_field("components", &components)?;
    object.end()
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
        mtu: i.mtu,
        frames_in: i.input.packets(),
        bytes_in: i.input.bytes,
        frames_merged: i.merged,
        frames_out: i.output.packets(),
        bytes_out: i.output.bytes,
        sizes_in: i.input,
        sizes_out: i.output,
    });
    all.collect()
}

fn zones(pool: &PoolStats) -> Vec<ZoneFigures> {
    let all = pool.zones().map(|z| ZoneFigures {
        name: z.name,
        item_bytes: z.size,
        used: z.used,
        free: z.cached() + z.free_in_slabs,
        limit: z.limit,
        requests: z.requests,
        failures: z.failures,
        bytes: z.bytes,
        bytes_peak: z.bytes_peak,
    });
    all.collect()
}

#[cfg(test)]
pub(super) mod tests;
