//! Data that arrived before its turn, kept until the gap is filled.
//!
//! Ranges are sorted, disjoint and all after `RCV.NXT`. What arrived first is kept where ranges
//! overlap. The number of ranges is bounded; their bytes are bounded by the window.
//!
//! Called by: `text`.

use mbuf::Chain;
use wire::SeqNum;

/// Out-of-order ranges of one connection.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    ranges: Vec<(SeqNum, Chain)>,
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

    /// Bytes of memory that the ranges pin.
    pub(crate) fn pinned(&self) -> usize {
        self.ranges.iter().map(|(_, c)| c.pinned()).sum()
    }

    /// Keeps `data`, which begins at `seq`, as far as it is new.
    pub(crate) fn insert(&mut self, seq: SeqNum, mut data: Chain, max: usize) -> Inserted {
        let mut start = seq;
        // The first range that ends after our start: what is before it stays as it is.
        let mut at = self.ranges.partition_point(|(s, c)| !start.before(end(*s, c)));
        let mut outcome = Inserted::Duplicate;
        while !data.is_empty() {
            let Some((next, range)) = self.ranges.get(at) else {
                return self.put(at, start, data, max, outcome);
            };
            let (next, next_end) = (*next, end(*next, range));
            if start.before(next) {
                let gap = (next - start) as usize;
                if data.len() <= gap {
                    return self.put(at, start, data, max, outcome);
                }
                let Ok(front) = data.take_front(gap) else { return outcome };
                if self.put(at, start, front, max, outcome) == Inserted::Full {
                    return Inserted::Full;
                }
                outcome = Inserted::Kept;
                at += 1;
                start = next;
            }
            let covered = (next_end - start) as usize;
            data.trim_front(covered);
            start = next_end;
            at += 1;
        }
        outcome
    }

    fn put(&mut self, at: usize, seq: SeqNum, data: Chain, max: usize, so_far: Inserted) -> Inserted {
        if self.ranges.len() >= max {
            return if so_far == Inserted::Kept { so_far } else { Inserted::Full };
        }
        self.ranges.insert(at, (seq, data));
        debug_assert!(self.is_valid());
        Inserted::Kept
    }

    /// Takes the first range if it begins at or before `next`, without what came before `next`.
    pub(crate) fn pop(&mut self, next: SeqNum) -> Option<Chain> {
        let (seq, _) = self.ranges.first()?;
        if next.before(*seq) {
            return None;
        }
        let (seq, mut data) = self.ranges.remove(0);
        data.trim_front((next - seq) as usize);
        Some(data)
    }

    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Sorted, disjoint, none empty.
    fn is_valid(&self) -> bool {
        let ordered = self.ranges.windows(2).all(|w| !w[1].0.before(end(w[0].0, &w[0].1)));
        ordered && self.ranges.iter().all(|(_, c)| !c.is_empty())
    }
}

fn end(seq: SeqNum, data: &Chain) -> SeqNum {
    seq + data.len() as u32
}
