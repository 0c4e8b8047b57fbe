//! The reclaimer: breaks when memory stays that is not needed, goes although it is needed, or when
//! the end of a zone and a tick overlap in a wrong way.

#![cfg(not(miri))]

mod common;

use common::{builder, free, pin, zone};
use core::time::Duration;
use kern::Time;
use std::sync::Arc;
use std::thread;
use std::time::Instant;
use uma::{HookFailed, Hooks, RECLAIM_INTERVAL, ReclaimSet, Reclaimer};

fn until(time: Duration, what: impl Fn() -> bool) -> Duration {
    let began = Instant::now();
    while !what() && began.elapsed() < time {
        thread::sleep(Duration::from_millis(5));
    }
    began.elapsed()
}

/// Tells when it is dropped, which is when the zone is.
struct Witness(#[allow(dead_code, reason = "is counted")] Arc<()>);

impl Hooks for Witness {}

#[test]
fn a_watched_zone_ends_with_its_last_handle() {
    // Breaks when the reclaimer keeps a zone, or visits one that is gone.
    let reclaimer = Reclaimer::start(Duration::from_millis(1)).unwrap();
    let alive = Arc::new(());
    for i in 0..300 {
        let hooks = Witness(alive.clone());
        let zone = builder(256, 64)
            .reserve_bytes(1 << 20)
            .hooks(hooks)
            .build()
            .unwrap();
        reclaimer.watch(&zone);
        let held: Vec<_> = (0..50).map(|_| zone.alloc().unwrap()).collect();
        if i % 3 == 0 {
            thread::sleep(Duration::from_micros(i * 10));
        }
        let reference = zone.as_ref_ptr();
        let (first, rest) = held.split_first().unwrap();
        rest.iter().for_each(|&item| free(&zone, item));
        drop(zone);
        // SAFETY: it is live, and keeps its zone.
        unsafe { reference.free(*first) };
    }
    until(Duration::from_secs(60), || Arc::strong_count(&alive) == 1);
    assert_eq!(Arc::strong_count(&alive), 1, "a zone is still there");
    assert!(reclaimer.stats().ticks > 0);
}

#[test]
fn the_thread_ends_with_its_handle() {
    // Breaks when the stop is not seen by a thread that sleeps for ever.
    let began = Instant::now();
    for _ in 0..20 {
        let reclaimer = Reclaimer::start(Duration::from_secs(3600)).unwrap();
        let zone = zone(64, 64);
        reclaimer.watch(&zone);
    }
    assert!(began.elapsed() < Duration::from_secs(60));
}

/// Ticks until no deadline is before `end`; returns the pages of each tick that took some.
fn ticks(set: &mut ReclaimSet, now: &mut Time, end: Time) -> Vec<usize> {
    let mut pages = Vec::new();
    while *now < end {
        let tick = set.tick(*now);
        assert!(tick.next > *now, "time does not pass");
        *now = tick.next;
        pages.extend((tick.purged.pages > 0).then_some(tick.purged.pages));
    }
    pages
}

#[test]
fn pieces_are_small_and_end() {
    // Breaks when a tick gives back so much that other threads stall, or stops before the end.
    let zone = zone(2048, 2048);
    let mut set = ReclaimSet::new(RECLAIM_INTERVAL);
    set.watch(&zone);
    set.watch(&zone);
    assert_eq!(set.len(), 1);
    let mut now = Time::ZERO;
    ticks(&mut set, &mut now, Time::from_millis(300));
    let items: Vec<_> = (0..100_000).map(|_| zone.alloc().unwrap()).collect();
    items.into_iter().for_each(|item| free(&zone, item));
    let end = now + Duration::from_secs(1);
    let pieces = ticks(&mut set, &mut now, end);
    assert_eq!(zone.stats().bytes, 0, "something stays");
    assert!(pieces.len() >= 4, "{} pieces", pieces.len());
    assert!(pieces.iter().all(|pages| pages * 4096 <= 65 << 20));
    drop(zone);
    let _ = set.tick(now);
    assert!(set.is_empty());
    assert_eq!(set.tick(now).next, Time::MAX);
}

#[test]
fn a_reclaim_keeps_the_need_of_each_window() {
    // Breaks when a burst in each window faults its pages in again, or when two zones on one keg
    // measure each other's needs away. On one CPU: if the thread migrates, the former CPU keeps
    // some hundred pages more or less.
    pin(0);
    let master = zone(2048, 2048);
    let second = master.secondary("second").build().unwrap();
    let mut set = ReclaimSet::new(RECLAIM_INTERVAL);
    set.watch(&second);
    set.watch(&master);
    let mut now = Time::ZERO;
    for round in 0..10 {
        let items: Vec<_> = (0..10_000).map(|_| master.alloc().unwrap()).collect();
        items.into_iter().for_each(|item| free(&master, item));
        let end = now + RECLAIM_INTERVAL * 4;
        let pieces = ticks(&mut set, &mut now, end);
        // The amount in its cache varies.
        let pages = pieces.iter().sum::<usize>();
        assert!(pages < 100, "round {round}: {pages} of 5000 pages went");
    }
    let end = now + Duration::from_secs(1);
    ticks(&mut set, &mut now, end);
    assert_eq!(master.stats().bytes, 0);
}

/// Hooks whose `fini` yields the CPU, and checks that the thread holds no lock.
struct Slow;

impl Hooks for Slow {
    unsafe fn init(&self, _: core::ptr::NonNull<u8>) -> Result<(), HookFailed> {
        Ok(())
    }
    unsafe fn fini(&self, _: core::ptr::NonNull<u8>) {
        kern::witness::assert_none("fini on the reclaimer");
        thread::yield_now();
    }
}

#[test]
fn no_allocation_fails_during_a_visit() {
    // Breaks when a visit makes an allocation at the limit fail.
    let reclaimer = Reclaimer::start(Duration::from_millis(1)).unwrap();
    let zone = builder(256, 64).limit(40).hooks(Slow).build().unwrap();
    reclaimer.watch(&zone);
    thread::scope(|scope| {
        for n in 0..4 {
            let zone = &zone;
            scope.spawn(move || {
                pin(n);
                for i in 0..3000 {
                    let held = [(); 10].map(|()| zone.alloc());
                    for item in held {
                        free(
                            zone,
                            item.unwrap_or_else(|error| panic!("round {i}: {error}")),
                        );
                    }
                }
            });
        }
    });
    assert_eq!(zone.live(), 0);
}
