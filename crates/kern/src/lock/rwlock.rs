//! Many readers or one writer around a value.
//!
//! Invariant: the value is written only by the one write guard's thread while no read guard is out, or through
//! `&mut`.
//! Locks: this is a lock itself. Its word does not name the readers: only WITNESS records which threads read.

use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::panic::{Location, RefUnwindSafe, UnwindSafe};
use core::sync::atomic::AtomicU32;

use super::class::LockClass;
use super::rwlock_word::{Counted, RwLockWord, Write};
use super::wait::{How, LockWait};
use crate::thread;
use crate::witness::Held;

/// Many readers or one writer around a `T`. A reader that waits behind a writer gets in after it,
/// before the next; no reader gets in before a writer that waits. So taking it twice for reading
/// on one thread may hang behind a writer in between, and WITNESS treats reading and writing alike.
#[doc(alias = "rwlock")]
pub struct RwLock<T: ?Sized> {
    class: &'static LockClass,
    raw: RwLockWord<AtomicU32>,
    value: UnsafeCell<T>,
}

// SAFETY: a move of the lock moves the value, which is `Send`; the other fields are `Send` themselves.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: one writer at a time accesses the value, which is `Send`; readers share it, and it is `Sync`.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

// As for the mutex: a panic does not poison.
impl<T: ?Sized> UnwindSafe for RwLock<T> {}
impl<T: ?Sized> RefUnwindSafe for RwLock<T> {}

impl<T> RwLock<T> {
    /// An unlocked lock of `class` around `value`.
    pub const fn new(class: &'static LockClass, value: T) -> Self {
        Self {
            class,
            raw: RwLockWord::new(AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0)),
            value: UnsafeCell::new(value),
        }
    }

    /// Returns the value; by taking `self` the caller shows that no thread shares the lock.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until no thread writes, and holds the lock for reading until the guard is dropped.
    ///
    /// # Panics
    ///
    /// If that is out of order and WITNESS is built in.
    #[doc(alias = "rw_rlock")]
    #[track_caller]
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        Held::check(self.class, How::Read, self.address());
        self.acquire_read();
        self.reads()
    }

    /// Takes the lock for reading if no thread writes or waits to. Any lock order is allowed, because the call does
    /// not wait.
    #[doc(alias = "rw_try_rlock")]
    #[track_caller]
    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        let _ = thread::count(self.class);
        if self.raw.try_read() {
            Some(self.reads())
        } else {
            None
        }
    }

    /// Waits until no other thread reads or writes, and holds the lock until the guard is dropped.
    ///
    /// # Panics
    ///
    /// If that is out of order and WITNESS is built in.
    #[doc(alias = "rw_wlock")]
    #[track_caller]
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        Held::check(self.class, How::Write, self.address());
        self.acquire_write();
        self.writes()
    }

    /// Takes the lock for writing if it is free. Any lock order is allowed, because the call does not wait.
    #[doc(alias = "rw_try_wlock")]
    #[track_caller]
    #[inline]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        if self.raw.try_write(thread::count(self.class)) {
            Some(self.writes())
        } else {
            None
        }
    }

    /// The value, without locking, which `&mut` shows to be needless.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    #[track_caller]
    #[inline]
    fn acquire_read(&self) {
        let _ = thread::count(self.class);
        if let Err(counted) = self.raw.read() {
            self.read_slow(counted, Location::caller());
        }
    }

    #[cold]
    #[inline(never)]
    fn read_slow(&self, counted: Counted, site: &'static Location<'static>) {
        let mut wait = LockWait::begin(self.class, How::Read, site, self.raw.writer());
        self.raw.read_slow(counted, &mut wait);
    }

    #[track_caller]
    #[inline]
    fn acquire_write(&self) {
        let me = thread::count(self.class);
        match self.raw.write(me) {
            Write::Alone => {}
            waits => self.write_slow(me, waits, Location::caller()),
        }
    }

    #[cold]
    #[inline(never)]
    fn write_slow(&self, me: u32, waits: Write, site: &'static Location<'static>) {
        let mut wait = LockWait::begin(self.class, How::Write, site, self.raw.writer());
        match waits {
            Write::Alone => {}
            Write::Behind => self.raw.write_slow(me, &mut wait),
            Write::Readers(readers) => self.raw.drain(readers, &mut wait),
        }
    }

    #[track_caller]
    #[inline]
    fn reads(&self) -> RwLockReadGuard<'_, T> {
        RwLockReadGuard {
            lock: self,
            _held: Held::record(self.class, How::Read, self.address()),
            _not_send: PhantomData,
        }
    }

    #[track_caller]
    #[inline]
    fn writes(&self) -> RwLockWriteGuard<'_, T> {
        RwLockWriteGuard {
            lock: self,
            _held: Held::record(self.class, How::Write, self.address()),
            _not_send: PhantomData,
        }
    }

    fn address(&self) -> *const () {
        (&raw const *self).cast()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_read() {
            Some(value) => f.debug_tuple("RwLock").field(&&*value).finish(),
            None => f.write_str("RwLock(<locked>)"),
        }
    }
}

/// An [`RwLock`] held for reading; dropping it releases the lock.
#[must_use = "the lock is released when the guard is dropped"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    _held: Held,
    /// WITNESS's list belongs to this thread.
    _not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives only shared references to the value.
unsafe impl<T: ?Sized + Sync> Sync for RwLockReadGuard<'_, T> {}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.unlock_read();
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: no thread writes while this guard exists, and the reference does not outlive the guard.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// An [`RwLock`] held for writing; dropping it releases the lock.
#[must_use = "the lock is released when the guard is dropped"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    _held: Held,
    /// The word names this thread, and so does WITNESS's list.
    _not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives only shared references to the value.
unsafe impl<T: ?Sized + Sync> Sync for RwLockWriteGuard<'_, T> {}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.unlock_write();
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: no other thread holds the lock while this guard exists, and the reference does not outlive the
        // guard.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed alone.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
