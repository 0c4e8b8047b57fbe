//! A value that is set once, at the beginning, and then read without a check.
//!
//! Every free of an mbuf reads one to find its zone. A check whether the value is set would be a load, a comparison
//! and a branch for something that is always true.
//!
//! Invariant: the value is set before any other code can read it, and never again.
//! Locks: none.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

/// See the module.
pub(super) struct InitOnce<T: Copy>(UnsafeCell<MaybeUninit<T>>);

// SAFETY: it is written once, by `give`, whose caller promises that no thread reads before or meanwhile; from
// then on it is only read, and a copy of a T may be used by any thread.
unsafe impl<T: Copy + Send> Sync for InitOnce<T> {}

impl<T: Copy> InitOnce<T> {
    pub(super) const fn nothing() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// Gives the value.
    ///
    /// # Safety
    /// No other thread has a reference to this yet.
    pub(super) unsafe fn give(&self, value: T) {
        // SAFETY: the caller promises that there is no other reference to the inside.
        unsafe { *self.0.get() = MaybeUninit::new(value) };
    }

    /// The value.
    ///
    /// # Safety
    /// It was given.
    #[inline(always)]
    pub(super) unsafe fn get(&self) -> T {
        // SAFETY: it is not written any more.
        let value = unsafe { *self.0.get() };
        // SAFETY: so says the caller.
        unsafe { value.assume_init() }
    }
}
