//! Mutual exclusion around a value.
//!
//! Invariant: the value is touched only by the guard's thread, or through `&mut`.
//! Locks: this is a lock itself.

use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::panic::{RefUnwindSafe, UnwindSafe};

use super::class::LockClass;
use super::raw::RawMutex;
use super::wait::How;
use crate::witness::Held;

/// Mutual exclusion around a `T`, which begins 16 bytes behind the mutex: the lock and the first
/// fields are in one cache line.
#[doc(alias = "ADAPTIVE_MUTEXES")]
#[doc(alias = "mtx")]
#[repr(C)]
pub struct Mutex<T: ?Sized> {
    class: &'static LockClass,
    raw: RawMutex,
    value: UnsafeCell<T>,
}

const _: () = assert!(core::mem::offset_of!(Mutex<u64>, value) == 16);

// SAFETY: a move of the mutex moves the value, which is `Send`; the other fields are `Send` themselves.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: one thread at a time accesses the value, so a shared mutex only sends the value between threads.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

// A panic releases the lock and does not poison it: that is the promise of this module, not an
// oversight of the caller.
impl<T: ?Sized> UnwindSafe for Mutex<T> {}
impl<T: ?Sized> RefUnwindSafe for Mutex<T> {}

impl<T> Mutex<T> {
    /// An unlocked mutex of `class` around `value`.
    pub const fn new(class: &'static LockClass, value: T) -> Self {
        Self {
            class,
            raw: RawMutex::new(),
            value: UnsafeCell::new(value),
        }
    }

    /// Returns the value; by taking `self` the caller shows that no thread shares the mutex.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock and holds it until the guard is dropped.
    ///
    /// # Panics
    ///
    /// If the lock is out of order and WITNESS is built in.
    #[doc(alias = "mtx_lock")]
    #[track_caller]
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        Held::check(self.class, How::Lock, self.address());
        self.raw.lock(self.class);
        self.taken()
    }

    /// As [`Mutex::lock`], without WITNESS: for a handler that takes all locks of a library before a fork
    /// ([`fork`](crate::fork)), whichever locks the forking thread holds. The caller answers for the order.
    #[track_caller]
    pub fn lock_for_fork(&self) -> MutexGuard<'_, T> {
        self.raw.lock(self.class);
        self.taken()
    }

    /// Takes the lock if it is free. Any lock order is allowed, because the call does not wait.
    #[doc(alias = "mtx_trylock")]
    #[track_caller]
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        if self.raw.try_lock(self.class) {
            Some(self.taken())
        } else {
            None
        }
    }

    /// The value, without locking, which `&mut` shows to be needless.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// The guard of a lock that was just taken.
    #[track_caller]
    #[inline]
    fn taken(&self) -> MutexGuard<'_, T> {
        MutexGuard {
            mutex: self,
            _held: Held::record(self.class, How::Lock, self.address()),
            _not_send: PhantomData,
        }
    }

    pub(crate) fn address(&self) -> *const () {
        (&raw const *self).cast()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_lock() {
            Some(value) => f.debug_tuple("Mutex").field(&&*value).finish(),
            None => f.write_str("Mutex(<locked>)"),
        }
    }
}

/// A held [`Mutex`]; dropping it releases the lock.
#[must_use = "the lock is released when the guard is dropped"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    _held: Held,
    /// The word names this thread, and so does WITNESS's list.
    _not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives only shared references to the value.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// Forgets the threads that wait for the lock: for the child of a fork, where they do not exist. The
    /// release would hand the lock to one of them.
    ///
    /// Anywhere else a thread that waits may wait for ever.
    pub fn forget_waiters(guard: &Self) {
        guard.mutex.raw.forget_waiters();
    }

    /// The mutex that it holds.
    pub(crate) fn mutex(&self) -> &'a Mutex<T> {
        self.mutex
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.raw.unlock();
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock, and lends the value for no longer than itself.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed alone.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
