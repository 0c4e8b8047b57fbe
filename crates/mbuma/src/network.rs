//! Outgoing packets: the one place where output branches on the version of IP.
//!
//! Locks: none held here; the caller may hold a connection's.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use mbuf::Packet;
use wire::{EtherHeader, EtherType, IpProto, Ipv4Header, Ipv6Header, TcpHeader, UdpHeader};

use crate::batch::Batch;
use crate::drops::DropReason;
use crate::ether;
use crate::ifnet::{IfIndex, Ifnet};
use crate::inet::Ends;
use crate::ip::{Send, Service, ToGroup};
use crate::ip4;
use crate::ip6::{self, output::Send6};
use crate::route::RouteCache;
use crate::state::StackState;

/// How a packet finds its route.
pub(crate) enum SendVia<'a> {
    /// By the sender's kept route; by the table, if the sender keeps none.
    Route(Option<&'a mut RouteCache>),
    /// To a group, and to its members in this stack.
    Group(ToGroup),
}

/// The header of the protocol above IP, which is not written yet.
pub(crate) struct UpperHeader<F> {
    /// Its bytes.
    pub(crate) len: usize,
    /// Writes it.
    pub(crate) emit: F,
}

/// Sends a packet that lacks the header of the protocol above. If the sender keeps the way of the packet, all of its
/// headers are written into one piece of room.
///
/// # Errors
/// The packet was dropped, and counted, for this reason.
pub(crate) fn output<F: FnOnce(&mut [u8])>(
    batch: &mut Batch<'_>,
    mut packet: Packet,
    ends: &Ends,
    service: Service,
    mut via: SendVia<'_>,
    upper: UpperHeader<F>,
) -> Result<(), DropReason> {
    let flow_label = match ends {
        Ends::V4(_) => 0,
        Ends::V6(..) => flow_label(batch, ends, &mut via),
    };
    let way = match &via {
        SendVia::Route(Some(cache)) => match ends {
            Ends::V4(..) => ip4::output::kept_way(batch, &packet, upper.len, cache),
            Ends::V6(..) => ip6::output::kept_way(batch, &packet, upper.len, service, cache),
        },
        _ => None,
    };
    let below = way
        .as_ref()
        .map_or(0, |_| EtherHeader::LEN + header_len(ends));
    let Ok(room) = packet.prepend(below + upper.len) else {
        return batch.refuse(packet, DropReason::TxNoBufs);
    };
    let (lower, own) = room.split_at_mut(below);
    (upper.emit)(own);
    if let Some(way) = way {
        let (link, room) = lower.split_at_mut(EtherHeader::LEN);
        let ethertype = match ends {
            Ends::V4(pair) => {
                ip4::output::emit(batch, &way, pair, service, room);
                EtherType::IPV4
            }
            Ends::V6(pair, zone) => {
                let to = Send6 {
                    send: Send::of_flow(pair, service),
                    zone: *zone,
                    flow_label,
                };
                ip6::output::emit(&way, &to, room);
                EtherType::IPV6
            }
        };
        EtherHeader::new(way.station, way.ifp.mac, ethertype).emit(link);
        // At most 40.
        packet.header_mut().l3_len = header_len(ends) as u8;
        ether::output::framed(batch, way.ifp, packet);
        return Ok(());
    }
    match ends {
        Ends::V4(pair) => {
            let to = Send::of_flow(pair, service);
            match via {
                SendVia::Route(kept) => ip4::output::run(batch, packet, &to, kept),
                SendVia::Group(group) => ip4::output::to_group(batch, packet, &to, group),
            }
        }
        Ends::V6(pair, zone) => {
            let to = Send6 {
                send: Send::of_flow(pair, service),
                zone: *zone,
                flow_label,
            };
            match via {
                SendVia::Route(kept) => ip6::output::run(batch, packet, &to, kept),
                SendVia::Group(group) => ip6::output::to_group(batch, packet, &to, group),
            }
        }
    }
}

/// The label of a flow, which a sender with a kept route keeps too.
fn flow_label(batch: &Batch<'_>, ends: &Ends, via: &mut SendVia<'_>) -> u32 {
    let find = || batch.stack.ip6.flow_label(ends);
    match via {
        SendVia::Route(Some(cache)) => cache.flow_label(ends, find),
        _ => find(),
    }
}

/// The interface that leads to an address, and the source for packets to it.
pub(crate) struct Egress {
    pub(crate) ifp: Arc<Ifnet>,
    /// The address to send from unless the sender chose one; unspecified if the interface has none.
    pub(crate) src: IpAddr,
}

/// The egress to `dst`, if a route leads there. The port is ignored.
pub(crate) fn egress(stack: &StackState, dst: SocketAddr) -> Option<Egress> {
    match dst {
        SocketAddr::V4(dst) => stack.routes.lookup(*dst.ip()).map(|route| Egress {
            ifp: route.ifp,
            src: route.src.into(),
        }),
        SocketAddr::V6(dst) => {
            let route = ip6::output::route_to(stack, *dst.ip(), dst.scope_id())?;
            let (ifp, src) = (route.ifp, route.src.into());
            Some(Egress { ifp, src })
        }
    }
}

/// The address to send a datagram from to `dst`, which may be a group, if a route leads there; `link`: the interface
/// that the sender chose for groups.
pub(crate) fn source_to(
    stack: &StackState,
    dst: SocketAddr,
    link: Option<IfIndex>,
) -> Option<IpAddr> {
    match dst.ip() {
        IpAddr::V4(dst) if dst.is_multicast() && link.is_some() => {
            Some(stack.interface(link?)?.source_for(dst).into())
        }
        IpAddr::V6(dst) if dst.is_multicast() => {
            let route = ip6::output::route_to(stack, dst, link.map_or(0, IfIndex::number))?;
            Some(route.src.into())
        }
        IpAddr::V4(dst) if dst.is_broadcast() || dst.is_multicast() => {
            let route = stack.routes.lookup_group(Ipv4Addr::UNSPECIFIED, dst);
            route.map(|route| route.src.into())
        }
        IpAddr::V4(dst) => stack.routes.source_to(dst).map(IpAddr::from),
        IpAddr::V6(_) => egress(stack, dst).map(|egress| egress.src),
    }
}

/// Whether packets to `dst` leave through this interface.
pub(crate) fn leads_through(stack: &StackState, index: IfIndex, dst: SocketAddr) -> bool {
    match dst {
        SocketAddr::V4(dst) => stack.routes.leads_through(index, *dst.ip()),
        SocketAddr::V6(_) => egress(stack, dst).is_some_and(|egress| egress.ifp.index == index),
    }
}

/// Whether `addr` is an address of this stack.
pub(crate) fn is_local(stack: &StackState, addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(addr) => stack.routes.is_local(addr),
        IpAddr::V6(addr) => stack.routes6.is_local(addr),
    }
}

/// The MTU of the path to TCP's peer, if a router has reported one smaller than the link's. There is no such table for
/// IPv4: each connection finds its path's MTU by itself.
pub(crate) fn path_mtu(batch: &Batch<'_>, ends: &Ends) -> Option<u16> {
    let (peer, zone) = path_end(ends);
    (batch.stack.path_mtus).get(IpProto::TCP, peer, zone, batch.now)
}

/// The other end of a path, and its zone.
fn path_end(ends: &Ends) -> (IpAddr, u32) {
    match ends {
        Ends::V4(pair) => (pair.peer.into(), 0),
        Ends::V6(pair, zone) => (pair.peer.into(), *zone),
    }
}

/// Notes the MTU of the path to the peer, which a router reported. The caller is the protocol `proto`, which sent the
/// quoted packet, and found that the report is credible.
pub(crate) fn path_mtu_reported(batch: &Batch<'_>, proto: IpProto, ends: &Ends, mtu: u16) {
    let (peer, zone) = path_end(ends);
    (batch.stack.path_mtus).reported(proto, peer, zone, mtu, batch.now);
}

/// The largest segment of TCP that fits a link.
pub(crate) fn tcp_mss(ifp: &Ifnet, ends: &Ends) -> u32 {
    let mtu = match ends {
        Ends::V4(_) => ifp.mtu(),
        Ends::V6(..) => ifp.mtu6(),
    };
    (mtu as u32).saturating_sub(tcp_headers_len(ends))
}

/// Bytes of the headers of IP and TCP without options.
pub(crate) const fn tcp_headers_len(ends: &Ends) -> u32 {
    (header_len(ends) + TcpHeader::LEN) as u32
}

/// Bytes of the headers of Ethernet, IP and UDP.
pub(crate) const fn udp_headers_len(ends: &Ends) -> usize {
    EtherHeader::LEN + header_len(ends) + UdpHeader::LEN
}

/// Bytes of the header of IP without options.
const fn header_len(ends: &Ends) -> usize {
    match ends {
        Ends::V4(_) => Ipv4Header::LEN,
        Ends::V6(..) => Ipv6Header::LEN,
    }
}
