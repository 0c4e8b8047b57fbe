//! The next deadline of data that a lock protects, for a thread that runs timers: it reads the deadline without the
//! lock.
//!
//! A worker asks for the next deadline in every round, and mostly no timer is due. With a lock for each kind of timer
//! these questions took a seventh of the time of a TCP round trip on one thread.
//!
//! The holder of the lock stores the deadline after each change. The order of memory accesses is relaxed, so a thread
//! that stores an earlier deadline must then wake the thread that runs timers, as it must in any case.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::Time;

/// No deadline. [`Time::MAX`] means the same.
const NEVER: u64 = u64::MAX;

/// A deadline that threads read and write without a lock, or none.
///
/// ```
/// use kern::{AtomicDeadline, Time};
///
/// let next = AtomicDeadline::new();
/// next.set(Some(Time::from_secs(2)));
/// assert_eq!(next.get(), Some(Time::from_secs(2)));
/// assert_eq!((next.take(), next.get()), (Some(Time::from_secs(2)), None));
/// ```
#[derive(Debug)]
pub struct AtomicDeadline(AtomicU64);

impl AtomicDeadline {
    /// No deadline.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(NEVER))
    }

    /// The deadline that was stored last.
    #[inline]
    #[must_use]
    pub fn get(&self) -> Option<Time> {
        known(self.0.load(Relaxed))
    }

    /// Stores a deadline, or that there is none.
    #[inline]
    pub fn set(&self, at: Option<Time>) {
        self.0.store(at.map_or(NEVER, Time::as_nanos), Relaxed);
    }

    /// Removes the deadline and returns it. Of several threads one gets it.
    pub fn take(&self) -> Option<Time> {
        known(self.0.swap(NEVER, Relaxed))
    }
}

impl Default for AtomicDeadline {
    fn default() -> Self {
        Self::new()
    }
}

fn known(nanos: u64) -> Option<Time> {
    (nanos != NEVER).then_some(Time::from_nanos(nanos))
}
