//! The sent map: a record for each transmitted range that is not acknowledged, in the order of sequence numbers.
//!
//! ```text
//!   SND.UNA                                                      SND.NXT
//!      |  lost   |      sacked      |  in flight, sent again  |  in flight  |
//! ```
//!
//! SACK, RACK, round-trip samples, rate samples and undo use it; no other file does arithmetic on ranges.
//!
//! Invariants, which the tests check after each step:
//! 1. Records are not empty, and each begins where the one before ends.
//! 2. A record is not both lost and sacked. `sacked` and `lost` are the sums of their lengths.
//! 3. Records that were sent once are in the order of their transmissions. Those in flight begin at `fresh` or later.
//! 4. Each record in flight that was sent again has an entry in `resent`, which is in the order of these transmissions.
//! 5. `lost_runs` has the ranges of the lost records, neighbours joined.
//!
//! Cost: by 3 and 4 RACK visits only the records that it marks lost, and one more of each kind. Sacked neighbours
//! become one record. So an acknowledgement visits as many records as it changes, independent of the number of holes;
//! each is found by binary search. By 5 a repair does not walk over what else is lost. SACK blocks make at most four
//! records for each segment, and together with small segments at most [`RECORDS_MAX`](records::RECORDS_MAX).
//!
//! Memory: a single record lies inline, so that a request allocates nothing; more records are in a box, which is freed
//! with its last record.
//!
//! Sources: RFC 2018, RFC 6675 2, RFC 8985 5.2.

mod lost_runs;
mod records;

use std::ops::Range;

use kern::Time;
use wire::SeqNum;

use super::rack::Rack;
use super::rate::SendStamp;
use records::Records;

/// A transmitted range: SYN, FIN and up to a packet of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SentRecord {
    pub(crate) start: SeqNum,
    pub(crate) end: SeqNum,
    /// When it was last sent.
    pub(crate) sent_at: Time,
    pub(crate) stamp: SendStamp,
    /// Bytes in flight at that time, this range included.
    pub(crate) flight: u32,
    /// It arrived, according to a SACK block.
    pub(crate) sacked: bool,
    /// It must be retransmitted.
    pub(crate) lost: bool,
    /// It was sent more than once: its acknowledgement does not tell which transmission it answers (RFC 6298 3).
    pub(crate) resent: bool,
}

const _: () = assert!(size_of::<SentRecord>() <= 48);

impl SentRecord {
    pub(crate) fn new(range: Range<SeqNum>, sent_at: Time, stamp: SendStamp) -> Self {
        Self {
            start: range.start,
            end: range.end,
            sent_at,
            stamp,
            flight: 0,
            sacked: false,
            lost: false,
            resent: false,
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.end.since(self.start)
    }

    fn in_flight(&self) -> bool {
        !self.sacked && !self.lost
    }
}

/// All ranges that are sent and not acknowledged.
#[derive(Debug)]
pub(crate) enum SentMap {
    /// At most one record, which is in flight.
    Few(Option<SentRecord>),
    Many(Box<Records>),
}

impl Default for SentMap {
    fn default() -> Self {
        Self::Few(None)
    }
}

impl SentMap {
    /// Bytes in the network: neither sacked nor marked lost.
    #[doc(alias = "pipe")]
    pub(crate) fn in_flight(&self) -> u32 {
        match self {
            Self::Few(one) => one.map_or(0, |r| r.len()),
            Self::Many(m) => m.total() - m.sacked - m.lost,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::Few(None))
    }

    /// Bytes that SACK blocks cover.
    pub(crate) fn sacked(&self) -> u32 {
        self.many_ref().map_or(0, |m| m.sacked)
    }

    /// Whether no record was sent again, reported or marked lost, and all were sent after all data that has arrived.
    #[inline]
    pub(crate) fn is_in_order(&self) -> bool {
        match self {
            Self::Few(_) => true,
            Self::Many(m) => m.is_in_order(),
        }
    }

    /// Records that were [in order](Self::is_in_order) are acknowledged up to `una`; the last of them was sent at
    /// `sent_at`.
    #[inline]
    pub(crate) fn on_acked_in_order(&mut self, una: SeqNum, sent_at: Time, now: Time) {
        if let Self::Many(m) = self {
            m.rack.on_acked_in_order(una, sent_at, now);
        }
    }

    /// Bytes that were retransmitted and are in flight. This looks at each record.
    pub(crate) fn resent(&self) -> u32 {
        self.many_ref().map_or(0, Records::resent_bytes)
    }

    /// Bytes that must be retransmitted.
    pub(crate) fn lost(&self) -> u32 {
        self.many_ref().map_or(0, |m| m.lost)
    }

    /// RACK's arrivals, if there may be several records.
    pub(crate) fn rack(&self) -> Option<Rack> {
        self.many_ref().map(|m| m.rack)
    }

    pub(crate) fn set_rack(&mut self, rack: Rack) {
        if let Self::Many(m) = self {
            m.rack = rack;
        }
    }

    /// The record with the highest sequence numbers.
    pub(crate) fn last(&self) -> Option<&SentRecord> {
        match self {
            Self::Few(one) => one.as_ref(),
            Self::Many(m) => m.list.back(),
        }
    }

    /// The record with the lowest sequence numbers.
    fn first(&self) -> Option<&SentRecord> {
        match self {
            Self::Few(one) => one.as_ref(),
            Self::Many(m) => m.list.front(),
        }
    }

    /// Its length.
    pub(crate) fn first_len(&self) -> u32 {
        self.first().map_or(0, SentRecord::len)
    }

    /// Whether it was sent again, and may arrive still.
    pub(crate) fn is_first_repaired(&self) -> bool {
        self.first().is_some_and(|r| r.resent && r.in_flight())
    }

    /// Adds a new range, after all others. Inlined, so that the record is built in its place: a copy of it would wait
    /// for its fields to be stored.
    #[inline(always)]
    pub(crate) fn push(&mut self, record: SentRecord) {
        match self {
            Self::Few(one @ None) if !record.resent => *one = Some(record),
            _ => self.many_or(record.start).push(record),
        }
    }

    /// Removes the data before `una`, which has arrived; calls `delivered` for each piece of it that was not sacked.
    pub(crate) fn ack(&mut self, una: SeqNum, mut delivered: impl FnMut(&SentRecord)) {
        match self {
            Self::Few(None) => {}
            Self::Few(Some(one)) if una.before(one.end) => one.cut_front(una, &mut delivered),
            Self::Few(one) => {
                one.take().iter().for_each(delivered);
            }
            Self::Many(m) => {
                m.ack(una, delivered);
                if m.list.is_empty() {
                    *self = Self::default();
                }
            }
        }
    }

    /// Marks `range` as arrived, because of a SACK block; calls `delivered` for each record of it that was not marked
    /// before. Blocks of a peer that cuts finer than into segments of `mss` bytes are not marked in full.
    pub(crate) fn sack(
        &mut self,
        range: Range<SeqNum>,
        mss: u32,
        delivered: impl FnMut(&SentRecord),
    ) {
        if let Some(m) = self.many() {
            m.sack(range, mss, delivered);
        }
    }

    /// The first contiguous range to retransmit.
    pub(crate) fn next_lost(&self) -> Option<Range<SeqNum>> {
        self.many_ref()?.next_lost()
    }

    /// `range` is sent again.
    pub(crate) fn resend(&mut self, range: Range<SeqNum>, now: Time, stamp: SendStamp) {
        if let Some(m) = self.many() {
            kern::invariant!(!m.is_any_sacked(&range), "the peer has some of {range:?}");
            m.resend(range, now, stamp);
        }
    }

    /// Marks each record in flight lost for which `is_lost` is true. If `is_lost` is true for a record, it must be true
    /// for all that were sent before. Returns the bytes.
    pub(crate) fn detect_lost(&mut self, is_lost: impl Fn(&SentRecord) -> bool) -> u32 {
        // A single record is mostly not lost, and then needs no box.
        match self {
            Self::Few(Some(one)) if is_lost(one) => self.mark_all_lost(),
            Self::Few(_) => 0,
            Self::Many(m) => m.detect_lost(is_lost),
        }
    }

    /// Whether `is` is true for a record in flight. If `is` is true for a record, it must be true for all that were
    /// sent before.
    pub(crate) fn any_in_flight(&self, is: impl Fn(&SentRecord) -> bool) -> bool {
        match self {
            Self::Few(one) => one.as_ref().is_some_and(is),
            Self::Many(m) => m.first_fresh().is_some_and(&is) || m.first_resent().is_some_and(&is),
        }
    }

    /// Marks all records lost that did not arrive; returns the bytes.
    pub(crate) fn mark_all_lost(&mut self) -> u32 {
        self.many().map_or(0, Records::mark_all_lost)
    }

    /// Marks the first `len` bytes lost, up to the first that arrived; returns how many were in flight. They go again
    /// in one segment, also if they were sent in several.
    pub(crate) fn mark_first_lost(&mut self, len: u32) -> u32 {
        self.many().map_or(0, |m| m.mark_first_lost(len))
    }

    /// Clears all marks of loss.
    pub(crate) fn clear_lost(&mut self) {
        if let Self::Many(m) = self {
            m.clear_marks(false);
        }
    }

    /// The receiver has discarded data that it had reported (RFC 2018 8).
    pub(crate) fn clear_sacked(&mut self) {
        if let Self::Many(m) = self {
            m.clear_marks(true);
        }
    }

    /// Whether the first record is sacked: then the receiver should have acknowledged it.
    pub(crate) fn is_first_sacked(&self) -> bool {
        self.first().is_some_and(|r| r.sacked)
    }

    /// Whether the end of the last record, where a FIN is, is sacked.
    pub(crate) fn is_last_sacked(&self) -> bool {
        self.last().is_some_and(|r| r.sacked)
    }

    /// Whether the data that begins at `seq` must be retransmitted.
    pub(crate) fn is_lost(&self, seq: SeqNum) -> bool {
        self.many_ref().is_some_and(|m| m.is_lost(seq))
    }

    fn many_ref(&self) -> Option<&Records> {
        match self {
            Self::Few(_) => None,
            Self::Many(m) => Some(m),
        }
    }

    /// The records in their box; none if there are no records.
    fn many(&mut self) -> Option<&mut Records> {
        match self {
            Self::Few(None) => None,
            Self::Few(Some(one)) => {
                let start = one.start;
                Some(self.many_or(start))
            }
            Self::Many(m) => Some(m),
        }
    }

    /// The same; new ones begin at `start`.
    fn many_or(&mut self, start: SeqNum) -> &mut Records {
        if let Self::Few(one) = self {
            let mut records = Box::new(Records::new(one.map_or(start, |r| r.start)));
            records.list.extend(one.take());
            *self = Self::Many(records);
        }
        match self {
            Self::Many(m) => m,
            Self::Few(_) => unreachable!("they are in the box now"),
        }
    }

    /// Whether the records cover exactly the range from `una` to `nxt`.
    pub(crate) fn covers(&self, una: SeqNum, nxt: SeqNum) -> bool {
        let (first, last) = match self {
            Self::Few(one) => (one.as_ref(), one.as_ref()),
            Self::Many(m) => (m.list.front(), m.list.back()),
        };
        match (first, last) {
            (Some(first), Some(last)) => first.start == una && last.end == nxt && una != nxt,
            _ => una == nxt,
        }
    }

    /// Whether the invariants above hold.
    #[cfg(all(test, not(shuttle)))]
    fn is_valid(&self) -> bool {
        match self {
            Self::Few(one) => one.is_none_or(|r| r.in_flight() && !r.resent && r.len() > 0),
            Self::Many(m) => m.is_valid(),
        }
    }
}

impl SentRecord {
    /// Cuts off the part before `una`, and passes it to `delivered` if it was not sacked.
    fn cut_front(&mut self, una: SeqNum, delivered: &mut impl FnMut(&SentRecord)) {
        if una.after(self.start) {
            if !self.sacked {
                delivered(&SentRecord { end: una, ..*self });
            }
            self.start = una;
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
