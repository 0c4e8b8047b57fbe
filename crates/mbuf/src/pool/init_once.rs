//! A value that is given once, at the beginning, and then read without a look whether it is there.
//!
//! The way of every mbuf back to its zone leads over one: there, the question whether a value is set is
//! a load, a comparison and a branch for something that is always true.
//!
//! Invariant: given before anybody but the maker can read it, and never again.
//! Locks: none.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

/// See the module.
pub(super) struct InitOnce<T: Copy>(UnsafeCell<MaybeUninit<T>>);

// SAFETY: it is written once, by `give`, whose caller says that nobody reads before or meanwhile; from
// then on it is only read, and a copy of a T may be used by any thread.
unsafe impl<T: Copy + Send> Sync for InitOnce<T> {}

impl<T: Copy> InitOnce<T> {
    pub(super) const fn nothing() -> Self {
        Self(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// Gives the value.
    ///
    /// # Safety
    /// Nobody else has had this to look at yet.
    pub(super) unsafe fn give(&self, value: T) {
        // SAFETY: so says the caller: there is no other reference to what is inside.
        unsafe { *self.0.get() = MaybeUninit::new(value) };
    }

    /// The value.
    ///
    /// # Safety
    /// It was given.
    #[inline(always)]
    pub(super) unsafe fn get(&self) -> T {
        // SAFETY: nobody writes any more.
        let value = unsafe { *self.0.get() };
        // SAFETY: so says the caller.
        unsafe { value.assume_init() }
    }
}
