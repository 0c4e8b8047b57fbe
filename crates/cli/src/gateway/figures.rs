//! What went through, counted, and all that can be said of it at a moment.
//!
//! Called by: everything in the gateway (counting); metrics, page and summary (showing).
//! Calls: the stack's statistics.
//! Locks: none; each worker counts for itself.

use std::time::Duration;

use mbuf::{PoolStats, SizeCounts};
use mbuma::{GiantStats, StackStats, TcpStats};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use crate::args::Publish;
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
    /// Times that a connection went on to a worker that had much less to do.
    pub(super) connections_moved: u64,
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

impl Counters {
    /// Bytes that were moved.
    pub(super) fn moved(&self) -> u64 {
        self.bytes_up + self.bytes_down + self.datagram_bytes_up + self.datagram_bytes_down
    }

    /// Adds what another worker counted.
    fn add(&mut self, other: &Counters) {
        let Counters {
            connections_out,
            connections_in,
            connections_refused,
            connections_moved,
            bytes_up,
            bytes_down,
            flows,
            datagrams_up,
            datagram_bytes_up,
            datagrams_down,
            datagram_bytes_down,
            datagrams_refused,
            datagrams_lost,
            pings,
            pings_answered,
            pings_refused,
            status_requests,
            descriptors_exhausted,
        } = other;
        self.connections_out += connections_out;
        self.connections_in += connections_in;
        self.connections_refused += connections_refused;
        self.connections_moved += connections_moved;
        self.bytes_up += bytes_up;
        self.bytes_down += bytes_down;
        self.flows += flows;
        self.datagrams_up += datagrams_up;
        self.datagram_bytes_up += datagram_bytes_up;
        self.datagrams_down += datagrams_down;
        self.datagram_bytes_down += datagram_bytes_down;
        self.datagrams_refused += datagrams_refused;
        self.datagrams_lost += datagrams_lost;
        self.pings += pings;
        self.pings_answered += pings_answered;
        self.pings_refused += pings_refused;
        self.status_requests += status_requests;
        self.descriptors_exhausted += descriptors_exhausted;
    }
}

/// What there is right now.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Gauges {
    /// TCP connections between guest and host.
    pub(super) connections_active: usize,
    /// UDP flows.
    pub(super) flows_active: usize,
}

/// What is one worker's.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    pub(super) counters: Counters,
    pub(super) gauges: Gauges,
}

/// What a worker carries, for people and programs that wonder whether the load is spread.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Load {
    pub(super) connections: u64,
    pub(super) connections_active: usize,
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
    /// Workers that were asked for.
    pub(super) workers_asked: usize,
    /// Ports of the host that lead into the guest.
    pub(super) published: Vec<Publish>,
    /// Each worker that there is: one a queue of the TAP.
    pub(super) workers: Vec<Load>,
    /// Packets that the stack took in, and those of them that reached whom they were for.
    pub(super) packets_received: u64,
    pub(super) packets_delivered: u64,
    /// Packets that were dropped, by reason.
    pub(super) drops: Vec<Drop>,
    /// Frames on the TAP, before a device cuts them.
    pub(super) interfaces: Vec<Interface>,
    pub(super) tcp: Tcp,
    /// The lock over the whole stack, and who else runs under it.
    #[serde(serialize_with = "giant")]
    pub(super) giant: GiantStats,
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
    pub(super) mtu: u16,
    pub(super) frames_in: u64,
    pub(super) bytes_in: u64,
    pub(super) frames_out: u64,
    pub(super) bytes_out: u64,
    #[serde(skip)]
    pub(super) sizes_in: SizeCounts,
    #[serde(skip)]
    pub(super) sizes_out: SizeCounts,
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
            resets_in: stats.resets_in,
            resets_out: stats.resets_out,
        }
    }
}

/// What does not change while a guest is served.
#[derive(Clone, Debug)]
pub(super) struct Fixed {
    pub(super) guest: GuestEnd,
    pub(super) mtu: u16,
    pub(super) offloads: Offloads,
    pub(super) workers_asked: usize,
    pub(super) published: Vec<Publish>,
    /// Servers on the guest's 127.0.0.1 are reached through published ports.
    pub(super) loopback: bool,
}

impl Figures {
    /// Puts together what is known from all sides; `shares` are the workers', in their order.
    pub(super) fn new(
        fixed: &Fixed,
        uptime: Duration,
        shares: Vec<Share>,
        stack: StackStats,
    ) -> Figures {
        let (mut counters, mut gauges) = <(Counters, Gauges)>::default();
        for share in &shares {
            counters.add(&share.counters);
            gauges.connections_active += share.gauges.connections_active;
            gauges.flows_active += share.gauges.flows_active;
        }
        Figures {
            guest: fixed.guest.clone(),
            mtu: fixed.mtu,
            offloads: fixed.offloads,
            uptime_s: uptime.as_secs_f64(),
            counters,
            gauges,
            workers_asked: fixed.workers_asked,
            published: fixed.published.clone(),
            workers: shares.iter().map(Load::from).collect(),
            packets_received: stack.received,
            packets_delivered: stack.delivered,
            drops: drops(&stack),
            interfaces: interfaces(&stack),
            tcp: Tcp::of(&stack.tcp),
            giant: stack.giant,
            zones: zones(&stack.pool),
            pool: stack.pool,
        }
    }
}

/// `{"over_all": true, "components": [{"name": "tap0", "mp_safe": true, "entered": 0}]}`
fn giant<S: Serializer>(giant: &GiantStats, to: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Component<'a> {
        name: &'a str,
        mp_safe: bool,
        entered: u64,
    }
    let components = giant.components.iter().map(|c| Component {
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
        frames_out: i.output.packets(),
        bytes_out: i.output.bytes,
        sizes_in: i.input,
        sizes_out: i.output,
    });
    all.collect()
}

fn zones(pool: &PoolStats) -> Vec<Zone> {
    let all = pool.zones().map(|z| Zone {
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
