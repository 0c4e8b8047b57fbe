//! A lock of a stack, with Giant outside of it where that is over the whole stack.
//!
//! | the calling thread | takes it by | Giant |
//! |---|---|---|
//! | is outside of the stack: a call on a socket | [`Guarded::lock`] | taken first, if it is over all; released last |
//! | is inside of an entry, a batch | [`Guarded::lock_inside`] | the entry has taken it |
//!
//! So a call on a socket can't reach the data without Giant. A second lock inside of the first finds Giant taken
//! already. WITNESS sees both locks, and reports one that is taken outside of its rank.
//!
//! Invariant: a guard releases its lock before Giant.
//! Locks: Giant, then its own.

use core::fmt;
use core::ops::{Deref, DerefMut};

use crate::lock::LockClass;
use crate::prim::{Mutex, MutexGuard};
use crate::{Giant, GiantGuard};

/// Data of a stack under a lock.
///
/// ```
/// use kern::{Giant, Guarded, LockClass, order};
///
/// static CLASS: LockClass = LockClass::new("queue", order::IFQUEUE);
/// let giant = Giant::new(true);
/// let queue = Guarded::new(&CLASS, vec![1]);
/// queue.lock(&giant).push(2);
///
/// let _entry = giant.enter();
/// assert_eq!(queue.lock_inside().len(), 2);
/// ```
pub struct Guarded<T>(Mutex<T>);

/// The lock is held, and Giant if that is over the stack.
pub struct GuardedLock<'a, T> {
    // Dropped in this order.
    data: MutexGuard<'a, T>,
    _giant: GiantGuard<'a>,
}

impl<T> Guarded<T> {
    /// An unlocked lock around `value`.
    pub fn new(class: &'static LockClass, value: T) -> Self {
        Self(Mutex::new(class, value))
    }

    /// Takes Giant, if it is over the stack, and then the lock.
    ///
    /// # Panics
    /// If a lock is held already that must not be, and WITNESS is built in.
    #[track_caller]
    #[inline]
    pub fn lock<'a>(&'a self, giant: &'a Giant) -> GuardedLock<'a, T> {
        let giant = giant.enter();
        GuardedLock {
            data: self.0.lock(),
            _giant: giant,
        }
    }

    /// Takes the lock. The calling thread is inside of an entry into the stack.
    ///
    /// # Panics
    /// As [`Guarded::lock`].
    #[track_caller]
    #[inline]
    pub fn lock_inside(&self) -> MutexGuard<'_, T> {
        self.0.lock()
    }
}

impl<T> Deref for GuardedLock<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.data
    }
}

impl<T> DerefMut for GuardedLock<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.data
    }
}

impl<T: fmt::Debug> fmt::Debug for Guarded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::Guarded;
    use crate::{Giant, LockClass, order};

    static CLASS: LockClass = LockClass::new("guarded", order::IFQUEUE);

    #[test]
    fn giant_is_held_as_long_as_the_lock_if_it_is_over_all() {
        // Breaks if a lock is taken without Giant, or Giant is released before it or never.
        for over_all in [true, false] {
            let giant = Giant::new(over_all);
            let data = Guarded::new(&CLASS, 0);
            let mut guard = data.lock(&giant);
            assert_eq!(guard._giant.has_giant(), over_all);
            *guard += 1;
            drop(guard);
            // Another thread gets both.
            std::thread::scope(|s| {
                s.spawn(|| *data.lock(&giant) += 1);
            });
            let entry = giant.enter();
            assert_eq!(*data.lock_inside(), 2);
            drop(entry);
        }
    }
}
