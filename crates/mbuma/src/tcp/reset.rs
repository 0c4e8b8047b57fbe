//! Resets: in answer to a segment that belongs to no connection (RFC 9293 3.5.2), and at the end of a connection.
//! Answers share their limit with ICMP errors: both go to peers that asked for nothing.

use kern::Time;
use wire::{SeqNum, TcpFields, TcpFlags, TcpOptions};

use super::pcb::Tcb;
use super::segment::{self, Payload, Segment, SegmentFields};
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::inet::Ends;

/// The fields of a reset that ends a connection of ours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndReset {
    /// Our next byte for the peer.
    pub(crate) seq: SeqNum,
    pub(crate) ack: SeqNum,
    /// RFC 7323 3.2: a reset should have timestamps too, though the peer takes it without.
    pub(crate) ts: Option<(u32, u32)>,
}

impl EndReset {
    /// That of a connection, before it is closed.
    pub(crate) fn of(t: &Tcb, now: Time) -> Self {
        Self {
            seq: t.acceptable_seq(),
            ack: t.recv.nxt,
            ts: t.conn.ts.option(now, true),
        }
    }
}

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
    let reset = EndReset { seq, ack, ts: None };
    // If there is no buffer or route for it, the peer will retransmit.
    transmit(batch, seg.ends, reset, flags);
}

/// Ends a connection of ours.
#[cold]
pub(crate) fn send(batch: &mut Batch<'_>, ends: Ends, reset: EndReset) {
    // If there is no buffer or route for it, the peer gets one when it sends the next segment.
    transmit(batch, ends, reset, TcpFlags::RST | TcpFlags::ACK);
}

fn transmit(batch: &mut Batch<'_>, ends: Ends, reset: EndReset, flags: TcpFlags) {
    let out = SegmentFields {
        ends,
        flow: 0,
        header: TcpFields {
            src_port: ends.local_port(),
            dst_port: ends.peer_port(),
            seq: reset.seq,
            ack: reset.ack,
            flags,
            options: TcpOptions {
                timestamps: reset.ts,
                ..TcpOptions::default()
            },
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
