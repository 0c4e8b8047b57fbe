//! IP packets that leave.
//!
//! Invariants: every packet that comes here is queued somewhere, or dropped and counted, but for one to a group that
//! must not leave this stack.
//! Locks: none held here; the caller may hold a connection's.
//! Sources: RFC 791, RFC 1122 sections 3.2.1 and 3.3.1, RFC 6864, RFC 1112 section 6.1 (groups).

use std::net::Ipv4Addr;
use std::sync::Arc;

use mbuf::Packet;
use wire::{IpProto, Ipv4Fields, Ipv4Header, is_martian_destination};

use super::input::is_member;
use super::{fragment, loopback};
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::ether;
use crate::ifnet::{IfIndex, Ifnet};
use crate::inet::Pair;
use crate::ip::{KeptWay, Send, Service, ToGroup, is_oversize};
use crate::neighbour::Hop;
use crate::route::{Route, RouteCache};

/// The TTL of a packet whose sender chose none (RFC 1700; Linux and BSD do the same).
const TTL_DEFAULT: u8 = 64;

/// Sends a packet that begins with the header of the protocol above. `cache` is the sender's kept route, if it has only
/// one destination.
///
/// # Errors
/// The packet was dropped, and counted, for this reason.
#[doc(alias = "ip_output")]
pub(crate) fn run(
    batch: &mut Batch<'_>,
    packet: Packet,
    to: &Send<Ipv4Addr>,
    cache: Option<&mut RouteCache>,
) -> Result<(), DropReason> {
    let mut once = RouteCache::default();
    let cache = cache.unwrap_or(&mut once);
    let routes = &batch.stack.routes;
    match cache.v4(routes, || find_route(batch, to)) {
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
    to: &Send<Ipv4Addr>,
    group: ToGroup,
) -> Result<(), DropReason> {
    let Some(mut route) = group_route(batch, to, group.link) else {
        return batch.refuse(packet, DropReason::IpNoRoute);
    };
    if group.loops && is_member(&route.ifp, to.dst) {
        copy_to_members(batch, &mut packet, to, &route);
    }
    match to.service.ttl == 0 || route.ifp.is_loopback() {
        true => Ok(()),
        false => through(batch, packet, to, &mut route),
    }
}

/// The route to a group by `link`, or, if the sender chose none, by the link of its address or of the default route.
fn group_route(
    batch: &Batch<'_>,
    to: &Send<Ipv4Addr>,
    link: Option<IfIndex>,
) -> Option<Route<Ipv4Addr>> {
    let stack = batch.stack;
    let route = match link {
        None => stack.routes.lookup_group(to.src, to.dst)?,
        Some(index) => Route {
            ifp: stack.interface(index)?,
            next_hop: to.dst,
            src: to.src,
            local: false,
            hop: None,
        },
    };
    (route.ifp.is_loopback() || !to.src.is_loopback()).then_some(route)
}

/// The members in this stack get a copy of a packet, which shares its clusters.
#[doc(alias = "ip_mloopback")]
fn copy_to_members(
    batch: &mut Batch<'_>,
    packet: &mut Packet,
    to: &Send<Ipv4Addr>,
    route: &Route<Ipv4Addr>,
) {
    let Ok(copy) = packet.copy_packet() else {
        return batch.stack.drops.count(DropReason::TxNoBufs);
    };
    let fields = Ipv4Fields {
        ttl: to.service.ttl,
        // The socket checked it against `payload_max`.
        ..fields(batch, to, copy.len() as u16)
    };
    let _counted: Result<(), DropReason> = to_ourselves(batch, route, copy, &fields);
}

/// The kept way of a packet, if there is one; the packet lacks `upper_len` bytes of the header above IP.
#[inline]
pub(crate) fn kept_way<'a>(
    batch: &Batch<'_>,
    packet: &Packet,
    upper_len: usize,
    cache: &'a RouteCache,
) -> Option<KeptWay<'a>> {
    let Route { ifp, hop, .. } = cache.kept4(&batch.stack.routes).filter(|r| !r.local)?;
    let payload_len = upper_len + packet.len();
    let len = Ipv4Header::LEN + payload_len;
    let is_cut = packet.header().tso_segsz != 0 && len <= usize::from(u16::MAX);
    if len > ifp.mtu() && !is_cut {
        return None;
    }
    Some(KeptWay {
        ifp,
        station: ether::output::kept(batch, ifp, &ifp.neighbours, hop)?,
        payload_len: payload_len as u16,
    })
}

/// Writes the header of a packet with a kept way.
#[inline]
pub(crate) fn emit(
    batch: &Batch<'_>,
    way: &KeptWay<'_>,
    pair: &Pair<Ipv4Addr>,
    service: Service,
    room: &mut [u8],
) {
    fields(batch, &Send::of_flow(pair, service), way.payload_len).emit(room);
}

/// Sends a packet by its route: to this stack itself, to the link, or to the link in fragments.
fn through(
    batch: &mut Batch<'_>,
    packet: Packet,
    to: &Send<Ipv4Addr>,
    route: &mut Route<Ipv4Addr>,
) -> Result<(), DropReason> {
    let len = packet.len() + Ipv4Header::LEN;
    let oversize = match is_oversize(&packet, len, route.local) {
        Ok(oversize) => oversize,
        Err(reason) => return batch.refuse(packet, reason),
    };
    let fields = Ipv4Fields {
        oversize,
        ..fields(batch, to, if oversize { 0 } else { packet.len() as u16 })
    };
    if route.local {
        return to_ourselves(batch, route, packet, &fields);
    }
    if len <= route.ifp.mtu() || packet.header().tso_segsz != 0 {
        let (ifp, hop) = (&route.ifp, &mut route.hop);
        return to_link(batch, ifp, packet, &fields, route.next_hop, hop);
    }
    if to.service.df {
        return batch.refuse(packet, DropReason::IpTooBig);
    }
    fragment::run(batch, &route.ifp, packet, &fields, route.next_hop)
}

/// The route for a packet. Independent of the table, loopback and reserved addresses never appear on a link, as
/// destination or source (RFC 1122 3.2.1.3), unless the interface leads to a neighbour's loopback addresses
/// (`route_localnet`).
fn find_route(batch: &Batch<'_>, to: &Send<Ipv4Addr>) -> Option<Route<Ipv4Addr>> {
    let routes = &batch.stack.routes;
    let route = if to.dst.is_broadcast() || to.dst.is_multicast() {
        routes.lookup_group(to.src, to.dst)
    } else {
        routes.lookup(to.dst)
    };
    let from_loopback = to.src.is_loopback();
    let martian = |ifp: &Ifnet| match to.dst.is_loopback() {
        true => !ifp.route_localnet,
        false => is_martian_destination(to.dst),
    };
    route.filter(|r| r.local || !(from_loopback || r.ifp.is_loopback() || martian(&r.ifp)))
}

fn fields(batch: &Batch<'_>, to: &Send<Ipv4Addr>, payload_len: u16) -> Ipv4Fields<'static> {
    Ipv4Fields {
        tos: to.service.tos,
        payload_len,
        id: ident(batch, to),
        df: to.service.df,
        ttl: if to.service.ttl == 0 {
            TTL_DEFAULT
        } else {
            to.service.ttl
        },
        protocol: to.service.proto,
        src: to.src,
        dst: to.dst,
        ..Ipv4Fields::default()
    }
}

/// The identification, which only fragments need (RFC 6864 4.1).
fn ident(batch: &Batch<'_>, to: &Send<Ipv4Addr>) -> u16 {
    if to.service.df {
        return 0;
    }
    let idents = &batch.stack.ip4.idents;
    idents.next(to.src, to.dst, to.service.proto)
}

fn to_ourselves(
    batch: &mut Batch<'_>,
    route: &Route<Ipv4Addr>,
    mut packet: Packet,
    fields: &Ipv4Fields<'_>,
) -> Result<(), DropReason> {
    if prepend_header(&mut packet, fields).is_err() {
        return batch.refuse(packet, DropReason::TxNoBufs);
    }
    loopback::enqueue(batch, packet, route.ifp.index)
}

/// Completes the packet and hands it to the link. The sender keeps the neighbour's address in `hop`.
pub(super) fn to_link(
    batch: &mut Batch<'_>,
    ifp: &Arc<Ifnet>,
    mut packet: Packet,
    fields: &Ipv4Fields<'_>,
    next_hop: Ipv4Addr,
    hop: &mut Option<Hop>,
) -> Result<(), DropReason> {
    if prepend_header(&mut packet, fields).is_err() {
        return batch.refuse(packet, DropReason::TxNoBufs);
    }
    if fields.protocol == IpProto::UDP && ifp.is_broadcast(next_hop) {
        hear_own_broadcast(batch, ifp, &mut packet);
    }
    ether::output::run4(batch, ifp, packet, next_hop, hop);
    Ok(())
}

/// This stack gets a copy of what it sends to all stations of a link, because it is one of them: devices do not receive
/// what they send.
#[doc(alias = "IFF_SIMPLEX")]
fn hear_own_broadcast(batch: &mut Batch<'_>, ifp: &Ifnet, packet: &mut Packet) {
    let Ok(copy) = packet.copy_packet() else {
        return batch.stack.drops.count(DropReason::TxNoBufs);
    };
    let _counted: Result<(), DropReason> = loopback::enqueue(batch, copy, ifp.index);
}

fn prepend_header(packet: &mut Packet, fields: &Ipv4Fields<'_>) -> Result<(), mbuf::NoBufs> {
    let header_len = fields.header_len();
    fields.emit(packet.prepend(header_len)?);
    let meta = packet.header_mut();
    // At most 60.
    (meta.l2_len, meta.l3_len) = (0, header_len as u8);
    Ok(())
}
