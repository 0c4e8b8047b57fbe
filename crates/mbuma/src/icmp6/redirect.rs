//! Redirects that a router sends: if a packet leaves by the interface by which it came, its sender should use the next
//! hop directly.
//!
//! The router forwards the packet all the same.
//!
//! Invariants: only a neighbour is told, from the link-local address by which it knows the router, and no more often
//! than it may get errors.
//! Locks: none. Sources: RFC 4861 sections 4.5 and 8.2.

use std::net::Ipv6Addr;

use mbuf::{Chain, Packet};
use wire::{Icmp6Message, IpProto, NdpMessage, RedirectBody, is_link_local6};

use super::output;
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::ip::{Send, Service};
use crate::ip6::output::Send6;
use crate::route::Route;

/// The hop limit of each message: it shows that no router forwarded the message (RFC 4861 section 4.5).
const HOP_LIMIT: u8 = 255;

/// Sends a redirect to the sender of a packet to `dst`, which is about to be forwarded by `route`, if there is a better
/// first hop.
#[doc(alias = "icmp6_redirect_output")]
pub(crate) fn tell(
    batch: &mut Batch<'_>,
    packet: &Packet,
    (src, dst): (Ipv6Addr, Ipv6Addr),
    route: &Route<Ipv6Addr>,
) {
    let ifp = &route.ifp;
    // An interface that answers for other hosts knows no better first hop.
    if packet.header().iface != ifp.index.0 || ifp.accept_any {
        return;
    }
    let back = batch.stack.routes6.lookup(src);
    let is_neighbour =
        back.is_some_and(|back| back.ifp.index == ifp.index && back.next_hop == src && !back.local);
    let is_target = route.next_hop == dst || is_link_local6(route.next_hop);
    let own = ifp.addrs6.list().into_iter().map(|own| own.addr);
    let own = own.into_iter().find(|own| is_link_local6(*own));
    let Some(own) = own.filter(|_| is_neighbour && is_target) else {
        return;
    };
    if !batch.stack.icmp6.admit_error(src, ifp.index, batch.now) {
        return batch.stack.drops.count(DropReason::IcmpRateLimited);
    }
    let mut quote = [0; RedirectBody::QUOTE_MAX];
    let (quote, _) = quote.split_at_mut(packet.len().min(RedirectBody::QUOTE_MAX));
    packet.copy_to(0, quote);
    let mac = ifp.neighbours6.known_mac(batch.now, route.next_hop);
    let body = RedirectBody::new(route.next_hop, dst, mac, quote);
    let mut bytes = [0; RedirectBody::LEN_MAX];
    let len = body.emit(&mut bytes).unwrap_or(0);
    let Ok(payload) = Chain::from_slice(&batch.stack.pool, bytes.get(..len).unwrap_or(&[])) else {
        return batch.stack.drops.count(DropReason::TxNoBufs);
    };
    let message = Icmp6Message::Other {
        kind: NdpMessage::REDIRECT,
        code: 0,
        rest: [0; 4],
    };
    let to = Send6 {
        send: Send {
            src: own,
            dst: src,
            service: Service {
                ttl: HOP_LIMIT,
                ..Service::of(IpProto::ICMPV6)
            },
        },
        zone: ifp.index.0,
        flow_label: 0,
    };
    output::send(batch, message, payload, &to);
}
