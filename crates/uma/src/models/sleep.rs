//! A thread that sleeps at a limit wakes when an item becomes available: by a free in this zone or another
//! on the same slabs, by a new limit, or by an import that brought fewer items than it counted. A sleeper that
//! is not woken is a deadlock, which the checker reports.
//!
//! Locks: none.

use super::*;

/// The only item is live; one thread waits for it, the other frees it, wants it again, frees it.
fn a_free_wakes(backend: Backend) {
    let world = World::new(backend, 1, 1);
    let item = world.alloc();
    let theirs = world.clone();
    beside(
        1,
        move || {
            let item = theirs.wait();
            theirs.free(item);
        },
        || {
            world.free(item);
            if let Ok(item) = world.try_alloc() {
                world.free(item);
            }
        },
    );
    world.finish();
}

#[test]
fn a_free_wakes_a_sleeper() {
    // Breaks if a free falls between a sleeper's look and its sleep, or into a cache.
    holds("sleep, locked", 2, || a_free_wakes(Backend::Locked));
    holds("sleep, sections", 2, || a_free_wakes(Backend::Rseq));
}

#[test]
#[should_panic(expected = "deadlock")]
fn finds_a_sleeper_that_does_not_search_again() {
    // Breaks if the scenario is blind to a free between the look and the sleep.
    finds(ZoneFault::StaleGeneration, 2, || {
        a_free_wakes(Backend::Rseq)
    });
}

#[test]
#[should_panic(expected = "deadlock")]
fn finds_a_keg_that_opens_over_sleepers() {
    // Breaks if the scenario does not find an item that is cached while a thread sleeps.
    finds(ZoneFault::Sleepers, 2, || a_free_wakes(Backend::Rseq));
}

/// As above, but the sleeper is a secondary zone's.
fn a_free_elsewhere_wakes(backend: Backend) {
    let world = World::new(backend, 1, 1);
    let second = world.secondary(backend);
    let item = world.alloc();
    beside(
        1,
        move || {
            let item = second.wait();
            second.free(item);
        },
        || world.free(item),
    );
    assert_ended(1);
    world.finish();
}

#[test]
fn a_free_wakes_a_sleeper_of_another_zone() {
    // Breaks if a zone's free does not wake the sleepers of other zones on the keg.
    holds("sleep, two zones", 3, || {
        a_free_elsewhere_wakes(Backend::Locked)
    });
}

/// The limit is 0 until it is raised.
fn a_limit_wakes() {
    let world = World::new(Backend::Locked, 1, 0);
    let theirs = world.clone();
    beside(
        1,
        move || {
            let item = theirs.wait();
            theirs.free(item);
        },
        || world.zone.set_limit(Some(1)),
    );
    world.finish();
}

#[test]
fn a_limit_that_is_raised_wakes_a_sleeper() {
    // Breaks if a new limit falls between a sleeper's look and its sleep.
    holds("sleep, limit", 4, a_limit_wakes);
}

#[test]
#[should_panic(expected = "deadlock")]
fn finds_a_raised_limit_that_wakes_no_sleeper() {
    // Breaks if the scenario does not find a new limit that wakes no sleeper.
    finds(ZoneFault::SilentLimit, 2, a_limit_wakes);
}

/// The only item is live; its free calls the registered callback.
fn a_free_calls() {
    let world = World::new(Backend::Locked, 1, 1);
    let item = world.alloc();
    let called = Arc::new(AtomicUsize::new(0));
    let (theirs, calls) = (world.clone(), Arc::clone(&called));
    let asked = Arc::new(AtomicUsize::new(0));
    let asks = Arc::clone(&asked);
    beside(
        1,
        move || {
            let call = move || _ = calls.fetch_add(1, Relaxed);
            let waits = theirs.zone.call_when_available(call);
            asks.store(usize::from(waits), Relaxed);
        },
        || world.free(item),
    );
    let (called, asked) = (called.load(Relaxed), asked.load(Relaxed));
    assert_eq!(called, asked, "a callback was promised");
    world.finish();
}

#[test]
fn a_free_calls_the_registered_callback() {
    // Breaks if a free falls between the look and the promise.
    holds("call back", 3, a_free_calls);
}
