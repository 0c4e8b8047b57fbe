//! IP packets for other hosts, sent on: a stack that does is a router.
//!
//! Called by: [`input`], if the stack forwards ([`Stack::set_forwarding`]). Calls: route, fragment,
//! icmp (why not), ether/output.
//!
//! The steps: [`find_way`] says whether and through which interface; [`fit`] whether it is small enough
//! for that link; [`pass_on`] takes one hop off and hands it to the link. A large segment, or merged
//! datagrams, pass whole if each piece fits: the device, or what stands in for it, cuts them. A checksum
//! that was left to a device stays left.
//!
//! A router may do, and this one does not: redirects (RFC 1812 5.2.7.2; hosts had better not
//! believe them), source routes and other options, which are passed on as they are, directed broadcasts
//! (RFC 2644), groups.
//!
//! Invariants: each packet is dropped for a reason, and its sender told if there is something to tell,
//! or counted as forwarded, once; its further way is counted as for one of our own. Only its
//! header is written; a part that others share is copied first.
//! Locks: none. Sources: RFC 1812 sections 4.2.2, 4.3.3 and 5.2, RFC 1191, RFC 1624, RFC 3927 section 7.

use std::net::Ipv4Addr;

use mbuf::{Csum, Mbufq, Packet};
use wire::{
    IpProto, Ipv4Fields, Ipv4Header, TcpHeader, UdpHeader, is_martian_destination, pseudo_header_v4,
};

use super::fragment;
use super::input::{self, Facts};
use crate::batch::Batch;
use crate::device::{Capabilities, offload};
use crate::drops::DropReason;
use crate::ether;
use crate::ip::IcmpError;
use crate::route::{Route, RouteRefusal};

/// Why a packet goes no further, and what its sender is told.
#[derive(Debug)]
struct Stop(DropReason, Option<IcmpError>);

impl Stop {
    const fn silent(reason: DropReason) -> Self {
        Self(reason, None)
    }
}

/// Sends on a packet that begins with its IP header and is not for us.
#[doc(alias = "ip_forward")]
pub(super) fn run(batch: &mut Batch<'_>, mut packet: Packet, facts: &Facts) {
    let found = find_way(batch, facts).and_then(|route| {
        let whole = fit(&packet, facts, &route)?;
        prepare(batch, &mut packet, facts)?;
        Ok((route, whole))
    });
    match found {
        Ok((route, whole)) => pass_on(batch, &route, packet, facts, whole),
        Err(Stop(reason, None)) => batch.drop(packet, reason),
        Err(Stop(reason, Some(kind))) => input::refuse(batch, packet, reason, kind),
    }
}

/// Whether a packet between these addresses may be sent on, and where to.
fn find_way(batch: &Batch<'_>, facts: &Facts) -> Result<Route<Ipv4Addr>, Stop> {
    let link_local = facts.src.is_link_local() || facts.dst.is_link_local();
    if link_local || is_martian_destination(facts.dst) {
        return Err(Stop::silent(DropReason::ForwardMartian));
    }
    if facts.ttl <= 1 {
        let kind = IcmpError::TimeExceeded;
        return Err(Stop(DropReason::IpTtlExceeded, Some(kind)));
    }
    let route = batch
        .stack
        .routes
        .find(facts.dst)
        .map_err(|why| match why {
            None => Stop(DropReason::ForwardNoRoute, Some(IcmpError::Net)),
            Some(RouteRefusal::Reject) => Stop(DropReason::ForwardNoRoute, Some(IcmpError::Host)),
            Some(RouteRefusal::Blackhole) => Stop::silent(DropReason::ForwardBlackhole),
        })?;
    // Our own address, if it is, came a moment ago; a directed broadcast is an attacker's amplifier.
    if route.local || route.ifp.is_broadcast(facts.dst) {
        return Err(Stop::silent(DropReason::ForwardMartian));
    }
    Ok(route)
}

/// Whether the packet, or each piece of a large one, fits the link: else it may be fragmented, or not.
fn fit(packet: &Packet, facts: &Facts, route: &Route<Ipv4Addr>) -> Result<bool, Stop> {
    let piece = piece_len(packet, facts).ok_or(Stop::silent(DropReason::ForwardBadSegment))?;
    if piece <= route.ifp.mtu() {
        return Ok(true);
    }
    if facts.df {
        let mtu = route.ifp.caps.mtu;
        let kind = IcmpError::FragNeeded { mtu };
        return Err(Stop(DropReason::ForwardTooBig, Some(kind)));
    }
    // A fragment beyond the largest datagram is invalid (RFC 791 3.2; the ping of death).
    let end = usize::from(facts.frag_offset) + facts.total_len;
    if end > usize::from(u16::MAX) {
        return Err(Stop::silent(DropReason::FragmentBad));
    }
    Ok(false)
}

/// The longest IP packet that comes of this one.
fn piece_len(packet: &Packet, facts: &Facts) -> Option<usize> {
    let segsz = usize::from(packet.header().tso_segsz);
    if segsz == 0 {
        return Some(packet.len());
    }
    Some(facts.header_len + l4_header_len(packet, facts)? + segsz)
}

/// Bytes of TCP or UDP header of what is to be cut; `None` if it can't be.
fn l4_header_len(packet: &Packet, facts: &Facts) -> Option<usize> {
    let mut bytes = [0; TcpHeader::LEN_MAX];
    let there = packet.len().saturating_sub(facts.header_len);
    let (front, _) = bytes.split_at_mut(there.min(TcpHeader::LEN_MAX));
    packet.copy_to(facts.header_len, front);
    match facts.proto {
        _ if facts.is_fragment() => None,
        IpProto::TCP => TcpHeader::parse(front).ok().map(|tcp| tcp.header_len()),
        IpProto::UDP => UdpHeader::parse(front).ok().map(|_| UdpHeader::LEN),
        _ => None,
    }
}

/// Makes the packet one that leaves: one hop less, and what a device is to finish as it expects it.
fn prepare(batch: &Batch<'_>, packet: &mut Packet, facts: &Facts) -> Result<(), Stop> {
    let l4_len = l4_header_len(packet, facts);
    let large = packet.header().tso_segsz != 0;
    // The code or device that finishes the checksum writes it, too: TCP's and UDP's are within their headers.
    let undone = large || packet.header().csum.intersects(Csum::TCP | Csum::UDP);
    let written = facts.header_len + l4_len.filter(|_| undone).unwrap_or(0);
    packet
        .make_writable(&batch.stack.pool, 0, written)
        .map_err(|_| Stop::silent(DropReason::NoBufs))?;
    packet
        .front_mut()
        .and_then(|front| Ipv4Header::parse_mut(front).ok())
        .map(Ipv4Header::decrement_ttl)
        .ok_or(Stop::silent(DropReason::NoBufs))?;
    let meta = packet.header_mut();
    // At most 60 each.
    (meta.l2_len, meta.l3_len) = (0, facts.header_len as u8);
    meta.l4_len = l4_len.unwrap_or(0) as u8;
    // A router takes part in no loop of bridges: the hops that count are IP's.
    meta.hops = 0;
    meta.csum -= Csum::IP_VALID;
    let undone = match facts.proto {
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

/// Puts the pseudo-header's sum where a device that merged segments had a whole one: each piece needs
/// its own.
fn undo_checksum(packet: &mut Packet, facts: &Facts) -> Result<(), Stop> {
    let field = match facts.proto {
        IpProto::TCP => TcpHeader::CHECKSUM_OFFSET,
        _ => UdpHeader::CHECKSUM_OFFSET,
    };
    let len = packet.len() - facts.header_len;
    let sum = pseudo_header_v4(facts.src, facts.dst, facts.proto, len as u32);
    packet
        .write_at(facts.header_len + field, &sum.partial().to_be_bytes())
        .map_err(|_| Stop::silent(DropReason::ForwardBadSegment))
}

/// Hands the packet to the link, in fragments unless it fits.
fn pass_on(
    batch: &mut Batch<'_>,
    route: &Route<Ipv4Addr>,
    packet: Packet,
    facts: &Facts,
    whole: bool,
) {
    batch.stack.forwarded.inc();
    if whole {
        return ether::output::run(batch, &route.ifp, packet, route.next_hop);
    }
    let mut pieces = Mbufq::new();
    let cut = if packet.header().tso_segsz == 0 {
        pieces.enqueue(packet);
        Ok(())
    } else {
        let caps = Capabilities::plain(route.ifp.caps.mtu);
        offload::prepare(&batch.stack.pool, packet, caps, &mut pieces)
    };
    if let Err(reason) = cut {
        batch.stack.drops.count(reason);
    }
    for piece in pieces {
        fragment_on(batch, route, piece, facts);
    }
}

/// Cuts one packet that begins with its IP header.
fn fragment_on(batch: &mut Batch<'_>, route: &Route<Ipv4Addr>, mut packet: Packet, facts: &Facts) {
    let mut bytes = [0; Ipv4Header::LEN_MAX];
    let (bytes, _) = bytes.split_at_mut(facts.header_len.min(Ipv4Header::LEN_MAX));
    packet.copy_to(0, bytes);
    let Ok(header) = Ipv4Header::parse(bytes) else {
        return batch.drop(packet, DropReason::IpTooBig);
    };
    let fields = Ipv4Fields {
        tos: header.tos(),
        payload_len: 0,
        id: header.id(),
        df: false,
        mf: header.mf(),
        frag_offset: header.frag_offset(),
        ttl: header.ttl(),
        protocol: header.protocol(),
        src: header.src(),
        dst: header.dst(),
        options: header.options(),
    };
    packet.trim_front(facts.header_len);
    packet.header_mut().l3_len = 0;
    let _counted: Result<(), DropReason> =
        fragment::run(batch, &route.ifp, packet, &fields, route.next_hop);
}
