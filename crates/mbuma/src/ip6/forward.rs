//! Forwarding: IPv6 packets for other hosts. A stack that forwards is a router.
//!
//! The steps are those of [`ip4/forward`](crate::ip4), except that an IPv6 router fragments nothing: it reports the
//! link's MTU to the sender. A large segment stays whole if each piece of it fits. Extension headers are forwarded
//! unread (RFC 9673: a router may skip hop-by-hop options).
//!
//! If a packet leaves by the link by which it came, the router sends a redirect to the packet's sender (RFC 4861
//! section 8.2).
//!
//! Invariants: each packet is either counted as forwarded, once, or dropped for a reason, and its sender gets an ICMP
//! error where an RFC asks for one. A packet from or to a link-local address stays on its link; if the source is
//! link-local and the destination is on another link, the sender gets an error. Locks: none. Sources: RFC 8200 sections
//! 3, 5 and 7, RFC 4443 sections 3.1 to 3.3, RFC 4291 section 2.5.6, RFC 9673, RFC 3704 section 2.2 (source addresses).

use std::net::Ipv6Addr;

use mbuf::Packet;
use wire::{Ipv6Header, is_link_local6, is_martian_destination6, pseudo_header_v6};

use super::input::Ipv6Info;
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::ether;
use crate::ifnet::Ifnet;
use crate::ip::IcmpError;
use crate::ip::forward::{Stop, Transport};
use crate::protosw;
use crate::route::{Route, RouteRefusal};

/// Forwards a packet that begins with its IPv6 header and is not for us.
#[doc(alias = "ip6_forward")]
pub(super) fn run(batch: &mut Batch<'_>, ifp: &Ifnet, mut packet: Packet, info: &Ipv6Info) {
    let found = find_route(batch, ifp, info).and_then(|route| {
        // A packet with extension headers can't be cut, and a fragment is never a large packet.
        let transport = Transport::of(&packet, Ipv6Header::LEN, Some(info.next));
        fit(transport.piece_len(&packet)?, &route)?;
        let take_hop = |front: &mut [u8]| {
            let header = Ipv6Header::parse_mut(front).ok();
            header.map(Ipv6Header::decrement_hop_limit)
        };
        protosw::redirect6(batch, &packet, (info.src, info.dst), &route);
        let pseudo = |len| pseudo_header_v6(info.src, info.dst, info.next, len);
        transport.prepare(&batch.stack.pool, &mut packet, take_hop, pseudo)?;
        Ok(route)
    });
    match found {
        Ok(route) => {
            batch.stack.forwarded.inc();
            ether::output::run6(batch, &route.ifp, packet, route.next_hop, &mut None);
        }
        Err(Stop(reason, None)) => batch.drop(packet, reason),
        Err(Stop(reason, Some(kind))) => {
            batch.stack.drops.count(reason);
            protosw::icmp_error(batch, packet, kind);
        }
    }
}

/// Whether a packet between these addresses, which came by `ifp`, may be forwarded, and by which route.
fn find_route(batch: &Batch<'_>, ifp: &Ifnet, info: &Ipv6Info) -> Result<Route<Ipv6Addr>, Stop> {
    let to_link = is_link_local6(info.dst) || is_martian_destination6(info.dst);
    if to_link || info.src.is_unspecified() {
        return Err(Stop::silent(DropReason::ForwardMartian));
    }
    if is_link_local6(info.src) {
        let kind = IcmpError::BeyondScope;
        return Err(Stop(DropReason::ForwardMartian, Some(kind)));
    }
    if ifp.verify_source && !batch.stack.routes6.leads_through(ifp.index, info.src) {
        let kind = IcmpError::SourcePolicy;
        return Err(Stop(DropReason::ForwardSource, Some(kind)));
    }
    if info.hop_limit <= 1 {
        let kind = IcmpError::TimeExceeded;
        return Err(Stop(DropReason::IpTtlExceeded, Some(kind)));
    }
    let found = batch.stack.routes6.find(info.dst);
    let route = found.map_err(|why| match why {
        None => Stop(DropReason::ForwardNoRoute, Some(IcmpError::Net)),
        Some(RouteRefusal::Reject) => {
            Stop(DropReason::ForwardNoRoute, Some(IcmpError::RejectRoute))
        }
        Some(RouteRefusal::Prohibit) => {
            let kind = IcmpError::AdminProhibited;
            Stop(DropReason::ForwardProhibited, Some(kind))
        }
        Some(RouteRefusal::Blackhole) => Stop::silent(DropReason::ForwardBlackhole),
    })?;
    // The local address was added after input looked for it.
    if route.local || !route.ifp.has_ip6() {
        return Err(Stop::silent(DropReason::ForwardMartian));
    }
    Ok(route)
}

/// Whether the packet, or each piece of a large one, fits the link.
///
/// # Errors
/// It does not fit.
fn fit(piece: usize, route: &Route<Ipv6Addr>) -> Result<(), Stop> {
    if piece <= route.ifp.mtu() {
        return Ok(());
    }
    let mtu = route.ifp.caps.mtu;
    let kind = IcmpError::FragNeeded { mtu };
    Err(Stop(DropReason::ForwardTooBig, Some(kind)))
}
