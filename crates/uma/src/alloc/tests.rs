//! Breaks when an allocation fails although an item is free: on another CPU, in the depot, or in
//! a thread's hands.

use super::*;
use core::alloc::Layout;

/// A zone of one slab, all of whose items are live.
fn exhausted() -> (Inner, Vec<NonNull<u8>>) {
    let zone = Inner::for_test(Layout::new::<[u64; 256]>(), 1, 4);
    let mut items = Vec::new();
    let error = loop {
        match zone.alloc() {
            Ok(item) => items.push(item),
            Err(error) => break error,
        }
    };
    assert_eq!((error, items.len()), (AllocError::NoMemory, 32));
    (zone, items)
}

/// Frees an item as if on the given CPU.
fn free_on(zone: &Inner, cpu: usize, item: NonNull<u8>) {
    #[cfg(debug_assertions)]
    zone.arena.mark_freed(item, zone.name);
    let mut cache = zone.caches[cpu].0.lock();
    if !cache.push(item) {
        assert!(cache.make_room(&mut zone.depot.0.lock(), zone.bucket_items));
        assert!(cache.push(item));
    }
    zone.count_free(&mut cache);
}

#[test]
fn items_of_every_cpu_are_found() {
    // Breaks when the search forgets a cache or one of its buckets, or the depot.
    for cpu in 0..kern::cpu::count() {
        // From one item in one bucket to full caches and buckets in the depot.
        for n in [1, 4, 5, 8, 9, 20] {
            let (zone, items) = exhausted();
            items[..n]
                .iter()
                .for_each(|&item| free_on(&zone, cpu, item));
            for i in 0..n {
                assert!(
                    zone.alloc().is_ok(),
                    "{i} of {n} items on CPU {cpu} were found"
                );
            }
            assert_eq!(zone.alloc(), Err(AllocError::NoMemory));
            assert_eq!(zone.live_exact(), 32);
        }
    }
}

#[test]
fn items_in_transit_are_waited_for() {
    // Breaks when an allocation gives up while a drain carries the last items to their slab.
    let (zone, items) = exhausted();
    let carried = crate::bucket::Bucket::with_capacity(1).and_then(|mut bucket| {
        #[cfg(debug_assertions)]
        zone.arena.mark_freed(items[0], zone.name);
        zone.count_free(&mut zone.lock_cache());
        bucket.push(items[0]).then_some(bucket)
    });
    let carried = carried.expect("a bucket of one is not too much to ask");
    let transit = zone.enter_transit();
    thread::scope(|scope| {
        let waiter = scope.spawn(|| zone.alloc().is_ok());
        thread::sleep(Duration::from_millis(2));
        zone.give_bucket_to_slabs(&carried);
        drop(transit);
        assert!(waiter.join().unwrap(), "it did not wait");
    });
}

#[test]
fn waiting_for_items_has_an_end() {
    // Breaks when an init hook that allocates from its own, exhausted zone never comes back.
    let (zone, _items) = exhausted();
    let _transit = zone.enter_transit();
    assert_eq!(zone.alloc(), Err(AllocError::NoMemory));
}

#[test]
fn items_that_came_while_we_locked_are_seen() {
    // Breaks when the search, with all caches locked, does not look again at the depot and the
    // slabs, to which another thread may have brought items since.
    let (zone, items) = exhausted();
    #[cfg(debug_assertions)]
    zone.arena.mark_freed(items[0], zone.name);
    zone.count_free(&mut zone.lock_cache());
    zone.give_to_slabs(&items[..1], true);
    assert!(matches!(
        zone.rob(AllocError::NoMemory),
        Err(Shortage::Wait)
    ));
    let mut bucket = Bucket::with_capacity(1).expect("the heap has room for one");
    zone.keg.0.lock().take(&zone.arena, &mut bucket, 1);
    assert!(matches!(
        zone.rob(AllocError::NoMemory),
        Err(Shortage::Final(AllocError::NoMemory))
    ));
    assert!(zone.depot.0.lock().push_filled(bucket).is_ok());
    assert!(
        zone.rob(AllocError::NoMemory)
            .is_ok_and(|(bucket, _)| bucket.len() == 1)
    );
}
