//! A datagram too large for its path, cut into fragments by its sender: routers fragment nothing (RFC 8200 section
//! 4.5).
//!
//! Invariants: every fragment but the last carries a multiple of 8 bytes; no payload is copied. Their identification is
//! random, so that a host off the path can't guess it (RFC 7739 section 5.2). Locks: none held here; drawing the
//! identification takes RANDOM.

use mbuf::{Csum, Packet};
use wire::{IpProto, Ipv6Fragment, Ipv6Header};

use super::output::{self, Send6};
use crate::batch::Batch;
use crate::device::offload;
use crate::drops::DropReason;
use crate::ether;
use crate::route::Route;
use std::net::Ipv6Addr;

/// Sends the packet, which begins with the header of the protocol above, in fragments of `mtu` bytes at most.
#[doc(alias = "ip6_fragment")]
pub(super) fn run(
    batch: &mut Batch<'_>,
    mut packet: Packet,
    to: &Send6,
    route: &mut Route<Ipv6Addr>,
    mtu: usize,
) -> Result<(), DropReason> {
    let room = mtu.saturating_sub(Ipv6Header::LEN + Ipv6Fragment::LEN) & !7;
    if room == 0 {
        return batch.refuse(packet, DropReason::IpTooBig);
    }
    if let Err(reason) = offload::finish_checksum(&mut packet, 0) {
        return batch.refuse(packet, reason);
    }
    // All fragments get the flow of the datagram, and so one queue.
    let flow = packet.header().flow;
    let mut rest = packet.into_chain();
    let mut header = Ipv6Fragment {
        next: to.send.service.proto,
        offset: 0,
        more: true,
        id: batch.stack.random(|r| r.next_u32()),
    };
    while !rest.is_empty() {
        header.more = rest.len() > room;
        let piece = rest
            .take_front(room)
            .and_then(|piece| Packet::before_chain(&batch.stack.pool, piece));
        let Ok(mut piece) = piece else {
            return no_bufs(batch);
        };
        let meta = piece.header_mut();
        (meta.csum, meta.flow) = (Csum::empty(), flow);
        // The caller checked that the payload fits 16 bits.
        let len = piece.len() as u16;
        let Ok(room) = piece.prepend(Ipv6Fragment::LEN) else {
            return no_bufs(batch);
        };
        header.emit(room);
        if output::prepend_header(&mut piece, to, IpProto::FRAGMENT).is_err() {
            return no_bufs(batch);
        }
        ether::output::run6(batch, &route.ifp, piece, route.next_hop, &mut route.hop);
        header.offset += len;
    }
    Ok(())
}

fn no_bufs(batch: &Batch<'_>) -> Result<(), DropReason> {
    batch.stack.drops.count(DropReason::TxNoBufs);
    Err(DropReason::TxNoBufs)
}
