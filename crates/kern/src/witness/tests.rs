use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::lock::{LockClass, Mutex, RmLock};
use crate::order;

static CONN: LockClass = LockClass::new("conn", order::CONN);
static ROUTE: LockClass = LockClass::new("route", order::ROUTE);
static ZONE: LockClass = LockClass::new("zone", order::ZONE);
static OTHER_ZONE: LockClass = LockClass::new("other zone", order::ZONE);

/// The report that `test` caused; empty if there was none or this build has no WITNESS.
fn complaint(test: impl FnOnce()) -> String {
    let result = catch_unwind(AssertUnwindSafe(test));
    assert_eq!(held(), 0, "a report must leave the list empty");
    match result {
        Ok(()) => String::new(),
        Err(payload) => *payload
            .downcast::<String>()
            .expect("a message with arguments"),
    }
}

/// Checks that WITNESS reports `test` in these words, if this build has WITNESS.
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
fn locks_in_declared_order_are_not_reported() {
    // Breaks if WITNESS reports a permitted nesting, or if the list of held locks forgets one or keeps a released one.
    let (conn, route, zone) = (
        Mutex::new(&CONN, ()),
        RmLock::new(&ROUTE, ()),
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
    let (conn, route) = (Mutex::new(&CONN, ()), RmLock::new(&ROUTE, ()));
    assert_complaint(&["reversal", "route", "conn"], || {
        let _route = route.read();
        let _conn = conn.lock();
    });
    assert_complaint(&["read lock recursion", "route"], || {
        let _first = route.read();
        let _second = route.read();
    });
}

#[test]
fn equal_ranks_do_not_nest() {
    // Breaks if two classes at one rank pass: no order between them is declared.
    let (zone, other) = (Mutex::new(&ZONE, ()), Mutex::new(&OTHER_ZONE, ()));
    let words = ["reversal", "other zone", "zone", "of one rank do not nest"];
    assert_complaint(&words, || {
        let _zone = zone.lock();
        let _other = other.lock();
    });
}

#[test]
fn one_class_does_not_nest() {
    // Breaks if two connections locked in either order pass.
    let (a, b) = (Mutex::new(&CONN, ()), Mutex::new(&CONN, ()));
    assert_complaint(&["two locks of one class", "conn"], || {
        let _a = a.lock();
        let _b = b.lock();
    });
}

#[test]
fn the_same_lock_twice_is_caught_before_it_hangs() {
    // Breaks if the same lock is reported as another one of its class, or not at all.
    let conn = Mutex::new(&CONN, ());
    assert_complaint(&["recursion", "conn"], || {
        let _once = conn.lock();
        let _twice = conn.lock();
    });
}

#[test]
fn a_try_may_go_against_the_order_but_is_recorded() {
    // Breaks if WITNESS reports a try, which can't hang; or if it forgets a lock that a try took.
    let (conn, route, zone) = (
        Mutex::new(&CONN, ()),
        RmLock::new(&ROUTE, ()),
        Mutex::new(&ZONE, ()),
    );
    assert_complaint(&["reversal", "route", "zone"], || {
        let _zone = zone.lock();
        let _conn = conn.try_lock().expect("free");
        let _route = route.read();
    });
    assert_complaint(&["reversal", "conn", "route"], || {
        let _route = route.try_read().expect("free");
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
    let route = Mutex::new(&ROUTE, ());
    assert_complaint(
        &["a callback", "route (rank 700) at ", ", zone", " are held"],
        || {
            let _route = route.lock();
            let _zone = zone.lock();
            assert_none("a callback");
        },
    );
}

#[test]
fn each_thread_has_its_own_list() {
    // Breaks if WITNESS reports one thread because of another thread's lock.
    let (conn, zone) = (Mutex::new(&CONN, ()), Mutex::new(&ZONE, ()));
    let _zone = zone.lock();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(held(), 0);
            drop(conn.lock());
        });
    });
}

#[test]
fn an_order_learnt_binds_other_threads() {
    // Breaks if an order is forgotten with its thread, or two classes without ranks pass in both.
    static ALPHA: LockClass = LockClass::unranked("alpha");
    static BETA: LockClass = LockClass::unranked("beta");
    let (alpha, beta) = (Mutex::new(&ALPHA, ()), Mutex::new(&BETA, ()));
    let (mut learnt, mut reversed) = (0, 0);
    std::thread::scope(|scope| {
        let teacher = std::thread::Builder::new().name("teacher".into());
        let learns = || {
            learnt = line!() + 1;
            let _alpha = alpha.lock();
            let _beta = beta.lock();
        };
        teacher.spawn_scoped(scope, learns).expect("a thread");
    });
    let mut reverse = || {
        complaint(|| {
            reversed = line!() + 1;
            let _beta = beta.lock();
            let _alpha = alpha.lock();
        })
    };
    let (first, again) = (reverse(), reverse());
    if !ENABLED {
        return;
    }
    // The whole text, because the report is the subject of this test.
    let (file, after) = (file!(), |line: u32| line + 1);
    let expected = format!(
        "witness: lock order reversal: alpha at {file}:{}:32, while holding beta at {file}:{reversed}:30\n  \
         alpha, then beta, was seen: at {file}:{learnt}:32, then {file}:{}:30, by thread \"teacher\"",
        after(reversed),
        after(learnt),
    );
    assert_eq!(first, expected);
    assert_eq!(again, expected, "a reported order is not learnt");
    assert!(orders().contains(&("alpha", "beta")));
    assert!(!orders().contains(&("beta", "alpha")));
}

#[test]
fn an_order_is_learnt_through_a_callback() {
    // Breaks if only orders within one function are seen.
    static TABLE: LockClass = LockClass::unranked("table");
    static USER: LockClass = LockClass::unranked("user");
    let (table, user) = (RmLock::new(&TABLE, ()), Mutex::new(&USER, ()));
    let for_each = |callback: &dyn Fn()| {
        let _table = table.read();
        callback();
    };
    let under_user = complaint(|| {
        let _user = user.lock();
        for_each(&|| ());
    });
    assert_eq!(under_user, "");
    assert_complaint(
        &["reversal: user", "while holding table", "was seen"],
        || {
            for_each(&|| drop(user.lock()));
        },
    );
}

#[test]
fn a_circle_of_three_is_found() {
    // Breaks if only pairs are compared: each of the three is in order with its neighbour.
    static A: LockClass = LockClass::unranked("circle a");
    static B: LockClass = LockClass::unranked("circle b");
    static C: LockClass = LockClass::unranked("circle c");
    let (a, b, c) = (Mutex::new(&A, ()), Mutex::new(&B, ()), Mutex::new(&C, ()));
    let in_order = complaint(|| {
        let outer = a.lock();
        drop(b.lock());
        drop(outer);
        let _outer = b.lock();
        drop(c.lock());
    });
    assert_eq!(in_order, "");
    assert_complaint(
        &[
            "reversal: circle a at",
            "holding circle c at",
            "circle a, then circle b, was seen: at",
            "circle b, then circle c, was seen: at",
        ],
        || {
            let _c = c.lock();
            let _a = a.lock();
        },
    );
}

#[test]
fn a_circle_may_go_through_the_declared_ranks() {
    // Breaks if learnt orders and declared ones are kept apart.
    static BETWEEN: LockClass = LockClass::unranked("between");
    let (conn, between, route) = (
        Mutex::new(&CONN, ()),
        Mutex::new(&BETWEEN, ()),
        Mutex::new(&ROUTE, ()),
    );
    let in_order = complaint(|| {
        drop(conn.lock());
        let _route = route.lock();
        let _between = between.lock();
    });
    assert_eq!(in_order, "");
    assert_complaint(
        &[
            "reversal: conn (rank 400) at",
            "holding between at",
            "conn, then route, is declared: rank 400 before 700",
            "route, then between, was seen: at",
        ],
        || {
            let _between = between.lock();
            let _conn = conn.lock();
        },
    );
}

#[test]
fn a_try_is_not_learnt_as_an_order() {
    // Breaks if a try makes an order: it can't hang, and may go against one.
    static LEFT: LockClass = LockClass::unranked("left");
    static RIGHT: LockClass = LockClass::unranked("right");
    let (left, right) = (Mutex::new(&LEFT, ()), Mutex::new(&RIGHT, ()));
    let silent = complaint(|| {
        let outer = left.lock();
        drop(right.try_lock().expect("free"));
        drop(outer);
        let _outer = right.lock();
        drop(left.lock());
    });
    assert_eq!(silent, "");
}
