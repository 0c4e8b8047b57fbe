//! An event counter: cheap to bump from any thread, read now and then by statistics.
//!
//! ```text
//!   inc, add    this CPU's number, in a restartable section of one addition:
//!               no locked instruction, and no cache line that two CPUs write
//!   get         the sum over all CPUs
//! ```
//!
//! Where the machine offers no sections the number is one atomic. Either way no event is lost; a
//! reader may see a total that existed at no single instant.
//!
//! Locks: none to count; `slots.rs` has one for the first event of a counter and its end.

use core::fmt;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

mod slots;

use crate::percpu_words;
pub(crate) use slots::held as numbers_held;

/// Counts events. Wraps after 2^64, which no machine lives to see.
#[doc(alias = "counter_u64_add")]
#[derive(Default)]
pub struct Counter {
    /// CPU 0's number; the numbers of the other CPUs follow at a fixed distance. Null until the first event, and always
    /// null on machines without restartable sections.
    slot: AtomicPtr<AtomicU64>,
    /// Events that were counted outside of sections. Relaxed: no data depends on the number.
    rest: AtomicU64,
}

impl Counter {
    /// A counter at zero.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            slot: AtomicPtr::new(ptr::null_mut()),
            rest: AtomicU64::new(0),
        }
    }

    /// Counts one event.
    #[inline]
    pub fn inc(&self) {
        self.add(1);
    }

    /// Counts `n` events, or `n` bytes.
    #[inline]
    pub fn add(&self, n: u64) {
        // Acquire: the column was made before it was published.
        let slot = self.slot.load(Ordering::Acquire);
        // SAFETY: not null, it is a slot of ours, which `drop` alone gives back.
        let added = !slot.is_null() && unsafe { percpu_words::add(slot, n) };
        if !added {
            self.add_slow(n);
        }
    }

    /// Interrupted, or the first event, or there are no sections here.
    #[cold]
    fn add_slow(&self, n: u64) {
        self.rest.fetch_add(n, Ordering::Relaxed);
        if self.slot.load(Ordering::Relaxed).is_null()
            && let Some(slot) = slots::take()
        {
            let none = ptr::null_mut();
            // Release: its numbers are zero by now. Relaxed: on failure the value is not used.
            let (won, lost) = (Ordering::Release, Ordering::Relaxed);
            if (self.slot.compare_exchange(none, slot, won, lost)).is_err() {
                // Another thread was first.
                slots::give(slot);
            }
        }
    }

    /// The count so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        let slot = self.slot.load(Ordering::Acquire);
        let rest = self.rest.load(Ordering::Relaxed);
        slots::sum(slot).wrapping_add(rest)
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        let slot = *self.slot.get_mut();
        if !slot.is_null() {
            slots::give(slot);
        }
    }
}

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.get(), f)
    }
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.get(), f)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
