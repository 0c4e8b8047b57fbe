//! A lock of a UNIX-domain socket, with a reference to its stack's Giant.
//!
//! These sockets use no [`Batch`](crate::batch::Batch): a call takes one lock, makes one change, and calls the wakers
//! after releasing the lock.
//!
//! Locks: Giant (if it is over all), then its own.

use std::sync::Arc;

use kern::guarded::GuardedLock;
use kern::{Giant, Guarded, LockClass};

/// A lock.
pub(super) struct Lock<T> {
    giant: Arc<Giant>,
    inner: Guarded<T>,
}

/// It is held.
pub(super) type Locked<'a, T> = GuardedLock<'a, T>;

impl<T> Lock<T> {
    pub(super) fn new(giant: &Arc<Giant>, class: &'static LockClass, value: T) -> Self {
        Self {
            giant: Arc::clone(giant),
            inner: Guarded::new(class, value),
        }
    }

    #[track_caller]
    pub(super) fn lock(&self) -> Locked<'_, T> {
        self.inner.lock(&self.giant)
    }

    /// Calls foreign code when no lock is held: without Giant, even if the calling thread holds Giant.
    #[track_caller]
    pub(super) fn outward<R>(&self, call: impl FnOnce() -> R) -> R {
        self.giant.without(call)
    }
}
