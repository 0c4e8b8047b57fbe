//! Decides to which protocol a received packet goes, when, and on which CPU: the part of netisr that has a batch.
//!
//! ```text
//!   ether::input --+                 +-- now ------------------------------------------> protosw::link_input
//!   reassembled ---+--> [dispatch] --+                                                          ^
//!                                    +-- the batch's queues -- settle --> [workstream] ---------+  run: its CPU, or
//!   ip4::loopback -- [loop_back] ---------------------------------------> [workstream] ---------+  the queueing thread
//! ```
//!
//! The queues and the rules are in [`netisr`](crate::netisr).
//!
//! Packets from this stack to itself are always queued, because they are sent under their connection's lock. With
//! direct dispatch the thread that queued the first of them handles them all at the end of its batch.
//!
//! Invariants: each packet is handled once or dropped and counted; a batch leaves neither packets that it
//! collected nor workstreams that it owns.
//! Locks: none held. Sources: netisr(9), seed 002, seed 003.

use std::sync::Arc;

use mbuf::{Mbufq, Packet};
use wire::EtherType;

use crate::batch::Batch;
use crate::config::{Dispatch, Protocol};
use crate::device::Budget;
use crate::drops::DropReason;
use crate::faults::{StackFault, planted};
use crate::ifnet::{IfIndex, Ifnet};
use crate::netisr::{Arrival, Disposition, Effect, Handler, Left, PutOutcome};
use crate::protosw;

/// All that waits.
pub(crate) const ALL: Budget = Budget {
    frames: usize::MAX,
    bytes: usize::MAX,
};

/// Packets that a batch collects for one CPU before it hands them over.
const COLLECTED_MAX: usize = 64;

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
        EtherType::IPV6 if ifp.has_ip6() => Protocol::Ip6,
        _ => return batch.drop(packet, DropReason::UnknownEtherType),
    };
    if let Some(packet) = here(batch, protocol, packet, arrival) {
        protosw::link_input(batch, ifp, protocol, packet, arrival);
    }
}

/// Dispatches a reassembled datagram. Its flow is not that of its fragments, so it may belong to another CPU. Returns
/// the datagram if the caller must handle it at once.
pub(crate) fn redispatch(
    batch: &mut Batch<'_>,
    protocol: Protocol,
    mut packet: Packet,
    arrival: Arrival,
) -> Option<Packet> {
    let netisr = &batch.stack.netisr;
    packet.header_mut().flow = 0;
    if arrival == Arrival::Loopback || netisr.cpus() == 1 {
        return Some(packet);
    }
    here(batch, protocol, packet, arrival)
}

/// Returns the packet if the caller must handle it at once; otherwise the packet is collected for its CPU.
fn here(
    batch: &mut Batch<'_>,
    protocol: Protocol,
    mut packet: Packet,
    arrival: Arrival,
) -> Option<Packet> {
    let netisr = &batch.stack.netisr;
    let mine = &mut batch.netisr;
    let home = || netisr.home(protocol, &mut packet);
    let queues = netisr.queues(protocol);
    let blind = planted(StackFault::BlindDirect);
    let disposition = match queues.policy() {
        Dispatch::Direct if blind => Disposition::Now,
        _ => queues.disposition(batch.cpu.index, mine, home),
    };
    match disposition {
        Disposition::Now | Disposition::Owned => {}
        Disposition::Own(cpu) => mine.own(protocol, cpu),
        Disposition::Queue(cpu) => {
            packet.header_mut().arrival = arrival as u8;
            let packets = mine.packets(protocol, cpu);
            packets.enqueue(packet);
            if packets.len() >= COLLECTED_MAX {
                let mut packets = packets.take_all();
                hand_over(batch, protocol, cpu, &mut packets);
            }
            return None;
        }
    }
    netisr.count(batch.cpu.index, protocol, disposition != Disposition::Now);
    Some(packet)
}

/// Hands packets over before the batch ends.
fn hand_over(batch: &mut Batch<'_>, protocol: Protocol, cpu: usize, packets: &mut Mbufq) {
    let queues = batch.stack.netisr.queues(protocol);
    let put = queues.put(batch.cpu.index, cpu, packets, Handler::Receiver);
    if matches!(put, PutOutcome::Wake(_)) {
        batch.kick(cpu);
    }
    refuse(batch, packets.take_all());
}

/// Drops packets that a CPU has no room for.
fn refuse(batch: &Batch<'_>, packets: Mbufq) {
    packets.for_each(|packet| batch.drop(packet, DropReason::NetisrQueueFull));
}

/// Queues an IP packet from this stack to itself; its interface is set. Returns the packet if there is no room.
pub(crate) fn loop_back(batch: &mut Batch<'_>, mut packet: Packet) -> Result<(), Packet> {
    const PROTOCOL: Protocol = Protocol::Loopback;
    packet.header_mut().arrival = Arrival::Loopback as u8;
    let netisr = &batch.stack.netisr;
    let (queues, me) = (netisr.queues(PROTOCOL), batch.cpu.index);
    let cpu = netisr.home(PROTOCOL, &mut packet);
    let by = match queues.policy() {
        Dispatch::Direct => Handler::Caller,
        Dispatch::Hybrid if cpu == me => Handler::Caller,
        Dispatch::Hybrid | Dispatch::Deferred => Handler::Receiver,
    };
    let mut packets = Mbufq::new();
    packets.enqueue(packet);
    match queues.put(me, cpu, &mut packets, by) {
        PutOutcome::Wake(_) => batch.kick(cpu),
        PutOutcome::Owned => batch.netisr.own(PROTOCOL, cpu),
        PutOutcome::Queued | PutOutcome::Full | PutOutcome::Away | PutOutcome::Closed => {}
    }
    packets.dequeue().map_or(Ok(()), Err)
}

/// Runs before a batch transmits, and again after each round of output: hands over the packets that the batch
/// collected, and handles or releases the workstreams that it owns. Returns whether it handled packets.
pub(crate) fn settle(batch: &mut Batch<'_>) -> bool {
    if batch.netisr.is_empty() {
        return false;
    }
    let mut mine = std::mem::take(&mut batch.netisr);
    let (all, me) = (batch.stack.netisr.all_queues(), batch.cpu.index);
    let mut packets = mine.settle(all, me, |effect| match effect {
        Effect::Kick(cpu) => batch.kick(cpu),
        Effect::Full(packets) => refuse(batch, packets),
    });
    batch.netisr = mine;
    if let Some(packets) = &mut packets {
        handle_all(batch, Protocol::Loopback, packets, ALL);
    }
    packets.is_some()
}

/// Handles the packets that wait for a CPU, within the budget. After the end of the batch, which may queue more
/// packets, the caller checks whether some wait.
#[doc(alias = "swi_net")]
pub(crate) fn run(batch: &mut Batch<'_>, cpu: usize, mut budget: Budget) {
    for protocol in Protocol::ALL {
        if budget.frames == 0 || budget.bytes == 0 {
            return;
        }
        let queues = batch.stack.netisr.queues(protocol);
        if let Some(mut packets) = queues.begin(cpu) {
            let waited = packets.len();
            let bytes = handle_all(batch, protocol, &mut packets, budget);
            let handled = waited - packets.len();
            let _: Left = queues.end(cpu, handled as u64, packets);
            budget.frames -= handled;
            budget.bytes = budget.bytes.saturating_sub(bytes);
        }
        debug_assert!(queues.is_valid());
    }
}

/// Handles packets from the front of a queue, at least one, until the budget is used up. Returns their bytes.
fn handle_all(
    batch: &mut Batch<'_>,
    protocol: Protocol,
    packets: &mut Mbufq,
    mut budget: Budget,
) -> usize {
    let (mut last, mut bytes) = (None, 0);
    while budget.frames > 0 && bytes < budget.bytes {
        let Some(packet) = packets.dequeue() else {
            break;
        };
        budget.frames -= 1;
        bytes += packet.len();
        handle_queued(batch, protocol, packet, &mut last);
    }
    bytes
}

/// Handles a packet from a queue, if its interface is still attached. `last` is the interface of the previous packet.
fn handle_queued(
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
