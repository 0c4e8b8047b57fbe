//! Where instants come from: the machine's monotonic clock, or one that a test or the simulator
//! turns by hand.
//!
//! Invariants: a clock never goes back. Locks: none.

use core::fmt::Debug;
use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::time::{Time, nanos};

#[allow(unsafe_code)] // a system call
mod sys;

/// A source of instants that never goes back.
pub trait Clock: Send + Sync + Debug {
    /// The instant now.
    fn now(&self) -> Time;
}

/// The machine's monotonic clock; its epoch is the moment it was made.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock {
    epoch_ns: u64,
}

impl MonotonicClock {
    /// A clock that reads [`Time::ZERO`] now.
    #[must_use]
    pub fn new() -> Self {
        Self {
            epoch_ns: sys::monotonic_ns(),
        }
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MonotonicClock {
    fn now(&self) -> Time {
        Time::from_nanos(sys::monotonic_ns().saturating_sub(self.epoch_ns))
    }
}

/// A clock that stands still until its owner moves it.
///
/// ```
/// use core::time::Duration;
/// use kern::{Clock, Time, VirtualClock};
///
/// let clock = VirtualClock::new(Time::ZERO);
/// clock.advance(Duration::from_secs(3600));
/// assert_eq!(clock.now(), Time::from_secs(3600));
/// ```
#[derive(Debug)]
pub struct VirtualClock {
    /// Written by the owner, read by all. Acquire and Release, so that a thread that sees the new time
    /// also sees the owner's earlier writes.
    now: AtomicU64,
}

impl VirtualClock {
    /// A clock that reads `start`.
    #[must_use]
    pub const fn new(start: Time) -> Self {
        Self {
            now: AtomicU64::new(start.as_nanos()),
        }
    }

    /// Moves the clock to `to`. Moving it back is an error of the caller: debug builds panic,
    /// others leave the clock where it is.
    pub fn set(&self, to: Time) {
        let before = self.now.fetch_max(to.as_nanos(), Ordering::AcqRel);
        debug_assert!(
            before <= to.as_nanos(),
            "the clock was set back from {:?} to {to:?}",
            Time::from_nanos(before)
        );
    }

    /// Moves the clock on by `by`, at most to [`Time::MAX`].
    pub fn advance(&self, by: Duration) {
        let by = nanos(by);
        self.now.update(Ordering::AcqRel, Ordering::Acquire, |now| {
            now.saturating_add(by)
        });
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Time {
        Time::from_nanos(self.now.load(Ordering::Acquire))
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Time {
        (**self).now()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
