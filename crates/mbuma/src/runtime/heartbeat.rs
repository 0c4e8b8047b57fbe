//! Shows other threads whether a worker's loop is running or stuck.
//!
//! Locks: none.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that is even while the loop sleeps, and odd while it is awake.
#[derive(Debug)]
pub struct Heartbeat(AtomicU64);

impl Default for Heartbeat {
    /// The heartbeat of a loop that has not slept yet.
    fn default() -> Self {
        Self(AtomicU64::new(1))
    }
}

impl Heartbeat {
    /// The loop goes to sleep, or wakes up. Relaxed, here and in [`Heartbeat::get`]: readers use only the number
    /// itself. Only the loop writes it, so the addition need not be atomic.
    pub fn beat(&self) {
        self.0.store(self.get().wrapping_add(1), Ordering::Relaxed);
    }

    /// The present number. A reader that gets the same odd number twice knows that the loop was in one round all the
    /// time.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
