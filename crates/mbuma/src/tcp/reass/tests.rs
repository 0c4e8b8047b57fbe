//! Tests of out-of-order ranges: that they are found broken when they are.

use std::panic::{self, AssertUnwindSafe};

use mbuf::{Live, PoolConfig};

use super::*;

const RANGES_MAX: usize = 16;

fn chain(pool: &MbufPool, len: usize) -> Chain {
    Chain::from_slice(pool, &vec![7; len]).expect("a new pool has room")
}

/// Breaks if a planted mistake, two ranges in the wrong order, goes unseen where invariants are checked,
/// or is looked for where they are not.
#[test]
fn a_broken_row_of_ranges_is_found_where_invariants_are_checked() {
    let pool = MbufPool::new(PoolConfig::default()).expect("address space");
    let mut reass = Reassembly::default();
    for seq in [2_000, 1_000] {
        reass.ranges.push((SeqNum(seq), chain(&pool, 100)));
    }
    assert!(!reass.is_valid());
    let data = chain(&pool, 10);
    let insert = || reass.insert(&pool, SeqNum(5_000), data, RANGES_MAX);
    let panicked = panic::catch_unwind(AssertUnwindSafe(insert)).is_err();
    assert_eq!(panicked, kern::invariant::ENABLED);
    drop(reass);
    assert_eq!(pool.live(), Live::NONE);
}

/// Breaks if a sound row is taken for a broken one, whatever order its ranges came in.
#[test]
fn a_sound_row_passes() {
    let pool = MbufPool::new(PoolConfig::default()).expect("address space");
    let mut reass = Reassembly::default();
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
    reass.clear();
    assert_eq!(pool.live(), Live::NONE);
}
