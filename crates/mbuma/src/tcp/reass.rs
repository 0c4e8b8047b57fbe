//! Data that arrived before its turn, kept until the gap is filled.
//!
//! Ranges are sorted, with a gap between any two, and all after `RCV.NXT`. What arrived first is kept
//! where ranges overlap. The number of ranges is bounded; their bytes are bounded by the window. Data
//! at `RCV.NXT` itself never comes here: it must be taken however full this is.
//!
//! Called by: `text`.

use mbuf::{Chain, MbufPool};
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

    /// Bytes in all ranges.
    pub(crate) fn len(&self) -> usize {
        self.ranges.iter().map(|(_, c)| c.len()).sum()
    }

    /// Bytes of memory that the ranges pin.
    pub(crate) fn pinned(&self) -> usize {
        self.ranges.iter().map(|(_, c)| c.pinned()).sum()
    }

    /// Keeps `data`, which begins at `seq`, as far as it is new.
    pub(crate) fn insert(
        &mut self,
        pool: &MbufPool,
        seq: SeqNum,
        mut data: Chain,
        max: usize,
    ) -> Inserted {
        let mut start = seq;
        let mut outcome = Inserted::Duplicate;
        while !data.is_empty() {
            // The first range that ends after our start: what is before it stays as it is.
            let at = self
                .ranges
                .partition_point(|(s, c)| !start.before(end(*s, c)));
            let gap = match self.ranges.get(at) {
                Some((next, range)) if !start.before(*next) => {
                    let covered = end(*next, range).since(start);
                    data.trim_front(covered as usize);
                    start += covered;
                    continue;
                }
                Some((next, _)) => next.since(start) as usize,
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

    /// Puts new data before the range at `at`: as part of a neighbour that it touches, else as a
    /// range of its own, if there may be one more. Small pieces are packed, so that what is kept
    /// never pins much more than it shows.
    fn put(&mut self, pool: &MbufPool, at: usize, seq: SeqNum, data: Chain, max: usize) -> bool {
        let full = self.ranges.len() >= max;
        let at = match at.checked_sub(1).and_then(|i| self.ranges.get_mut(i)) {
            Some((start, chain)) if end(*start, chain) == seq => {
                chain.append_compact(pool, data);
                at - 1
            }
            _ if full => return false,
            _ => {
                let mut chain = Chain::new();
                chain.append_compact(pool, data);
                self.ranges.insert(at, (seq, chain));
                at
            }
        };
        self.join_next(at);
        kern::invariant!(self.is_valid());
        true
    }

    /// Makes the range at `at` and the next one range if there is no gap between them.
    fn join_next(&mut self, at: usize) {
        let touches = match (self.ranges.get(at), self.ranges.get(at + 1)) {
            (Some((seq, chain)), Some((next, _))) => end(*seq, chain) == *next,
            _ => false,
        };
        if touches {
            let (_, next) = self.ranges.remove(at + 1);
            self.ranges[at].1.append(next);
        }
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

    /// Sorted, none empty, none touching the next.
    fn is_valid(&self) -> bool {
        let ordered = self
            .ranges
            .windows(2)
            .all(|w| w[1].0.after(end(w[0].0, &w[0].1)));
        ordered && self.ranges.iter().all(|(_, c)| !c.is_empty())
    }
}

fn end(seq: SeqNum, data: &Chain) -> SeqNum {
    seq + data.len() as u32
}

#[cfg(test)]
mod tests;
