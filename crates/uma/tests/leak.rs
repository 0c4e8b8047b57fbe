//! The end of zones: breaks when items outlive their memory, or memory outlives its items.
//!
//! One test: the number of leaked zones is of the whole process.

mod common;

use common::{builder, read, write};
use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::Relaxed;
use std::thread;
use uma::leaked_zones;

#[test]
fn items_outlive_their_handles() {
    // Breaks when the last handle takes live items with it, or leaves an empty zone behind.
    let zone = builder(2048, 2048).refcounts().build().unwrap();
    let back = zone.as_ref_ptr();
    let item = zone.alloc().unwrap();
    write(item, 42);
    let clone = zone.clone();
    drop(zone);
    assert_eq!(leaked_zones(), 0, "a clone is a handle");
    drop(clone);
    assert_eq!(leaked_zones(), 1);

    let carried = common::Item(item);
    thread::spawn(move || {
        let carried = carried;
        let item = carried.0;
        assert_eq!(read(item), 42);
        // SAFETY: the live item keeps the zone.
        unsafe { back.refcount(item) }.store(7, Relaxed);
        // SAFETY: as above.
        let another = unsafe { back.alloc() }.unwrap();
        write(another, 43);
        let mut out = [MaybeUninit::uninit(); 100];
        // SAFETY: as above.
        let got = unsafe { back.alloc_bulk(&mut out) };
        assert_eq!(got, out.len());
        // SAFETY: all were written.
        let many: Vec<_> = out
            .iter()
            .map(|entry| unsafe { entry.assume_init() })
            .collect();
        assert_eq!((read(item), read(another)), (42, 43));
        // SAFETY: they are live, of this zone, and different.
        unsafe { back.free_bulk(&many) };
        // SAFETY: it is live and of this zone.
        unsafe { back.free(another) };
        // SAFETY: the live item keeps the zone.
        assert_eq!(unsafe { back.refcount(item) }.load(Relaxed), 7);
        // SAFETY: it is live and of this zone; the last one.
        unsafe { back.free(item) };
    })
    .join()
    .unwrap();
    assert_eq!(leaked_zones(), 0, "the last item ended its zone");

    // A zone whose items are all back goes for good.
    let zone = builder(64, 64).build().unwrap();
    let item = zone.alloc().unwrap();
    common::free(&zone, item);
    drop(zone);
    assert_eq!(leaked_zones(), 0);
}
