//! The interface of WITNESS in builds without it: types without size, functions without instructions.

use super::HeldLock;
use crate::lock::{How, LockClass};

pub(super) const ENABLED: bool = false;

/// Stands where the list of held locks would.
pub(crate) type HeldList = ();

/// Stands where the record of a held lock would.
pub(crate) struct Held;

/// Stands where the graph, held for a fork, would.
pub(crate) struct OrdersHeld;

impl OrdersHeld {
    pub(crate) fn take() -> Self {
        Self
    }
}

impl Held {
    #[inline(always)]
    pub(crate) fn check(_: &'static LockClass, _: How, _: *const ()) {}

    #[inline(always)]
    pub(crate) fn record(_: &'static LockClass, _: How, _: *const ()) -> Self {
        Self
    }
}

#[inline(always)]
pub(super) fn held() -> usize {
    0
}

pub(super) fn holds((): &HeldList) -> Vec<HeldLock> {
    Vec::new()
}

pub(super) fn orders() -> Vec<(&'static str, &'static str)> {
    Vec::new()
}

#[inline(always)]
pub(super) fn assert_none(_: &str) {}

#[inline(always)]
pub(super) fn assert_only(_: *const (), _: &str) {}
