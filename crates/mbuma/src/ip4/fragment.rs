//! A datagram too large for its link, cut into fragments.
//!
//! Called by: [`output`]. Calls: [`offload`] for the
//! checksum, which no device can finish over several frames; ether/output.
//!
//! Invariants: every fragment but the last carries a multiple of 8 bytes; no payload is copied.
//! Locks: none. Sources: RFC 791 section 3.2, RFC 1122 section 3.3.5.

use std::net::Ipv4Addr;
use std::sync::Arc;

use mbuf::{Csum, Packet};
use wire::{Ipv4Fields, Ipv4Header};

use super::output;
use crate::batch::Batch;
use crate::device::offload;
use crate::drops::DropReason;
use crate::ifnet::Ifnet;

/// Sends the packet, which begins with the header of the protocol above, in fragments.
#[doc(alias = "ip_fragment")]
pub(super) fn run(
    batch: &mut Batch<'_>,
    ifp: &Arc<Ifnet>,
    mut packet: Packet,
    whole: &Ipv4Fields<'_>,
    next_hop: Ipv4Addr,
) -> Result<(), DropReason> {
    // RFC 791 asks every link for an MTU of 68, so that there is room for 8 bytes at least.
    let room = ifp.mtu().saturating_sub(Ipv4Header::LEN) & !7;
    if room == 0 {
        return output::refuse(batch, packet, DropReason::IpTooBig);
    }
    if let Err(reason) = offload::finish_checksum(&mut packet, 0) {
        return output::refuse(batch, packet, reason);
    }
    // They stay together, as far as we can help.
    let flow = packet.header().flow;
    let (pool, mut rest) = (&batch.stack.pool, packet.into_chain());
    let mut offset = 0;
    while !rest.is_empty() {
        let more = rest.len() > room;
        let piece = rest.take_front(room).and_then(|piece| {
            let len = piece.len();
            Ok((Packet::before_chain(pool, piece)?, len))
        });
        let Ok((mut piece, len)) = piece else {
            batch.stack.drops.count(DropReason::TxNoBufs);
            return Err(DropReason::TxNoBufs);
        };
        let meta = piece.header_mut();
        (meta.csum, meta.flow) = (Csum::empty(), flow);
        // The caller checked that header and payload together fit 16 bits.
        let fields = Ipv4Fields {
            payload_len: len as u16,
            frag_offset: offset,
            mf: more,
            ..*whole
        };
        output::to_link(batch, ifp, piece, &fields, next_hop)?;
        offset += len as u16;
    }
    Ok(())
}
