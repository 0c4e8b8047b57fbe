//! Cache-only zones: breaks when an imported item is lost, released twice, or refused while there
//! is one.

use crate::common::{Item, free};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use uma::{AllocError, Import, Imported, RawZone};

/// A store of boxes, of which there are so many.
#[derive(Clone)]
struct Boxes(Arc<Mutex<Shelf>>);

struct Shelf {
    items: Vec<Item>,
    calls: usize,
}

impl Boxes {
    fn new(count: usize) -> Self {
        let items = (0..count).map(|_| Item(NonNull::from(Box::leak(Box::new(0_u64))).cast()));
        Self(Arc::new(Mutex::new(Shelf {
            items: items.collect(),
            calls: 0,
        })))
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().items.len()
    }

    fn zone(&self, limit: usize) -> RawZone {
        let builder = RawZone::builder("boxes", core::alloc::Layout::new::<u64>());
        let zone = builder.limit(limit).build_cache_only(self.clone());
        zone.expect("it needs nothing")
    }
}

impl Import for Boxes {
    fn import(&self, items: &mut Imported<'_>) {
        kern::witness::assert_none("import");
        let mut shelf = self.0.lock().unwrap();
        shelf.calls += 1;
        while items.room() > 0
            && let Some(Item(item)) = shelf.items.pop()
        {
            // SAFETY: a box that left the shelf, on which `release` puts it again.
            unsafe { items.push(item) };
        }
    }

    unsafe fn release(&self, items: &[NonNull<u8>]) {
        kern::witness::assert_none("release");
        let mut shelf = self.0.lock().unwrap();
        for &item in items {
            assert!(
                shelf.items.iter().all(|known| known.0 != item),
                "released twice"
            );
            shelf.items.push(Item(item));
        }
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        for Item(item) in self.items.drain(..) {
            // SAFETY: from Box::leak in `new`, and back on the shelf, so no thread uses it.
            drop(unsafe { Box::from_raw(item.cast::<u64>().as_ptr()) });
        }
    }
}

#[test]
fn the_end_of_a_zone_releases_all_imported_items() {
    // Breaks when the end of the zone loses the items of its caches.
    let boxes = Boxes::new(500);
    let zone = boxes.zone(usize::MAX);
    for round in 1..=3 {
        let held: Vec<_> = (0..round * 100).map(|_| zone.alloc().unwrap()).collect();
        held.into_iter().for_each(|item| free(&zone, item));
    }
    assert_eq!((zone.live(), zone.stats().bytes), (0, 0));
    zone.drain();
    assert_eq!(boxes.len(), 500);
    let item = zone.alloc().unwrap();
    drop(zone.clone());
    free(&zone, item);
    drop(zone);
    assert_eq!(boxes.len(), 500);
}

/// A store that pushes more than there is room for.
struct Pushy;

impl Import for Pushy {
    fn import(&self, items: &mut Imported<'_>) {
        assert_eq!((items.len(), items.is_empty()), (0, true));
        loop {
            // SAFETY: a name that nothing touches, as these items have no hooks and no users.
            unsafe { items.push(NonNull::dangling()) };
        }
    }

    unsafe fn release(&self, _: &[NonNull<u8>]) {}
}

#[test]
#[should_panic(expected = "out of bounds")]
fn no_store_writes_past_its_room() {
    // Breaks when the zone trusts an import: a number that is too great would make pointers of memory that was never
    // written, and a push too many would write past the bucket.
    let zone = RawZone::builder("pushy", core::alloc::Layout::new::<u64>());
    let _ = zone
        .build_cache_only(Pushy)
        .expect("it needs nothing")
        .alloc();
}

#[test]
fn items_are_imported_by_the_bucket() {
    // Breaks when each allocation goes to the store.
    let boxes = Boxes::new(1000);
    let zone = boxes.zone(usize::MAX);
    for _ in 0..10_000 {
        let item = zone.alloc().unwrap();
        free(&zone, item);
    }
    let calls = boxes.0.lock().unwrap().calls;
    assert!(calls <= 2 * kern::cpu::count(), "{calls} calls");
}

#[test]
fn a_store_that_runs_short_gives_all_it_has() {
    // Breaks when an import of fewer than asked for is taken for none, or for all.
    let boxes = Boxes::new(37);
    let zone = boxes.zone(usize::MAX);
    let held: Vec<_> = std::iter::from_fn(|| zone.alloc().ok()).collect();
    assert_eq!(held.len(), 37);
    assert_eq!(zone.alloc(), Err(AllocError::NoMemory));
    free(&zone, held[0]);
    assert_eq!(zone.alloc(), Ok(held[0]));
    held.into_iter().for_each(|item| free(&zone, item));
    drop(zone);
    assert_eq!(boxes.len(), 37);
}

#[test]
fn an_import_store_fails_exactly_at_the_limit() {
    // Breaks when cached items, or the part of an import that did not come, count as live.
    let boxes = Boxes::new(100);
    let zone = boxes.zone(20);
    for _ in 0..50 {
        let held: Vec<_> = (0..20).map(|_| zone.alloc().unwrap()).collect();
        assert_eq!(zone.alloc(), Err(AllocError::Limit));
        held.into_iter().for_each(|item| free(&zone, item));
    }
    zone.set_limit(None);
    let held: Vec<_> = (0..100).map(|_| zone.alloc().unwrap()).collect();
    assert_eq!(zone.alloc(), Err(AllocError::NoMemory));
    held.into_iter().for_each(|item| free(&zone, item));
    drop(zone);
    assert_eq!(boxes.len(), 100);
}

#[test]
fn an_allocation_waits_for_items_in_transit() {
    // Breaks when an allocation fails while another thread is importing or releasing.
    const THREADS: u64 = 4;
    let boxes = Boxes::new(8);
    let zone = boxes.zone(usize::MAX);
    thread::scope(|scope| {
        for n in 0..THREADS {
            let zone = &zone;
            scope.spawn(move || {
                crate::common::pin(n);
                for i in 0..if cfg!(miri) { 50 } else { 5000 } {
                    let items = [zone.alloc(), zone.alloc()];
                    for item in items {
                        let item = item.unwrap_or_else(|error| panic!("round {i}: {error}"));
                        free(zone, item);
                    }
                }
            });
        }
    });
    assert_eq!(zone.live(), 0);
    drop(zone);
    assert_eq!(boxes.len(), 8);
}

/// Names from a number on, for things that are not memory.
struct Names(AtomicUsize);

impl Import for Names {
    fn import(&self, items: &mut Imported<'_>) {
        while items.room() > 0 {
            let name = self.0.fetch_add(8, Relaxed);
            let name = NonNull::new(core::ptr::without_provenance_mut(name));
            // SAFETY: names that no user of these tests touches.
            unsafe { items.push(name.expect("no name is 0")) };
        }
    }

    unsafe fn release(&self, _: &[NonNull<u8>]) {}
}

fn names_from(first: usize) -> RawZone {
    let builder = RawZone::builder("names", core::alloc::Layout::new::<u64>());
    let zone = builder.build_cache_only(Names(AtomicUsize::new(first)));
    zone.expect("it needs nothing")
}

#[test]
#[should_panic(expected = "may be names, and not memory")]
fn a_typed_zone_is_not_built_on_imported_names() {
    // Breaks when safe code can write a value to the address that is only a name.
    let names = names_from(8);
    let _ = uma::Zone::<u64>::build(names.secondary("typed"));
}

#[test]
#[should_panic(expected = "address is positive")]
fn a_name_that_a_section_cannot_return_is_refused() {
    // Breaks when an item of the upper half of the numbers is taken for "no item", and is lost.
    let names = names_from((1 << 63) | 8);
    let _ = names.alloc();
}
