//! WITNESS: checks the order of locks as they are taken, and reports a reversal with both places
//! before anything hangs.
//!
//! It is there in builds with debug assertions and with the feature `witness`. In other builds its
//! types have no size and its functions no instructions.
//!
//! Each thread keeps a list of the locks it holds, with the place where each was taken. Taking
//! another one is checked against that list:
//!
//! * the same lock again is an error, reading it twice too;
//! * a second lock of a class already held is an error: there is no order within a class;
//! * a declared rank (see [`order`](crate::order)) must be above that of every held lock that has
//!   one;
//! * a lock taken while another is held is an order learnt, for all threads and for the life of the
//!   process; an order that closes a circle with the orders learnt and declared before is an error,
//!   even if no thread hangs this time. Classes without a rank have only this.
//!
//! An acquisition that cannot wait (`try_lock`) is recorded but not checked.
//!
//! | file | content |
//! |---|---|
//! | `held.rs` | the lists, and the checks against them |
//! | `graph.rs` | the orders learnt |
//! | `report.rs` | the words |
//! | `off.rs` | the same interface without a check, for builds without WITNESS |
//!
//! Locks: the thread's record, then the graph's; both innermost and of std.
//! Source: seed 002, section on WITNESS.

#[cfg(any(debug_assertions, feature = "witness"))]
mod graph;
#[cfg(any(debug_assertions, feature = "witness"))]
mod held;
#[cfg(any(debug_assertions, feature = "witness"))]
mod report;
#[cfg(any(debug_assertions, feature = "witness"))]
use held as build;

#[cfg(not(any(debug_assertions, feature = "witness")))]
mod off;
#[cfg(not(any(debug_assertions, feature = "witness")))]
use off as build;

mod held_lock;

pub use held_lock::HeldLock;

pub(crate) use build::{Held, HeldList, OrdersHeld};

/// Whether this build checks anything.
pub const ENABLED: bool = build::ENABLED;

/// How many locks the calling thread holds; 0 where WITNESS is not built in.
#[must_use]
pub fn held() -> usize {
    build::held()
}

/// The orders learnt so far: a lock of the second class was taken while one of the first was held.
/// Empty where WITNESS is not built in.
#[must_use]
pub fn orders() -> Vec<(&'static str, &'static str)> {
    build::orders()
}

/// The locks that a thread with this list holds.
pub(crate) fn holds(held: &HeldList) -> Vec<HeldLock> {
    build::holds(held)
}

/// Complains if the calling thread holds a lock, naming `what` is about to happen: a callback, a
/// sleep, a constructor. The complaint names all that it holds, and where each was taken.
///
/// # Panics
///
/// If a lock is held and WITNESS is built in.
#[doc(alias = "WITNESS_WARN")]
#[track_caller]
#[inline]
pub fn assert_none(what: &str) {
    build::assert_none(what);
}

/// As [`assert_none`], but `lock` may be held: the sleep of a condition variable gives it up.
#[track_caller]
#[inline]
pub(crate) fn assert_only(lock: *const (), what: &str) {
    build::assert_only(lock, what);
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
