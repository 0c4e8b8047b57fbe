//! An event counter: cheap to bump from any thread, read now and then by statistics.
//!
//! Called by every layer. Calls nothing. The inside is one relaxed atomic; a later version keeps
//! one slot per CPU behind the same methods, so callers must not expect a reader to see a total
//! that existed at one instant. Locks: none.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

/// Counts events. Wraps after 2^64, which no machine lives to see.
#[doc(alias = "counter_u64_add")]
#[derive(Default)]
pub struct Counter {
    /// Written by anyone, read by statistics. Relaxed: the number orders nothing else.
    count: AtomicU64,
}

impl Counter {
    /// A counter at zero.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            count: AtomicU64::new(0),
        }
    }

    /// Counts one event.
    #[inline]
    pub fn inc(&self) {
        self.add(1);
    }

    /// Counts `n` events, or `n` bytes.
    #[inline]
    pub fn add(&self, n: u64) {
        self.count.fetch_add(n, Ordering::Relaxed);
    }

    /// What was counted so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.get(), f)
    }
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.get(), f)
    }
}

#[cfg(test)]
mod tests;
