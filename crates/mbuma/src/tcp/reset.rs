//! Resets: in answer to a segment that belongs to no connection (RFC 9293 3.5.2), and at the end of a connection. Answers
//! share their limit with ICMP errors: both go to peers that asked for nothing.

use wire::{SeqNum, TcpFields, TcpFlags};

use super::segment::{self, Payload, Segment, SegmentFields};
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::inet::Ends;

/// Answers a segment with a reset that its sender accepts: its sequence number is the acknowledged one, or 0 with an
/// acknowledgement of the whole segment. A reset is never answered.
#[cold]
pub(crate) fn reply(batch: &mut Batch<'_>, seg: &Segment) {
    if seg.has(TcpFlags::RST) {
        return;
    }
    if !batch.stack.icmp.admit_error(batch.now) {
        return batch.stack.drops.count(DropReason::ResetRateLimited);
    }
    let (seq, ack, flags) = if seg.has(TcpFlags::ACK) {
        (seg.ack, SeqNum(0), TcpFlags::RST)
    } else {
        (
            SeqNum(0),
            seg.seq + seg.len(),
            TcpFlags::RST | TcpFlags::ACK,
        )
    };
    // If there is no buffer or route for it, the peer will retransmit.
    transmit(batch, seg.ends, seq, ack, flags);
}

/// A reset that ends a connection of ours; its sequence number is that of our next byte for the peer.
#[cold]
pub(crate) fn send(batch: &mut Batch<'_>, ends: Ends, seq: SeqNum, ack: SeqNum) {
    // If there is no buffer or route for it, the peer gets one when it sends the next segment.
    transmit(batch, ends, seq, ack, TcpFlags::RST | TcpFlags::ACK);
}

fn transmit(batch: &mut Batch<'_>, ends: Ends, seq: SeqNum, ack: SeqNum, flags: TcpFlags) {
    let out = SegmentFields {
        ends,
        flow: 0,
        header: TcpFields {
            src_port: ends.local_port(),
            dst_port: ends.peer_port(),
            seq,
            ack,
            flags,
            ..TcpFields::default()
        },
        segsz: 0,
        tos: 0,
        ttl: 0,
        may_fragment: false,
    };
    batch.stack.tcp.counters.resets_out.inc();
    let _: Result<(), DropReason> = segment::send(batch, &out, Payload::none(), None);
}
