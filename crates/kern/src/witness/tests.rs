use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::lock::{LockClass, Mutex, RwLock};
use crate::order;

static CONN: LockClass = LockClass::new("conn", order::CONN);
static ROUTE: LockClass = LockClass::new("route", order::ROUTE);
static ZONE: LockClass = LockClass::new("zone", order::ZONE);
static OTHER_ZONE: LockClass = LockClass::new("other zone", order::ZONE);

/// What `test` complained of; empty where this build has no WITNESS or nothing was wrong.
fn complaint(test: impl FnOnce()) -> String {
    let result = catch_unwind(AssertUnwindSafe(test));
    assert_eq!(held(), 0, "a complaint must leave nothing on the list");
    match result {
        Ok(()) => String::new(),
        Err(payload) => *payload
            .downcast::<String>()
            .expect("a message with arguments"),
    }
}

/// Checks that `test` is complained of in these words, if this build complains at all.
#[track_caller]
fn assert_complaint(words: &[&str], test: impl FnOnce()) {
    if !ENABLED {
        return;
    }
    let complaint = complaint(test);
    for word in words {
        assert!(complaint.contains(word), "{word:?} is not in {complaint:?}");
    }
}

#[test]
fn the_declared_order_is_silent() {
    // Breaks if a lawful nesting is complained of, or if the list forgets or keeps too much.
    let (conn, route, zone) = (
        Mutex::new(&CONN, ()),
        RwLock::new(&ROUTE, ()),
        Mutex::new(&ZONE, ()),
    );
    let complaint = complaint(|| {
        let a = conn.lock();
        let b = route.read();
        let c = zone.lock();
        assert_eq!(held(), if ENABLED { 3 } else { 0 });
        drop(a);
        drop(c);
        assert_eq!(held(), if ENABLED { 1 } else { 0 });
        let c = zone.lock();
        drop(b);
        drop(c);
        drop(route.write());
        assert_none("the end of the test");
    });
    assert_eq!(complaint, "");
}

#[test]
fn a_reversal_names_both_classes_and_sites() {
    // Breaks if a reversal goes unnoticed, or its report does not say where to look.
    let (conn, zone) = (Mutex::new(&CONN, ()), Mutex::new(&ZONE, ()));
    let (mut first, mut second) = (0, 0);
    let reversed = complaint(|| {
        (first, second) = (line!() + 1, line!() + 2);
        let _zone = zone.lock();
        let _conn = conn.lock();
    });
    for line in [first, second] {
        let site = format!("{}:{line}:", file!());
        assert_eq!(reversed.contains(&site), ENABLED, "{site} in {reversed:?}");
    }
    assert_complaint(&["reversal", "conn (rank 400)", "zone (rank 900)"], || {
        let _zone = zone.lock();
        let _conn = conn.lock();
    });
}

#[test]
fn read_locks_are_ordered_too() {
    // Breaks if only writers are checked: readers and a waiting writer hang just as well.
    let (conn, route) = (Mutex::new(&CONN, ()), RwLock::new(&ROUTE, ()));
    assert_complaint(&["reversal", "route", "conn"], || {
        let _route = route.read();
        let _conn = conn.lock();
    });
    assert_complaint(&["recursion", "route"], || {
        let _first = route.read();
        let _second = route.read();
    });
}

#[test]
fn equal_ranks_do_not_nest() {
    // Breaks if two classes at one rank pass: no order between them is declared.
    let (zone, other) = (Mutex::new(&ZONE, ()), Mutex::new(&OTHER_ZONE, ()));
    assert_complaint(&["reversal", "other zone", "zone"], || {
        let _zone = zone.lock();
        let _other = other.lock();
    });
    assert_complaint(&["reversal"], || {
        let _zone = zone.lock();
        let _other = other.lock_nested();
    });
}

#[test]
fn one_class_nests_only_on_purpose() {
    // Breaks if two connections locked in either order pass, or if doing so on purpose does not.
    let (a, b) = (Mutex::new(&CONN, ()), Mutex::new(&CONN, ()));
    assert_complaint(&["two locks of one class", "conn"], || {
        let _a = a.lock();
        let _b = b.lock();
    });
    let on_purpose = complaint(|| {
        let _a = a.lock();
        let _b = b.lock_nested();
        assert!(a.try_lock().is_none());
    });
    assert_eq!(on_purpose, "");

    let (a, b) = (RwLock::new(&ROUTE, ()), RwLock::new(&ROUTE, ()));
    let on_purpose = complaint(|| {
        let _a = a.read_nested();
        let _b = b.write_nested();
    });
    assert_eq!(on_purpose, "");
}

#[test]
fn the_same_lock_twice_is_caught_before_it_hangs() {
    // Breaks if lock_nested excuses taking the very same lock: the thread would wait for itself.
    let conn = Mutex::new(&CONN, ());
    assert_complaint(&["recursion", "conn"], || {
        let _once = conn.lock();
        let _twice = conn.lock_nested();
    });
}

#[test]
fn a_try_may_go_against_the_order_but_is_recorded() {
    // Breaks if a try, which cannot hang, is complained of; or if what it took is forgotten.
    let (conn, route, zone) = (
        Mutex::new(&CONN, ()),
        RwLock::new(&ROUTE, ()),
        Mutex::new(&ZONE, ()),
    );
    assert_complaint(&["reversal", "route", "zone"], || {
        let _zone = zone.lock();
        let _conn = conn.try_lock().expect("free");
        let _route = route.read();
    });
    assert_complaint(&["reversal", "conn", "route"], || {
        let _route = route.try_write().expect("free");
        let _conn = conn.lock();
    });
}

#[test]
fn a_callback_with_a_lock_held_is_reported() {
    // Breaks if code of a user of the stack can run under the stack's locks unnoticed.
    let zone = Mutex::new(&ZONE, ());
    assert_complaint(&["a constructor", "zone (rank 900)"], || {
        let _zone = zone.lock();
        assert_none("a constructor");
    });
}

#[test]
fn each_thread_has_its_own_list() {
    // Breaks if a lock held by one thread stands in the way of another.
    let (conn, zone) = (Mutex::new(&CONN, ()), Mutex::new(&ZONE, ()));
    let _zone = zone.lock();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(held(), 0);
            drop(conn.lock());
        });
    });
}
