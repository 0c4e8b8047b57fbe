//! A lock of a UNIX-domain socket, with Giant outside of it where that is over the whole stack.
//!
//! These sockets do not pass through a [`Batch`](crate::batch::Batch): a call takes one lock, does one thing,
//! and calls the wakers once that is released. So Giant goes with the lock, and none can be forgotten.
//! A second lock inside of the first finds Giant taken already.
//!
//! Invariant: a guard gives up its lock before Giant.
//! Locks: Giant (if it is over all), then its own.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use kern::prim::{Mutex, MutexGuard};
use kern::{Giant, GiantGuard, LockClass};

/// A lock.
pub(super) struct Lock<T> {
    giant: Arc<Giant>,
    inner: Mutex<T>,
}

/// It is held.
pub(super) struct Locked<'a, T> {
    // Dropped in this order.
    inner: MutexGuard<'a, T>,
    _giant: GiantGuard<'a>,
}

impl<T> Lock<T> {
    pub(super) fn new(giant: &Arc<Giant>, class: &'static LockClass, value: T) -> Self {
        Self {
            giant: Arc::clone(giant),
            inner: Mutex::new(class, value),
        }
    }

    #[track_caller]
    pub(super) fn lock(&self) -> Locked<'_, T> {
        let giant = self.giant.enter();
        Locked {
            inner: self.inner.lock(),
            _giant: giant,
        }
    }

    /// Calls foreign code when no lock is held: without Giant, even if the calling thread holds Giant.
    #[track_caller]
    pub(super) fn outward<R>(&self, call: impl FnOnce() -> R) -> R {
        self.giant.without(call)
    }
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}
