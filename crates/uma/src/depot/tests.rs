//! The choice of the bucket that the depot hands out.
//!
//! The buckets hold one item each, which is known by its address and never touched.

use super::{Depot, Owned, Room, VISITS_TO_GROW};
use crate::RawZone;
use crate::bucket::PushOutcome;
use crate::percpu::cpus;
use core::alloc::Layout;
use core::ptr::NonNull;

const CPU: usize = 3;

fn item(n: usize) -> NonNull<u8> {
    NonNull::without_provenance(n.try_into().expect("not 0"))
}

fn bucket_of(n: usize, depot: &mut Depot) -> Owned {
    let mut bucket = depot.make().expect("memory");
    assert_eq!(bucket.push(item(n)), PushOutcome::Done);
    bucket
}

/// A depot in which three buckets wait that this CPU brought, one after the other.
fn depot_from(cpu: usize) -> Depot {
    let mut depot = Depot::new(2, 2, 100);
    for n in 1..=3 {
        let bucket = bucket_of(n, &mut depot);
        depot.push(bucket);
    }
    depot.filler = cpu as u32;
    depot
}

/// Takes all that is there.
fn taken(depot: &mut Depot, cpu: usize) -> Vec<usize> {
    let mut items = Vec::new();
    while let Some(mut bucket) = depot.next_filled(cpu) {
        items.extend(bucket.pop().map(|item| item.addr().get()));
        depot.push(bucket);
        assert!(depot.is_valid());
    }
    assert_eq!(depot.len(), 0);
    items
}

/// Fails if a CPU that uses its own items again gets cold ones.
#[test]
fn own_buckets_come_back_last_in_first_out() {
    let mut depot = depot_from(CPU);
    assert_eq!(taken(&mut depot, CPU), [3, 2, 1]);
}

/// Breaks if a CPU gets items that another one freed just now, while older ones wait.
#[test]
fn buckets_of_another_cpu_come_first_in_first_out() {
    let mut depot = depot_from(CPU);
    assert_eq!(taken(&mut depot, CPU + 1), [1, 2, 3]);
}

/// Fails if a free does not record its CPU.
#[test]
fn a_full_bucket_records_the_cpu_that_brought_it() {
    let mut depot = depot_from(u32::MAX as usize);
    let full = bucket_of(4, &mut depot);
    let Room::Bucket(empty) = depot.make_room(Some(full)) else {
        panic!("there is room")
    };
    assert!((depot.filler as usize) < cpus());
    depot.push(empty);
    assert_eq!(taken(&mut depot, usize::MAX), [1, 2, 3, 4]);
}

/// Fails if buckets never grow, or shrink and are as large as before at the first visit.
#[test]
fn buckets_grow_by_visits_and_shrink_by_none() {
    let mut depot = Depot::new(64, 128, 100);
    let visit = |depot: &mut Depot, times| {
        for _ in 0..times {
            depot.visited();
        }
        depot.bucket_items()
    };
    assert_eq!(visit(&mut depot, VISITS_TO_GROW - 1), 16);
    assert_eq!(visit(&mut depot, 1), 32);
    assert_eq!(visit(&mut depot, VISITS_TO_GROW), 64);
    assert_eq!(visit(&mut depot, 10 * VISITS_TO_GROW), 64);
    assert_eq!(
        (depot.excess(), depot.bucket_items()),
        (0, 64),
        "a thread came"
    );
    assert_eq!((depot.excess(), depot.bucket_items()), (0, 32));
    assert_eq!(visit(&mut depot, VISITS_TO_GROW - 1), 32);
    assert_eq!(visit(&mut depot, 1), 64);
}

/// Fails if buckets are no larger where items go from CPU to CPU, or stay so where they do not any more.
#[test]
fn buckets_are_larger_where_items_cross() {
    let mut depot = Depot::new(32, 64, 1000);
    let visit = |depot: &mut Depot, crossing: bool, times| {
        for _ in 0..times {
            depot.cross_cpu.observe(crossing);
            depot.visited();
        }
        depot.bucket_items()
    };
    assert_eq!(visit(&mut depot, false, 4 * VISITS_TO_GROW), 32);
    assert_eq!(visit(&mut depot, true, 4 * VISITS_TO_GROW), 64);
    assert_eq!(visit(&mut depot, false, 10), 32);
}

/// Breaks when a drain keeps the memory of the buckets that it has emptied.
#[test]
fn a_drain_frees_the_buckets() {
    let zone = RawZone::builder("drained", Layout::new::<[u64; 8]>());
    let zone = zone.build().expect("address space");
    let items: Vec<_> = (0..1000).map(|_| zone.alloc().expect("memory")).collect();
    for item in items {
        // SAFETY: from this zone, and not used any more.
        unsafe { zone.free(item) };
    }
    assert!(zone.inner().depot.lock().buckets() > 1);
    zone.drain();
    assert_eq!(zone.inner().depot.lock().buckets(), 0);
}

/// Breaks when the list of buckets keeps the length that it had in a spike.
#[test]
fn the_list_of_buckets_shrinks_with_them() {
    let mut depot = Depot::new(2, 2, 100);
    let made: Vec<_> = (0..1000).filter_map(|_| depot.make()).collect();
    made.into_iter().for_each(|bucket| depot.push(bucket));
    assert_eq!(depot.buckets(), 1000);
    depot.free_empty();
    assert_eq!((depot.buckets(), depot.all.capacity()), (0, 0));
}
