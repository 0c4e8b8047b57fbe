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
