use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;

use super::*;
use crate::witness;

/// Whether another thread could have Giant now.
fn is_free(giant: &Giant) -> bool {
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let free = giant.lock.raw.try_lock(&CLASS);
            if free {
                giant.lock.raw.unlock();
            }
            free
        });
        other.join().expect("no panic")
    })
}

#[test]
fn giant_is_taken_as_the_table_says() {
    // Breaks if code that is not MP-safe runs beside other threads, or MP-safe code waits for them.
    for (over_all, mp_safe, taken) in [
        (true, true, true),
        (true, false, true),
        (false, true, false),
        (false, false, true),
    ] {
        let giant = Giant::new(over_all);
        assert_eq!(giant.is_over_all(), over_all);
        let guard = giant.enter_for(mp_safe);
        assert_eq!(guard.has_giant(), taken);
        assert_eq!(is_free(&giant), !taken);
        drop(guard);
        assert!(is_free(&giant));
        assert_eq!(giant.enter().has_giant(), over_all);
    }
    assert_eq!(witness::held(), 0);
}

#[test]
fn a_thread_may_take_giant_again() {
    // Breaks if a callback that enters the stack from which it was called hangs, or releases Giant when it leaves.
    let giant = Giant::new(true);
    let outer = giant.enter();
    let inner = giant.enter();
    drop(outer);
    assert!(!is_free(&giant), "the inner guard is still out");
    drop(inner);
    assert!(is_free(&giant));
}

#[test]
fn giant_excludes_other_threads() {
    // Breaks if two threads are under it at once.
    let (giant, inside) = (Giant::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..if cfg!(miri) { 20 } else { 2_000 } {
                    let _giant = giant.enter_for(false);
                    assert_eq!(inside.fetch_add(1, SeqCst), 0);
                    inside.fetch_sub(1, SeqCst);
                }
            });
        }
    });
}

#[test]
fn without_releases_all_holds_and_retakes_them() {
    // Breaks if a sleeper keeps the whole stack from running, or comes back without Giant.
    let giant = Giant::new(true);
    let _outer = giant.enter();
    let inner = giant.enter();
    let free = giant.without(|| {
        witness::assert_none("a sleep");
        is_free(&giant)
    });
    assert!(free && !is_free(&giant));
    let failed = catch_unwind(AssertUnwindSafe(|| giant.without(|| panic!("asleep"))));
    assert!(
        failed.is_err() && !is_free(&giant),
        "a panic takes it again"
    );
    drop(inner);
    assert!(!is_free(&giant));
    assert!(Giant::new(false).without(|| true));
}

#[test]
#[should_panic(expected = "Giant was given up for a sleep")]
fn without_panics_if_an_outer_guard_ends() {
    // Breaks if a guard can release Giant after another thread has taken it.
    let giant = Giant::new(true);
    let outer = Cell::new(Some(giant.enter()));
    let _inner = giant.enter();
    giant.without(|| drop(outer.take()));
}

#[test]
fn an_outward_call_runs_under_giant_only_if_not_mp_safe() {
    // Breaks if the stack calls an MP-safe device, which may lead into another stack, with Giant held; or one that is
    // not MP-safe without Giant.
    for over_all in [false, true] {
        let giant = Giant::new(over_all);
        let device = Component::new("device", true);
        let old = Component::new("old driver", false);
        let _stack = giant.enter();
        giant.call_outward(&device, || {
            witness::assert_none("a device");
            assert!(is_free(&giant));
        });
        giant.call_outward(&old, || {
            assert!(!is_free(&giant));
            giant.call_outward(&device, || assert!(is_free(&giant)));
            assert!(!is_free(&giant), "it is given back");
        });
        assert_eq!(is_free(&giant), !over_all);
        device.set_mp_safe(false);
        giant.call_outward(&device, || assert!(!is_free(&giant)));
        assert_eq!((device.entered(), old.entered()), (1, 1));
    }
    assert_eq!(witness::held(), 0);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "two locks of one class: giant")]
fn two_giants_do_not_nest() {
    // Breaks if two stacks, each with a Giant of its own, can wait for each other for ever unnoticed.
    let (one, other) = (Giant::new(true), Giant::new(false));
    let _one = one.enter();
    let _other = other.enter_for(false);
}

#[test]
fn components_list_which_need_giant() {
    // Breaks if a user can't see which device keeps the stack on one processor.
    let giant = Giant::new(false);
    let (old, new) = (Component::new("old", false), Component::new("new", true));
    for _ in 0..3 {
        drop(giant.enter_component(&old));
        drop(giant.enter_component(&new));
    }
    drop(Giant::new(true).enter_component(&new));
    assert_eq!((old.entered(), new.entered()), (3, 1));
    assert_eq!(old.to_string(), "old: Giant, entered 3 times under it");
    assert_eq!(new.to_string(), "new: MP-safe, entered 1 times under it");
    assert!(!old.is_mp_safe() && new.is_mp_safe() && old.name() == "old");
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "reversal: giant (rank 0) at ")]
fn giant_is_the_outermost_lock() {
    // Breaks if a device that needs Giant can be called with a lock of the stack held.
    static CONN: LockClass = LockClass::new("conn", order::CONN);
    let (giant, conn) = (Giant::new(false), crate::Mutex::new(&CONN, ()));
    let _conn = conn.lock();
    let _giant = giant.enter_for(false);
}
