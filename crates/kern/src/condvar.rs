//! Waiting under a [`Mutex`](crate::Mutex) until another thread changes the data under it.
//!
//! Invariant: the thread that changes the awaited condition holds the mutex while changing it, and notifies while
//! holding it or after: so no wakeup falls between the check of the condition and the sleep. A wait may end without a
//! notification: the caller must check its condition again.

mod sequence;

use core::sync::atomic::AtomicU32;
use std::time::Duration;

pub(crate) use self::sequence::Sequence;
use crate::lock::MutexGuard;
use crate::witness;

/// Threads that wait for a change of the data under a mutex.
#[doc(alias = "cv")]
#[derive(Debug, Default)]
pub struct Condvar(Sequence<AtomicU32>);

impl Condvar {
    /// A condition variable without waiters.
    #[must_use]
    pub const fn new() -> Self {
        Self(Sequence::new(AtomicU32::new(0)))
    }

    /// Gives the lock up, sleeps until notified, or `timeout` if there is one, and takes the lock
    /// again.
    ///
    /// # Panics
    ///
    /// If another lock is held, over which the thread would sleep, and WITNESS is built in.
    #[doc(alias = "cv_wait")]
    #[doc(alias = "cv_timedwait")]
    #[track_caller]
    pub fn wait<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Option<Duration>,
    ) -> MutexGuard<'a, T> {
        let mutex = guard.mutex();
        witness::assert_only(mutex.address(), "a sleep");
        let seen = self.0.now();
        drop(guard);
        self.0.sleep(seen, timeout);
        mutex.lock()
    }

    /// Wakes one waiting thread.
    #[doc(alias = "cv_signal")]
    pub fn notify_one(&self) {
        self.0.wake_one();
    }

    /// Wakes all waiting threads.
    #[doc(alias = "cv_broadcast")]
    pub fn notify_all(&self) {
        self.0.wake_all();
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
