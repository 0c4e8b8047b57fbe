//! Which pages of items, and of the reference counts beside them, may be resident.
//!
//! A page becomes resident at the first write to it. No call reports that write, but an item must have been allocated
//! there before. So the marks err to one side: a page without a mark has no memory, and a page with a mark probably
//! has. The marks are apart from the pages, so that reading them touches no page.
//!
//! Locks: the keg's, as all of [`Slabs`](crate::slabs::Slabs).

use super::metadata::{cut, make_room};
use crate::arena::COUNT_BYTES;
use crate::geometry::{Geometry, ItemPlace};
use crate::region;
use core::ops::Range;
use std::collections::TryReserveError;

/// A mark for each unit of each slab, and for each page of counts.
#[derive(Debug)]
pub(crate) struct Residency {
    geo: Geometry,
    /// `words` a slab.
    units: Vec<u64>,
    words: usize,
    marked: usize,
    counts: Vec<u64>,
    counts_marked: usize,
    counts_per_page: usize,
}

impl Residency {
    /// Marks for slabs of this geometry.
    pub(crate) fn new(geo: Geometry) -> Self {
        Self {
            geo,
            units: Vec::new(),
            words: geo.units_per_slab().div_ceil(64),
            marked: 0,
            counts: Vec::new(),
            counts_marked: 0,
            counts_per_page: region::page_bytes() / COUNT_BYTES,
        }
    }

    /// Makes room for the slabs below `slabs`, and their counts if they have any.
    pub(crate) fn grow(&mut self, slabs: usize, counted: bool) -> Result<(), TryReserveError> {
        extend(&mut self.units, slabs * self.words)?;
        if counted {
            let pages = (slabs * self.geo.per_slab()).div_ceil(self.counts_per_page);
            extend(&mut self.counts, pages.div_ceil(64))?;
        }
        Ok(())
    }

    /// Forgets the slabs from `slabs` on, which have no marks.
    pub(crate) fn cut(&mut self, slabs: usize) {
        cut(&mut self.units, slabs * self.words);
    }

    /// Units of all slabs that may be resident.
    pub(crate) fn len(&self) -> usize {
        self.marked
    }

    /// Pages of counts that may be resident.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn counts_len(&self) -> usize {
        self.counts_marked
    }

    /// Items whose counts share a page.
    pub(crate) fn counts_per_page(&self) -> usize {
        self.counts_per_page
    }

    /// Marks the units on which an item lies. Returns how many had no mark before.
    #[inline]
    pub(crate) fn mark(&mut self, place: ItemPlace) -> u32 {
        let mut new = 0;
        for unit in self.geo.units_of(place) {
            let word = &mut self.units[place.slab * self.words + unit / 64];
            new += u32::from(set(word, unit % 64));
        }
        self.marked += new as usize;
        if !self.counts.is_empty() {
            let page = self.geo.number_of(place) / self.counts_per_page;
            self.counts_marked += usize::from(set(&mut self.counts[page / 64], page % 64));
        }
        new
    }

    /// The first unit of a slab, from `unit` on, that may be resident.
    pub(crate) fn next_from(&self, slab: usize, unit: usize) -> Option<usize> {
        let words = &self.units[slab * self.words..(slab + 1) * self.words];
        let mut mask = u64::MAX << (unit % 64);
        for (i, word) in words.iter().enumerate().skip(unit / 64) {
            if word & mask != 0 {
                return Some(i * 64 + (word & mask).trailing_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }

    /// Takes the mark off a unit that had one.
    pub(crate) fn unmark(&mut self, slab: usize, unit: usize) {
        self.units[slab * self.words + unit / 64] &= !(1 << (unit % 64));
        self.marked -= 1;
    }

    /// Pages of counts that hold counts of this slab's items.
    pub(crate) fn count_pages_of(&self, slab: usize) -> Range<usize> {
        if self.counts.is_empty() {
            return 0..0;
        }
        let per_slab = self.geo.per_slab();
        let start = slab * per_slab / self.counts_per_page;
        start..((slab + 1) * per_slab).div_ceil(self.counts_per_page)
    }

    /// Whether a page of counts may be resident.
    pub(crate) fn is_count_page(&self, page: usize) -> bool {
        self.counts
            .get(page / 64)
            .is_some_and(|word| word & (1 << (page % 64)) != 0)
    }

    /// Takes the mark off a page of counts that had one.
    pub(crate) fn unmark_count_page(&mut self, page: usize) {
        self.counts[page / 64] &= !(1 << (page % 64));
        self.counts_marked -= 1;
    }

    /// Units of one slab that may be resident, counted.
    pub(crate) fn count_units(&self, slab: usize) -> u32 {
        let words = &self.units[slab * self.words..(slab + 1) * self.words];
        words.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether the counts agree with the marks.
    pub(crate) fn is_valid(&self) -> bool {
        let ones = |words: &[u64]| words.iter().map(|w| w.count_ones() as usize).sum::<usize>();
        ones(&self.units) == self.marked && ones(&self.counts) == self.counts_marked
    }
}

/// Sets a bit. Returns true if it was clear.
#[inline]
fn set(word: &mut u64, bit: usize) -> bool {
    let before = *word;
    *word |= 1 << bit;
    *word != before
}

/// Lengthens a list with zeros.
fn extend(words: &mut Vec<u64>, len: usize) -> Result<(), TryReserveError> {
    make_room(words, len.saturating_sub(words.len()))?;
    words.resize(len.max(words.len()), 0);
    Ok(())
}
