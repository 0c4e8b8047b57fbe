//! Shows to other threads whether a worker's loop goes round.
//!
//! Locks: none.

use std::sync::atomic::{AtomicU64, Ordering};

/// Whether the loop goes round: even while it sleeps, odd while it is awake.
#[derive(Debug)]
pub struct Heartbeat(AtomicU64);

impl Default for Heartbeat {
    /// Of a loop that has not slept yet.
    fn default() -> Self {
        Self(AtomicU64::new(1))
    }
}

impl Heartbeat {
    /// The loop goes to sleep, or wakes up. Relaxed, here and in [`Heartbeat::get`]: the number is all that
    /// there is to know. Only the loop writes it, so no addition has to be one step.
    pub fn beat(&self) {
        self.0.store(self.get().wrapping_add(1), Ordering::Relaxed);
    }

    /// The number so far: the same odd number twice means that the loop was in one round meanwhile.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
