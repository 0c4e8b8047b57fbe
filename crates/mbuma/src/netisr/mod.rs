//! Which protocol a received packet goes to, when, and on which CPU.
//!
//! ```text
//!   ether::input --+                +-- now -------------------------------> [handle] -> ip4, arp
//!   reassembled ---+--> [dispatch] -+                                           ^
//!                                   +-- outbox -- settle --> [work of a CPU] ---+  run: its CPU,
//!   ip4::loopback -----------------------------------------> [work of a CPU] ---+  or the thread that queued it
//! ```
//!
//! Three policies, one a protocol, changed at any time ([`Dispatch`], `queues.rs` has the rules). A flow has one
//! CPU, by a hash of its ends (`flow.rs`): what is queued of it is queued there, so it stays in order, and
//! its connection's lines in one cache. A packet that is handled at once never overtakes one that waits
//! (`workstream.rs` has the argument).
//!
//! Packets to ourselves are always queued, since they are sent under their connection's lock. Directly
//! dispatched ones are handled by the thread that queued the first that waits, at the end of its batch.
//!
//! Called by: ether/input, ip4/input (whole datagrams), ip4/loopback, [`Batch::finish`],
//! [`Stack::run_netisr`]. Calls: ip4/input, arp.
//! Invariants: each packet is handled once or dropped and counted; a batch leaves neither packets that it
//! collected nor works that it owns.
//! Locks: one a work (IFQUEUE); nothing is handled under it. Giant, for a protocol that is not MP-safe. Sources:
//! netisr(9), seed 002, seed 003.
//!
//! [`Batch::finish`]: crate::batch::Batch::finish

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kern::{Counter, Random};
use mbuf::{Mbufq, Packet};
use wire::EtherType;

use crate::batch::Batch;
use crate::config::netisr::PROTOCOLS;
use crate::config::{Config, Dispatch, NetisrConfig, Protocol};
use crate::device::Budget;
use crate::drops::DropReason;
use crate::ifnet::{IfIndex, Ifnet};
use crate::protosw;
use crate::tcp::Planted;

mod batch_queues;
mod flow;
mod queues;
#[cfg(all(test, shuttle))]
mod schedules;
mod stats;
mod workstream;

pub use stats::WorkStats;

pub(crate) use batch_queues::Outbox;
pub(crate) use flow::{Flows, keep};

use batch_queues::Told;
use queues::{Lane, Way};
use workstream::{Handler, Left, Put};

/// How a packet came to us, which its bytes do not tell any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// In a frame to this station.
    Unicast = 0,
    /// In a frame to a group of stations, broadcast included.
    #[doc(alias = "M_BCAST")]
    Group = 1,
    /// From this stack itself.
    Loopback = 2,
}

impl Arrival {
    /// As the packet's header has it while it waits.
    fn of(packet: &Packet) -> Self {
        match packet.header().arrival {
            0 => Self::Unicast,
            1 => Self::Group,
            _ => Self::Loopback,
        }
    }
}

/// A stack's packets on their way to protocols.
pub(crate) struct Netisr {
    lanes: [Lane<Mbufq>; PROTOCOLS],
    /// What each CPU handled at once, by protocol: owning nothing, and owning the work.
    at_once: Vec<[[Counter; 2]; PROTOCOLS]>,
    flows: Flows,
    /// A packet's flow decides something: there are several CPUs, or a device has several queues.
    /// Relaxed: packets that were under way before have none.
    flows_matter: AtomicBool,
}

/// All that waits.
pub(crate) const ALL: Budget = Budget {
    frames: usize::MAX,
    bytes: usize::MAX,
};

/// Packets that a batch collects for one CPU before it hands them over.
const COLLECTED_MAX: usize = 64;

impl Netisr {
    pub(crate) fn new(config: &Config, random: &mut Random) -> Self {
        let cpus = config.cpus.count();
        let NetisrConfig {
            dispatch,
            queue_max,
        } = config.netisr;
        Self {
            lanes: Protocol::ALL.map(|protocol| Lane::new(protocol, cpus, dispatch, queue_max)),
            at_once: (0..cpus).map(|_| Default::default()).collect(),
            flows: Flows::new(random),
            flows_matter: AtomicBool::new(cpus > 1),
        }
    }

    pub(crate) fn cpus(&self) -> usize {
        self.at_once.len()
    }

    fn lane(&self, protocol: Protocol) -> &Lane<Mbufq> {
        &self.lanes[protocol as usize]
    }

    /// When a protocol's packets are handled.
    pub(crate) fn policy(&self, protocol: Protocol) -> Dispatch {
        self.lane(protocol).policy()
    }

    pub(crate) fn set_policy(&self, protocol: Protocol, dispatch: Dispatch) {
        self.lane(protocol).set_policy(dispatch);
    }

    /// The hashes by which flows find their CPUs and transmit queues.
    pub(crate) fn flows(&self) -> &Flows {
        &self.flows
    }

    /// Whether packets that are sent are to have their flow's hash.
    pub(crate) fn flows_matter(&self) -> bool {
        self.flows_matter.load(Ordering::Relaxed)
    }

    /// From now on they are.
    pub(crate) fn need_flows(&self) {
        self.flows_matter.store(true, Ordering::Relaxed);
    }

    /// The CPU of a packet's flow, whose hash goes into its header where there are several.
    fn home(&self, protocol: Protocol, packet: &mut Packet) -> usize {
        let cpus = self.cpus();
        if cpus == 1 {
            return 0;
        }
        if packet.header().flow == 0 {
            packet.header_mut().flow = match protocol {
                Protocol::Arp => self.flows.of_arp(packet),
                Protocol::Ip4 | Protocol::Loopback => self.flows.of_ip4(packet),
            };
        }
        // As the interfaces choose their queues: where there are as many, both are the same.
        packet.header().flow as usize % cpus
    }

    /// Whether something waits for a CPU to look after it.
    pub(crate) fn waits(&self, cpu: usize) -> bool {
        self.lanes.iter().any(|lane| lane.is_scheduled(cpu))
    }

    /// Counts what a batch of this CPU handled at once.
    pub(crate) fn count(&self, cpu: usize, counts: &[[u64; 2]; PROTOCOLS]) {
        for (counters, counts) in self.at_once[cpu].iter().zip(counts) {
            let some = counters.iter().zip(counts).filter(|&(_, &n)| n > 0);
            some.for_each(|(counter, &n)| counter.add(n));
        }
    }

    /// Whether something waits for any CPU.
    pub(crate) fn waits_anywhere(&self) -> bool {
        (0..self.cpus()).any(|cpu| self.waits(cpu))
    }
}

/// Hands the payload of a frame to its protocol.
#[doc(alias = "netisr_dispatch")]
pub(crate) fn dispatch(
    batch: &mut Batch<'_>,
    ifp: &Arc<Ifnet>,
    ethertype: EtherType,
    packet: Packet,
    arrival: Arrival,
) {
    let protocol = match ethertype {
        EtherType::IPV4 => Protocol::Ip4,
        EtherType::ARP => Protocol::Arp,
        _ => return batch.drop(packet, DropReason::UnknownEtherType),
    };
    if let Some(packet) = here(batch, protocol, packet, arrival) {
        protosw::link_input(batch, ifp, protocol, packet, arrival);
    }
}

/// A datagram that was put together belongs to another flow than its fragments: it may have another
/// CPU. It is given back if it is to be handled here and now.
pub(crate) fn redispatch(
    batch: &mut Batch<'_>,
    mut packet: Packet,
    arrival: Arrival,
) -> Option<Packet> {
    let netisr = &batch.stack.netisr;
    packet.header_mut().flow = 0;
    if arrival == Arrival::Loopback || netisr.cpus() == 1 {
        return Some(packet);
    }
    here(batch, Protocol::Ip4, packet, arrival)
}

/// Says whether a packet is to be handled here and now, and collects it if not.
fn here(
    batch: &mut Batch<'_>,
    protocol: Protocol,
    mut packet: Packet,
    arrival: Arrival,
) -> Option<Packet> {
    let netisr = &batch.stack.netisr;
    let outbox = &mut batch.netisr;
    let home = || netisr.home(protocol, &mut packet);
    let lane = netisr.lane(protocol);
    let blind = batch.stack.config.tcp.has_bug(Planted::BlindDirect);
    let way = match lane.policy() {
        Dispatch::Direct if blind => Way::Now,
        _ => lane.way(batch.cpu.index, outbox, home),
    };
    match way {
        Way::Now => outbox.count(protocol, 0),
        Way::Owned => outbox.count(protocol, 1),
        Way::Own(cpu) => {
            outbox.own(protocol, cpu);
            outbox.count(protocol, 1);
        }
        Way::Queue(cpu) => {
            packet.header_mut().arrival = arrival as u8;
            let row = outbox.row(protocol, cpu);
            row.enqueue(packet);
            if row.len() >= COLLECTED_MAX {
                let mut row = row.take_all();
                hand_over(batch, protocol, cpu, &mut row);
            }
            return None;
        }
    }
    Some(packet)
}

/// Hands a row over before the batch ends.
fn hand_over(batch: &mut Batch<'_>, protocol: Protocol, cpu: usize, row: &mut Mbufq) {
    let lane = batch.stack.netisr.lane(protocol);
    if lane.put(batch.cpu.index, cpu, row, Handler::Cpu) == Put::Kick {
        batch.kick(cpu);
    }
    refuse(batch, row.take_all());
}

/// Drops what a CPU has no room for.
fn refuse(batch: &Batch<'_>, row: Mbufq) {
    row.for_each(|packet| batch.drop(packet, DropReason::NetisrQueueFull));
}

/// Queues an IP packet to ourselves, which has its interface; gives it back if there is no room.
pub(crate) fn loop_back(batch: &mut Batch<'_>, mut packet: Packet) -> Result<(), Packet> {
    const PROTOCOL: Protocol = Protocol::Loopback;
    packet.header_mut().arrival = Arrival::Loopback as u8;
    let netisr = &batch.stack.netisr;
    let (lane, me) = (netisr.lane(PROTOCOL), batch.cpu.index);
    let cpu = netisr.home(PROTOCOL, &mut packet);
    let by = match lane.policy() {
        Dispatch::Direct => Handler::Caller,
        Dispatch::Hybrid if cpu == me => Handler::Caller,
        Dispatch::Hybrid | Dispatch::Deferred => Handler::Cpu,
    };
    let mut row = Mbufq::new();
    row.enqueue(packet);
    match lane.put(me, cpu, &mut row, by) {
        Put::Queued => {}
        Put::Kick => batch.kick(cpu),
        Put::Owned => batch.netisr.own(PROTOCOL, cpu),
    }
    row.dequeue().map_or(Ok(()), Err)
}

/// What a batch does of this before it transmits, and again after each round of output: hands over what
/// it collected, and handles or lets go of what it owns. Says whether packets were handled.
pub(crate) fn settle(batch: &mut Batch<'_>) -> bool {
    if batch.netisr.is_empty() {
        return false;
    }
    let mut outbox = std::mem::take(&mut batch.netisr);
    let (lanes, me) = (&batch.stack.netisr.lanes, batch.cpu.index);
    let mut row = outbox.settle(lanes, me, |told| match told {
        Told::Kick(cpu) => batch.kick(cpu),
        Told::Full(row) => refuse(batch, row),
    });
    batch.netisr = outbox;
    if let Some(row) = &mut row {
        handle_row(batch, Protocol::Loopback, row, ALL);
    }
    row.is_some()
}

/// Handles what waits for a CPU, within the budget. Whether more waits then is asked once the batch has
/// ended, and may have queued more.
#[doc(alias = "swi_net")]
pub(crate) fn run(batch: &mut Batch<'_>, cpu: usize, mut budget: Budget) {
    for protocol in Protocol::ALL {
        if budget.frames == 0 || budget.bytes == 0 {
            return;
        }
        let lane = batch.stack.netisr.lane(protocol);
        if let Some(mut row) = lane.begin(cpu) {
            let waited = row.len();
            let bytes = handle_row(batch, protocol, &mut row, budget);
            let handled = waited - row.len();
            let _: Left = lane.end(cpu, handled as u64, row);
            budget.frames -= handled;
            budget.bytes = budget.bytes.saturating_sub(bytes);
        }
        debug_assert!(lane.is_valid());
    }
}

/// Handles packets from the front of a row, at least one, until the budget is used up. Says how many bytes
/// they had.
fn handle_row(
    batch: &mut Batch<'_>,
    protocol: Protocol,
    row: &mut Mbufq,
    mut budget: Budget,
) -> usize {
    let (mut last, mut bytes) = (None, 0);
    while budget.frames > 0 && bytes < budget.bytes {
        let Some(packet) = row.dequeue() else { break };
        budget.frames -= 1;
        bytes += packet.len();
        waited(batch, protocol, packet, &mut last);
    }
    bytes
}

/// Handles a packet that waited, if its interface is still there. `last` is the one of the packet before.
fn waited(
    batch: &mut Batch<'_>,
    protocol: Protocol,
    packet: Packet,
    last: &mut Option<Arc<Ifnet>>,
) {
    if protocol == Protocol::Loopback {
        batch.stack.received.inc();
    }
    let index = IfIndex(packet.header().iface);
    if last.as_ref().is_none_or(|ifp| ifp.index != index) {
        *last = batch.stack.interface(index);
    }
    match last {
        Some(ifp) if !ifp.is_detached() => {
            let arrival = Arrival::of(&packet);
            protosw::link_input(batch, ifp, protocol, packet, arrival);
        }
        _ => batch.drop(packet, DropReason::NoInterface),
    }
}
