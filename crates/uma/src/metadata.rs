//! What is known about slabs costs memory too: how its lists grow, and shrink after a spike.
//!
//! A slab of 64 KiB has some 50 bytes of entries in lists. They begin small; from some KiB on
//! they grow by steps so big that the heap maps each list by itself. So a list grows where it is
//! instead of leaving smaller copies of itself behind in the heap, what lies beyond its length is
//! not resident, and all of it goes back when the list shrinks.
//!
//! Invariant: a forgotten slab has no item out, none held, and no page: it is as good as one that
//! was never used. The marks of pages of counts, of which there are few, are never forgotten.

use crate::slab::{SHELVES, Shelf};
use crate::slabs::Slabs;
use std::collections::TryReserveError;

/// Lists up to this size grow as lists do.
const SMALL_BYTES: usize = 8 << 10;
/// By how much they grow after that.
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

/// Cuts a list off, and gives back what memory it then does not need.
pub(crate) fn cut<T>(list: &mut Vec<T>, len: usize) {
    list.truncate(len);
    list.shrink_to(len + len / 4);
}

impl Slabs {
    /// Forgets the slabs at the end of those in use that have neither items out nor pages, when
    /// they are most of all: what was known about them would outlast the spike that they came
    /// with. Adding them again costs some 100 ns each.
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

#[cfg(test)]
mod tests;
