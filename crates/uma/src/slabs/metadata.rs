//! The memory of the lists that describe slabs: how they grow, and shrink after a spike.
//!
//! A slab of 64 KiB has some 50 bytes of entries in lists. The lists begin small; from some KiB on they grow by steps
//! so big that the heap maps each list by itself. So a list grows in place instead of leaving smaller copies behind
//! in the heap, the part beyond its length is not resident, and all of it goes back when the list shrinks.
//!
//! Invariant: a forgotten slab has no item out, none held, and no page, as a slab that was never used. The marks of
//! pages of counts are never forgotten, because they are few.

use super::Slabs;
use crate::slab::{SHELVES, Shelf};
use std::collections::TryReserveError;

/// Lists up to this size grow as `Vec` does.
const SMALL_BYTES: usize = 8 << 10;
/// Longer lists grow by this much.
const STEP_BYTES: usize = 512 << 10;
/// Fewer slabs than this are not worth forgetting.
const SLABS_MIN: usize = 512;

/// Makes room for more entries.
pub(crate) fn make_room<T>(list: &mut Vec<T>, more: usize) -> Result<(), TryReserveError> {
    if list.capacity() - list.len() >= more {
        return Ok(());
    }
    if list.capacity() * size_of::<T>() <= SMALL_BYTES {
        return list.try_reserve(more);
    }
    list.try_reserve_exact(more.max(STEP_BYTES / size_of::<T>()))
}

/// Shortens a list, and gives back the memory that it then does not need.
pub(crate) fn cut<T>(list: &mut Vec<T>, len: usize) {
    list.truncate(len);
    list.shrink_to(len + len / 4);
}

impl Slabs {
    /// Forgets the last slabs, if they have neither items out nor pages and are more than half of all: their entries
    /// would outlast the spike for which they were added. Adding them again costs some 100 ns each.
    pub(crate) fn forget_tail(&mut self) {
        let slabs = self.slabs.len();
        if slabs < SLABS_MIN || self.purging {
            return;
        }
        let cold = &self.shelves[SHELVES - 1];
        let keep = (0..slabs).rev().find(|&n| !cold.contains(n));
        let keep = keep.map_or(0, |n| n + 1);
        if keep > slabs / 2 {
            return;
        }
        for n in keep..slabs {
            self.take_off_shelf(n, Shelf::Cold);
        }
        self.free -= (slabs - keep) * self.geo.per_slab();
        let words = keep * self.geo.words_per_slab();
        cut(&mut self.slabs, keep);
        cut(&mut self.bits, words);
        cut(&mut self.held, words);
        self.touched.cut(keep);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
