//! The ranges that must be retransmitted: lost records that follow each other are one run.
//!
//! If a whole window is lost, the records are thousands and the run is one, so each repair finds the next range without
//! a walk over the rest.
//!
//! Invariant: runs are not empty, ascend, and do not touch. Locks: none; part of the connection.

use std::collections::VecDeque;
use std::ops::Range;

use wire::SeqNum;

/// The runs in the order of sequence numbers.
#[derive(Debug, Default)]
pub(super) struct LostRuns(VecDeque<Range<SeqNum>>);

impl LostRuns {
    pub(super) fn first(&self) -> Option<Range<SeqNum>> {
        self.0.front().cloned()
    }

    /// Adds a range, of which nothing was lost until now.
    pub(super) fn add(&mut self, range: Range<SeqNum>) {
        let at = self.0.partition_point(|r| r.end.before(range.start));
        let left = self.0.get(at).is_some_and(|r| r.end == range.start);
        let next = at + usize::from(left);
        let right = self.0.get(next).is_some_and(|r| r.start == range.end);
        match (left, right) {
            (true, true) => {
                self.0[at].end = self.0[next].end;
                self.0.remove(next);
            }
            (true, false) => self.0[at].end = range.end,
            (false, true) => self.0[at].start = range.start,
            (false, false) => self.0.insert(at, range),
        }
    }

    /// Removes a range, of which parts may be lost.
    pub(super) fn remove(&mut self, range: &Range<SeqNum>) {
        let from = self.0.partition_point(|r| r.end.at_or_before(range.start));
        let to = self.0.partition_point(|r| r.start.before(range.end));
        if from >= to {
            return;
        }
        let before = self.0[from].start..range.start;
        let behind = range.end..self.0[to - 1].end;
        self.0.drain(from..to);
        for rest in [behind, before] {
            if rest.start.before(rest.end) {
                self.0.insert(from, rest);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether it has exactly the lost ones of these records.
    #[cfg(all(test, not(shuttle)))]
    pub(super) fn are_of<'a>(&self, records: impl Iterator<Item = &'a super::SentRecord>) -> bool {
        let mut all = Self::default();
        for record in records.filter(|r| r.lost) {
            match all.0.back_mut() {
                Some(last) if last.end == record.start => last.end = record.end,
                _ => all.0.push_back(record.start..record.end),
            }
        }
        self.0 == all.0
    }
}
