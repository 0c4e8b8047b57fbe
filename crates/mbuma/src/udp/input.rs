//! Handles received datagrams, and ICMP errors about sent ones.
//!
//! Invariants: each packet ends delivered or dropped. If a device, or a sender in memory, has merged several datagrams
//! of one flow into one packet (`tso_segsz`), they are delivered one by one, unless the socket takes them together.
//! Locks: none held over a call. Sources: RFC 768, RFC 1122 section 4.1.

use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::atomic::Ordering;

use mbuf::{Chain, Csum, Packet, PullupError};
use wire::{ALL_SYSTEMS, IpProto, UdpHeader};

use super::pcb::{UdpPcb, Whose};
use super::{Arrived, UdpError};
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::icmp::input::Quoted;
use crate::inet::Ends;
use crate::ip::{Address, Addressed, DestScope, IcmpError, Received};
use crate::ip6::input::is_own_group;
use crate::network;
use crate::protosw;
use crate::sockbuf::QueuedRecord;

/// Takes in a packet that begins with its IP header.
#[doc(alias = "udp_input")]
pub(crate) fn run<A: Address>(batch: &mut Batch<'_>, mut packet: Packet, from: &Addressed<'_, A>) {
    let ip = &from.ip;
    let ends = match parse(&mut packet, from) {
        Ok(ends) => ends,
        Err(reason) => return batch.drop(packet, reason),
    };
    let whose = match ip.scope {
        DestScope::Broadcast | DestScope::Group => return to_each(batch, packet, ip, &ends),
        DestScope::Anycast => Whose::Many,
        DestScope::Local => Whose::Ours(ip.ifp.index),
        DestScope::Foreign => Whose::Foreign(ip.ifp.index),
    };
    match batch.stack.udp.table.lookup(&ends, whose) {
        Some(pcb) => {
            let taken = deliver(batch, &pcb, packet, ip, &ends);
            count(batch, taken);
        }
        None => {
            batch.stack.drops.count(DropReason::UdpNoSocket);
            protosw::icmp_error(batch, packet, IcmpError::Port);
        }
    }
}

/// Gives a datagram to a group or broadcast to each socket that wants it: to the last one itself, to the others copies
/// that share its clusters. One full queue takes it from none of the others.
#[doc(alias = "udp_multi_input")]
fn to_each(batch: &mut Batch<'_>, mut packet: Packet, ip: &Received<'_>, ends: &Ends) {
    let mut sockets = batch.stack.udp.table.lookup_all(ends.local());
    if sockets.is_empty() {
        return match network::is_local(batch.stack, ends.peer().ip()) {
            // What this stack sends to all stations, as a DHCP server does, it hears itself, and may want none of it.
            true => batch.delivered(),
            false => batch.drop(packet, DropReason::UdpNoSocket),
        };
    }
    sockets.retain(|pcb| wants(batch, pcb, ip, ends));
    let Some(last) = sockets.pop() else {
        return batch.drop(packet, DropReason::UdpFiltered);
    };
    let mut taken = false;
    for pcb in &sockets {
        if let Ok(copy) = packet.copy_packet() {
            taken |= deliver(batch, pcb, copy, ip, ends);
        }
    }
    taken |= deliver(batch, &last, packet, ip, ends);
    count(batch, taken);
}

/// Whether a socket wants the datagrams of this sender to a group, by its own filter or a shared one (RFC 9777 section
/// 4.2, RFC 9776 section 3.2): one that did not join the group gets none of them because another socket did, as in
/// FreeBSD, and as in Linux without IP_MULTICAST_ALL. A group of every station needs no filter.
fn wants(batch: &Batch<'_>, pcb: &UdpPcb, ip: &Received<'_>, ends: &Ends) -> bool {
    if ip.scope != DestScope::Group {
        return true;
    }
    let (group, source) = (ends.local().ip(), ends.peer().ip());
    let delivers = ip.ifp.groups.delivers(group, source, pcb.id());
    delivers.unwrap_or_else(|| match group {
        IpAddr::V4(group) => group == ALL_SYSTEMS,
        IpAddr::V6(group) => is_own_group(batch, ip.ifp, group),
    })
}

/// Checks the header and the checksum, and removes bytes after the datagram.
fn parse<A: Address>(packet: &mut Packet, from: &Addressed<'_, A>) -> Result<Ends, DropReason> {
    let ip = &from.ip;
    packet
        .pullup(ip.header_len + UdpHeader::LEN)
        .map_err(|e| match e {
            PullupError::TooShort => DropReason::UdpBadHeader,
            PullupError::NoBufs => DropReason::NoBufs,
        })?;
    let bytes = packet.front().get(ip.header_len..).unwrap_or(&[]);
    let (&header, _) = UdpHeader::parse(bytes).map_err(|_| DropReason::UdpBadHeader)?;
    let len = usize::from(header.len());
    if ip.header_len + len > packet.len() || header.dst_port() == 0 {
        return Err(DropReason::UdpBadHeader);
    }
    packet.truncate(ip.header_len + len);
    let verified = packet.header().csum.contains(Csum::L4_VALID);
    let good = || match header.has_checksum() {
        // Where the checksum is required, zero means that it is missing, even if the sum would match (RFC 8200 section
        // 8.1).
        false => A::SUM_OPTIONAL,
        true => checksum_ok(packet, from, header.len()),
    };
    if !verified && !good() {
        return Err(DropReason::UdpBadChecksum);
    }
    Ok(A::ends(from, header.src_port(), header.dst_port()))
}

fn checksum_ok<A: Address>(packet: &Packet, from: &Addressed<'_, A>, len: u16) -> bool {
    let mut sum = A::pseudo_header(from.src, from.dst, IpProto::UDP, u32::from(len));
    packet
        .segments_from(from.ip.header_len)
        .for_each(|s| sum.add_bytes(s));
    sum.is_valid()
}

/// Puts the payload into the socket's queue; false if there is no room.
fn deliver(
    batch: &mut Batch<'_>,
    pcb: &UdpPcb,
    mut packet: Packet,
    ip: &Received<'_>,
    ends: &Ends,
) -> bool {
    packet.trim_front(ip.header_len + UdpHeader::LEN);
    let segsz = packet.header().tso_segsz;
    let mut rest = packet.into_chain();
    let mut with = Arrived::new(ends, ip.ifp.index, ip.ttl, ip.tos);
    let is_one = usize::from(segsz) >= rest.len();
    if segsz != 0 && !is_one && pcb.takes_merged.load(Ordering::Relaxed) {
        with.segsz = NonZeroU16::new(segsz);
        return push(batch, pcb, rest, with);
    }
    let each = usize::from(segsz);
    let mut taken = false;
    loop {
        let whole = each == 0 || rest.len() <= each;
        let piece = if whole {
            Ok(std::mem::take(&mut rest))
        } else {
            rest.take_front(each)
        };
        let Ok(piece) = piece else { break };
        taken |= push(batch, pcb, piece, with);
        if whole {
            break;
        }
    }
    taken
}

/// Counts a packet that a socket took, or none.
fn count(batch: &Batch<'_>, taken: bool) {
    match taken {
        true => batch.delivered(),
        false => batch.stack.drops.count(DropReason::UdpQueueFull),
    }
}

/// Queues a datagram and schedules the wakeup of its readers; false if there is no room.
#[doc(alias = "udp_append")]
pub(crate) fn push(batch: &mut Batch<'_>, pcb: &UdpPcb, data: Chain, with: Arrived) -> bool {
    // Small data must not pin a large cluster while it waits.
    let mut payload = Chain::new();
    payload.append_compact(&batch.stack.pool, data);
    let record = QueuedRecord {
        data: payload,
        with,
    };
    match pcb.queue.push(record) {
        Ok(wakes) => {
            batch.wake(wakes);
            true
        }
        Err(_full) => false,
    }
}

/// Handles an ICMP error about a datagram between these ends; the local end should be ours. The program that sent the
/// datagram may ask for the error (RFC 1122 4.1.3.3).
#[doc(alias = "udp_ctlinput")]
pub(crate) fn control(batch: &mut Batch<'_>, kind: IcmpError, quoted: &Quoted) {
    let ends = &quoted.ends;
    let (src, dst) = (ends.local(), ends.peer());
    let whose = match network::egress(batch.stack, dst) {
        // The datagram was sent from a foreign address for which the interface towards `dst` answers.
        Some(egress) if !network::is_local(batch.stack, src.ip()) => {
            Whose::Foreign(egress.ifp.index)
        }
        Some(egress) => Whose::Ours(egress.ifp.index),
        None => Whose::Many,
    };
    if let Some(pcb) = batch.stack.udp.table.lookup(ends, whose) {
        if let IcmpError::FragNeeded { mtu } = kind
            && let Ends::V6(pair, _) = ends
        {
            let sent = &batch.stack.ip6.sent_long;
            if quoted.total_len <= mtu || !sent.has(pair.peer, IpProto::UDP, pair.ports()) {
                return;
            }
            network::path_mtu_reported(batch, IpProto::UDP, ends, mtu);
        }
        // A full queue drops the error: its owner has others to read.
        if let Ok(wakes) = pcb.errors.push(UdpError { src, dst, kind }.into()) {
            batch.wake(wakes);
        }
    }
}
