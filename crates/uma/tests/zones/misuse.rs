//! Misuse that debug builds catch: breaks when a double or foreign free passes silently.

// A panic inside a free leaks memory, which the sanitizer need not report.
#![cfg(all(debug_assertions, not(uma_asan)))]

use crate::common::{builder, free, zone};

#[test]
#[should_panic(expected = "double free")]
fn double_free_is_caught() {
    // Breaks when the free of a free item is taken for a free.
    let zone = zone(256, 256);
    let item = zone.alloc().unwrap();
    free(&zone, item);
    free(&zone, item);
}

#[test]
#[should_panic(expected = "foreign free")]
fn free_into_the_wrong_zone_is_caught() {
    // Breaks when an item of one zone gets into the caches of another.
    let (here, there) = (zone(256, 256), zone(256, 256));
    let item = there.alloc().unwrap();
    free(&here, item);
}

#[test]
#[should_panic(expected = "foreign free")]
fn free_of_the_middle_of_an_item_is_caught() {
    // Breaks when any address in the range is taken for an item.
    let zone = zone(256, 8);
    let item = zone.alloc().unwrap();
    // SAFETY: 8 is within the item.
    free(&zone, unsafe { item.add(8) });
}

#[test]
#[should_panic(expected = "without .refcounts()")]
fn count_of_an_uncounted_item_is_refused() {
    // Breaks when a count is read from a table that is not there.
    let zone = builder(256, 8).build().unwrap();
    let item = zone.alloc().unwrap();
    // SAFETY: the item is live and of this zone.
    let _ = unsafe { zone.refcount(item) };
}
