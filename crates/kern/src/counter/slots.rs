//! The numbers of counters: a column each, with one for every CPU.
//!
//! Locks: the free list's.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::percpu_words::{Column, FreeHeld, PercpuWords};
use crate::rseq::{self, PercpuMethod};

static NUMBERS: PercpuWords<AtomicU64> = PercpuWords::new();

/// A column of zeros, where sections can be used.
pub(super) fn take() -> Option<*mut AtomicU64> {
    if rseq::choose() == PercpuMethod::Locked {
        return None;
    }
    Some(NUMBERS.take().as_ptr())
}

/// Gives back a column that no thread uses any more.
pub(super) fn give(slot: *mut AtomicU64) {
    if let Some(column) = column(slot) {
        (column.each()).for_each(|number| number.store(0, Ordering::Relaxed));
        NUMBERS.give(column);
    }
}

/// Holds the list of free columns, for a fork.
pub(crate) fn held() -> FreeHeld<AtomicU64> {
    NUMBERS.hold()
}

/// The sum of a column; 0 if there is none.
pub(super) fn sum(slot: *mut AtomicU64) -> u64 {
    let numbers = column(slot).into_iter().flat_map(Column::each);
    let numbers = numbers.map(|number| number.load(Ordering::Relaxed));
    numbers.fold(0, u64::wrapping_add)
}

fn column(slot: *mut AtomicU64) -> Option<Column<AtomicU64>> {
    // SAFETY: slots are null or came from `take`.
    unsafe { Column::from_ptr(slot) }
}
