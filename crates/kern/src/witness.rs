//! WITNESS: checks the order of locks as they are taken, and reports a reversal with both places
//! before anything hangs.
//!
//! Called by [`lock`](crate::lock) around every acquisition, and by whoever calls out of the stack
//! ([`assert_none`]). Calls nothing.
//!
//! It is there in builds with debug assertions and with the feature `witness`. In other builds its
//! types have no size and its functions no instructions.
//!
//! Each thread keeps a list of the locks it holds, with the place where each was taken. A lock may
//! be taken if its rank (see [`order`](crate::order)) is above that of every held one. A second
//! lock of a class already held needs `lock_nested`, by which the caller says that the order
//! within the class is settled some other way (by address, say); the same lock twice is an error
//! even so. An acquisition that cannot wait (`try_lock`) is recorded but not checked.
//!
//! Locks: none; the list belongs to its thread. Source: seed 002, section on WITNESS.

#[cfg(any(debug_assertions, feature = "witness"))]
mod on;
#[cfg(any(debug_assertions, feature = "witness"))]
use on as build;

#[cfg(not(any(debug_assertions, feature = "witness")))]
mod off;
#[cfg(not(any(debug_assertions, feature = "witness")))]
use off as build;

pub(crate) use build::{ClassRef, Held};

/// Whether this build checks anything.
pub const ENABLED: bool = build::ENABLED;

/// How many locks the calling thread holds; 0 where WITNESS is not built in.
#[must_use]
pub fn held() -> usize {
    build::held()
}

/// Complains if the calling thread holds a lock, naming `what` is about to happen: a callback, a
/// sleep, a constructor.
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

#[cfg(test)]
mod tests;
