//! A value with many readers, which do not write to a common cache line, or one writer: for data that every packet
//! reads and that rarely changes.
//!
//! Invariant: the value is written only by the one write guard's thread while no read guard is out, or through
//! `&mut`.
//! Locks: this is a lock itself. Its words do not name the readers: only WITNESS records which threads read.

use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::panic::{Location, RefUnwindSafe, UnwindSafe};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::class::LockClass;
use super::rmlock_word::RmLockWord;
use super::rwlock_word::Write;
use super::wait::{How, LockWait};
use crate::percpu_words::{Column, FreeHeld, PercpuWords};
use crate::witness::Held;
use crate::{cpu, thread};

/// Each CPU's readers, lock by lock.
static READERS: PercpuWords<AtomicU32> = PercpuWords::new();

/// Holds the list of free columns, for a fork.
pub(crate) fn readers_held() -> FreeHeld<AtomicU32> {
    READERS.hold()
}

/// Many readers or one writer around a `T`, where readers on different CPUs write to no common cache
/// line. A writer pays for that: it reads a line of each CPU.
///
/// A reader that waits behind a writer gets in after it, before the next; no reader gets in before a
/// writer that waits. So taking it twice for reading on one thread may hang behind a writer in
/// between, and WITNESS forbids it: rmlock(9) has `RM_RECURSE` for that, at the price of readers that
/// may keep writers out.
///
/// ```
/// use kern::{LockClass, RmLock, order};
///
/// static ROUTES: LockClass = LockClass::new("routes", order::ROUTE);
/// let routes = RmLock::new(&ROUTES, vec![1, 2]);
/// routes.write().push(3);
/// assert_eq!(*routes.read(), [1, 2, 3]);
/// ```
#[doc(alias = "rmlock")]
#[repr(align(64))] // only writers write these fields; no field that changes more often shares their line
pub struct RmLock<T: ?Sized> {
    class: &'static LockClass,
    slots: Column<AtomicU32>,
    raw: RmLockWord<AtomicU32>,
    value: UnsafeCell<T>,
}

// SAFETY: a move of the lock moves the value, which is `Send`; the other fields are `Send` themselves.
unsafe impl<T: ?Sized + Send> Send for RmLock<T> {}
// SAFETY: one writer at a time accesses the value, which is `Send`; readers share it, and it is `Sync`.
unsafe impl<T: ?Sized + Send + Sync> Sync for RmLock<T> {}

// As for the mutex: a panic does not poison.
impl<T: ?Sized> UnwindSafe for RmLock<T> {}
impl<T: ?Sized> RefUnwindSafe for RmLock<T> {}

impl<T> RmLock<T> {
    /// An unlocked lock of `class` around `value`.
    #[doc(alias = "rm_init")]
    pub fn new(class: &'static LockClass, value: T) -> Self {
        Self {
            class,
            slots: READERS.take(),
            raw: RmLockWord::new(AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0)),
            value: UnsafeCell::new(value),
        }
    }
}

impl<T: ?Sized> Drop for RmLock<T> {
    fn drop(&mut self) {
        // A forgotten guard stays counted for ever: the next lock that uses this column must not find it.
        if self.slots.each().all(|slot| slot.load(Relaxed) == 0) {
            READERS.give(self.slots);
        }
    }
}

impl<T: ?Sized> RmLock<T> {
    /// Waits until no thread writes, and holds the lock for reading until the guard is dropped.
    ///
    /// # Panics
    ///
    /// If that is out of order and WITNESS is built in.
    #[doc(alias = "rm_rlock")]
    #[track_caller]
    #[inline]
    pub fn read(&self) -> RmLockReadGuard<'_, T> {
        Held::check(self.class, How::Read, self.address());
        let _ = thread::count(self.class);
        let slot = self.slots.of(cpu::current());
        if self.raw.read(slot) {
            return self.reads(Some(slot));
        }
        self.read_behind(Location::caller());
        self.reads(None)
    }

    /// Takes the lock for reading if no thread writes or waits to. Any lock order is allowed, because the call does
    /// not wait.
    #[doc(alias = "rm_try_rlock")]
    #[track_caller]
    #[inline]
    pub fn try_read(&self) -> Option<RmLockReadGuard<'_, T>> {
        let _ = thread::count(self.class);
        let slot = self.slots.of(cpu::current());
        self.raw.read(slot).then(|| self.reads(Some(slot)))
    }

    /// Waits until no other thread reads or writes, and holds the lock until the guard is dropped.
    ///
    /// # Panics
    ///
    /// If that is out of order and WITNESS is built in.
    #[doc(alias = "rm_wlock")]
    #[track_caller]
    #[inline]
    pub fn write(&self) -> RmLockWriteGuard<'_, T> {
        Held::check(self.class, How::Write, self.address());
        let me = thread::count(self.class);
        if let Err(came) = self.raw.write(me, self.slots.each()) {
            self.write_slow(me, came, Location::caller());
        }
        RmLockWriteGuard {
            lock: self,
            _held: Held::record(self.class, How::Write, self.address()),
            _not_send: PhantomData,
        }
    }

    /// The value. It needs no lock, because no other thread can have a reference beside `&mut`.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    #[cold]
    #[inline(never)]
    fn read_behind(&self, site: &'static Location<'static>) {
        let mut wait = LockWait::begin(self.class, How::Read, site, self.raw.writer());
        self.raw.read_behind(&mut wait);
    }

    #[cold]
    #[inline(never)]
    fn write_slow(&self, me: u32, came: Write, site: &'static Location<'static>) {
        let mut wait = LockWait::begin(self.class, How::Write, site, self.raw.writer());
        self.raw.write_slow(me, came, self.slots.each(), &mut wait);
    }

    #[track_caller]
    #[inline]
    fn reads(&self, slot: Option<&'static AtomicU32>) -> RmLockReadGuard<'_, T> {
        RmLockReadGuard {
            lock: self,
            slot,
            _held: Held::record(self.class, How::Read, self.address()),
            _not_send: PhantomData,
        }
    }

    fn address(&self) -> *const () {
        (&raw const *self).cast()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RmLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_read() {
            Some(value) => f.debug_tuple("RmLock").field(&&*value).finish(),
            None => f.write_str("RmLock(<locked>)"),
        }
    }
}

/// An [`RmLock`] held for reading; dropping it releases the lock.
#[must_use = "the lock is released when the guard is dropped"]
pub struct RmLockReadGuard<'a, T: ?Sized> {
    lock: &'a RmLock<T>,
    /// The slot that counts this reader, on whichever CPU its thread runs now; none if it met a writer.
    slot: Option<&'static AtomicU32>,
    _held: Held,
    /// WITNESS's list belongs to this thread.
    _not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives only shared references to the value.
unsafe impl<T: ?Sized + Sync> Sync for RmLockReadGuard<'_, T> {}

impl<T: ?Sized> Drop for RmLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        match self.slot {
            Some(slot) => self.lock.raw.unlock_read(slot),
            None => self.lock.raw.unlock_read_behind(),
        }
    }
}

impl<T: ?Sized> Deref for RmLockReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: no thread writes while this guard exists, and the reference does not outlive the guard.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RmLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// An [`RmLock`] held for writing; dropping it releases the lock.
#[must_use = "the lock is released when the guard is dropped"]
pub struct RmLockWriteGuard<'a, T: ?Sized> {
    lock: &'a RmLock<T>,
    _held: Held,
    /// The word names this thread, and so does WITNESS's list.
    _not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives only shared references to the value.
unsafe impl<T: ?Sized + Sync> Sync for RmLockWriteGuard<'_, T> {}

impl<T: ?Sized> Drop for RmLockWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.unlock_write();
    }
}

impl<T: ?Sized> Deref for RmLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: no other thread holds the lock while this guard exists, and the reference does not outlive the
        // guard.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for RmLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed alone.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RmLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}
