//! Items that are allocated on one CPU and freed on another, through previous bucket and depot, and
//! a drain at the same time. No item is lost, doubled, or counted wrongly.
//!
//! Locks: none.

use super::*;
use crate::percpu::blind;

/// One thread frees allocated items, the other allocates, on the CPUs named.
fn hand_over(backend: Backend, bucket_items: usize, cpu: usize, items: usize) {
    let world = World::new(backend, bucket_items, 4);
    let items: Vec<_> = (0..items).map(|_| world.alloc()).collect();
    let theirs = world.clone();
    beside(
        cpu,
        move || items.into_iter().for_each(|item| theirs.free(item)),
        || {
            let item = world.alloc();
            world.free(item);
        },
    );
    world.finish();
}

#[test]
fn items_go_from_cpu_to_cpu() {
    // Breaks if a bucket that travels is in two places, or in none.
    holds("hand over, sections", 2, || {
        hand_over(Backend::Rseq, 1, 1, 2)
    });
    holds("hand over, locked", 2, || {
        hand_over(Backend::Locked, 1, 1, 2)
    });
}

#[test]
fn two_threads_share_a_cpu() {
    // Breaks if a thread that lost its CPU between two exchanges loses a bucket, too.
    holds("one CPU, sections", 2, || hand_over(Backend::Rseq, 2, 0, 2));
    holds("one CPU, locked", 1, || hand_over(Backend::Locked, 2, 0, 1));
}

#[test]
#[should_panic]
fn finds_sections_that_are_never_interrupted() {
    // Breaks if the scenario does not find sections that are never interrupted.
    let case = Case {
        bug: None,
        switches: 2,
    };
    check("blind", case, || {
        blind();
        hand_over(Backend::Rseq, 2, 0, 2);
    });
}

/// One thread allocates and frees on a CPU with free items; the other drains.
fn drain_beside(backend: Backend, cpu: usize) {
    let world = World::new(backend, 2, 4);
    world.warm(2);
    world.finish_beside_drain(cpu, World::alloc_and_free);
}

#[test]
fn a_drain_beside_users_loses_no_item() {
    // Breaks if a drain takes items that an allocation or a free carries.
    holds("drain, sections", 3, || drain_beside(Backend::Rseq, 1));
    holds("drain, same CPU", 3, || drain_beside(Backend::Rseq, 0));
    holds("drain, locked", 2, || drain_beside(Backend::Locked, 1));
}

#[test]
#[should_panic]
fn finds_a_missing_fence() {
    // Breaks if the scenario is blind to a pop on a bucket that the drainer has taken.
    finds(ZoneFault::SecondFence, 3, || drain_beside(Backend::Rseq, 1));
}

/// One thread takes and puts back as many as two buckets hold, at once; the other drains.
fn drain_beside_bulk(backend: Backend, cpu: usize) {
    let world = World::new(backend, 1, 4);
    world.warm(2);
    world.finish_beside_drain(cpu, |world| {
        let items = world.alloc_bulk(2);
        assert_eq!(items.len(), 2, "four may be live");
        world.free_bulk(items);
    });
}

#[test]
fn a_drain_beside_batches_loses_no_item() {
    // Breaks if a drain takes a previous bucket that a batch is at work on.
    holds("bulk, drain, sections", 3, || {
        drain_beside_bulk(Backend::Rseq, 1)
    });
    holds("bulk, drain, same CPU", 2, || {
        drain_beside_bulk(Backend::Rseq, 0)
    });
    holds("bulk, drain, locked", 2, || {
        drain_beside_bulk(Backend::Locked, 1)
    });
}

#[test]
#[should_panic]
fn finds_a_missing_fence_by_bulk() {
    // Breaks if the scenario is blind to a batch on a bucket that the drainer has taken.
    finds(ZoneFault::SecondFence, 3, || {
        drain_beside_bulk(Backend::Rseq, 1)
    });
}

/// Two threads on one CPU, each with a batch that lies across its two buckets.
fn two_batches() {
    let world = World::new(Backend::Rseq, 1, 4);
    world.warm(2);
    let theirs = world.clone();
    let batch = |world: &World| {
        let items = world.alloc_bulk(2);
        world.free_bulk(items);
    };
    beside(0, move || batch(&theirs), || batch(&world));
    world.finish();
}

#[test]
fn two_batches_share_a_cpu() {
    // Breaks if two batches mix in a bucket, or an interrupted batch loses its rest.
    holds("two batches", 2, two_batches);
}

#[test]
#[should_panic]
fn finds_batches_that_are_never_interrupted() {
    // Breaks if the scenario does not find sections that are never interrupted.
    let case = Case {
        bug: None,
        switches: 2,
    };
    check("blind", case, || {
        blind();
        two_batches();
    });
}
