//! The atomic word of a count: std's, or a model's in its place.
//!
//! The counts of clusters lie in a side table of `uma`, in memory that no schedule checker knows. So
//! [`Refs`](super::Refs) is written over a trait: the models of `models/refs.rs` give it loom's atomic, which has weak
//! orderings. Whole packets (`models/`) count in the side table itself; there other threads may run before each step.

use core::sync::atomic::{AtomicU32, Ordering, fence};

use crate::faults::{MbufFault, planted, point};

/// A number with the operations that [`Refs`](super::Refs) needs; they have the meaning of std's.
pub(crate) trait CountWord {
    fn new(value: u32) -> Self;
    fn load(&self, order: Ordering) -> u32;
    fn store(&self, value: u32, order: Ordering);
    fn fetch_add(&self, n: u32, order: Ordering) -> u32;
    fn fetch_sub(&self, n: u32, order: Ordering) -> u32;
    fn fetch_or(&self, bits: u32, order: Ordering) -> u32;
    /// A fence that goes with the operations on this number.
    fn fence(&self, order: Ordering);
}

impl CountWord for AtomicU32 {
    #[inline]
    fn new(value: u32) -> Self {
        Self::new(value)
    }

    #[inline]
    fn load(&self, order: Ordering) -> u32 {
        point();
        self.load(order)
    }

    #[inline]
    fn store(&self, value: u32, order: Ordering) {
        point();
        self.store(value, order);
    }

    #[inline]
    fn fetch_add(&self, n: u32, order: Ordering) -> u32 {
        point();
        if planted(MbufFault::PlainShare) {
            return in_two_steps(self, |word| word.wrapping_add(n));
        }
        self.fetch_add(n, order)
    }

    #[inline]
    fn fetch_sub(&self, n: u32, order: Ordering) -> u32 {
        point();
        if planted(MbufFault::PlainRelease) {
            return in_two_steps(self, |word| word.wrapping_sub(n));
        }
        self.fetch_sub(n, order)
    }

    #[inline]
    fn fetch_or(&self, bits: u32, order: Ordering) -> u32 {
        point();
        if planted(MbufFault::PlainRequest) {
            return in_two_steps(self, |word| word | bits);
        }
        self.fetch_or(bits, order)
    }

    #[inline]
    fn fence(&self, order: Ordering) {
        fence(order);
    }
}

/// A load and a store in the place of one atomic operation: a planted mistake.
fn in_two_steps(word: &AtomicU32, how: impl FnOnce(u32) -> u32) -> u32 {
    let before = word.load(Ordering::Relaxed);
    point();
    word.store(how(before), Ordering::Relaxed);
    before
}
