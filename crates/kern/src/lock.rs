//! Mutexes and read-write locks that name their class, so that [`witness`](crate::witness) can
//! check the order in which they are taken.
//!
//! Called by every crate that shares state. Calls std's locks, which are an inside of this file
//! and do not show.
//!
//! Invariants: the order is the one of [`order`](crate::order). A panic while a lock is held does
//! not poison it: what the panic left behind is for the owner of the data to judge, and release
//! builds abort anyway.

use core::fmt;
use core::ops::{Deref, DerefMut};
use std::sync::{self, PoisonError, TryLockError};

use crate::witness::{ClassRef, Held};

/// What a lock protects, for people and for the order of locks. Make it a `static`.
///
/// ```
/// use kern::{LockClass, Mutex, order};
///
/// static SOCKET: LockClass = LockClass::new("socket", order::CONN);
/// let socket = Mutex::new(&SOCKET, 0);
/// *socket.lock() += 1;
/// assert_eq!(socket.into_inner(), 1);
/// ```
#[derive(Debug)]
pub struct LockClass {
    /// How reports call it.
    pub name: &'static str,
    /// Its place in [`order`](crate::order): a thread takes greater ranks later.
    pub rank: u16,
}

impl LockClass {
    /// A class called `name` at `rank`, which is a constant of [`order`](crate::order).
    #[must_use]
    pub const fn new(name: &'static str, rank: u16) -> Self {
        Self { name, rank }
    }
}

/// Mutual exclusion around a `T`.
#[doc(alias = "mtx")]
pub struct Mutex<T: ?Sized> {
    class: ClassRef,
    inner: sync::Mutex<T>,
}

impl<T> Mutex<T> {
    /// An unlocked mutex of `class` around `value`.
    pub const fn new(class: &'static LockClass, value: T) -> Self {
        Self {
            class: ClassRef::new(class),
            inner: sync::Mutex::new(value),
        }
    }

    /// The value, when no one shares the mutex any more.
    pub fn into_inner(self) -> T {
        self.inner
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock and holds it until the guard is dropped.
    ///
    /// # Panics
    ///
    /// If that is out of order and WITNESS is built in.
    #[doc(alias = "mtx_lock")]
    #[track_caller]
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        Held::check(self.class, self.address());
        self.acquire()
    }

    /// As [`Mutex::lock`], while another lock of the same class is held on purpose. The caller
    /// answers for the order within the class, by address for example.
    ///
    /// # Panics
    ///
    /// If that is out of order with other classes, or is the same lock, and WITNESS is built in.
    #[doc(alias = "MTX_DUPOK")]
    #[track_caller]
    #[inline]
    pub fn lock_nested(&self) -> MutexGuard<'_, T> {
        Held::check_nested(self.class, self.address());
        self.acquire()
    }

    /// Takes the lock if it is free, in any order, since nothing waits.
    #[doc(alias = "mtx_trylock")]
    #[track_caller]
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let inner = unless_busy(self.inner.try_lock())?;
        let held = Held::record(self.class, self.address());
        Some(MutexGuard { inner, _held: held })
    }

    /// The value, without locking, which `&mut` shows to be needless.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    #[track_caller]
    #[inline]
    fn acquire(&self) -> MutexGuard<'_, T> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let held = Held::record(self.class, self.address());
        MutexGuard { inner, _held: held }
    }

    fn address(&self) -> *const () {
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
    inner: sync::MutexGuard<'a, T>,
    _held: Held,
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// Lets std's guard go through `wait`, which gives the lock up and takes it again.
    pub(crate) fn map_inner(
        self,
        wait: impl FnOnce(sync::MutexGuard<'a, T>) -> sync::MutexGuard<'a, T>,
    ) -> Self {
        let Self { inner, _held } = self;
        Self {
            inner: wait(inner),
            _held,
        }
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// Many readers or one writer around a `T`. Taking it twice for reading on one thread may hang
/// behind a writer in between, so WITNESS treats reading and writing alike.
#[doc(alias = "rwlock")]
pub struct RwLock<T: ?Sized> {
    class: ClassRef,
    inner: sync::RwLock<T>,
}

impl<T> RwLock<T> {
    /// An unlocked lock of `class` around `value`.
    pub const fn new(class: &'static LockClass, value: T) -> Self {
        Self {
            class: ClassRef::new(class),
            inner: sync::RwLock::new(value),
        }
    }

    /// The value, when no one shares the lock any more.
    pub fn into_inner(self) -> T {
        self.inner
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until no one writes, and reads until the guard is dropped.
    ///
    /// # Panics
    ///
    /// If that is out of order and WITNESS is built in.
    #[doc(alias = "rw_rlock")]
    #[track_caller]
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        Held::check(self.class, self.address());
        self.acquire_read()
    }

    /// As [`RwLock::read`], while another lock of the same class is held on purpose.
    ///
    /// # Panics
    ///
    /// If that is out of order with other classes, or is the same lock, and WITNESS is built in.
    #[track_caller]
    #[inline]
    pub fn read_nested(&self) -> RwLockReadGuard<'_, T> {
        Held::check_nested(self.class, self.address());
        self.acquire_read()
    }

    /// Reads if no one writes, in any order, since nothing waits.
    #[doc(alias = "rw_try_rlock")]
    #[track_caller]
    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        let inner = unless_busy(self.inner.try_read())?;
        let held = Held::record(self.class, self.address());
        Some(RwLockReadGuard { inner, _held: held })
    }

    /// Waits until no one else reads or writes, and holds the lock until the guard is dropped.
    ///
    /// # Panics
    ///
    /// If that is out of order and WITNESS is built in.
    #[doc(alias = "rw_wlock")]
    #[track_caller]
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        Held::check(self.class, self.address());
        self.acquire_write()
    }

    /// As [`RwLock::write`], while another lock of the same class is held on purpose.
    ///
    /// # Panics
    ///
    /// If that is out of order with other classes, or is the same lock, and WITNESS is built in.
    #[track_caller]
    #[inline]
    pub fn write_nested(&self) -> RwLockWriteGuard<'_, T> {
        Held::check_nested(self.class, self.address());
        self.acquire_write()
    }

    /// Takes the lock for writing if it is free, in any order, since nothing waits.
    #[doc(alias = "rw_try_wlock")]
    #[track_caller]
    #[inline]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        let inner = unless_busy(self.inner.try_write())?;
        let held = Held::record(self.class, self.address());
        Some(RwLockWriteGuard { inner, _held: held })
    }

    /// The value, without locking, which `&mut` shows to be needless.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    #[track_caller]
    #[inline]
    fn acquire_read(&self) -> RwLockReadGuard<'_, T> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        let held = Held::record(self.class, self.address());
        RwLockReadGuard { inner, _held: held }
    }

    #[track_caller]
    #[inline]
    fn acquire_write(&self) -> RwLockWriteGuard<'_, T> {
        let inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        let held = Held::record(self.class, self.address());
        RwLockWriteGuard { inner, _held: held }
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
    inner: sync::RwLockReadGuard<'a, T>,
    _held: Held,
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
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
    inner: sync::RwLockWriteGuard<'a, T>,
    _held: Held,
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// What a try gave: the guard, poisoned or not, or nothing because someone else has it.
fn unless_busy<G>(tried: Result<G, TryLockError<G>>) -> Option<G> {
    match tried {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[cfg(test)]
mod tests;
