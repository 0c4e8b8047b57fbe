//! WITNESS where it is built in: the lists of held locks, and the checks against them.
//!
//! Invariant: a lock is on its thread's list from its acquisition to its release; a thread in its last destructors has
//! no list, and its locks are not checked.
//! Locks: the thread's record.

use core::marker::PhantomData;
use core::panic::Location;
use std::sync::MutexGuard;
use std::time::Instant;

use super::HeldLock;
use super::graph;
pub(crate) use super::graph::OrdersHeld;
use super::report::{self, Fault};
use crate::lock::{How, LockClass};
use crate::thread;

pub(super) const ENABLED: bool = true;

/// The locks that a thread holds, in the order in which it took them.
#[derive(Default)]
pub(crate) struct HeldList {
    list: Vec<Acquisition>,
    next: u64,
}

/// One lock that a thread holds or wants.
#[derive(Clone, Copy)]
pub(super) struct Acquisition {
    pub(super) class: &'static LockClass,
    pub(super) how: How,
    pub(super) site: &'static Location<'static>,
    /// Tells two locks of one class apart.
    lock: usize,
    /// Tells two acquisitions apart.
    id: u64,
    since: Option<Instant>,
}

/// The record of a held lock, kept in its guard; dropping it takes the lock off the list.
pub(crate) struct Held {
    /// None for a thread without a list.
    id: Option<u64>,
    /// A guard must go where a mutex guard may go, that is, not to another thread: the list that
    /// it is on belongs to this one.
    _not_send: PhantomData<MutexGuard<'static, ()>>,
}

impl Held {
    /// Panics if taking `lock` now is out of order. Called before waiting for it.
    #[track_caller]
    pub(crate) fn check(class: &'static LockClass, how: How, lock: *const ()) {
        check(&Acquisition::here(class, how, lock));
    }

    /// Puts a lock that was just taken onto the list.
    #[track_caller]
    pub(crate) fn record(class: &'static LockClass, how: How, lock: *const ()) -> Self {
        let mut taken = Acquisition::here(class, how, lock);
        taken.since = Some(Instant::now());
        let id = thread::with_record(|state| {
            let held = &mut state.held;
            taken.id = held.next;
            held.next += 1;
            held.list.push(taken);
            taken.id
        });
        Self {
            id,
            _not_send: PhantomData,
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        // Guards are mostly dropped in reverse order, so the search starts at the end.
        thread::with_record(|state| {
            let list = &mut state.held.list;
            if let Some(at) = list.iter().rposition(|taken| taken.id == id) {
                list.remove(at);
            }
        });
    }
}

impl Acquisition {
    #[track_caller]
    fn here(class: &'static LockClass, how: How, lock: *const ()) -> Self {
        Self {
            class,
            how,
            site: Location::caller(),
            lock: lock.addr(),
            id: 0,
            since: None,
        }
    }
}

pub(super) fn held() -> usize {
    thread::with_record(|state| state.held.list.len()).unwrap_or(0)
}

pub(super) fn holds(held: &HeldList) -> Vec<HeldLock> {
    let show = |taken: &Acquisition| HeldLock {
        class: taken.class,
        how: taken.how,
        lock: taken.lock,
        site: Some(taken.site),
        held: taken.since.map(|since| since.elapsed()),
    };
    held.list.iter().map(show).collect()
}

pub(super) fn orders() -> Vec<(&'static str, &'static str)> {
    graph::orders()
}

#[track_caller]
pub(super) fn assert_none(what: &str) {
    complain_of_all_but(None, what);
}

#[track_caller]
pub(super) fn assert_only(lock: *const (), what: &str) {
    complain_of_all_but(Some(lock.addr()), what);
}

#[track_caller]
fn complain_of_all_but(lock: Option<usize>, what: &str) {
    let others = |taken: &&Acquisition| Some(taken.lock) != lock;
    let held: Vec<_> =
        thread::with_record(|state| state.held.list.iter().filter(others).copied().collect())
            .unwrap_or_default();
    if !held.is_empty() {
        report::complain(&Fault::Over { what, held });
    }
}

#[track_caller]
fn check(wanted: &Acquisition) {
    let fault = thread::with_record(|state| {
        let held = &state.held.list;
        let name = state.name.as_deref().unwrap_or_default();
        declared(held, wanted).or_else(|| learn(held, wanted, name))
    });
    // The record is released by now: unwinding drops guards, which come back to it.
    if let Some(fault) = fault.flatten() {
        report::complain(&fault);
    }
}

/// The complaint that the lock itself, its class or the ranks give rise to.
fn declared(held: &[Acquisition], wanted: &Acquisition) -> Option<Fault<'static>> {
    for &taken in held {
        let wanted = *wanted;
        if taken.lock == wanted.lock {
            return Some(Fault::Recursion { wanted, taken });
        }
        if core::ptr::eq(taken.class, wanted.class) {
            return Some(Fault::SameClass { wanted, taken });
        }
        if taken.class.is_ranked()
            && wanted.class.is_ranked()
            && taken.class.rank >= wanted.class.rank
        {
            let path = graph::path(wanted.class, taken.class).unwrap_or_default();
            return Some(Fault::Reversal {
                wanted,
                taken,
                path,
            });
        }
    }
    None
}

/// The complaint that learnt orders give rise to; without one, the order is learnt.
fn learn(held: &[Acquisition], wanted: &Acquisition, thread: &str) -> Option<Fault<'static>> {
    for taken in held {
        if let Err(path) = graph::learn(taken, wanted, thread) {
            return Some(Fault::Reversal {
                wanted: *wanted,
                taken: *taken,
                path,
            });
        }
    }
    None
}
