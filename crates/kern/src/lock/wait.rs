//! One wait for a lock: its time and sleeps go to the class, and while it sleeps `show_locks` shows
//! which thread waits for which owner.
//!
//! Made only if the lock was not free, so it may read the clock twice.
//!
//! Invariant: the lock of a wait that the registry of threads shows exists: the waiter has a reference to it, and
//! removes its wait from the registry before it continues.
//! Locks: the thread's record, innermost.

use core::fmt;
use core::panic::Location;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use serde::Serialize;

use super::class::LockClass;
use super::mutex_word::OWNER;
use super::word::Waiter;
use crate::thread;

/// How a thread uses, or wants to use, a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// Holds a mutex.
    Lock,
    /// Reads, beside other readers.
    Read,
    /// Writes, alone.
    Write,
}

/// The words after the name of the lock in a report; none for a mutex.
impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lock => "",
            Self::Read => " to read",
            Self::Write => " to write",
        })
    }
}

/// A thread that sleeps for a lock, as its record shows it to others.
#[derive(Clone, Copy)]
pub(crate) struct Waiting {
    pub(crate) class: &'static LockClass,
    pub(crate) how: How,
    pub(crate) site: &'static Location<'static>,
    pub(crate) since: Instant,
    owner: *const AtomicU32,
}

// SAFETY: a thread follows the pointer only under the lock of the record that shows it; until then
// the lock that it points into exists (see the head of the file).
unsafe impl Send for Waiting {}

impl Waiting {
    /// Tells the lock from others.
    pub(crate) fn lock(&self) -> usize {
        self.owner.addr()
    }

    /// The token of the thread that holds the lock; 0 if no thread or only readers hold it.
    ///
    /// # Safety
    ///
    /// The record that shows this wait must be locked: then the waiter cannot leave.
    pub(crate) unsafe fn owner(&self) -> u32 {
        // SAFETY: the waiter has a reference to the lock and cannot leave, by the condition above.
        let word = unsafe { &*self.owner };
        word.load(Relaxed) & OWNER
    }
}

/// A wait in progress; it ends when this is dropped, after the lock was taken.
pub(super) struct LockWait<'a> {
    class: &'static LockClass,
    how: How,
    site: &'static Location<'static>,
    owner: &'a AtomicU32,
    since: Instant,
    sleeps: u64,
    handed: bool,
}

impl<'a> LockWait<'a> {
    /// A wait begins for a lock whose owner is named in `owner`.
    pub(super) fn begin(
        class: &'static LockClass,
        how: How,
        site: &'static Location<'static>,
        owner: &'a AtomicU32,
    ) -> Self {
        let _ = class.index(); // so that it shows, at once: this may be for ever
        Self {
            class,
            how,
            site,
            owner,
            since: Instant::now(),
            sleeps: 0,
            handed: false,
        }
    }
}

impl Waiter for LockWait<'_> {
    fn sleeps(&mut self) {
        if self.sleeps == 0 {
            thread::waits_for(Some(Waiting {
                class: self.class,
                how: self.how,
                site: self.site,
                since: self.since,
                owner: self.owner,
            }));
        }
        self.sleeps += 1;
    }

    fn handed(&mut self) {
        self.handed = true;
    }
}

impl Drop for LockWait<'_> {
    fn drop(&mut self) {
        if self.sleeps > 0 {
            thread::waits_for(None);
        }
        let nanos = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let counters = &self.class.counters;
        add(&counters.contended, 1);
        add(&counters.sleeps, self.sleeps);
        add(&counters.handoffs, self.handed.into());
        add(&counters.waited, nanos);
        // Without a write where the maximum stands, which is almost always.
        raise(&counters.waited_max, nanos);
        raise(&counters.overtaken_max, self.sleeps.saturating_sub(1));
    }
}

fn add(counter: &AtomicU64, by: u64) {
    if by > 0 {
        counter.fetch_add(by, Relaxed);
    }
}

fn raise(maximum: &AtomicU64, to: u64) {
    if maximum.load(Relaxed) < to {
        maximum.fetch_max(to, Relaxed);
    }
}
