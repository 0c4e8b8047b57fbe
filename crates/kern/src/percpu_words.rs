//! Small words of which each CPU has its own: a page for each CPU, in which a *column* is one word.
//!
//! ```text
//!   chunk   | CPU 0: a page of words | CPU 1: a page of words | ...      a column is a word in each
//! ```
//!
//! So a word costs its own size a CPU and not a cache line, and no line is written by two CPUs.
//!
//! Invariants: chunks live for ever: words are few, and their columns come and go. A column that is not in use is all
//! zero.
//! Locks: the free list's, innermost; its holder calls no other module. A std mutex, because the locks of this crate
//! use this module.

use core::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cpu;

mod section;

pub(crate) use section::add;

/// log2 of the bytes from one CPU's word to the next CPU's.
pub(crate) const STRIDE_SHIFT: u32 = 12;
/// The unit that two CPUs must not share: two lines, which some processors fetch together.
const LINES: usize = 128;

/// The columns of one type of word that are not in use. `T` is an atomic, at 0 by default.
pub(crate) struct PercpuWords<T: 'static>(Mutex<Vec<Column<T>>>);

/// A free list, held.
pub(crate) struct FreeHeld<T: 'static> {
    _guard: MutexGuard<'static, Vec<Column<T>>>,
}

/// A word for each CPU.
pub(crate) struct Column<T: 'static>(NonNull<T>);

impl<T> Clone for Column<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Column<T> {}

// SAFETY: it only gives shared references, to words that live for ever.
unsafe impl<T: Sync> Send for Column<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Column<T> {}

impl<T: Default + Sync> PercpuWords<T> {
    /// No columns yet.
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// A column of zeros.
    pub(crate) fn take(&self) -> Column<T> {
        loop {
            let mut free = self.free();
            if let Some(column) = free.pop() {
                return column;
            }
            free.extend(chunk());
        }
    }

    /// Gives a column back that is not used any more, all zero again.
    pub(crate) fn give(&self, column: Column<T>) {
        self.free().push(column);
    }

    /// Holds the free list, for a fork.
    pub(crate) fn hold(&'static self) -> FreeHeld<T> {
        FreeHeld {
            _guard: self.free(),
        }
    }

    fn free(&self) -> MutexGuard<'_, Vec<Column<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// New columns: one page a CPU.
fn chunk<T: Default + 'static>() -> impl Iterator<Item = Column<T>> {
    let columns = (1 << STRIDE_SHIFT) / size_of::<T>();
    let words = columns * cpu::count() + LINES / size_of::<T>();
    let words = Vec::leak((0..words).map(|_| T::default()).collect());
    // Room for the alignment was added above; where it cannot be had (Miri), lines are shared.
    let skip = match words.as_ptr().align_offset(LINES) {
        skip if skip * size_of::<T>() <= LINES => skip,
        _ => 0,
    };
    let first = NonNull::from(words).cast::<T>();
    (0..columns).rev().map(move |i| {
        // SAFETY: below the first page's end, behind which the other CPUs' pages are.
        Column(unsafe { first.add(skip + i) })
    })
}

impl<T> Column<T> {
    /// The word of CPU 0, by which the column can be named.
    pub(crate) fn as_ptr(self) -> *mut T {
        self.0.as_ptr()
    }

    /// The column that was named by its first word; none if that is null.
    ///
    /// # Safety
    /// The word came from [`Column::as_ptr`], or is null.
    pub(crate) unsafe fn from_ptr(first: *mut T) -> Option<Self> {
        NonNull::new(first).map(Self)
    }

    /// The word of `cpu`, which is below [`cpu::count`].
    #[inline]
    pub(crate) fn of(self, cpu: usize) -> &'static T {
        debug_assert!(cpu < cpu::count());
        // SAFETY: a column has a word for each CPU at this distance, in one chunk.
        let word = unsafe { self.0.byte_add(cpu << STRIDE_SHIFT) };
        // SAFETY: the chunk was leaked; its words are only ever shared.
        unsafe { word.as_ref() }
    }

    /// The words of all CPUs.
    pub(crate) fn each(self) -> impl Iterator<Item = &'static T> {
        (0..cpu::count()).map(move |cpu| self.of(cpu))
    }
}
