//! Tests of the check of out-of-order ranges.

use std::panic::{self, AssertUnwindSafe};

use mbuf::{Live, PoolConfig};
use proptest::prelude::*;

use super::*;

const RANGES_MAX: usize = 16;

fn chain(pool: &MbufPool, len: usize) -> Chain {
    Chain::from_slice(pool, &vec![7; len]).expect("a new pool has room")
}

/// Breaks if the check misses a planted mistake, two ranges in the wrong order, where invariants are on, or runs where
/// they are off.
#[test]
fn a_broken_row_of_ranges_is_found_where_invariants_are_checked() {
    let pool = MbufPool::new(PoolConfig::default()).expect("address space");
    let mut reass = GapQueue::default();
    for seq in [2_000, 1_000] {
        reass.ranges.push(QueuedRange {
            start: SeqNum(seq),
            data: chain(&pool, 100),
            arrival: 0,
            changed: false,
        });
    }
    assert!(!reass.is_valid());
    let data = chain(&pool, 10);
    let insert = || reass.insert(&pool, SeqNum(5_000), data, RANGES_MAX);
    let panicked = panic::catch_unwind(AssertUnwindSafe(insert)).is_err();
    assert_eq!(panicked, kern::invariant::ENABLED);
    drop(reass);
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if the check reports correct ranges, in whatever order they came.
#[test]
fn a_sound_row_passes() {
    let pool = MbufPool::new(PoolConfig::default()).expect("address space");
    let mut reass = GapQueue::default();
    for (seq, outcome) in [
        (5_000, Inserted::Kept),
        (1_000, Inserted::Kept),
        (1_050, Inserted::Kept),
        (1_020, Inserted::Duplicate),
        (4_950, Inserted::Kept),
    ] {
        let inserted = reass.insert(&pool, SeqNum(seq), chain(&pool, 100), RANGES_MAX);
        assert_eq!(inserted, outcome, "{seq}");
    }
    assert!(reass.is_valid());
    assert_eq!((reass.ranges.len(), reass.len()), (2, 300));
    drop(reass);
    assert_eq!(pool.live(), Live::NONE);
}

/// Where the model's sequence numbers begin: they wrap inside of it.
const BASE: SeqNum = SeqNum(u32::MAX - 150);

/// One flag a byte, and the first byte of each arrival.
#[derive(Default)]
struct ByteMap {
    here: Vec<bool>,
    arrivals: Vec<usize>,
}

impl ByteMap {
    /// Takes bytes `from..from + len`; returns the first run of them that was here before.
    fn insert(&mut self, from: usize, len: usize) -> Option<SackBlock> {
        self.here.resize(self.here.len().max(from + len), false);
        let end = from + len;
        let start = (from..end).find(|&i| self.here[i]);
        let duplicate = start.map(|start| {
            let after = (start..end).find(|&i| !self.here[i]);
            block(start, after.unwrap_or(end))
        });
        self.here[from..from + len].fill(true);
        self.arrivals.push(from);
        duplicate
    }

    fn run_at(&self, at: usize) -> SackBlock {
        let start = (0..at).rfind(|&i| !self.here[i]).map_or(0, |i| i + 1);
        let end = (at..self.here.len()).find(|&i| !self.here[i]);
        block(start, end.unwrap_or(self.here.len()))
    }

    /// The runs, those of the latest arrivals first.
    fn runs(&self) -> Vec<SackBlock> {
        let mut runs = Vec::new();
        for &at in self.arrivals.iter().rev() {
            let run = self.run_at(at);
            if !runs.contains(&run) {
                runs.push(run);
            }
        }
        runs
    }
}

fn block(from: usize, to: usize) -> SackBlock {
    SackBlock {
        left: BASE + from as u32,
        right: BASE + to as u32,
    }
}

proptest! {
    /// Breaks if a block is reported that is not here, in another order than RFC 2018 4 has it, or if a duplicate is
    /// reported wrong, twice or not at all (RFC 2883 4).
    #[test]
    fn blocks_are_those_of_a_map_of_bytes(
        segments in prop::collection::vec((0..300_usize, 1..40_usize), 1..40),
        max in 1..=4_usize,
    ) {
        let pool = MbufPool::new(PoolConfig::default()).expect("address space");
        let (mut reass, mut map) = (GapQueue::default(), ByteMap::default());
        for (from, len) in segments {
            let data = chain(&pool, len);
            let _ = reass.insert(&pool, BASE + from as u32, data, usize::MAX);
            let duplicate = map.insert(from, len);
            let mut expected: Vec<_> = duplicate.into_iter().chain(map.runs()).collect();
            expected.truncate(max);
            prop_assert!(reass.has_report());
            let blocks = reass.take_blocks(max);
            prop_assert_eq!(blocks.as_slice(), expected.as_slice());
        }
        prop_assert_eq!(reass.len(), map.here.iter().filter(|here| **here).count());
    }
}

/// Breaks if bytes without room are reported, or a reported block is dropped when there is no room.
#[test]
fn what_is_dropped_is_not_reported_and_what_was_reported_stays() {
    let pool = MbufPool::new(PoolConfig::default()).expect("address space");
    let mut reass = GapQueue::default();
    for n in 0..4 {
        let data = chain(&pool, 100);
        assert_eq!(reass.insert(&pool, BASE + 200 * n, data, 4), Inserted::Kept);
    }
    let before = reass.take_blocks(4);
    let dropped = reass.insert(&pool, BASE + 1000, chain(&pool, 100), 4);
    assert_eq!(dropped, Inserted::Full);
    assert_eq!(reass.take_blocks(4), before);
    drop(reass);
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if data for which there is no memory counts as a duplicate, and so as delivered.
#[test]
fn data_that_does_not_fit_into_memory_is_dropped() {
    let config = PoolConfig {
        mbufs_max: 100,
        ..PoolConfig::default()
    };
    let pool = MbufPool::new(config).expect("address space");
    let mut reass = GapQueue::default();
    let later = chain(&pool, 100);
    assert_eq!(reass.insert(&pool, BASE + 100, later, 4), Inserted::Kept);
    // The half of it that is new takes an mbuf of its own.
    let data = chain(&pool, 200);
    let others: Vec<_> = std::iter::from_fn(|| Chain::from_slice(&pool, &[7]).ok()).collect();
    assert_eq!(reass.insert(&pool, BASE, data, 4), Inserted::Full);
    assert_eq!(reass.len(), 100);
    drop((reass, others));
    assert_eq!(pool.live(), Live::NONE);
}
