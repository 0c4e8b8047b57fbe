//! The ends of records in the stream that a program sends: no segment carries bytes of two records.
//!
//! TCP itself keeps no bounds. But a program whose peer reads segment by segment (a device, a measurement) may want
//! each message to begin a segment.
//!
//! Invariant: the ends ascend, and none is acknowledged. Locks: none; part of the connection.
//! Source: POSIX, MSG_EOR, with the meaning that Linux gives it for TCP.

use std::collections::VecDeque;

use wire::SeqNum;

/// The ends of records that are not acknowledged. The program's send buffer bounds their number: a record has a byte at
/// least.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecordEnds(VecDeque<SeqNum>);

impl RecordEnds {
    /// Adds a record that ends before `end`.
    pub(crate) fn add(&mut self, end: SeqNum) {
        if self.0.back() != Some(&end) {
            self.0.push_back(end);
        }
    }

    /// How many of the `len` bytes from `seq` on belong to the first record.
    pub(crate) fn within(&self, seq: SeqNum, len: u32) -> u32 {
        let next = self.0.partition_point(|end| end.at_or_before(seq));
        self.0.get(next).map_or(len, |end| len.min(end.since(seq)))
    }

    /// All before `una` is acknowledged.
    pub(crate) fn forget_before(&mut self, una: SeqNum) {
        let acked = self.0.partition_point(|end| end.at_or_before(una));
        self.0.drain(..acked);
        if self.0.is_empty() {
            self.0 = VecDeque::new();
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_one_record_end_with_it() {
        // Breaks when a segment may carry bytes of two records, also where sequence numbers wrap, or when an end that
        // is acknowledged cuts later data.
        let zero = SeqNum(u32::MAX - 100);
        let mut ends = RecordEnds::default();
        assert_eq!(ends.within(zero, 5000), 5000);
        for end in [50, 50, 1050] {
            ends.add(zero + end);
        }
        assert_eq!(ends.within(zero, 5000), 50);
        assert_eq!(ends.within(zero, 20), 20);
        assert_eq!(ends.within(zero + 50, 5000), 1000);
        assert_eq!(ends.within(zero + 1050, 5000), 5000);
        ends.forget_before(zero + 50);
        assert_eq!(ends.within(zero + 51, 5000), 999);
        ends.forget_before(zero + 2000);
        assert_eq!(ends.0.capacity(), 0, "memory goes with what was in flight");
    }
}
