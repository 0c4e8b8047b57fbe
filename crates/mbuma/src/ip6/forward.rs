//! IPv6 packets for other hosts, sent on: a stack that does is a router.
//!
//! Called by: [`input`](super::input), if the stack forwards ([`Stack::set_forwarding`](crate::Stack::set_forwarding)). Calls:
//! route, icmp6 through [`protosw`], ether/output.
//!
//! As [`ip4/forward`](crate::ip4), but that nothing is cut into fragments: the sender is told the link's MTU. A large segment
//! passes whole if each piece of it fits. Extension headers are passed on unread (RFC 9673: a router may skip hop-by-hop
//! options).
//!
//! Invariants: each packet is dropped for a reason, and its sender told if there is something to tell, or counted as
//! forwarded, once. A packet from or to a link-local address stays on its link.
//! Locks: none. Sources: RFC 8200 sections 3, 5 and 7, RFC 4443 sections 3.1 to 3.3, RFC 4291 section 2.5.6, RFC 9673.

use std::net::Ipv6Addr;

use mbuf::{Csum, Packet};
use wire::{
    IpProto, Ipv6Header, TcpHeader, UdpHeader, is_link_local6, is_martian_destination6,
    pseudo_header_v6,
};

use super::input::Facts6;
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::ether;
use crate::ip::IcmpError;
use crate::protosw;
use crate::route::{Route, RouteRefusal};

/// Why a packet goes no further, and the error that its sender gets.
#[derive(Debug)]
struct Halt(DropReason, Option<IcmpError>);

impl Halt {
    const fn silent(reason: DropReason) -> Self {
        Self(reason, None)
    }
}

/// Sends on a packet that begins with its IPv6 header and is not for us.
#[doc(alias = "ip6_forward")]
pub(super) fn run(batch: &mut Batch<'_>, mut packet: Packet, facts: &Facts6) {
    let found = find_way(batch, facts).and_then(|route| {
        fit(&packet, facts, &route)?;
        prepare(batch, &mut packet, facts)?;
        Ok(route)
    });
    match found {
        Ok(route) => {
            batch.stack.forwarded.inc();
            ether::output::run6(batch, &route.ifp, packet, route.next_hop, &mut None);
        }
        Err(Halt(reason, None)) => batch.drop(packet, reason),
        Err(Halt(reason, Some(kind))) => {
            batch.stack.drops.count(reason);
            protosw::icmp_error(batch, packet, kind);
        }
    }
}

/// Whether a packet between these addresses may be sent on, and where to.
fn find_way(batch: &Batch<'_>, facts: &Facts6) -> Result<Route<Ipv6Addr>, Halt> {
    let link_local = is_link_local6(facts.src) || is_link_local6(facts.dst);
    if link_local || facts.src.is_unspecified() || is_martian_destination6(facts.dst) {
        return Err(Halt::silent(DropReason::ForwardMartian));
    }
    if facts.hop_limit <= 1 {
        let kind = IcmpError::TimeExceeded;
        return Err(Halt(DropReason::IpTtlExceeded, Some(kind)));
    }
    let found = batch.stack.routes6.find(facts.dst);
    let route = found.map_err(|why| match why {
        None | Some(RouteRefusal::Reject) => Halt(DropReason::ForwardNoRoute, Some(IcmpError::Net)),
        Some(RouteRefusal::Blackhole) => Halt::silent(DropReason::ForwardBlackhole),
    })?;
    // Our own address, if it is, came a moment ago.
    if route.local || !route.ifp.has_ip6() {
        return Err(Halt::silent(DropReason::ForwardMartian));
    }
    Ok(route)
}

/// Whether the packet, or each piece of a large one, fits the link.
fn fit(packet: &Packet, facts: &Facts6, route: &Route<Ipv6Addr>) -> Result<(), Halt> {
    let piece = match usize::from(packet.header().tso_segsz) {
        0 => packet.len(),
        segsz => {
            let l4_len = l4_header_len(packet, facts);
            let l4_len = l4_len.ok_or(Halt::silent(DropReason::ForwardBadSegment))?;
            Ipv6Header::LEN + l4_len + segsz
        }
    };
    if piece <= route.ifp.mtu() {
        return Ok(());
    }
    let mtu = route.ifp.caps.mtu;
    let kind = IcmpError::FragNeeded { mtu };
    Err(Halt(DropReason::ForwardTooBig, Some(kind)))
}

/// Bytes of TCP or UDP header, if one follows IPv6's.
fn l4_header_len(packet: &Packet, facts: &Facts6) -> Option<usize> {
    let mut bytes = [0; TcpHeader::LEN_MAX];
    let there = packet.len().saturating_sub(Ipv6Header::LEN);
    let (front, _) = bytes.split_at_mut(there.min(TcpHeader::LEN_MAX));
    packet.copy_to(Ipv6Header::LEN, front);
    match facts.next {
        IpProto::TCP => TcpHeader::parse(front).ok().map(|tcp| tcp.header_len()),
        IpProto::UDP => UdpHeader::parse(front).ok().map(|_| UdpHeader::LEN),
        _ => None,
    }
}

/// Makes the packet one that leaves: one hop less, and the checksum as the device expects it that is to finish it.
fn prepare(batch: &Batch<'_>, packet: &mut Packet, facts: &Facts6) -> Result<(), Halt> {
    let l4_len = l4_header_len(packet, facts);
    let large = packet.header().tso_segsz != 0;
    // The code or device that finishes the checksum writes it, too: TCP's and UDP's are within their headers.
    let undone = large || packet.header().csum.intersects(Csum::TCP | Csum::UDP);
    let written = Ipv6Header::LEN + l4_len.filter(|_| undone).unwrap_or(0);
    packet
        .make_writable(&batch.stack.pool, 0, written)
        .map_err(|_| Halt::silent(DropReason::NoBufs))?;
    packet
        .front_mut()
        .and_then(|front| Ipv6Header::parse_mut(front).ok())
        .map(Ipv6Header::decrement_hop_limit)
        .ok_or(Halt::silent(DropReason::NoBufs))?;
    let meta = packet.header_mut();
    (meta.l2_len, meta.l3_len) = (0, Ipv6Header::LEN as u8);
    // At most 60.
    meta.l4_len = l4_len.unwrap_or(0) as u8;
    // A router takes part in no loop of bridges: the hops that count are IP's.
    meta.hops = 0;
    let undone = match facts.next {
        _ if l4_len.is_none() => Csum::empty(),
        IpProto::TCP => Csum::TCP,
        _ => Csum::UDP,
    };
    let others = (Csum::TCP | Csum::UDP) - undone;
    meta.csum -= others;
    if large && !meta.csum.contains(undone) {
        meta.csum |= undone;
        return undo_checksum(packet, facts);
    }
    Ok(())
}

/// Puts the pseudo-header's sum where a device that merged segments had a whole one: each piece needs its own.
fn undo_checksum(packet: &mut Packet, facts: &Facts6) -> Result<(), Halt> {
    let field = match facts.next {
        IpProto::TCP => TcpHeader::CHECKSUM_OFFSET,
        _ => UdpHeader::CHECKSUM_OFFSET,
    };
    let len = packet.len() - Ipv6Header::LEN;
    let sum = pseudo_header_v6(facts.src, facts.dst, facts.next, len as u32);
    packet
        .write_at(Ipv6Header::LEN + field, &sum.partial().to_be_bytes())
        .map_err(|_| Halt::silent(DropReason::ForwardBadSegment))
}
