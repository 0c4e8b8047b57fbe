//! All slabs of one layout, and which of their items are free.
//!
//! Giving pages back is in `slabs/purge.rs`.
//!
//! Items are taken from the fullest slab first, and of equally full ones (in sixteenths) from
//! the lowest: so slabs that are nearly empty get the time to become empty, and live items
//! gather at low addresses. A slab that became empty keeps its pages until a purge asks.
//!
//! ```text
//!   shelves  0 .. 15  partial, the fullest first     take: the first shelf with a slab on it,
//!            16       empty, with pages                    its lowest slab, its lowest item
//!            17       cold: empty, without
//!   bits     1 = free and may be taken          \  one bit an item; never both
//!   held     1 = free, its page is in a purge   /
//! ```
//!
//! Invariants ([`Slabs::is_valid`]): a slab's counts are the numbers of bits in its bitmaps; each
//! slab is on the shelf that its counts say; the sums are right.
//! Locks: its owner's, which is the keg's. Source: seed 004 section 5.4.

use crate::arena::Arena;
use crate::bitset::Bitset;
use crate::geometry::{Geometry, ItemPlace};
use crate::slab::{Fullness, SHELVES, Shelf, Slab};
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::NonNull;
use metadata::make_room;
use residency::Residency;

pub(crate) use purge::Purge;

mod metadata;
mod purge;
mod residency;

/// Slabs and their free items.
#[derive(Debug)]
pub(crate) struct Slabs {
    pub(crate) geo: Geometry,
    name: &'static str,
    fullness: Fullness,
    pub(crate) slabs: Vec<Slab>,
    /// A bit for each free item, `words_per_slab` words a slab.
    pub(crate) bits: Vec<u64>,
    /// The same for the items that a purge holds.
    pub(crate) held: Vec<u64>,
    pub(crate) touched: Residency,
    pub(crate) shelves: [Bitset; SHELVES],
    /// A bit for each shelf that has slabs.
    occupied: u32,
    /// Slabs that the arena has made accessible.
    open: usize,
    /// Free items that may be taken.
    pub(crate) free: usize,
    /// Free items that a purge holds.
    held_items: usize,
    units_peak: usize,
    /// Items whose memory no purge gives back.
    pub(crate) floor: usize,
    /// Whether a purge holds items.
    pub(crate) purging: bool,
    /// Failures that a test has ordered.
    #[cfg(feature = "invariants")]
    pub(crate) grow_point: crate::fail::Point,
    /// The lists of the last purge, empty.
    pub(crate) spare: Purge,
}

impl Slabs {
    /// No slabs yet.
    pub(crate) fn new(geo: Geometry) -> Self {
        Self {
            geo,
            name: "?",
            fullness: Fullness::new(geo.per_slab()),
            slabs: Vec::new(),
            bits: Vec::new(),
            held: Vec::new(),
            touched: Residency::new(geo),
            shelves: Default::default(),
            occupied: 0,
            open: 0,
            free: 0,
            held_items: 0,
            units_peak: 0,
            floor: 0,
            purging: false,
            #[cfg(feature = "invariants")]
            grow_point: crate::fail::Point::default(),
            spare: Purge::default(),
        }
    }

    /// Sets the name of the zone, for the message about a double free.
    pub(crate) fn named(mut self, zone: &'static str) -> Self {
        self.name = zone;
        self
    }

    /// Free items in slabs that have pages.
    pub(crate) fn free(&self) -> usize {
        self.free - self.shelves[COLD].len() * self.geo.per_slab()
    }

    /// Items taken and not given back.
    pub(crate) fn out(&self) -> usize {
        self.slabs.len() * self.geo.per_slab() - self.free - self.held_items
    }

    /// Free items that can't be allocated until the purge that holds them ends.
    pub(crate) fn held(&self) -> usize {
        self.held_items
    }

    /// Bytes of slabs that may be resident.
    pub(crate) fn bytes(&self) -> usize {
        self.touched.len() * self.geo.unit_bytes()
    }

    /// The most that [`bytes`](Self::bytes) ever was.
    pub(crate) fn bytes_peak(&self) -> usize {
        self.units_peak * self.geo.unit_bytes()
    }

    /// Items that the reservation can hold at all.
    pub(crate) fn capacity(&self, arena: &Arena) -> usize {
        arena.slabs_max() * self.geo.per_slab()
    }

    /// Lets no purge give back the memory of this many items, free or not.
    pub(crate) fn set_floor(&mut self, items: usize) {
        self.floor = items;
    }

    /// Fills `out` from the front. Returns how many items it took: fewer, or none, if the reservation or the system's
    /// memory is used up. The last one written must be allocated first: a bucket is emptied from its end.
    pub(crate) fn take(&mut self, arena: &Arena, out: &mut [MaybeUninit<NonNull<u8>>]) -> usize {
        let mut filled = 0;
        while filled < out.len() {
            let Some(slab) = self.choose(arena) else {
                break;
            };
            filled += self.take_from(slab, arena, &mut out[filled..]);
        }
        out[..filled].reverse();
        self.units_peak = self.units_peak.max(self.touched.len());
        filled
    }

    /// Takes items back.
    ///
    /// # Panics
    /// If one of them is free already: going on would hand it to two owners.
    pub(crate) fn give(&mut self, arena: &Arena, items: &[NonNull<u8>]) {
        let words = self.geo.words_per_slab();
        for &item in items {
            debug_assert!(
                arena.is_item(item),
                "{item:p} is no item of zone '{}'",
                self.name
            );
            let place = arena.place_of(item);
            let word = place.slab * words + place.slot / 64;
            let bit = 1 << (place.slot % 64);
            let is_free = |bits: &u64| (bits | self.held[word]) & bit != 0;
            // All items of slabs that were forgotten are free.
            if self.bits.get(word).is_none_or(is_free) {
                double_free(item, self.name);
            }
            self.bits[word] |= bit;
            self.change(place.slab, |slab| {
                slab.free += 1;
                slab.first_word = slab.first_word.min((place.slot / 64) as u32);
                slab.dirty = true;
            });
        }
        self.free += items.len();
    }

    /// Makes the memory of at least `items` items resident: of slabs in use, and of new ones. Returns for how many
    /// items there is room then: fewer if the reservation or the memory is used up.
    pub(crate) fn prealloc(&mut self, arena: &Arena, items: usize) -> usize {
        let wanted = items.div_ceil(self.geo.per_slab());
        for n in 0..wanted {
            if n == self.slabs.len() && self.grow(arena).is_none() {
                return n * self.geo.per_slab();
            }
            if self.shelves[COLD].contains(n) && !self.warm(arena, n) {
                return n * self.geo.per_slab();
            }
        }
        self.units_peak = self.units_peak.max(self.touched.len());
        wanted * self.geo.per_slab()
    }

    /// Whether the counts, the bitmaps and the shelves agree.
    pub(crate) fn is_valid(&self) -> bool {
        let sum = |of: fn(&Slab) -> u32| self.slabs.iter().map(|slab| of(slab) as usize).sum();
        (0..self.slabs.len()).all(|n| self.is_sound(n) && self.is_shelved(n))
            && self.free == sum(|slab| slab.free)
            && self.held_items == sum(|slab| slab.held)
            && self.touched.len() == sum(|slab| slab.units)
            && self.touched.is_valid()
            && (self.purging || self.held_items == 0)
            && self.shelves.iter().all(Bitset::is_valid)
            && (0..SHELVES).all(|i| self.shelves[i].is_empty() == (self.occupied & (1 << i) == 0))
    }

    fn is_sound(&self, n: usize) -> bool {
        let slab = &self.slabs[n];
        let (bits, held) = (&self.bits[self.words_of(n)], &self.held[self.words_of(n)]);
        let ones = |words: &[u64]| words.iter().map(|word| word.count_ones()).sum::<u32>();
        let first = bits.iter().position(|word| *word != 0);
        ones(bits) == slab.free
            && ones(held) == slab.held
            && bits.iter().zip(held).all(|(bits, held)| bits & held == 0)
            && first.is_none_or(|first| slab.first_word as usize <= first)
            && self.touched.count_units(n) == slab.units
    }

    fn is_shelved(&self, n: usize) -> bool {
        let shelf = self.fullness.shelf_of(&self.slabs[n]).index();
        (0..SHELVES).all(|i| self.shelves[i].contains(n) == (shelf == Some(i)))
    }

    /// The slab from which the next item comes: it has a free item.
    #[inline]
    fn choose(&mut self, arena: &Arena) -> Option<usize> {
        match self.occupied {
            0 => self.grow(arena),
            shelves => self.shelves[shelves.trailing_zeros() as usize].first(),
        }
    }

    /// Adds a slab without pages at the end of those in use.
    #[cold]
    fn grow(&mut self, arena: &Arena) -> Option<usize> {
        let n = self.slabs.len();
        if n >= arena.slabs_max() {
            return None;
        }
        #[cfg(feature = "invariants")]
        if self.grow_point.fails() {
            return None;
        }
        if n >= self.open {
            self.open = arena.open(self.open, n + 1)?;
        }
        if n == 0 {
            self.spare.reserve(arena.is_counted()).ok()?;
        }
        let words = self.geo.words_per_slab();
        make_room(&mut self.slabs, 1).ok()?;
        make_room(&mut self.bits, words).ok()?;
        make_room(&mut self.held, words).ok()?;
        self.touched.grow(n + 1, arena.is_counted()).ok()?;
        for set in &mut self.shelves {
            set.grow(n + 1).ok()?;
        }
        let per_slab = self.geo.per_slab();
        self.bits
            .extend((0..words).map(|word| low_bits(per_slab - word * 64)));
        self.held.resize(self.bits.len(), 0);
        self.free += per_slab;
        self.slabs.push(Slab {
            free: per_slab as u32,
            held: 0,
            units: 0,
            first_word: 0,
            dirty: false,
        });
        self.put_on_shelf(n, Shelf::Cold);
        Some(n)
    }

    /// Takes items of one slab, the lowest first; says how many.
    fn take_from(
        &mut self,
        n: usize,
        arena: &Arena,
        out: &mut [MaybeUninit<NonNull<u8>>],
    ) -> usize {
        let words = self.words_of(n);
        let mut word = self.slabs[n].first_word as usize;
        let (mut taken, mut units) = (0, 0);
        while let Some(room) = out.get_mut(taken)
            && let Some(bits) = self.bits[words.clone()].get_mut(word)
        {
            if *bits == 0 {
                word += 1;
                continue;
            }
            let slot = word * 64 + bits.trailing_zeros() as usize;
            *bits &= *bits - 1;
            let place = ItemPlace { slab: n, slot };
            room.write(arena.item_at(place));
            units += self.touched.mark(place);
            taken += 1;
        }
        self.free -= taken;
        self.change(n, |slab| {
            slab.free -= taken as u32;
            slab.units += units;
            slab.first_word = word as u32;
        });
        taken
    }

    /// Makes the pages of a slab without pages resident. Returns whether there was memory.
    fn warm(&mut self, arena: &Arena, n: usize) -> bool {
        // SAFETY: the slab is open, and a cold one has all its items free; they stay so, because
        // taking items needs `self`.
        if !unsafe { arena.populate(n..n + 1) } {
            return false;
        }
        let places = (0..self.geo.per_slab()).map(|slot| ItemPlace { slab: n, slot });
        let units: u32 = places.map(|place| self.touched.mark(place)).sum();
        self.change(n, |slab| {
            slab.units += units;
            slab.dirty = true;
        });
        true
    }

    /// Whether all of these items are free, held or not.
    pub(crate) fn all_free(&self, n: usize, slots: Range<usize>) -> bool {
        let at = n * self.geo.words_per_slab();
        masks(slots)
            .all(|(word, mask)| (self.bits[at + word] | self.held[at + word]) & mask == mask)
    }

    /// Holds those of these items that are free; says how many.
    pub(crate) fn hold(&mut self, n: usize, slots: Range<usize>) -> u32 {
        let at = n * self.geo.words_per_slab();
        let mut moved = 0;
        for (word, mask) in masks(slots) {
            let bits = self.bits[at + word] & mask;
            self.bits[at + word] &= !bits;
            self.held[at + word] |= bits;
            moved += bits.count_ones();
        }
        self.free -= moved as usize;
        self.held_items += moved as usize;
        moved
    }

    /// Releases all held items of a slab.
    pub(crate) fn release(&mut self, n: usize) {
        for word in self.words_of(n) {
            self.bits[word] |= core::mem::take(&mut self.held[word]);
        }
        let held = self.slabs[n].held;
        self.free += held as usize;
        self.held_items -= held as usize;
        self.change(n, |slab| {
            slab.free += held;
            slab.held = 0;
            slab.first_word = 0;
        });
    }

    /// Changes a slab and moves it to the shelf where it then belongs.
    #[inline]
    pub(crate) fn change(&mut self, n: usize, how: impl FnOnce(&mut Slab)) {
        let slab = &mut self.slabs[n];
        let before = self.fullness.shelf_of(slab);
        how(slab);
        let after = self.fullness.shelf_of(slab);
        if before != after {
            self.take_off_shelf(n, before);
            self.put_on_shelf(n, after);
        }
    }

    pub(crate) fn take_off_shelf(&mut self, n: usize, shelf: Shelf) {
        if let Some(i) = shelf.index() {
            self.shelves[i].remove(n);
            self.occupied &= !(u32::from(self.shelves[i].is_empty()) << i);
        }
    }

    fn put_on_shelf(&mut self, n: usize, shelf: Shelf) {
        if let Some(i) = shelf.index() {
            self.shelves[i].insert(n);
            self.occupied |= 1 << i;
        }
    }

    fn words_of(&self, n: usize) -> Range<usize> {
        let words = self.geo.words_per_slab();
        n * words..(n + 1) * words
    }
}

const COLD: usize = SHELVES - 1;

#[cold]
fn double_free(item: NonNull<u8>, zone: &str) -> ! {
    panic!("double free: {item:p} of zone '{zone}' is in its slab already");
}

/// The words that a range of bits lies in, each with the bits in it.
fn masks(bits: Range<usize>) -> impl Iterator<Item = (usize, u64)> {
    let words = bits.start / 64..bits.end.div_ceil(64);
    words.map(move |word| {
        let below_start = low_bits(bits.start.saturating_sub(word * 64));
        (word, low_bits(bits.end - word * 64) & !below_start)
    })
}

/// A word whose lowest `n` bits are set, all of them from 64 on.
fn low_bits(n: usize) -> u64 {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
