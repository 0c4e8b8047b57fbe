//! Out-of-order data, kept until the gap is filled, and the receiver's SACK report of it.
//!
//! 1. Ranges are sorted, with a gap between any two, and all after `RCV.NXT`.
//! 2. Where an arriving segment overlaps a range, the bytes that arrived first are kept.
//! 3. The number of ranges is bounded; their bytes are bounded by the window.
//! 4. Data at `RCV.NXT` itself never comes here: the receiver must take it even if the queue is full. The exception is
//!    data beside a SYN that crosses ours, which waits here until the connection is established; until then no SACK is
//!    sent.
//! 5. Kept data stays until it is in order or the connection ends. So a reported block is never discarded, though RFC
//!    2018 section 8 would allow it: if memory is short, new data is dropped.
//!
//! Each range has the number of its latest arrival. SACK reports ranges in that order, latest first (RFC 2018 4), after
//! the duplicate that arrived last, if there is one (RFC 2883 4). Ranges that have changed since their last report go
//! before all others, because a peer takes unreported data for lost.
//!
//! Sources: RFC 9293 3.10.7.4, RFC 2018, RFC 2883.

use mbuf::{Chain, MbufPool};
use wire::{SackBlock, SackBlocks, SeqNum};

/// Out-of-order data of one connection, in a box, because most connections never have any.
#[doc(alias = "t_segq")]
#[derive(Debug, Default)]
pub(crate) struct Reassembly(Option<Box<GapQueue>>);

/// Out-of-order ranges of one connection.
#[derive(Debug, Default)]
struct GapQueue {
    ranges: Vec<QueuedRange>,
    /// The number of the latest arrival. It wraps; ranges are compared by their distance to it.
    arrivals: u32,
    /// The range that arrived a second time and was not reported yet; empty if there is nothing to report.
    duplicate: SackBlock,
    /// Ranges that have changed since they were last reported.
    unreported: usize,
}

/// Bytes without a gap between them.
#[derive(Debug)]
struct QueuedRange {
    start: SeqNum,
    data: Chain,
    /// The number of the latest arrival that added to it.
    arrival: u32,
    /// It has changed since its last report.
    changed: bool,
}

impl QueuedRange {
    fn end(&self) -> SeqNum {
        self.start + self.data.len() as u32
    }

    /// The arrival of this number added to it; true if the last report was up to date before.
    fn touch(&mut self, arrival: u32) -> bool {
        self.arrival = arrival;
        !std::mem::replace(&mut self.changed, true)
    }

    fn to_block(&self) -> SackBlock {
        SackBlock {
            left: self.start,
            right: self.end(),
        }
    }
}

/// The fate of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Inserted {
    /// A part of it is kept.
    Kept,
    /// It is a duplicate.
    Duplicate,
    /// There were too many ranges, or no memory: it was dropped.
    Full,
}

impl Reassembly {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|q| q.is_empty())
    }

    /// Whether these numbers are missing before a range that is there.
    pub(crate) fn is_gap(&self, seq: SeqNum, len: u32) -> bool {
        self.0.as_ref().is_some_and(|q| q.is_gap(seq, len))
    }

    /// Bytes in all ranges.
    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |q| q.len())
    }

    /// Bytes of memory that the ranges pin.
    pub(crate) fn pinned(&self) -> usize {
        self.0.as_ref().map_or(0, |q| q.pinned())
    }

    /// Keeps the new part of `data`, which begins at `seq`.
    pub(crate) fn insert(
        &mut self,
        pool: &MbufPool,
        seq: SeqNum,
        data: Chain,
        max: usize,
    ) -> Inserted {
        let queue = self.0.get_or_insert_default();
        queue.insert(pool, seq, data, max)
    }

    /// Takes the first range if it begins at or before `next`, without its bytes before `next`.
    pub(crate) fn pop(&mut self, next: SeqNum) -> Option<Chain> {
        self.0.as_mut()?.pop(next)
    }

    /// `len` bytes from `start` on arrived a second time. Each acknowledgement reports one duplicate: bytes that
    /// continue the recorded duplicate extend it, any others replace it.
    pub(crate) fn note_duplicate(&mut self, start: SeqNum, len: u32) {
        self.0.get_or_insert_default().note_duplicate(start, len);
    }

    /// `len` bytes from `start` on arrive in order: notes the first of them that are here already.
    pub(crate) fn note_overlap(&mut self, start: SeqNum, len: u32) {
        if let Some(queue) = &mut self.0 {
            queue.note_overlap(start, len);
        }
    }

    /// Whether there is something to report.
    pub(crate) fn has_report(&self) -> bool {
        self.0.as_ref().is_some_and(|q| q.has_report())
    }

    /// The number of unreported blocks: the duplicate, and ranges that have changed.
    pub(crate) fn unreported(&self) -> usize {
        self.0.as_ref().map_or(0, |q| q.unreported())
    }

    /// The blocks that the next acknowledgement reports: the duplicate, which is reported once; then the ranges that
    /// have changed; then the others; those of the latest arrivals first.
    pub(crate) fn take_blocks(&mut self, max: usize) -> SackBlocks {
        let blocks = self.0.as_mut().map(|q| q.take_blocks(max));
        blocks.unwrap_or_default()
    }

    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }
}

impl GapQueue {
    fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    fn is_gap(&self, seq: SeqNum, len: u32) -> bool {
        let next = self.ranges.get(self.first_after(seq));
        len > 0 && next.is_some_and(|range| (seq + len).at_or_before(range.start))
    }

    fn len(&self) -> usize {
        self.ranges.iter().map(|range| range.data.len()).sum()
    }

    fn pinned(&self) -> usize {
        self.ranges.iter().map(|range| range.data.pinned()).sum()
    }

    fn insert(&mut self, pool: &MbufPool, seq: SeqNum, mut data: Chain, max: usize) -> Inserted {
        self.arrivals = self.arrivals.wrapping_add(1);
        let mut start = seq;
        let mut outcome = Inserted::Duplicate;
        let mut noted = false;
        while !data.is_empty() {
            // The first range that ends after our start: those before it stay as they are.
            let at = self.first_after(start);
            let gap = match self.ranges.get_mut(at) {
                Some(range) if !start.before(range.start) => {
                    self.unreported += usize::from(range.touch(self.arrivals));
                    let covered = range.end().since(start).min(data.len() as u32);
                    // Of several parts that are here the first one counts (RFC 2883 4.2.3).
                    if !std::mem::replace(&mut noted, true) {
                        self.note_duplicate(start, covered);
                    }
                    data.trim_front(covered as usize);
                    start += covered;
                    continue;
                }
                Some(range) => range.start.since(start) as usize,
                None => data.len(),
            };
            let len = gap.min(data.len()) as u32;
            let piece = data.take_front(gap);
            if !piece.is_ok_and(|piece| self.put(pool, at, start, piece, max)) {
                return match outcome {
                    Inserted::Kept => outcome,
                    _ => Inserted::Full,
                };
            }
            outcome = Inserted::Kept;
            start += len;
        }
        outcome
    }

    /// The index of the first range that ends after `seq`.
    fn first_after(&self, seq: SeqNum) -> usize {
        self.ranges
            .partition_point(|range| !seq.before(range.end()))
    }

    /// Puts new data before the range at `at`: it extends a touching neighbour, or becomes a range of its own if there
    /// may be one more. Small pieces are packed, so that kept data never pins much more memory than it has bytes.
    fn put(&mut self, pool: &MbufPool, at: usize, start: SeqNum, data: Chain, max: usize) -> bool {
        let full = self.ranges.len() >= max;
        let at = match at.checked_sub(1).and_then(|i| self.ranges.get_mut(i)) {
            Some(range) if range.end() == start => {
                range.data.append_compact(pool, data);
                self.unreported += usize::from(range.touch(self.arrivals));
                at - 1
            }
            _ if full => return false,
            _ => {
                let mut range = QueuedRange {
                    start,
                    data: Chain::new(),
                    arrival: self.arrivals,
                    changed: true,
                };
                self.unreported += 1;
                range.data.append_compact(pool, data);
                self.ranges.insert(at, range);
                at
            }
        };
        self.join_next(at);
        kern::invariant!(self.is_valid());
        true
    }

    /// Joins the range at `at`, which has changed, with the next range if there is no gap between them.
    fn join_next(&mut self, at: usize) {
        let touches = match (self.ranges.get(at), self.ranges.get(at + 1)) {
            (Some(range), Some(next)) => range.end() == next.start,
            _ => false,
        };
        if touches {
            let next = self.ranges.remove(at + 1);
            self.unreported -= usize::from(next.changed);
            self.ranges[at].data.append(next.data);
        }
    }

    fn pop(&mut self, next: SeqNum) -> Option<Chain> {
        if next.before(self.ranges.first()?.start) {
            return None;
        }
        let mut range = self.ranges.remove(0);
        self.unreported -= usize::from(range.changed);
        range.data.trim_front((next - range.start) as usize);
        Some(range.data)
    }

    fn note_overlap(&mut self, seq: SeqNum, len: u32) {
        let end = seq + len;
        let next = self.ranges.get(self.first_after(seq));
        if let Some(range) = next.filter(|range| range.start.before(end)) {
            let start = range.start.max(seq);
            self.note_duplicate(start, range.end().min(end).since(start));
        }
    }

    fn note_duplicate(&mut self, start: SeqNum, len: u32) {
        let continues = !self.duplicate.is_empty() && self.duplicate.right == start;
        if !continues {
            self.duplicate.left = start;
        }
        self.duplicate.right = start + len;
    }

    fn has_report(&self) -> bool {
        !(self.ranges.is_empty() && self.duplicate.is_empty())
    }

    fn unreported(&self) -> usize {
        self.unreported + usize::from(!self.duplicate.is_empty())
    }

    fn take_blocks(&mut self, max: usize) -> SackBlocks {
        let mut blocks = SackBlocks::new();
        if !self.duplicate.is_empty() && max > 0 {
            blocks.push(std::mem::take(&mut self.duplicate));
        }
        let arrivals = self.arrivals;
        let rank = |range: &QueuedRange| (!range.changed, arrivals.wrapping_sub(range.arrival));
        let mut last = None;
        let mut taken = [None; SackBlocks::COUNT_MAX];
        for slot in taken
            .iter_mut()
            .skip(blocks.len())
            .take(max.saturating_sub(blocks.len()))
        {
            let rest =
                (self.ranges.iter().enumerate()).filter(|(_, r)| last.is_none_or(|l| rank(r) > l));
            let Some((at, range)) = rest.min_by_key(|(_, range)| rank(range)) else {
                break;
            };
            last = Some(rank(range));
            *slot = Some(at);
            blocks.push(range.to_block());
        }
        for range in taken.into_iter().flatten() {
            let changed = std::mem::take(&mut self.ranges[range].changed);
            self.unreported -= usize::from(changed);
        }
        blocks
    }

    /// Whether the ranges are sorted, not empty, and do not touch, and the count of changed ones is right.
    fn is_valid(&self) -> bool {
        let ordered = self.ranges.windows(2).all(|w| w[1].start.after(w[0].end()));
        let changed = self.ranges.iter().filter(|range| range.changed).count();
        ordered
            && self.ranges.iter().all(|range| !range.data.is_empty())
            && self.unreported == changed
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
