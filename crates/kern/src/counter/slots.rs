//! The memory of counters: a page for each CPU, with the numbers of as many counters as fit.
//!
//! ```text
//!   chunk   | CPU 0: 512 numbers | CPU 1: 512 numbers | ...      a counter is a column
//! ```
//!
//! Called by: `counter.rs`. Calls: `rseq.rs`. Locks: `FREE`, innermost of all, and with nothing
//! called under it; a std mutex, because locks of this crate count too.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::cpu;
use crate::rseq::{self, Percpu};

/// log2 of the bytes from one CPU's number to the next CPU's.
pub(super) const STRIDE_SHIFT: u32 = 12;
/// Counters in a chunk.
const COUNTERS: usize = (1 << STRIDE_SHIFT) / size_of::<AtomicU64>();

/// Columns that nobody uses, all zero.
static FREE: Mutex<Vec<Column>> = Mutex::new(Vec::new());

struct Column(*mut AtomicU64);

// SAFETY: an address of atomics that live for ever.
unsafe impl Send for Column {}

/// A column of zeros, where sections can be used.
pub(super) fn take() -> Option<*mut AtomicU64> {
    if rseq::choose() == Percpu::Locked {
        return None;
    }
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    if free.is_empty() {
        // For ever: counters are few, and come and go.
        let numbers = (0..COUNTERS * cpu::count()).map(|_| AtomicU64::new(0));
        let chunk = Vec::leak(numbers.collect()).as_mut_ptr();
        free.extend((0..COUNTERS).rev().map(|i| Column(chunk.wrapping_add(i))));
    }
    free.pop().map(|column| column.0)
}

/// Gives a column back that nobody counts in any more.
pub(super) fn give(slot: *mut AtomicU64) {
    each(slot).for_each(|number| number.store(0, Ordering::Relaxed));
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    free.push(Column(slot));
}

/// What is in a column; nothing if there is none.
pub(super) fn sum(slot: *mut AtomicU64) -> u64 {
    let numbers = each(slot).map(|number| number.load(Ordering::Relaxed));
    numbers.fold(0, u64::wrapping_add)
}

fn each(slot: *mut AtomicU64) -> impl Iterator<Item = &'static AtomicU64> {
    let cpus = if slot.is_null() { 0 } else { cpu::count() };
    (0..cpus).map(move |cpu| {
        let at = slot.cast::<u8>().wrapping_add(cpu << STRIDE_SHIFT);
        // SAFETY: a column has a number for each CPU at this distance, in a chunk that was leaked.
        unsafe { &*at.cast::<AtomicU64>() }
    })
}
