//! Several items at once: breaks when a batch loses one, lets a foreign one in, or leaves the CPU's
//! own buckets where these could serve it.

use crate::common::{assert_balance, builder, free};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use uma::RawZone;

fn alloc_bulk(zone: &RawZone, n: usize) -> Vec<NonNull<u8>> {
    let mut out = vec![MaybeUninit::uninit(); n];
    assert_eq!(zone.alloc_bulk(&mut out), n);
    // SAFETY: all of them were written.
    out.iter()
        .map(|item| unsafe { item.assume_init() })
        .collect()
}

fn free_bulk(zone: &RawZone, items: &[NonNull<u8>]) {
    // SAFETY: tests free what they allocated from this zone, once.
    unsafe { zone.free_bulk(items) }
}

#[test]
fn a_batch_across_two_buckets_stays_with_its_cpu() {
    // Breaks when buckets are exchanged for a batch that lies across the two of its CPU: then each
    // of the batches below would go the slow way, and come back by it.
    const BUCKET_ITEMS: usize = 16;
    const BATCH: usize = 12;
    crate::common::pin(0);
    let zone = builder(256, 64).bucket_items(BUCKET_ITEMS).sample_every(0);
    let zone = zone.build().expect("there is address space");
    for held in 0..3 * BUCKET_ITEMS {
        let first = alloc_bulk(&zone, held);
        // The way to where they are now may be any.
        for _ in 0..2 {
            free_bulk(&zone, &alloc_bulk(&zone, BATCH));
        }
        let before = zone.stats().misses;
        for _ in 0..50 {
            free_bulk(&zone, &alloc_bulk(&zone, BATCH));
        }
        // A clock tick may be in the way once or twice, not fifty times.
        let misses = zone.stats().misses - before;
        assert!(misses < 10, "{held} held: {misses} of 50 batches");
        first.into_iter().for_each(|item| free(&zone, item));
    }
    assert_balance(&zone);
}

#[test]
fn items_anywhere_in_the_range_are_known() {
    // Breaks when the check of a whole batch takes an item in the upper part of a range whose length is no
    // power of two for an item of another zone, or forgets to put such a batch down.
    for slabs in [1, 3, 5] {
        let zone = builder(4096, 64).reserve_bytes(slabs * (64 << 10));
        let zone = zone
            .sample_every(0)
            .build()
            .expect("there is address space");
        let all: Vec<_> = core::iter::from_fn(|| zone.alloc().ok()).collect();
        // Redzones, where there are any, take some.
        assert!(all.len() > slabs * 12, "{} items", all.len());
        for items in all.chunks(7) {
            free_bulk(&zone, items);
        }
        assert_balance(&zone);
    }
}

#[test]
fn an_empty_batch_is_not_counted() {
    // Breaks when a batch of none is counted, or goes the slow way.
    let zone = crate::common::zone(256, 64);
    free_bulk(&zone, &alloc_bulk(&zone, 0));
    assert_eq!((zone.stats().misses, zone.stats().requests), (0, 0));
    assert_balance(&zone);
}

// A panic inside a free leaks memory, which the sanitizer need not report.
#[cfg(not(uma_asan))]
#[test]
#[should_panic(expected = "foreign free")]
fn a_foreign_item_in_a_batch_is_caught() {
    // Breaks when one item of another zone gets into the caches among many of ours.
    let (here, there) = (crate::common::zone(256, 64), crate::common::zone(256, 64));
    let mut items = alloc_bulk(&here, 9);
    items[4] = there.alloc().expect("there is one");
    free_bulk(&here, &items);
}
