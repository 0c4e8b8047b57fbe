//! Large receive offload in software: merges consecutive segments of a TCP connection that arrive in one batch, so that
//! IP and TCP handle them once.
//!
//! ```text
//!   [H|a1] [H|b1] [H|a2] [H|b2] [H|a3]    frames of a batch, of two connections
//!
//!   [H|a1]--[a2]--[a3]                    at its end: one packet each, without a copy;
//!   [H|b1]--[b2]                          tso_segsz has the length of a piece
//! ```
//!
//! A merged packet has the same form as one that a TAP or a network card merged: a large segment, with the length of a
//! piece in its packet header. Merging drops the headers of all pieces but the first, so they must hold nothing else: a
//! piece is merged only if it follows the one before directly, and if its headers differ from the first piece's in the
//! sequence number, the IPv4 id, lengths and checksums alone.
//!
//! | a frame | |
//! |---|---|
//! | not TCP, a fragment, or with IP options or extension headers | passes at once |
//! | with SYN, FIN, RST or URG, without data, with other options than timestamps | passes, after what its connection had before |
//! | with PSH, or shorter than the pieces before it | ends a merge |
//! | with another acknowledgement, window, timestamp, TTL, flow label or ECN mark than the pieces before it | begins another merge |
//!
//! Segments of one connection stay in order. A batch of one frame, and an interface whose packets the stack forwards,
//! pass unmerged: a forwarded packet would be summed, merged and cut again in vain.
//!
//! Invariants: a piece is merged only if its checksums are right, or were verified before; a segment with a wrong one
//! goes up alone and is counted there. A merged packet fits IP's length field. Nothing stays here after the batch.
//! Locks: none. Sources: FreeBSD's tcp_lro, RFC 9293, RFC 6864 (ids of packets that must not be fragmented).

use std::sync::Arc;

use mbuf::{Chain, Csum, Mbufq, Packet};
use wire::{IpProto, SeqNum};

use self::segment_frame::{Agreed, SegmentFrame};
use super::input;
use crate::batch::Batch;
use crate::ifnet::Ifnet;
use crate::inet::Ends;
use crate::ip;

mod segment_frame;

/// Connections at most whose segments are merged at a time; of one more, the first of these is passed on.
#[doc(alias = "TCP_LRO_ENTRIES")]
const MERGES: usize = 8;

/// Takes in the frames of a batch.
#[doc(alias = "tcp_lro_rx")]
#[inline]
pub(crate) fn run(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, frames: Mbufq) {
    if frames.len() >= 2 && !batch.stack.is_router_on(ifp) {
        return merge(batch, ifp, frames);
    }
    for frame in frames {
        input::run(batch, ifp, frame);
    }
}

/// The merging path. It is not inlined, so that the path of a single frame, which a round trip takes, stays short.
#[inline(never)]
fn merge(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, frames: Mbufq) {
    let mut merges = Merges::default();
    for frame in frames {
        let len = frame.len();
        if merges.take(ifp, frame, |packet| input::run(batch, ifp, packet)) {
            // The frame ends here, and its data goes up with the first one, which is counted there.
            batch.stack.received.inc();
            batch.delivered();
            ifp.counters.input.record(len);
            ifp.counters.merged.inc();
        }
    }
    merges.pass_all(|packet| input::run(batch, ifp, packet));
}

/// The connections whose segments wait for further ones.
#[derive(Default)]
struct Merges {
    all: [Option<Merge>; MERGES],
    /// The place that is reused next if all are taken.
    next: usize,
}

impl Merges {
    /// Takes a frame, and hands up what must not wait any longer. Returns whether the frame was merged.
    fn take(&mut self, ifp: &Ifnet, mut frame: Packet, mut up: impl FnMut(Packet)) -> bool {
        // A device that merges segments itself leaves nothing to do here.
        let is_merged = frame.header().tso_segsz != 0 && self.all.iter().all(Option::is_none);
        let piece = if is_merged {
            None
        } else {
            SegmentFrame::of(ifp, &mut frame)
        };
        let Some(piece) = piece else {
            up(frame);
            return false;
        };
        let is_same = |merge: &Option<Merge>| merge.as_ref().is_some_and(|m| m.ends == piece.ends);
        if let Some(place) = self.all.iter().position(is_same) {
            if let Some(merge) = &mut self.all[place]
                && merge.is_continued_by(&piece)
            {
                if merge.append(frame, &piece) {
                    self.pass(place, up);
                }
                return true;
            }
            self.pass(place, &mut up);
        }
        match piece.agreed {
            Some(agreed) if !piece.push => self.begin(Merge::new(frame, &piece, agreed), up),
            _ => up(frame),
        }
        false
    }

    fn begin(&mut self, merge: Merge, up: impl FnMut(Packet)) {
        let free = self.all.iter().position(Option::is_none);
        let place = free.unwrap_or(self.next);
        if free.is_none() {
            self.next = (self.next + 1) % MERGES;
            self.pass(place, up);
        }
        self.all[place] = Some(merge);
    }

    /// Hands the merge at `place` up, if there is one.
    fn pass(&mut self, place: usize, up: impl FnMut(Packet)) {
        let merge = self.all[place].take();
        merge.map(Merge::into_packet).into_iter().for_each(up);
    }

    /// Hands all merges up.
    #[doc(alias = "tcp_lro_flush_all")]
    fn pass_all(self, up: impl FnMut(Packet)) {
        let all = self.all.into_iter().flatten();
        all.map(Merge::into_packet).for_each(up);
    }
}

/// Consecutive segments of a connection.
struct Merge {
    ends: Ends,
    agreed: Agreed,
    /// The first frame, whole.
    first: Packet,
    /// The data of the others.
    more: Chain,
    /// The number of the byte after the last.
    end: SeqNum,
    /// Bytes of data in the first, and so in each but the last.
    segsz: usize,
    /// Whether the last has PSH, which ends the merge.
    push: bool,
}

impl Merge {
    fn new(first: Packet, piece: &SegmentFrame, agreed: Agreed) -> Self {
        Self {
            ends: piece.ends,
            agreed,
            first,
            more: Chain::new(),
            end: piece.seq + piece.data as u32,
            segsz: piece.data,
            push: false,
        }
    }

    /// Whether nothing is lost if the piece is appended: it follows directly, with the same headers.
    fn is_continued_by(&self, piece: &SegmentFrame) -> bool {
        piece.agreed.as_ref() == Some(&self.agreed)
            && piece.seq == self.end
            && piece.data <= self.segsz
            && self.first.len() + self.more.len() + piece.data <= usize::from(u16::MAX)
    }

    /// Appends the piece's data; returns whether it is the last.
    fn append(&mut self, frame: Packet, piece: &SegmentFrame) -> bool {
        // As a chain, so that an mbuf with headers alone is freed.
        let mut data = frame.into_chain();
        data.trim_front(piece.headers);
        self.more.append(data);
        self.end += piece.data as u32;
        self.push = piece.push;
        piece.push || piece.data < self.segsz
    }

    /// One packet, whose checksum is left to a device, as that of a packet from a TAP.
    fn into_packet(self) -> Packet {
        let (mut first, more) = (self.first, self.more);
        if more.is_empty() {
            return first;
        }
        let layout = self.agreed.layout;
        let len = first.len() + more.len();
        let sum = ip::pseudo_header(&self.ends, IpProto::TCP, len - layout.l4());
        let rewritten = first
            .front_mut()
            .map(|bytes| layout.rewrite(bytes, len - layout.l3(), self.push, sum));
        kern::invariant!(matches!(rewritten, Some(Ok(()))), "{rewritten:?}");
        let meta = first.header_mut();
        meta.tso_segsz = self.segsz as u16;
        (meta.l2_len, meta.l3_len) = (layout.l3() as u8, (layout.l4() - layout.l3()) as u8);
        meta.csum |= Csum::IP_VALID | Csum::L4_VALID | Csum::TCP;
        first.append_chain(more);
        first
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
