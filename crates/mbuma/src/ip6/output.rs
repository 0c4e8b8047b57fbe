//! IPv6 packets that leave.
//!
//! Invariants: every packet that comes here is queued somewhere, or dropped and counted, but for one to a group that
//! must not leave this stack. A packet to or from a link-local address, or to a group of a link, stays on the link that
//! its zone names.
//! Locks: none held here; the caller may hold a connection's.
//! Sources: RFC 8200, RFC 4007 section 6 (zones), RFC 4861 section 5.2.

use std::net::Ipv6Addr;
use std::sync::Arc;

use mbuf::{NoBufs, Packet};
use wire::{IpProto, Ipv6Fields, Ipv6Header, is_link_local6, is_martian_destination6, needs_zone};

use super::fragment;
use super::input::is_member;
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::ether;
use crate::ifnet::host6::Host6;
use crate::ifnet::{IfIndex, Ifnet};
use crate::ip::{KeptWay, Send, Service, ToGroup, is_oversize};
use crate::ip4::loopback;
use crate::route::{Route, RouteCache};
use crate::state::StackState;

/// The hop limit of a packet whose sender sets none, on a link whose routers advertise none.
const HOP_LIMIT_DEFAULT: u8 = 64;

/// How a packet is to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Send6 {
    pub(crate) send: Send<Ipv6Addr>,
    /// The zone of its addresses: an interface, or 0 if they need none (RFC 4007 section 6).
    pub(crate) zone: u32,
    pub(crate) flow_label: u32,
}

/// Sends a packet that begins with the header of the protocol above. `cache` is the sender's kept route, if it has one.
///
/// # Errors
/// The packet was dropped, and counted, for this reason.
#[doc(alias = "ip6_output")]
pub(crate) fn run(
    batch: &mut Batch<'_>,
    packet: Packet,
    to: &Send6,
    cache: Option<&mut RouteCache>,
) -> Result<(), DropReason> {
    let stack = batch.stack;
    let find = || find_route(stack, to);
    let mut once;
    let found = match cache {
        Some(cache) => cache.v6(&stack.routes6, find),
        // A cache would put it into a box.
        None => {
            once = find();
            once.as_mut()
        }
    };
    match found {
        Some(route) => through(batch, packet, to, route),
        None => batch.refuse(packet, DropReason::IpNoRoute),
    }
}

/// Sends a packet to a group: by one link, and to the members in this stack.
///
/// # Errors
/// As [`run`].
pub(crate) fn to_group(
    batch: &mut Batch<'_>,
    mut packet: Packet,
    to: &Send6,
    group: ToGroup,
) -> Result<(), DropReason> {
    let route = group_route(batch.stack, to, group.link);
    let may = |route: &Route<Ipv6Addr>| route.ifp.is_loopback() || may_leave(to, &route.ifp);
    let Some(mut route) = route.filter(may) else {
        return batch.refuse(packet, DropReason::IpNoRoute);
    };
    if group.loops && is_member(batch, &route.ifp, to.send.dst) {
        copy_to_members(batch, &mut packet, to, &route.ifp);
    }
    match to.send.service.ttl == 0 || route.ifp.is_loopback() {
        true => Ok(()),
        false => through(batch, packet, to, &mut route),
    }
}

/// The route to a group by `link`, or, if the sender chose none, by the link of its address or of the default route.
fn group_route(stack: &StackState, to: &Send6, link: Option<IfIndex>) -> Option<Route<Ipv6Addr>> {
    let Send { src, dst, .. } = to.send;
    let of_source = || {
        let route = stack.routes6.lookup_group(src, dst)?;
        Some(route.ifp.index)
    };
    let link = link.or_else(|| (!needs_zone(dst)).then(of_source)?);
    route_to(stack, dst, link.map_or(to.zone, IfIndex::number))
}

/// The members in this stack get a copy of a packet, which shares its clusters.
#[doc(alias = "ip6_mloopback")]
fn copy_to_members(batch: &mut Batch<'_>, packet: &mut Packet, to: &Send6, ifp: &Arc<Ifnet>) {
    let copy = packet.copy_packet().and_then(|mut copy| {
        prepend_header(&mut copy, to, to.send.service.proto)?;
        Ok(copy)
    });
    match copy {
        Ok(copy) => {
            let _counted: Result<(), DropReason> = loopback::enqueue(batch, copy, ifp.index);
        }
        Err(NoBufs) => batch.stack.drops.count(DropReason::TxNoBufs),
    }
}

/// The route to an address, with the best of our addresses as source. A link-local address is on the link of `zone`.
#[doc(alias = "in6_selectroute")]
pub(crate) fn route_to(stack: &StackState, dst: Ipv6Addr, zone: u32) -> Option<Route<Ipv6Addr>> {
    if needs_zone(dst) || dst.is_multicast() {
        return on_link(stack, dst, zone);
    }
    let mut route = stack.routes6.lookup(dst)?;
    if !route.local {
        route.src = route.ifp.source_through6(dst, route.next_hop)?;
        route.local = stack.has_anycast6(&route.ifp, dst);
    }
    Some(route)
}

/// The route to an address on the link of `zone`. Without a zone, a group is reached through the interface of the
/// default route. Only groups are on the link of lo0.
fn on_link(stack: &StackState, dst: Ipv6Addr, zone: u32) -> Option<Route<Ipv6Addr>> {
    let ifp = match zone {
        0 if needs_zone(dst) => return None,
        0 => stack.routes6.lookup_group(Ipv6Addr::UNSPECIFIED, dst)?.ifp,
        zone => stack.routes6.link(IfIndex(zone))?,
    };
    if (ifp.is_loopback() && !dst.is_multicast()) || !ifp.has_ip6() {
        return None;
    }
    Some(Route {
        src: ifp.source_for6(dst)?,
        local: ifp.owns6(dst) || stack.has_anycast6(&ifp, dst),
        ifp,
        next_hop: dst,
        hop: None,
    })
}

/// The route for a packet. Independent of the table, invalid addresses never appear on a link.
fn find_route(stack: &StackState, to: &Send6) -> Option<Route<Ipv6Addr>> {
    let route = route_to(stack, to.send.dst, to.zone)?;
    (route.local || may_leave(to, &route.ifp)).then_some(route)
}

/// Whether a packet between these addresses may appear on the link of an interface.
fn may_leave(to: &Send6, ifp: &Ifnet) -> bool {
    let (src, dst) = (to.send.src, to.send.dst);
    let bad_ends = src.is_loopback() || is_martian_destination6(dst);
    // A link-local source is valid on its own link only.
    let is_foreign_link_local = is_link_local6(src) && !ifp.owns6(src);
    !(bad_ends || ifp.is_loopback() || is_foreign_link_local)
}

/// The kept way of a packet, if there is one; the packet lacks `upper_len` bytes of the header above IP. A packet that
/// may be fragmented has none: the path's MTU is looked up for it.
#[inline]
pub(crate) fn kept_way<'a>(
    batch: &Batch<'_>,
    packet: &Packet,
    upper_len: usize,
    service: Service,
    cache: &'a RouteCache,
) -> Option<KeptWay<'a>> {
    let Route { ifp, hop, .. } = cache.kept6(&batch.stack.routes6).filter(|r| !r.local)?;
    let payload_len = upper_len + packet.len();
    let is_cut = packet.header().tso_segsz != 0;
    let fits = service.df && Ipv6Header::LEN + payload_len <= ifp.mtu6();
    if !is_cut && !fits {
        return None;
    }
    Some(KeptWay {
        ifp,
        station: ether::output::kept(batch, ifp, &ifp.neighbours6, hop)?,
        payload_len: length_field(payload_len),
    })
}

/// Writes the header of a packet with a kept way.
#[inline]
pub(crate) fn emit(way: &KeptWay<'_>, to: &Send6, room: &mut [u8]) {
    let to = with_hop_limit(to, way.ifp);
    fields(&to, to.send.service.proto, way.payload_len).emit(room);
}

fn through(
    batch: &mut Batch<'_>,
    mut packet: Packet,
    to: &Send6,
    route: &mut Route<Ipv6Addr>,
) -> Result<(), DropReason> {
    if let Err(reason) = is_oversize(&packet, packet.len(), route.local) {
        return batch.refuse(packet, reason);
    }
    let whole = packet.header().tso_segsz != 0 || route.local;
    let len = packet.len() + Ipv6Header::LEN;
    let to = &with_hop_limit(to, &route.ifp);
    let link = route.ifp.mtu6();
    // A sender whose packet must stay whole knows the path's MTU.
    let path = (!whole && !to.send.service.df).then(|| path_mtu(batch, to, link));
    if !whole && len > path.unwrap_or(link) {
        return match path {
            Some(path) => fragment::run(batch, packet, to, route, path),
            None => batch.refuse(packet, DropReason::IpTooBig),
        };
    }
    if prepend_header(&mut packet, to, to.send.service.proto).is_err() {
        return batch.refuse(packet, DropReason::TxNoBufs);
    }
    if route.local {
        return loopback::enqueue(batch, packet, route.ifp.index);
    }
    ether::output::run6(batch, &route.ifp, packet, route.next_hop, &mut route.hop);
    Ok(())
}

/// The same with a hop limit: the sender's, or if it sets none, the one that a router of the link advertised.
fn with_hop_limit(to: &Send6, ifp: &Ifnet) -> Send6 {
    let mut to = *to;
    if to.send.service.ttl == 0 {
        let advertised = ifp.host6.as_ref().and_then(Host6::hop_limit);
        to.send.service.ttl = advertised.unwrap_or(HOP_LIMIT_DEFAULT);
    }
    to
}

/// Bytes of the largest packet that the path to the destination is known to carry.
fn path_mtu(batch: &Batch<'_>, to: &Send6, link: usize) -> usize {
    let paths = &batch.stack.path_mtus;
    let path = paths.get(
        to.send.service.proto,
        to.send.dst.into(),
        to.zone,
        batch.now,
    );
    path.map_or(link, |path| link.min(usize::from(path)))
}

/// Puts the IPv6 header before a packet that begins with the header `next`.
pub(super) fn prepend_header(packet: &mut Packet, to: &Send6, next: IpProto) -> Result<(), NoBufs> {
    let fields = fields(to, next, length_field(packet.len()));
    fields.emit(packet.prepend(Ipv6Header::LEN)?);
    let meta = packet.header_mut();
    (meta.l2_len, meta.l3_len) = (0, Ipv6Header::LEN as u8);
    Ok(())
}

fn fields(to: &Send6, next: IpProto, payload_len: u16) -> Ipv6Fields {
    let Send { src, dst, service } = to.send;
    Ipv6Fields {
        class: service.tos,
        flow_label: to.flow_label,
        payload_len,
        next,
        hop_limit: service.ttl,
        src,
        dst,
    }
}

/// The length field of a header; 0 if 16 bits can't say the length.
fn length_field(payload_len: usize) -> u16 {
    u16::try_from(payload_len).unwrap_or(0)
}
