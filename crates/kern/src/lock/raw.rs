//! A mutex without data: it excludes, counts and names its owner, but has no guard and no WITNESS.
//!
//! Locks: this is a lock itself.

use core::panic::Location;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::class::LockClass;
use super::mutex_word::{MutexWord, OWNER};
use super::wait::{How, LockWait};
use crate::thread;

/// A mutex without data. For data inside and a checked order, use
/// [`Mutex`](crate::Mutex).
pub struct RawMutex(MutexWord<AtomicU32>);

impl RawMutex {
    /// An unlocked mutex.
    #[must_use]
    pub const fn new() -> Self {
        Self(MutexWord::new(AtomicU32::new(0)))
    }

    /// Waits for the lock, and counts that for `class`.
    #[track_caller]
    #[inline]
    pub fn lock(&self, class: &'static LockClass) {
        let me = thread::count(class);
        if !self.0.try_lock(me) {
            self.lock_slow(me, class, Location::caller());
        }
    }

    /// Takes the lock if it is free; whether it was.
    #[inline]
    pub fn try_lock(&self, class: &'static LockClass) -> bool {
        self.0.try_lock(thread::count(class))
    }

    /// Releases the lock. The calling thread must hold it.
    #[inline]
    pub fn unlock(&self) {
        self.0.unlock();
    }

    /// Forgets the threads that wait: see [`MutexGuard::forget_waiters`](super::MutexGuard::forget_waiters).
    pub(crate) fn forget_waiters(&self) {
        self.0.forget_waiters();
    }

    /// Whether the calling thread holds the lock. False in a thread that runs its last destructors:
    /// all such threads share one token.
    pub(crate) fn is_mine(&self) -> bool {
        let owner = self.0.word().load(Relaxed) & OWNER;
        owner != 0 && owner == thread::token() && owner != thread::LATE
    }

    #[cold]
    #[inline(never)]
    fn lock_slow(&self, me: u32, class: &'static LockClass, site: &'static Location<'static>) {
        let mut wait = LockWait::begin(class, How::Lock, site, self.0.word());
        self.0.lock_slow(me, &mut wait);
    }
}

impl Default for RawMutex {
    fn default() -> Self {
        Self::new()
    }
}
