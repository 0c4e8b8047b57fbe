//! ARP: asks for the Ethernet address of an IPv4 address on a link, and answers such requests.
//!
//! The table of [`neighbour`](crate::neighbour) keeps answers to our requests, and the senders of requests to us, for a
//! time. Any other ARP packet only corrects an existing entry, so other stations' traffic can't fill the table.
//!
//! Locks: none held here.
//! Sources: RFC 826, RFC 1122 section 2.3.2, RFC 1812 section 3.3.2 (no answer), RFC 5227 (probes and announcements).

use std::net::Ipv4Addr;
use std::sync::Arc;

use mbuf::{Mbufq, Packet, PullupError};
use wire::{ArpOp, ArpPacket, EtherType, MacAddr, is_martian_source};

use super::output;
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::ifnet::Ifnet;
use crate::ip::IcmpError;
use crate::neighbour::{Hop, Resolution};
use crate::protosw;
use crate::state::SHARED_TIMERS_CPU;

/// Finds the Ethernet address for a packet to `addr`, which the sender keeps in `hop`. Without one, the packet waits
/// for an answer, or is dropped.
pub(super) fn resolve(
    batch: &mut Batch<'_>,
    ifp: &Arc<Ifnet>,
    addr: Ipv4Addr,
    packet: Packet,
    hop: &mut Option<Hop>,
) -> Option<(MacAddr, Packet)> {
    let is_gone = || ifp.is_gone();
    match ifp
        .neighbours
        .resolve(batch.now, is_gone, addr, packet, hop)
    {
        Resolution::Known(mac, packet) => return Some((mac, packet)),
        Resolution::Probe(mac, packet) => {
            batch.wake_for_timer(SHARED_TIMERS_CPU);
            request(batch, ifp, addr, Some(mac));
            return Some((mac, packet));
        }
        Resolution::Waits => {}
        Resolution::Ask(evicted) => {
            drop_all(batch, evicted, DropReason::ArpQueueFull);
            batch.wake_for_timer(SHARED_TIMERS_CPU);
            request(batch, ifp, addr, None);
        }
        Resolution::Full(packet) => batch.drop(packet, DropReason::ArpQueueFull),
        Resolution::Gone(packet) => batch.drop(packet, DropReason::InterfaceGone),
    }
    None
}

/// Records a neighbour's claim about its own address. `is_new_wanted`: the neighbour addressed us, so it gets an entry
/// if it has none.
fn learn(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, arp: &ArpPacket, is_new_wanted: bool) {
    let (addr, mac) = (arp.sender_ip, arp.sender_mac);
    let learnt = ifp.neighbours.learn(batch.now, addr, mac, is_new_wanted);
    drop_all(batch, learnt.evicted, DropReason::ArpQueueFull);
    let waiting = learnt.waiting;
    waiting.for_each(|packet| output::frame(batch, ifp, packet, mac, EtherType::IPV4));
}

/// Forgets all neighbours; packets that waited for them are dropped.
pub(crate) fn flush(batch: &Batch<'_>, ifp: &Ifnet) {
    let waiting = ifp.neighbours.flush();
    waiting.for_each(|packets| drop_all(batch, packets, DropReason::InterfaceGone));
}

/// Asks again, or gives up and tells the senders (RFC 1812 sections 3.3.2 and 4.3.3.1).
#[doc(alias = "arptimer")]
pub(crate) fn run_timers(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>) {
    let due = ifp.neighbours.overdue(batch.now);
    for (addr, mac) in due.ask {
        request(batch, ifp, addr, mac);
    }
    for packet in due.lost.into_iter().flat_map(|(_, waiting)| waiting) {
        batch.stack.drops.count(DropReason::ArpNoAnswer);
        protosw::icmp_error(batch, packet, IcmpError::Host);
    }
}

fn drop_all(batch: &Batch<'_>, packets: Mbufq, reason: DropReason) {
    packets.for_each(|packet| batch.drop(packet, reason));
}

/// Sends a request for `addr`: to all stations, or to the one that had the address last.
#[doc(alias = "arprequest")]
fn request(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, addr: Ipv4Addr, of: Option<MacAddr>) {
    let arp = ArpPacket::request(ifp.mac, ifp.source_for(addr), addr);
    send(batch, ifp, &arp, of.unwrap_or(MacAddr::BROADCAST));
}

/// Announces an address of ours to all stations on the link, so that they correct old entries for it. Sent once, not
/// twice as in RFC 5227 2.3: if the announcement is lost, the next request corrects the entry.
#[doc(alias = "arp_ifinit")]
pub(crate) fn announce(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, addr: Ipv4Addr) {
    let arp = ArpPacket::gratuitous(ifp.mac, addr);
    send(batch, ifp, &arp, MacAddr::BROADCAST);
}

fn send(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, arp: &ArpPacket, to: MacAddr) {
    let mut bytes = [0; ArpPacket::LEN];
    arp.emit(&mut bytes);
    // Room for the Ethernet header that keeps the data aligned.
    match Packet::from_slice(&batch.stack.pool, &bytes, 16) {
        Ok(packet) => output::frame(batch, ifp, packet, to, EtherType::ARP),
        Err(_) => batch.stack.drops.count(DropReason::TxNoBufs),
    }
}

/// Takes in an ARP packet.
#[doc(alias = "in_arpinput")]
pub(crate) fn input(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, mut packet: Packet) {
    let arp = match parse(&mut packet) {
        Ok(arp) => arp,
        Err(reason) => return batch.drop(packet, reason),
    };
    // Another station claims an address of ours: the conflict is counted for the administrator, and we do not defend
    // the address (RFC 5227 2.4). Our own announcement, which may come back over a bridge, is no such claim.
    if ifp.owns(arp.sender_ip) && arp.sender_mac != ifp.mac {
        return batch.drop(packet, DropReason::ArpDuplicateAddress);
    }
    if ifp.owns(arp.sender_ip) || !is_plausible(ifp, &arp) {
        return batch.drop(packet, DropReason::BadArp);
    }
    drop(packet);
    batch.delivered();
    let for_us = ifp.owns(arp.target_ip);
    // A probe (RFC 5227) comes from a station without an address: nothing to learn from it.
    if !arp.sender_ip.is_unspecified() {
        learn(batch, ifp, &arp, for_us && arp.op == ArpOp::Request);
    }
    if for_us && arp.op == ArpOp::Request {
        let answer = ArpPacket::reply(ifp.mac, arp.target_ip, arp.sender_mac, arp.sender_ip);
        send(batch, ifp, &answer, arp.sender_mac);
    }
}

fn parse(packet: &mut Packet) -> Result<ArpPacket, DropReason> {
    let bytes = packet.pullup(ArpPacket::LEN).map_err(|e| match e {
        PullupError::TooShort => DropReason::FrameTruncated,
        PullupError::NoBufs => DropReason::NoBufs,
    })?;
    ArpPacket::parse(bytes).map_err(|_| DropReason::BadArp)
}

/// Whether the sender can be a station with that address. Broadcast and groups can't (RFC 1812 3.3.2).
fn is_plausible(ifp: &Ifnet, arp: &ArpPacket) -> bool {
    let ip = arp.sender_ip;
    arp.sender_mac.is_unicast() && !is_martian_source(ip) && !ifp.is_broadcast(ip)
}

#[cfg(all(test, not(shuttle)))]
mod tests;
