//! Waiting under a [`Mutex`](crate::Mutex) for what another thread does under it.
//!
//! Called by `uma` (allocations that wait at a limit). Calls std's condition variable, which is
//! an inside of this file and does not show.
//!
//! Invariant: whoever changes what is waited for holds the mutex while changing it, and notifies
//! while holding it or after: so no wakeup falls between a look and the sleep that follows.
//! A wait may end without a notification; look again.

use std::sync::{self, PoisonError};
use std::time::Duration;

use crate::lock::MutexGuard;

/// Threads that wait for a change of what a mutex protects.
#[doc(alias = "cv")]
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// Nobody waits yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(sync::Condvar::new())
    }

    /// Gives the lock up, sleeps until notified, or `timeout` if there is one, and takes the lock
    /// again. WITNESS sees the lock as held meanwhile: the sleeper itself takes no other.
    #[doc(alias = "cv_wait")]
    #[doc(alias = "cv_timedwait")]
    pub fn wait<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Option<Duration>,
    ) -> MutexGuard<'a, T> {
        guard.map_inner(|inner| match timeout {
            None => self.0.wait(inner).unwrap_or_else(PoisonError::into_inner),
            Some(timeout) => {
                self.0
                    .wait_timeout(inner, timeout)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0
            }
        })
    }

    /// Wakes one who waits.
    #[doc(alias = "cv_signal")]
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all who wait.
    #[doc(alias = "cv_broadcast")]
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[cfg(test)]
mod tests;
