//! The keg: all slabs of one layout, and which of their items are free.
//!
//! Called by: `alloc.rs` (take), `free.rs` and `reclaim.rs` (give, leave). Calls: `arena.rs`.
//!
//! Items are taken from the fullest slab first, and of equally full ones (in sixteenths) from
//! the lowest: so slabs that are nearly empty get the time to become empty, and live items
//! gather at low addresses. A slab that became empty keeps its pages until a drain asks.
//!
//! Invariants ([`Keg::is_valid`]): a slab's count is the number of bits in its bitmap; each slab
//! is on exactly the shelf that its count and state say; `free` sums the backed slabs.
//! Locks: `uma keg` (rank `KEG`), the innermost here. Source: seed 004 section 5.4.

use crate::arena::Arena;
use crate::bitset::Bitset;
use crate::bucket::Bucket;
use crate::geometry::{Geometry, Place};
use crate::slab::{CLASSES, Shelf, Slab, State};
use core::ops::Range;
use core::ptr::NonNull;
use kern::lock::{LockClass, Mutex};
use kern::order;

static KEG_CLASS: LockClass = LockClass::new("uma keg", order::KEG);

/// The keg on cache lines of its own.
#[repr(align(128))]
pub(crate) struct KegSlot(pub(crate) Mutex<Keg>);

impl KegSlot {
    /// A keg without slabs.
    pub(crate) fn new(geo: Geometry) -> Self {
        Self(Mutex::new(&KEG_CLASS, Keg::new(geo)))
    }
}

/// Slabs and their free items.
#[derive(Debug)]
pub(crate) struct Keg {
    geo: Geometry,
    slabs: Vec<Slab>,
    /// A bit for each free item, `words_per_slab` words a slab.
    bits: Vec<u64>,
    partial: [Bitset; CLASSES],
    empty: Bitset,
    unbacked: Bitset,
    /// Slabs that the arena has made accessible.
    open: usize,
    /// Free items in backed slabs.
    free: usize,
    backed: usize,
    backed_peak: usize,
}

impl Keg {
    fn new(geo: Geometry) -> Self {
        Self {
            geo,
            slabs: Vec::new(),
            bits: Vec::new(),
            partial: Default::default(),
            empty: Bitset::default(),
            unbacked: Bitset::default(),
            open: 0,
            free: 0,
            backed: 0,
            backed_peak: 0,
        }
    }

    /// Free items in slabs that have pages.
    pub(crate) fn free(&self) -> usize {
        self.free
    }

    /// Whether a slab in use could give an item, now or after touching its pages again.
    pub(crate) fn has_items(&self) -> bool {
        self.free > 0 || self.unbacked.first().is_some()
    }

    /// Bytes of the slabs that have pages.
    pub(crate) fn bytes(&self) -> usize {
        self.backed * self.geo.slab_bytes()
    }

    /// The most that [`bytes`](Self::bytes) ever was.
    pub(crate) fn bytes_peak(&self) -> usize {
        self.backed_peak * self.geo.slab_bytes()
    }

    /// Takes up to `want` items into `out`, as many as it has room for; fewer, or none, when the
    /// reservation or the system's memory has run out.
    pub(crate) fn take(&mut self, arena: &Arena, out: &mut Bucket, want: usize) {
        let before = out.len();
        let mut left = want;
        while left > 0 && !out.is_full() {
            let Some(slab) = self.choose(arena) else {
                break;
            };
            left -= self.take_from(slab, arena, out, left);
        }
        // A bucket is emptied from its end: let the lowest address be the first to go.
        if let Some(taken) = out.items_mut().get_mut(before..) {
            taken.reverse();
        }
    }

    /// Takes items back.
    ///
    /// # Panics
    /// If one of them is free already: going on would hand it to two owners.
    pub(crate) fn give(&mut self, arena: &Arena, items: &[NonNull<u8>]) {
        for &item in items {
            let place = arena.place_of(item);
            let word = &mut self.bits[place.slab * self.geo.words_per_slab() + place.slot / 64];
            let bit = 1 << (place.slot % 64);
            assert!(
                *word & bit == 0,
                "double free: {item:p} is in its slab already"
            );
            *word |= bit;
            self.free += 1;
            self.change(place.slab, |slab| slab.free += 1);
        }
    }

    /// Takes all empty slabs out of use and names them as runs, for the caller to give their
    /// pages back without the lock and then say [`left`](Self::left).
    pub(crate) fn leave(&mut self) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        while let Some(n) = self.empty.first() {
            self.change(n, |slab| slab.state = State::Leaving);
            self.free -= self.geo.per_slab();
            self.backed -= 1;
            match runs.last_mut() {
                Some(run) if run.end == n => run.end += 1,
                _ => runs.push(n..n + 1),
            }
        }
        runs
    }

    /// The pages of these runs are gone.
    pub(crate) fn left(&mut self, runs: &[Range<usize>]) {
        for n in runs.iter().cloned().flatten() {
            self.change(n, |slab| slab.state = State::Unbacked);
        }
    }

    /// Whether the counts, the bitmaps and the shelves agree.
    pub(crate) fn is_valid(&self) -> bool {
        let words = self.geo.words_per_slab();
        let slabs_agree = self.slabs.iter().enumerate().all(|(n, slab)| {
            let bits = &self.bits[n * words..(n + 1) * words];
            let ones: usize = bits.iter().map(|word| word.count_ones() as usize).sum();
            ones == slab.free && self.is_shelved(n)
        });
        let backed = self.slabs.iter().filter(|slab| slab.state == State::Backed);
        let (count, free) = backed.fold((0, 0), |(n, free), slab| (n + 1, free + slab.free));
        slabs_agree && count == self.backed && free == self.free && self.sets_are_valid()
    }

    fn is_shelved(&self, n: usize) -> bool {
        let shelf = self.slabs[n].shelf(self.geo.per_slab());
        let on_class = (0..CLASSES)
            .all(|class| self.partial[class].contains(n) == (shelf == Shelf::Partial(class)));
        on_class
            && self.empty.contains(n) == (shelf == Shelf::Empty)
            && self.unbacked.contains(n) == (shelf == Shelf::Unbacked)
    }

    fn sets_are_valid(&self) -> bool {
        let mut sets = self.partial.iter().chain([&self.empty, &self.unbacked]);
        let members: usize = sets.clone().map(Bitset::len).sum();
        sets.all(Bitset::is_valid) && members <= self.slabs.len()
    }

    /// The slab to take from next: it has a free item and pages.
    fn choose(&mut self, arena: &Arena) -> Option<usize> {
        self.partial
            .iter()
            .find_map(Bitset::first)
            .or_else(|| self.empty.first())
            .or_else(|| {
                let n = self.unbacked.first().or_else(|| self.grow(arena))?;
                self.change(n, |slab| slab.state = State::Backed);
                self.free += self.geo.per_slab();
                self.backed += 1;
                self.backed_peak = self.backed_peak.max(self.backed);
                Some(n)
            })
    }

    /// Adds a slab, unbacked, at the end of those in use.
    fn grow(&mut self, arena: &Arena) -> Option<usize> {
        let n = self.slabs.len();
        if n >= arena.slabs_max() {
            return None;
        }
        if n >= self.open {
            self.open = arena.open(n + 1)?;
        }
        let words = self.geo.words_per_slab();
        self.slabs.try_reserve(1).ok()?;
        self.bits.try_reserve(words).ok()?;
        for set in self
            .partial
            .iter_mut()
            .chain([&mut self.empty, &mut self.unbacked])
        {
            set.grow(n + 1).ok()?;
        }
        let per_slab = self.geo.per_slab();
        self.slabs.push(Slab {
            free: per_slab,
            state: State::Unbacked,
        });
        self.bits
            .extend((0..words).map(|word| low_bits(per_slab - word * 64)));
        self.unbacked.insert(n);
        Some(n)
    }

    /// Takes up to `want` items of one slab, lowest first; says how many.
    fn take_from(&mut self, n: usize, arena: &Arena, out: &mut Bucket, want: usize) -> usize {
        let words = self.geo.words_per_slab();
        let mut taken = 0;
        for (i, word) in self.bits[n * words..(n + 1) * words].iter_mut().enumerate() {
            while *word != 0 && taken < want && !out.is_full() {
                let slot = i * 64 + word.trailing_zeros() as usize;
                if out.push(arena.item_at(Place { slab: n, slot })) {
                    *word &= *word - 1;
                    taken += 1;
                }
            }
        }
        self.free -= taken;
        self.change(n, |slab| slab.free -= taken);
        taken
    }

    /// Changes a slab and moves it to the shelf where it then belongs.
    fn change(&mut self, n: usize, how: impl FnOnce(&mut Slab)) {
        let per_slab = self.geo.per_slab();
        let before = self.slabs[n].shelf(per_slab);
        how(&mut self.slabs[n]);
        let after = self.slabs[n].shelf(per_slab);
        if before != after {
            if let Some(set) = self.set_of(before) {
                set.remove(n);
            }
            if let Some(set) = self.set_of(after) {
                set.insert(n);
            }
        }
    }

    fn set_of(&mut self, shelf: Shelf) -> Option<&mut Bitset> {
        match shelf {
            Shelf::Full | Shelf::Leaving => None,
            Shelf::Partial(class) => Some(&mut self.partial[class]),
            Shelf::Empty => Some(&mut self.empty),
            Shelf::Unbacked => Some(&mut self.unbacked),
        }
    }
}

/// A word whose lowest `n` bits are set, all of them from 64 on.
fn low_bits(n: usize) -> u64 {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}

#[cfg(test)]
mod tests;
