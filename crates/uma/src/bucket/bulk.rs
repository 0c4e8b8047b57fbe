//! Several items in or out of a bucket by one commit.
//!
//! Locks: none; the caller owns the bucket.

use super::{Bucket, LEN_MASK, POPPED, PUSHED};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;

impl Bucket {
    /// The word, and how many of the top items were copied to `out`: read by a bulk pop. Their order is that of the
    /// bucket: the top one is last.
    ///
    /// # Safety
    ///
    /// `bucket` must be alive.
    pub(crate) unsafe fn top_items(
        bucket: NonNull<Self>,
        out: &mut [MaybeUninit<NonNull<u8>>],
    ) -> (u64, usize) {
        // SAFETY: alive, says the caller.
        let word = unsafe { Self::word(bucket) }.load(Relaxed);
        let len = (word & LEN_MASK) as usize;
        let count = len.min(out.len());
        for (index, place) in (len - count..len).zip(out) {
            // SAFETY: alive, and the index is below its length.
            let item = unsafe { Self::entry(bucket, index as isize) }.load(Relaxed);
            place.write(NonNull::new(item).expect("entries below the top are items"));
        }
        (word, count)
    }

    /// Takes up to `out.len()` items, and counts the pops. Returns how many.
    ///
    /// # Safety
    ///
    /// `bucket` must be alive, and the caller its owner.
    pub(crate) unsafe fn pop_bulk(
        bucket: NonNull<Self>,
        out: &mut [MaybeUninit<NonNull<u8>>],
    ) -> usize {
        // SAFETY: alive, says the caller.
        let (word, count) = unsafe { Self::top_items(bucket, out) };
        if count > 0 {
            let popped = (count as u64).wrapping_mul(POPPED);
            // SAFETY: the caller owns the bucket, which had at least this many items.
            unsafe { Self::commit(bucket, word.wrapping_add(popped)) };
        }
        count
    }

    /// Puts the first of `items` on top. Returns for how many there was room.
    ///
    /// # Safety
    ///
    /// `bucket` must be alive, and the caller its owner.
    pub(crate) unsafe fn push_bulk(bucket: NonNull<Self>, items: &[NonNull<u8>]) -> usize {
        // SAFETY: alive, says the caller.
        let (mut word, space) = unsafe { Self::space(bucket) };
        let fitting = &items[..items.len().min(space)];
        for &item in fitting {
            // SAFETY: owned, says the caller, and there is room.
            unsafe { Self::place(bucket, word, item) };
            word = word.wrapping_add(PUSHED);
        }
        if !fitting.is_empty() {
            // SAFETY: owned, and the items were just placed.
            unsafe { Self::commit(bucket, word) };
        }
        fitting.len()
    }
}
