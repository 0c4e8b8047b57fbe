//! Breaks when a sleeper misses its wakeup, does not give the lock up, or sleeps past its time.

use super::Condvar;
use crate::{LockClass, Mutex, order};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

static CLASS: LockClass = LockClass::new("condvar test", order::STATS);

#[test]
fn a_sleeper_sees_the_change_it_waits_for() {
    let shared = Arc::new((Mutex::new(&CLASS, 0), Condvar::new()));
    let sleeper = thread::spawn({
        let shared = shared.clone();
        move || {
            let mut guard = shared.0.lock();
            while *guard < 3 {
                guard = shared.1.wait(guard, None);
            }
            *guard
        }
    });
    for _ in 0..3 {
        *shared.0.lock() += 1;
        shared.1.notify_one();
    }
    assert_eq!(sleeper.join().unwrap(), 3);
}

#[test]
fn a_wait_ends_with_its_time_and_holds_the_lock() {
    let (mutex, condvar) = (Mutex::new(&CLASS, 7), Condvar::new());
    let began = Instant::now();
    let guard = condvar.wait(mutex.lock(), Some(Duration::from_millis(5)));
    assert_eq!(*guard, 7);
    assert!(mutex.try_lock().is_none(), "the lock is held again");
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[test]
fn two_threads_hand_a_turn_back_and_forth() {
    // Breaks if one notification of thousands is lost: both would sleep for ever.
    let (turn, changed) = (Mutex::new(&CLASS, 0_u32), Condvar::new());
    let rounds = if cfg!(miri) { 20 } else { 2_000 };
    let play = |me: u32| {
        for _ in 0..rounds {
            let mut turn = turn.lock();
            while *turn % 2 != me {
                turn = changed.wait(turn, None);
            }
            *turn += 1;
            changed.notify_one();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| play(0));
        scope.spawn(|| play(1));
    });
    assert_eq!(turn.into_inner(), 2 * rounds);
}

#[test]
fn notify_all_wakes_all_sleepers() {
    // Breaks if a broadcast wakes one.
    let (open, changed) = (Mutex::new(&CLASS, false), Condvar::new());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut open = open.lock();
                while !*open {
                    open = changed.wait(open, None);
                }
            });
        }
        *open.lock() = true;
        changed.notify_all();
    });
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "a sleep while outer (rank 400) at ")]
fn a_sleep_over_another_lock_is_reported() {
    // Breaks if the check only covers the lock that the sleep releases.
    static OUTER: LockClass = LockClass::new("outer", order::CONN);
    let (outer, inner) = (Mutex::new(&OUTER, ()), Mutex::new(&CLASS, ()));
    let _outer = outer.lock();
    let _inner = Condvar::new().wait(inner.lock(), Some(Duration::ZERO));
}
