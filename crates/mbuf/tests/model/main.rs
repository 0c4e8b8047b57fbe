//! Random sequences of all operations on several packets and chains at once, against vectors.
//!
//! Storage is shared between them as the operations have it, so every one is compared after every
//! step: a write that another one can see is found at once. Pools are sometimes so small that
//! operations fail in the middle of a sequence.

#[path = "../common/mod.rs"]
mod common;
mod ops;
mod world;

use common::{pool_of, sized};
use mbuf::{Live, MbufPool};
use ops::{Make, Op, op};
use proptest::prelude::*;
use world::World;

fn run(pool: MbufPool, ops: &[Op]) -> usize {
    let mut world = World::new(pool.clone());
    let mut failed = 0;
    for op in ops {
        failed += usize::from(world.step(op).is_err());
        world.check();
    }
    drop(world);
    assert_eq!(pool.live(), Live::NONE, "leaked");
    failed
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(sized(300, 3) as u32)
    })]

    #[test]
    fn operations_agree_with_vectors(ops in prop::collection::vec(op(), 1..sized(80, 15))) {
        // Breaks if any operation shows a wrong byte, writes another's, or leaks.
        run(pool_of(1 << 20, 64 << 20), &ops);
    }

    #[test]
    fn operations_that_find_no_buffers_change_nothing(
        ops in prop::collection::vec(op(), 1..sized(80, 15)),
        mbufs_max in 1usize..40,
        cluster_bytes_max in 2048usize..100_000,
    ) {
        // Breaks if a failure halfway leaves half of the change behind, or leaks the other half.
        run(pool_of(mbufs_max, cluster_bytes_max), &ops);
    }
}

#[test]
fn small_pools_do_run_out() {
    // Breaks if the test above tests nothing: in a pool of one mbuf, the second must fail.
    let pool = pool_of(1, 2048);
    let mut world = World::new(pool.clone());
    let one = Op::Make(Make::Plain { len: 1 });
    assert!(world.step(&one).is_ok());
    assert!(world.step(&one).is_err());
    world.items.clear();
    assert!(world.step(&one).is_ok());
    drop(world);
    assert_eq!(pool.live(), Live::NONE, "leaked");
}
