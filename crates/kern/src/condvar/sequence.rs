//! The protocol of a condition variable: a number that every notification changes.
//!
//! A sleeper reads the number while it holds the mutex, releases the mutex, and sleeps if the
//! number is still the same; the kernel compares and queues the thread in one step. A notifying thread has
//! changed the condition under the mutex before. So either the sleeper saw the change,
//! or its number is older than the notification. The protocol would fail only after exactly 2^32 notifications
//! between a sleeper's read and its sleep.
//!
//! Locks: none; its caller's.

use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;

use crate::lock::LockWord;

/// A number to sleep on.
#[derive(Debug, Default)]
pub(crate) struct Sequence<W>(W);

impl<W: LockWord> Sequence<W> {
    /// A sequence in `word`.
    pub(crate) const fn new(word: W) -> Self {
        Self(word)
    }

    /// Where it stands. The mutex is held.
    pub(crate) fn now(&self) -> u32 {
        self.0.load(Relaxed)
    }

    /// Sleeps unless it has moved from `seen`. The mutex is not held.
    pub(crate) fn sleep(&self, seen: u32, timeout: Option<Duration>) {
        self.0.sleep(seen, timeout);
    }

    /// Moves it, and wakes one sleeper.
    pub(crate) fn wake_one(&self) {
        self.0.fetch_add(1, Relaxed);
        self.0.wake_one();
    }

    /// Moves it, and wakes all sleepers.
    pub(crate) fn wake_all(&self) {
        self.0.fetch_add(1, Relaxed);
        self.0.wake_all();
    }
}
