//! A fork while other threads allocate.

#![cfg(not(any(miri, uma_asan)))]

mod common;

use common::{Item, builder, free};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};
use uma::{Backend, RawZone};

const FORKS: usize = 300;
const WORKERS: usize = 3;
/// A child that hangs does so for ever.
const LIMIT: Duration = Duration::from_secs(20);

/// Zones whose slow paths are visited all the time: small buckets, a limit that is reached, a second zone on
/// the same slabs.
fn zones(backend: Backend) -> Vec<RawZone> {
    let small = || builder(64, 8).backend(backend).bucket_items(2);
    let plain = small().build().unwrap();
    let second = plain.secondary("second").bucket_items(2).build().unwrap();
    let limited = small().limit(60).build().unwrap();
    vec![plain, second, limited]
}

/// Takes and frees items of each zone, with rare operations now and then.
fn work(zones: &[RawZone], round: usize) {
    for zone in zones {
        let items: Vec<_> = (0..25).filter_map(|_| zone.alloc().ok()).collect();
        items.into_iter().for_each(|item| free(zone, item));
        let _ = match round % 8 {
            0 => zone.drain(),
            4 => zone.trim(),
            _ => continue,
        };
    }
    if round.is_multiple_of(4) {
        let own = builder(128, 8).build().unwrap();
        let item = own.alloc().unwrap();
        free(&own, item);
    }
}

/// Forks; the child calls `child` and must end with success within the limit.
fn fork(child: impl FnOnce()) {
    // SAFETY: the child calls nothing but this library, the heap and _exit, all of which a fork leaves usable.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let status = i32::from(catch_unwind(AssertUnwindSafe(child)).is_err());
        // SAFETY: ends the process without the destructors of a test run that is its parent's.
        unsafe { libc::_exit(status) };
    }
    assert!(pid > 0, "no fork");
    let began = Instant::now();
    let mut status = 0;
    // SAFETY: `status` is valid for the call.
    while unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } == 0 {
        if began.elapsed() > LIMIT {
            // SAFETY: a child of ours that was not waited for yet.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            // SAFETY: as above.
            unsafe { libc::waitpid(pid, &raw mut status, 0) };
            panic!("the child hangs");
        }
        thread::sleep(Duration::from_micros(200));
    }
    assert_eq!(status, 0, "the child failed");
}

fn children_allocate(backend: Backend) {
    let zones = zones(backend);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                for round in (0..).take_while(|_| !stop.load(Relaxed)) {
                    work(&zones, round);
                }
            });
        }
        let forks = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..FORKS {
                fork(|| {
                    (0..8).for_each(|round| work(&zones, round));
                    let item = Item(zones[0].alloc().expect("there is no limit"));
                    // Another thread, which takes its first lock.
                    let zone = zones[0].clone();
                    let other = thread::spawn(move || {
                        let Item(item) = { item };
                        free(&zone, item);
                        work(&[zone], 0);
                    });
                    other.join().expect("it works");
                });
            }
        }));
        stop.store(true, Relaxed);
        forks.expect("every child ends well");
    });
    for zone in &zones {
        zone.drain();
    }
    zones.iter().for_each(common::assert_balance);
}

#[test]
fn the_child_of_a_fork_allocates() {
    // Breaks when a fork leaves a lock in the child that a thread held which the child does not have.
    children_allocate(Backend::choose());
}

#[test]
fn the_child_of_a_fork_allocates_where_slots_are_locked() {
    // Breaks when a slot stays locked in the child.
    children_allocate(Backend::Locked);
}

/// Forks out of an exit handler, and ends with the status of that child.
extern "C" fn fork_at_exit() {
    let forked = catch_unwind(AssertUnwindSafe(|| fork(|| ())));
    // SAFETY: ends the process.
    unsafe { libc::_exit(i32::from(forked.is_err())) };
}

#[test]
fn an_exit_handler_may_fork() {
    // Breaks when the record of a fork's locks goes with the thread's other destructors.
    let zone = builder(64, 8).build().unwrap();
    free(&zone, zone.alloc().expect("there is no limit"));
    fork(|| {
        fork(|| ());
        // SAFETY: a function that may run at exit.
        assert_eq!(unsafe { libc::atexit(fork_at_exit) }, 0);
        std::process::exit(1)
    });
}
