//! A datagram too large for its link, cut into fragments.
//!
//! Invariants: every fragment but the last carries a multiple of 8 bytes; no payload is copied. A fragment is cut into
//! fragments of the original datagram. Options with the copied flag are in every fragment, the others in the first
//! only. Locks: none. Sources: RFC 791 sections 3.1 and 3.2, RFC 1122 section 3.3.5, RFC 1812 section 5.2.6.

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
    // RFC 791 requires an MTU of at least 68 of every link, which leaves room for 8 bytes.
    let room = ifp.mtu().saturating_sub(whole.header_len()) & !7;
    if room == 0 {
        return batch.refuse(packet, DropReason::IpTooBig);
    }
    if let Err(reason) = offload::finish_checksum(&mut packet, 0) {
        return batch.refuse(packet, reason);
    }
    // All fragments get the flow of the datagram, and so one queue.
    let flow = packet.header().flow;
    let (pool, mut rest) = (&batch.stack.pool, packet.into_chain());
    let (copied, copied_len) = copied_options(whole.options);
    let mut offset = whole.frag_offset;
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
            mf: more || whole.mf,
            options: if offset == 0 {
                whole.options
            } else {
                copied.get(..copied_len).unwrap_or(&[])
            },
            ..*whole
        };
        output::to_link(batch, ifp, piece, &fields, next_hop, &mut None)?;
        offset += len as u16;
    }
    Ok(())
}

/// The options that every fragment carries: their type has its first bit set (RFC 791 3.1). An option that is not whole
/// ends the list.
fn copied_options(all: &[u8]) -> ([u8; OPTIONS_MAX], usize) {
    let (mut copied, mut len) = ([0; OPTIONS_MAX], 0);
    let mut rest = all;
    while let [kind, tail @ ..] = rest {
        let size = match (kind, tail.first()) {
            (0, _) => break,
            (1, _) => 1,
            (_, Some(&size)) => usize::from(size).max(2),
            (_, None) => break,
        };
        let Some((option, behind)) = rest.split_at_checked(size) else {
            break;
        };
        if kind & 0x80 != 0
            && let Some(to) = copied.get_mut(len..len + size)
        {
            to.copy_from_slice(option);
            len += size;
        }
        rest = behind;
    }
    (copied, len)
}

const OPTIONS_MAX: usize = Ipv4Header::LEN_MAX - Ipv4Header::LEN;

#[cfg(all(test, not(shuttle)))]
mod tests;
