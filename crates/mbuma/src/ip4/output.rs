//! IP packets that leave.
//!
//! Invariants: every packet that comes here is queued somewhere, or dropped and counted.
//! Locks: none held here; the caller may hold a connection's.
//! Sources: RFC 791, RFC 1122 sections 3.2.1 and 3.3.1, RFC 6864.

use std::net::Ipv4Addr;
use std::sync::Arc;

use mbuf::Packet;
use wire::{EtherType, Ipv4Fields, Ipv4Header, is_martian_destination};

use super::{fragment, loopback};
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::ether;
use crate::ifnet::Ifnet;
use crate::ip::{Send, is_oversize};
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
    match loopback::enqueue(batch, packet, route.ifp.index) {
        Ok(()) => Ok(()),
        Err((packet, reason)) => batch.refuse(packet, reason),
    }
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
    // The fast path: one piece of room for both headers.
    if let Some(mac) = ether::output::kept4(batch, ifp, hop) {
        let len = fields.header_len();
        // At most 60.
        packet.header_mut().l3_len = len as u8;
        return ether::output::frame_with(batch, ifp, packet, mac, EtherType::IPV4, len, |room| {
            fields.emit(room);
        });
    }
    if prepend_header(&mut packet, fields).is_err() {
        return batch.refuse(packet, DropReason::TxNoBufs);
    }
    ether::output::run4(batch, ifp, packet, next_hop, hop);
    Ok(())
}

fn prepend_header(packet: &mut Packet, fields: &Ipv4Fields<'_>) -> Result<(), mbuf::NoBufs> {
    let header_len = fields.header_len();
    fields.emit(packet.prepend(header_len)?);
    let meta = packet.header_mut();
    // At most 60.
    (meta.l2_len, meta.l3_len) = (0, header_len as u8);
    Ok(())
}
