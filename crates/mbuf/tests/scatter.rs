//! Reads that land where they stay.

mod common;

use std::io::{IoSliceMut, Read};

use common::{balanced, check_chain, pattern, pool_of};
use mbuf::{Chain, ClusterSize, Live, Scatter};

const K2: usize = 2048;
const K16: usize = 16384;

/// As readv would: fills the clusters with the bytes, as far as `max` lets it.
fn read(scatter: &mut Scatter, max: usize, mut bytes: &[u8]) -> usize {
    scatter.read(&mut [], max, |slices| {
        let offered: usize = slices.iter().map(|s| s.len()).sum();
        assert!(offered <= max);
        let n = bytes.read_vectored(slices).expect("it is memory");
        assert_eq!(n, offered.min(n + bytes.len()));
        n
    })
}

#[test]
fn a_read_of_any_length_is_taken_exactly() {
    // Breaks if the last cluster of a read that ends on its boundary is lost, or taken early.
    balanced(|pool| {
        let edges = [
            0,
            1,
            K2 - 1,
            K2,
            K2 + 1,
            K2 + K16 - 1,
            K2 + K16,
            K2 + K16 + 1,
            K2 + 2 * K16,
        ];
        let mut scatter = Scatter::for_len(pool, K2 + 2 * K16);
        assert_eq!(scatter.capacity(), K2 + 2 * K16);
        for (i, n) in edges.into_iter().enumerate() {
            let bytes = pattern(i as u8, n);
            scatter.refill().expect("the pool is large");
            assert_eq!(read(&mut scatter, usize::MAX, &bytes), n);
            let chain = scatter.take(n);
            check_chain(&chain, &bytes);
            let clusters = match n {
                0 => 0,
                n => 1 + n.saturating_sub(K2).div_ceil(K16),
            };
            assert_eq!(chain.mbufs(), clusters, "a read of {n}");
        }
    });
}

#[test]
fn the_rest_waits_for_the_next_read() {
    // Breaks if a short read costs the large clusters, or if a refill puts sizes out of order.
    balanced(|pool| {
        let mut scatter = Scatter::for_len(pool, K2 + K16);
        scatter.refill().expect("the pool is large");
        let live = pool.live();
        assert_eq!(
            live,
            Live {
                mbufs: 2,
                clusters: 2,
                tags: 0,
            }
        );
        let mut kept = Vec::new();
        for i in 0..10 {
            let bytes = pattern(i, 60);
            read(&mut scatter, 1514, &bytes);
            kept.push((scatter.take(60), bytes));
            scatter.refill().expect("the pool is large");
        }
        assert_eq!(pool.live().clusters, live.clusters + 10);
        for (chain, bytes) in &kept {
            check_chain(chain, bytes);
            assert!(chain.pinned() < 2 * K2);
        }
        let sizes = |slices: &mut [IoSliceMut<'_>]| slices.iter().map(|s| s.len()).collect();
        let sizes: Vec<usize> = scatter.read(&mut [], usize::MAX, sizes);
        assert_eq!(sizes, [K2, K16]);
    });
}

#[test]
fn a_limit_on_the_read_cuts_the_buffers() {
    // Breaks if the buffers are larger than the limit that the caller gave.
    balanced(|pool| {
        let mut scatter = Scatter::new(pool, &[ClusterSize::K2, ClusterSize::K4, ClusterSize::K16]);
        scatter.refill().expect("the pool is large");
        for max in [0, 1, K2, K2 + 1, K2 + 4096, 10_000, scatter.capacity()] {
            assert_eq!(read(&mut scatter, max, &[1; 40_000]), max);
        }
        // The buffers did not move: the last read's bytes are there.
        check_chain(&scatter.take(10_000), &[1; 10_000]);
    });
}

#[test]
fn taking_too_many_bytes_takes_all_bytes() {
    // Breaks if a count that is too large makes bytes that no read has written.
    balanced(|pool| {
        let mut scatter = Scatter::for_len(pool, 100);
        assert!(scatter.take(10).is_empty());
        scatter.refill().expect("the pool is large");
        assert_eq!(scatter.take(usize::MAX).len(), K2);
        scatter.refill().expect("the pool is large");
        scatter.clear();
        assert!(scatter.take(1).is_empty());
    });
}

#[test]
fn a_chain_from_a_read_can_be_filled_up() {
    // Breaks if an append can't use the room behind a short read.
    balanced(|pool| {
        let mut scatter = Scatter::for_len(pool, 100);
        scatter.refill().expect("the pool is large");
        read(&mut scatter, 100, &[1; 100]);
        let mut chain = scatter.take(100);
        chain.append_compact(
            pool,
            Chain::from_slice(pool, &[2; 5]).expect("the pool is large"),
        );
        chain
            .extend_from_slice(pool, &[3; 500])
            .expect("the pool is large");
        assert_eq!(chain.len(), 605);
        assert!(chain.mbufs() <= 3 && chain.is_valid());
    });
}

#[test]
fn the_last_handle_may_be_the_scatter_s() {
    // Breaks if the pool goes before its clusters: its zones would be leaked.
    let pool = pool_of(100, 1 << 20);
    let mut scatter = Scatter::for_len(&pool, 100);
    drop(pool);
    scatter.refill().expect("the pool is large");
    let leaked = uma::leaked_zones();
    drop(scatter);
    assert_eq!(uma::leaked_zones(), leaked);
}
