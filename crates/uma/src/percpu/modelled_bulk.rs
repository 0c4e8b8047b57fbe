//! The modelled sections that move several items.
//!
//! Locks: none.

use super::{Section, number};
use crate::bucket::{Bucket, POPPED, PUSHED};
use crate::percpu::{Percpu, REFUSED};
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// Copies the top items of the bucket that `FIELD` of the slot points to, to the beginning of `out`;
/// how many.
///
/// # Safety
///
/// None: as the real ones, so that they can be exchanged.
pub(crate) unsafe fn pop_bulk<const FIELD: usize>(
    percpu: &Percpu,
    out: &mut [MaybeUninit<NonNull<u8>>],
) -> isize {
    let mut pop_bulk = || {
        let section = Section::begin(percpu);
        let bucket = section.bucket::<FIELD>()?;
        section.step()?;
        // SAFETY: buckets of slots are alive.
        let (word, count) = unsafe { Bucket::top_items(bucket, out) };
        section.step()?;
        let popped = (count as u64).wrapping_mul(POPPED);
        // SAFETY: alive; the slot is this CPU's, and this thread was not interrupted on it.
        unsafe { Bucket::commit(bucket, word.wrapping_add(popped)) };
        Ok(count.cast_signed())
    };
    number(pop_bulk(), REFUSED)
}

/// Copies the first of `items` onto the bucket that `FIELD` of the slot points to; how many.
///
/// # Safety
///
/// None: as the real ones, so that they can be exchanged.
pub(crate) unsafe fn push_bulk<const FIELD: usize>(
    percpu: &Percpu,
    items: &[NonNull<u8>],
) -> isize {
    let push_bulk = || {
        let section = Section::begin(percpu);
        let bucket = section.bucket::<FIELD>()?;
        section.step()?;
        // SAFETY: buckets of slots are alive.
        let (mut word, space) = unsafe { Bucket::space(bucket) };
        let fitting = &items[..items.len().min(space)];
        for &item in fitting {
            section.step()?;
            // SAFETY: alive; the slot is this CPU's, and this thread was not interrupted on it.
            unsafe { Bucket::place(bucket, word, item) };
            word = word.wrapping_add(PUSHED);
        }
        section.step()?;
        // SAFETY: as above.
        unsafe { Bucket::commit(bucket, word) };
        Ok(fitting.len().cast_signed())
    };
    number(push_bulk(), REFUSED)
}
