//! Data that arrived before its turn, kept until the gap is filled, and what the receiver reports of it.
//!
//! 1. Ranges are sorted, with a gap between any two, and all after `RCV.NXT`.
//! 2. Where an arriving segment overlaps a range, the bytes that arrived first are kept.
//! 3. The number of ranges is bounded; their bytes are bounded by the window.
//! 4. Data at `RCV.NXT` itself never comes here: the receiver must take it however full the queue is.
//! 5. What was kept stays until its turn comes or the connection ends. So a block that was reported is never taken
//!    back, as RFC 2018 section 8 would allow: where memory is short, new data is dropped.
//!
//! Each range has the number of its latest arrival. SACK reports ranges in that order, latest first (RFC 2018 4), behind
//! the duplicate that arrived last, if there is one (RFC 2883 4).
//!
//! Sources: RFC 9293 3.10.7.4, RFC 2018, RFC 2883.

use mbuf::{Chain, MbufPool};
use wire::{SackBlock, SackBlocks, SeqNum};

/// Out-of-order ranges of one connection.
#[doc(alias = "t_segq")]
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    ranges: Vec<QueuedRange>,
    /// The number of the latest arrival. It wraps; ranges are compared by their distance to it.
    arrivals: u32,
    /// What arrived a second time and was not reported yet; empty if there is nothing to report.
    duplicate: SackBlock,
}

/// Bytes without a gap between them.
#[derive(Debug)]
struct QueuedRange {
    start: SeqNum,
    data: Chain,
    /// The number of the latest arrival that brought some of it.
    arrival: u32,
}

impl QueuedRange {
    fn end(&self) -> SeqNum {
        self.start + self.data.len() as u32
    }

    fn to_block(&self) -> SackBlock {
        SackBlock {
            left: self.start,
            right: self.end(),
        }
    }
}

/// What became of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Inserted {
    /// Some of it is kept.
    Kept,
    /// All of it was there before.
    Duplicate,
    /// There were too many ranges; it was dropped.
    Full,
}

impl Reassembly {
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Bytes in all ranges.
    pub(crate) fn len(&self) -> usize {
        self.ranges.iter().map(|range| range.data.len()).sum()
    }

    /// Bytes of memory that the ranges pin.
    pub(crate) fn pinned(&self) -> usize {
        self.ranges.iter().map(|range| range.data.pinned()).sum()
    }

    /// Keeps `data`, which begins at `seq`, as far as it is new.
    pub(crate) fn insert(
        &mut self,
        pool: &MbufPool,
        seq: SeqNum,
        mut data: Chain,
        max: usize,
    ) -> Inserted {
        self.arrivals = self.arrivals.wrapping_add(1);
        let mut start = seq;
        let mut outcome = Inserted::Duplicate;
        while !data.is_empty() {
            // The first range that ends after our start: what is before it stays as it is.
            let at = self.first_after(start);
            let gap = match self.ranges.get_mut(at) {
                Some(range) if !start.before(range.start) => {
                    range.arrival = self.arrivals;
                    let covered = range.end().since(start).min(data.len() as u32);
                    self.note_duplicate(start, covered);
                    data.trim_front(covered as usize);
                    start += covered;
                    continue;
                }
                Some(range) => range.start.since(start) as usize,
                None => data.len(),
            };
            let Ok(piece) = data.take_front(gap) else {
                return outcome;
            };
            let len = piece.len() as u32;
            if !self.put(pool, at, start, piece, max) {
                return if outcome == Inserted::Kept {
                    outcome
                } else {
                    Inserted::Full
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

    /// Puts new data before the range at `at`: as part of a neighbour that it touches, else as a
    /// range of its own, if there may be one more. Small pieces are packed, so that what is kept
    /// never pins much more than it shows.
    fn put(&mut self, pool: &MbufPool, at: usize, start: SeqNum, data: Chain, max: usize) -> bool {
        let full = self.ranges.len() >= max;
        let at = match at.checked_sub(1).and_then(|i| self.ranges.get_mut(i)) {
            Some(range) if range.end() == start => {
                range.data.append_compact(pool, data);
                range.arrival = self.arrivals;
                at - 1
            }
            _ if full => return false,
            _ => {
                let mut range = QueuedRange {
                    start,
                    data: Chain::new(),
                    arrival: self.arrivals,
                };
                range.data.append_compact(pool, data);
                self.ranges.insert(at, range);
                at
            }
        };
        self.join_next(at);
        kern::invariant!(self.is_valid());
        true
    }

    /// Makes the range at `at`, which some of this arrival is in, and the next one range if there is no gap between them.
    fn join_next(&mut self, at: usize) {
        let touches = match (self.ranges.get(at), self.ranges.get(at + 1)) {
            (Some(range), Some(next)) => range.end() == next.start,
            _ => false,
        };
        if touches {
            let next = self.ranges.remove(at + 1);
            self.ranges[at].data.append(next.data);
        }
    }

    /// Takes the first range if it begins at or before `next`, without what came before `next`.
    pub(crate) fn pop(&mut self, next: SeqNum) -> Option<Chain> {
        if next.before(self.ranges.first()?.start) {
            return None;
        }
        let mut range = self.ranges.remove(0);
        range.data.trim_front((next - range.start) as usize);
        Some(range.data)
    }

    /// `len` bytes from `start` on arrived a second time. One duplicate is reported with each acknowledgement: what
    /// continues the one before is reported with it, anything else in its place.
    pub(crate) fn note_duplicate(&mut self, start: SeqNum, len: u32) {
        let continues = !self.duplicate.is_empty() && self.duplicate.right == start;
        if !continues {
            self.duplicate.left = start;
        }
        self.duplicate.right = start + len;
    }

    /// Whether there is something to report.
    pub(crate) fn has_report(&self) -> bool {
        !(self.ranges.is_empty() && self.duplicate.is_empty())
    }

    /// The blocks that the next acknowledgement reports: the duplicate, which is reported once, then the ranges, those of
    /// the latest arrivals first.
    pub(crate) fn take_blocks(&mut self, max: usize) -> SackBlocks {
        let mut blocks = SackBlocks::new();
        if !self.duplicate.is_empty() && max > 0 {
            blocks.push(std::mem::take(&mut self.duplicate));
        }
        let age = |range: &QueuedRange| self.arrivals.wrapping_sub(range.arrival);
        let mut youngest = None;
        while blocks.len() < max.min(SackBlocks::COUNT_MAX) {
            let older = self
                .ranges
                .iter()
                .filter(|range| youngest.is_none_or(|y| age(range) > y));
            let Some(next) = older.min_by_key(|range| age(range)) else {
                break;
            };
            youngest = Some(age(next));
            blocks.push(next.to_block());
        }
        blocks
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Sorted, none empty, none touching the next, no two with the same arrival.
    fn is_valid(&self) -> bool {
        let ordered = self.ranges.windows(2).all(|w| w[1].start.after(w[0].end()));
        ordered && self.ranges.iter().all(|range| !range.data.is_empty())
    }
}

#[cfg(test)]
mod tests;
