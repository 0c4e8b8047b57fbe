//! Memory goes back: breaks when a drain leaves pages, or takes some that are in use.

#![cfg(not(miri))]

use crate::common::{Dice, Item, assert_balance, builder, free, pin, zone};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use uma::{AllocError, RawZone};

#[test]
fn live_items_gather_low() {
    // Breaks when new items come from the emptiest slab instead of the fullest.
    let zone = builder(2048, 2048).bucket_items(1).build().unwrap();
    let mut items: Vec<_> = (0..320).map(|_| zone.alloc().unwrap()).collect();
    items.sort();
    // The fourth slab of 32 has one item free, all others have one live.
    let stays = |i: usize| {
        if i / 32 == 3 {
            i % 32 != 9
        } else {
            i.is_multiple_of(32)
        }
    };
    let (keep, go): (Vec<_>, Vec<_>) = (0..320).partition(|&i| stays(i));
    go.iter().for_each(|&i| free(&zone, items[i]));
    zone.drain();
    let item = zone.alloc().unwrap();
    assert_eq!(item, items[3 * 32 + 9]);
    free(&zone, item);
    keep.iter().for_each(|&i| free(&zone, items[i]));
    assert_balance(&zone);
}

/// Two CPUs to compare, if there are.
fn two_cpus() -> bool {
    thread::available_parallelism().is_ok_and(|n| n.get() >= 2)
}

/// Allocates and frees a few, so that this CPU has some in its cache.
fn work(zone: &RawZone) {
    let items: Vec<_> = (0..8).map(|_| zone.alloc().unwrap()).collect();
    items.into_iter().for_each(|item| free(zone, item));
}

#[test]
fn a_trim_takes_from_idle_cpus_alone() {
    // Breaks when a CPU that sleeps keeps its items, or one that works loses them.
    if !two_cpus() {
        return;
    }
    let zone = builder(2048, 2048).build().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            pin(0);
            work(&zone);
        });
    });
    pin(1);
    work(&zone);
    // The first time only looks.
    zone.trim();
    work(&zone);
    let (cached, imports) = (zone.stats().cached_by_cpus, zone.stats().imports);
    zone.trim();
    let left = zone.stats().cached_by_cpus;
    assert!(left < cached && left > 0, "{left} of {cached} are left");
    for _ in 0..20 {
        work(&zone);
        zone.trim();
    }
    assert_eq!(
        zone.stats().imports,
        imports,
        "a busy CPU had to go to the slabs"
    );
    for _ in 0..4 {
        zone.trim();
    }
    let stats = zone.stats();
    assert_eq!(
        (stats.cached(), stats.bytes),
        (0, 0),
        "an idle zone keeps something"
    );
}

#[test]
fn a_trim_keeps_what_was_needed_since_the_last() {
    // Breaks when pages that are used again and again go back each time. On one CPU: if the thread migrates, the
    // former CPU keeps some hundred pages more or less.
    pin(0);
    let zone = zone(2048, 2048);
    let burst = || {
        let items: Vec<_> = (0..20_000).map(|_| zone.alloc().unwrap()).collect();
        items.into_iter().for_each(|item| free(&zone, item));
    };
    burst();
    for _ in 0..5 {
        burst();
        // The amount in its cache varies.
        let pages = zone.trim().pages;
        assert!(
            pages < 100,
            "{pages} of 10,000 pages of the working set went back"
        );
    }
    let bytes = zone.stats().bytes;
    zone.trim();
    zone.trim();
    assert!(zone.stats().bytes < bytes / 20, "unneeded memory stays");
}

#[test]
fn buckets_shrink_without_visits() {
    // Breaks when a zone that was busy once has big buckets for ever.
    let zone = builder(64, 64).build().unwrap();
    let items: Vec<_> = (0..200_000).map(|_| zone.alloc().unwrap()).collect();
    items.into_iter().for_each(|item| free(&zone, item));
    let grown = zone.stats().bucket_items;
    assert!(grown > 16, "they never grew");
    for _ in 0..10 {
        zone.trim();
    }
    assert_eq!(zone.stats().bucket_items, 16);
    assert_balance(&zone);
}

#[test]
fn no_allocation_fails_because_of_a_drain() {
    // Breaks when an allocation at the limit counts items on their way back as live.
    const THREADS: u64 = 4;
    const EACH: usize = 16;
    let zone = builder(256, 64)
        .limit(THREADS as usize * EACH)
        .build()
        .unwrap();
    let done = AtomicBool::new(false);
    let drains = AtomicUsize::new(0);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|n| {
                let (zone, drains) = (&zone, &drains);
                scope.spawn(move || {
                    pin(n);
                    let mut dice = Dice::new(n);
                    let mut held = Vec::new();
                    // Goes on until there were some drains: the draining thread may get no CPU at first.
                    for i in (0..).take_while(|i| *i < 30_000 || drains.load(Relaxed) < 10) {
                        if held.len() < EACH && (held.is_empty() || dice.below(2) == 0) {
                            held.push(zone.alloc().unwrap_or_else(|e| panic!("{i}: {e}")));
                        } else {
                            free(zone, held.swap_remove(dice.below(held.len())));
                        }
                    }
                    held.into_iter().for_each(|item| free(zone, item));
                })
            })
            .collect();
        let drainer = scope.spawn(|| {
            while !done.load(Relaxed) {
                match drains.load(Relaxed) % 2 {
                    0 => zone.drain(),
                    _ => zone.trim(),
                };
                drains.fetch_add(1, Relaxed);
            }
        });
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
        done.store(true, Relaxed);
        drainer.join().unwrap();
    });
    assert_balance(&zone);
}

#[test]
fn the_reserve_serves_only_urgent_allocations() {
    // Breaks when normal callers get at the reserve, or urgent ones do not.
    let zone = builder(2048, 2048).limit(100).reserve(10).build().unwrap();
    let mut held: Vec<_> = std::iter::from_fn(|| zone.alloc().ok()).collect();
    assert_eq!(held.len(), 90);
    assert_eq!(zone.alloc(), Err(AllocError::Limit));
    held.extend(std::iter::from_fn(|| zone.alloc_urgent().ok()));
    assert_eq!(held.len(), 100);
    assert_eq!(zone.alloc_urgent(), Err(AllocError::Limit));
    // Items that come back fill the reserve first.
    held.drain(..10).for_each(|item| free(&zone, item));
    assert_eq!(zone.alloc(), Err(AllocError::Limit));
    free(&zone, held.pop().unwrap());
    held.push(zone.alloc().unwrap());
    held.into_iter().for_each(|item| free(&zone, item));
    assert_eq!(zone.live(), 0);
}

#[test]
fn items_of_the_reserve_go_back_to_it() {
    // Breaks when an item of the reserve gets into a CPU's cache, from where any allocation takes it:
    // acknowledgements that are sent and freed at once would then use the reserve up.
    let zone = builder(256, 64).limit(1000).reserve(100).build().unwrap();
    let mut held: Vec<_> = (0..895).map(|_| zone.alloc().unwrap()).collect();
    for _ in 0..200 {
        free(&zone, zone.alloc_urgent().unwrap());
        held.extend(zone.alloc());
    }
    assert_eq!(held.len(), 900);
    held.extend(std::iter::from_fn(|| zone.alloc_urgent().ok()));
    assert_eq!(held.len(), 1000);
    held.into_iter().for_each(|item| free(&zone, item));
    // The reserve's memory stays.
    assert_eq!(zone.live(), 0);
}

#[test]
fn a_drain_keeps_preallocated_memory() {
    // Breaks when a drain takes the memory that an allocation was promised.
    let zone = builder(2048, 2048).prealloc(1000).build().unwrap();
    let promised = 1000 * 2048;
    assert!(zone.stats().bytes >= promised);
    let items: Vec<_> = (0..5000).map(|_| zone.alloc().unwrap()).collect();
    items.into_iter().for_each(|item| free(&zone, item));
    zone.drain();
    let bytes = zone.stats().bytes;
    assert!(
        (promised..promised + (64 << 10)).contains(&bytes),
        "{bytes}"
    );
    assert_eq!(zone.prealloc(0), 0);
    zone.drain();
    assert_eq!(zone.stats().bytes, 0);
}

#[test]
fn a_local_cache_counts_as_live_until_it_is_flushed() {
    // Breaks when the items in a worker's local cache are lost, or cannot be allocated after the worker gave them up.
    let zone = builder(256, 64).limit(64).build().unwrap();
    let mut cache = zone.local(16);
    assert_eq!(cache.prefill(32), 32);
    assert_eq!((cache.len(), zone.live()), (32, 32));
    let others: Vec<_> = std::iter::from_fn(|| zone.alloc().ok()).collect();
    assert_eq!(others.len(), 32);
    let items: Vec<_> = (0..32).map(|_| cache.alloc().unwrap()).collect();
    assert_eq!(cache.alloc(), Err(AllocError::Limit));
    for item in items {
        // SAFETY: from this zone, and not used any more.
        unsafe { cache.free(item) };
    }
    let cache = thread::scope(|scope| {
        let items: Vec<_> = others.into_iter().map(Item).collect();
        let worker = scope.spawn(move || {
            for Item(item) in items {
                // SAFETY: as above.
                unsafe { cache.free(item) };
            }
            cache
        });
        worker.join().unwrap()
    });
    assert!(cache.len() <= 32);
    drop(cache);
    assert_balance(&zone);
}
