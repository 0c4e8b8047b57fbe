//! Breaks when items are lost because the heap has no room for a bucket.

use super::*;
use core::alloc::Layout;

/// More items than any heap has room to point to.
const TOO_MANY: usize = isize::MAX as usize / size_of::<usize>() + 1;

fn zone() -> Inner {
    Inner::for_test(Layout::new::<[u64; 32]>(), 1 << 20, 8)
}

fn check_free_without_buckets(free: impl Fn(&Inner, &[NonNull<u8>])) {
    let mut zone = zone();
    let items: Vec<_> = (0..100).map(|_| zone.alloc().unwrap()).collect();
    zone.drain();
    zone.bucket_items = TOO_MANY;
    free(&zone, &items);
    assert_eq!(zone.live_exact(), 0);
    assert_eq!(
        zone.keg.0.lock().free(),
        64 * 1024 / 256,
        "items went astray"
    );
    assert!(zone.is_valid());
}

#[test]
fn a_free_without_a_bucket_goes_to_the_slab() {
    // Breaks when the slow way forgets the item or its count.
    check_free_without_buckets(|zone, items| {
        for &item in items {
            // SAFETY: each was allocated from the zone and is freed once.
            unsafe { zone.free(item) };
        }
    });
}

#[test]
fn a_bulk_free_without_a_bucket_goes_to_the_slabs() {
    // Breaks when the bulk free drops the item for which there was no room.
    check_free_without_buckets(|zone, items| {
        // SAFETY: as above, and all are different.
        unsafe { zone.free_bulk(items) };
    });
}

#[test]
fn an_allocation_without_a_bucket_fails_cleanly() {
    // Breaks when the heap's refusal is taken for anything but a lack of memory.
    let mut zone = zone();
    zone.bucket_items = TOO_MANY;
    assert_eq!(zone.alloc(), Err(crate::AllocError::NoMemory));
    assert_eq!(zone.live_exact(), 0);
    assert_eq!(zone.failures.get(), 1);
}
