//! Forwarding: IPv4 packets for other hosts. A stack that forwards is a router.
//!
//! The steps: [`find_route`] decides whether the packet may be forwarded, and through which interface; [`fit`] decides
//! whether it is small enough for that link; [`Transport::prepare`] decrements its TTL; [`pass_on`] hands it to the
//! link, in fragments if it does not fit. A large segment, or merged datagrams, stay whole if each piece fits: the
//! device cuts them, or [`offload`] does. A checksum that was left to a device is still left to a device.
//!
//! This router lacks some optional functions: it sends no redirects (RFC 1812 5.2.7.2; hosts should ignore them),
//! forwards source routes and other options unread, and forwards neither directed broadcasts (RFC 2644) nor packets to
//! groups.
//!
//! Invariants: each packet is either counted as forwarded, once, or dropped for a reason, and its sender gets an ICMP
//! error where an RFC asks for one. A forwarded packet that is dropped later is counted like one of our own packets.
//! Only its header is written; a shared part is copied first. Locks: none. Sources: RFC 1812 sections 4.2.2, 4.3.3 and
//! 5.2, RFC 1191, RFC 1624, RFC 3927 section 7, RFC 3704 section 2.2 (source addresses).

use std::net::Ipv4Addr;

use mbuf::{Mbufq, Packet};
use wire::{Ipv4Fields, Ipv4Header, is_martian_destination, pseudo_header_v4};

use super::fragment;
use super::input::{self, Ipv4Info};
use crate::batch::Batch;
use crate::device::{Capabilities, offload};
use crate::drops::DropReason;
use crate::ether;
use crate::ifnet::Ifnet;
use crate::ip::IcmpError;
use crate::ip::forward::{Stop, Transport};
use crate::route::{Route, RouteRefusal};

/// Forwards a packet that begins with its IP header and is not for us.
#[doc(alias = "ip_forward")]
pub(super) fn run(batch: &mut Batch<'_>, ifp: &Ifnet, mut packet: Packet, info: &Ipv4Info) {
    let found = find_route(batch, ifp, info).and_then(|route| {
        let transport = transport(&packet, info);
        let whole = fit(transport.piece_len(&packet)?, info, &route)?;
        let take_hop = |front: &mut [u8]| {
            Ipv4Header::parse_mut(front).ok()?.decrement_ttl();
            Some(())
        };
        let pseudo = |len| pseudo_header_v4(info.src, info.dst, info.proto, len);
        transport.prepare(&batch.stack.pool, &mut packet, take_hop, pseudo)?;
        Ok((route, whole))
    });
    match found {
        Ok((route, whole)) => pass_on(batch, &route, packet, info, whole),
        Err(Stop(reason, None)) => batch.drop(packet, reason),
        Err(Stop(reason, Some(kind))) => input::refuse(batch, packet, reason, kind),
    }
}

/// Whether a packet between these addresses, which came by `ifp`, may be forwarded, and by which route.
fn find_route(batch: &Batch<'_>, ifp: &Ifnet, info: &Ipv4Info) -> Result<Route<Ipv4Addr>, Stop> {
    let link_local = info.src.is_link_local() || info.dst.is_link_local();
    if link_local || is_martian_destination(info.dst) {
        return Err(Stop::silent(DropReason::ForwardMartian));
    }
    if ifp.verify_source && !batch.stack.routes.leads_through(ifp.index, info.src) {
        return Err(Stop::silent(DropReason::ForwardSource));
    }
    if info.ttl <= 1 {
        let kind = IcmpError::TimeExceeded;
        return Err(Stop(DropReason::IpTtlExceeded, Some(kind)));
    }
    let route = batch.stack.routes.find(info.dst).map_err(|why| match why {
        None => Stop(DropReason::ForwardNoRoute, Some(IcmpError::Net)),
        Some(RouteRefusal::Reject) => Stop(DropReason::ForwardNoRoute, Some(IcmpError::Host)),
        Some(RouteRefusal::Prohibit) => {
            let kind = IcmpError::AdminProhibited;
            Stop(DropReason::ForwardProhibited, Some(kind))
        }
        Some(RouteRefusal::Blackhole) => Stop::silent(DropReason::ForwardBlackhole),
    })?;
    // The local address was added after input looked for it. A directed broadcast would amplify an attack.
    if route.local || route.ifp.is_broadcast(info.dst) {
        return Err(Stop::silent(DropReason::ForwardMartian));
    }
    Ok(route)
}

/// Whether the packet, or each piece of a large one, fits the link; false if it must be fragmented.
///
/// # Errors
/// It does not fit, and must not be fragmented.
fn fit(piece: usize, info: &Ipv4Info, route: &Route<Ipv4Addr>) -> Result<bool, Stop> {
    if piece <= route.ifp.mtu() {
        return Ok(true);
    }
    if info.df {
        let mtu = route.ifp.caps.mtu;
        let kind = IcmpError::FragNeeded { mtu };
        return Err(Stop(DropReason::ForwardTooBig, Some(kind)));
    }
    // A fragment beyond the largest datagram is invalid (RFC 791 3.2; the ping of death).
    let end = usize::from(info.frag_offset) + info.total_len;
    if end > usize::from(u16::MAX) {
        return Err(Stop::silent(DropReason::FragmentBad));
    }
    Ok(false)
}

/// The transport header, by which a large packet is cut; a fragment has none.
fn transport(packet: &Packet, info: &Ipv4Info) -> Transport {
    let proto = (!info.is_fragment()).then_some(info.proto);
    Transport::of(packet, info.header_len, proto)
}

/// Hands the packet to the link, in fragments unless it fits.
fn pass_on(
    batch: &mut Batch<'_>,
    route: &Route<Ipv4Addr>,
    packet: Packet,
    info: &Ipv4Info,
    whole: bool,
) {
    batch.stack.forwarded.inc();
    if whole {
        return ether::output::run4(batch, &route.ifp, packet, route.next_hop, &mut None);
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
        fragment_on(batch, route, piece, info);
    }
}

/// Cuts one packet that begins with its IP header.
fn fragment_on(
    batch: &mut Batch<'_>,
    route: &Route<Ipv4Addr>,
    mut packet: Packet,
    info: &Ipv4Info,
) {
    let mut bytes = [0; Ipv4Header::LEN_MAX];
    let (bytes, _) = bytes.split_at_mut(info.header_len.min(Ipv4Header::LEN_MAX));
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
        oversize: false,
        ttl: header.ttl(),
        protocol: header.protocol(),
        src: header.src(),
        dst: header.dst(),
        options: header.options(),
    };
    packet.trim_front(info.header_len);
    packet.header_mut().l3_len = 0;
    let _counted: Result<(), DropReason> =
        fragment::run(batch, &route.ifp, packet, &fields, route.next_hop);
}
