//! IP packets that leave, as frames; a device without Ethernet gets them as they are.
//!
//! The frame waits in the interface's queue for the end of the batch, or for the thread that transmits already
//! ([`transmit`](super::transmit)).
//!
//! Locks: none held here; resolving takes ARP, queueing IFQUEUE.
//! Sources: RFC 894, RFC 1112 section 6.4 (groups), RFC 1122 section 2.3.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use mbuf::{Mbufq, Packet};
use wire::{EtherHeader, EtherType, MacAddr};

use super::{arp, nd};
use crate::batch::Batch;
use crate::device::Medium;
use crate::drops::DropReason;
use crate::ifnet::{Enqueued, Ifnet};
use crate::neighbour::{Hop, Neighbours};

/// The address of a neighbour in `table` on an Ethernet, if the sender keeps it.
#[inline]
pub(crate) fn kept<A: Copy + Ord>(
    batch: &Batch<'_>,
    ifp: &Ifnet,
    table: &Neighbours<A>,
    hop: &Option<Hop>,
) -> Option<MacAddr> {
    match ifp.medium {
        Medium::Ethernet => table.kept(batch.now, hop),
        Medium::Ip => None,
    }
}

/// Sends an IPv4 packet to `next_hop` on this link, now or once its Ethernet address is known. The sender keeps that
/// address in `hop`.
#[doc(alias = "ether_output")]
pub(crate) fn run4(
    batch: &mut Batch<'_>,
    ifp: &Arc<Ifnet>,
    packet: Packet,
    next_hop: Ipv4Addr,
    hop: &mut Option<Hop>,
) {
    if ifp.medium == Medium::Ip {
        return queue(batch, ifp, packet);
    }
    if let Some(mac) = ifp.neighbours.kept(batch.now, hop) {
        return frame(batch, ifp, packet, mac, EtherType::IPV4);
    }
    if ifp.is_broadcast(next_hop) {
        return frame(batch, ifp, packet, MacAddr::BROADCAST, EtherType::IPV4);
    }
    if next_hop.is_multicast() {
        let group = MacAddr::from_ipv4_multicast(next_hop);
        return frame(batch, ifp, packet, group, EtherType::IPV4);
    }
    if let Some((mac, packet)) = arp::resolve(batch, ifp, next_hop, packet, hop) {
        frame(batch, ifp, packet, mac, EtherType::IPV4);
    }
}

/// The same for an IPv6 packet.
pub(crate) fn run6(
    batch: &mut Batch<'_>,
    ifp: &Arc<Ifnet>,
    packet: Packet,
    next_hop: Ipv6Addr,
    hop: &mut Option<Hop>,
) {
    if ifp.medium == Medium::Ip {
        return queue(batch, ifp, packet);
    }
    if let Some(mac) = ifp.neighbours6.kept(batch.now, hop) {
        return frame(batch, ifp, packet, mac, EtherType::IPV6);
    }
    if next_hop.is_multicast() {
        let group = MacAddr::from_ipv6_multicast(next_hop);
        return frame(batch, ifp, packet, group, EtherType::IPV6);
    }
    if let Some((mac, packet)) = nd::resolve(batch, ifp, next_hop, packet, hop) {
        frame(batch, ifp, packet, mac, EtherType::IPV6);
    }
}

/// Puts the Ethernet header before the packet and queues the frame. A device without Ethernet gets the packet as it is:
/// neighbour discovery, which is IP, comes here too.
pub(crate) fn frame(
    batch: &mut Batch<'_>,
    ifp: &Arc<Ifnet>,
    mut packet: Packet,
    dst: MacAddr,
    ethertype: EtherType,
) {
    if ifp.medium == Medium::Ip {
        return queue(batch, ifp, packet);
    }
    let Ok(room) = packet.prepend(EtherHeader::LEN) else {
        return batch.drop(packet, DropReason::TxNoBufs);
    };
    EtherHeader::new(dst, ifp.mac, ethertype).emit(room);
    framed(batch, ifp, packet);
}

/// Queues a packet that has its Ethernet header.
#[inline]
pub(crate) fn framed(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, mut packet: Packet) {
    // 14 fits.
    packet.header_mut().l2_len = EtherHeader::LEN as u8;
    queue(batch, ifp, packet);
}

/// Queues a complete frame.
fn queue(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, packet: Packet) {
    let number = ifp.queue_of(batch.cpu.index, &packet);
    let queue = &ifp.queues[number];
    let enqueued = match batch.transmit_of(ifp, number) {
        Some(own) => queue.enqueue_own(own, packet),
        None => queue.enqueue(packet),
    };
    match enqueued {
        Enqueued::Queued => {}
        Enqueued::Transmit(packet) => {
            let mut frames = Mbufq::new();
            frames.enqueue(packet);
            batch.transmit_later(ifp, number, frames);
        }
        Enqueued::Full(packet) => {
            ifp.counters.output_dropped.inc();
            batch.drop(packet, DropReason::TxQueueFull);
        }
    }
}
