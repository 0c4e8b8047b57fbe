//! How items lie in slabs, and how an address becomes a slab and a slot.
//!
//! Immutable once made, so it is copied wherever it is needed.
//!
//! ```text
//!  base                        base + slab_bytes             base + 2 * slab_bytes
//!   |colour| item | item | ... |    colour     | item | item | ... |
//!          |<-stride->|
//! ```
//!
//! Invariants: a slab is a power of two of at least [`SLAB_BYTES_MIN`]; the stride and the colour
//! are multiples of the alignment; slabs begin at multiples of their size; so every item is
//! aligned. The bytes before the first item and after the last are the waste, so a byte there never
//! has a slot below `per_slab`.
//!
//! The *unit* is the smallest memory that can go back to the system: a page, or all of a slab of
//! huge pages.
//!
//! # Colour, and why it is off by default
//!
//! Items of 2 KiB, each at a multiple of 2 KiB, have their first lines in 2 of the 64 sets of a
//! first-level cache; a batch of them evicts itself. Measured (48 KiB, 12 ways; write and read
//! 8 bytes of each item of a batch, `cost_of_aliasing`; 262,144 items of which a random 1 %
//! survive, `pages_without_live_items_go_back`):
//!
//! | layout | batch of 16 | 32 | 64 | 128 | pages that a survivor pins |
//! |---|---|---|---|---|---|
//! | aligned to 2048 | 0.9 ns | 2.1 | 7.1 | 13.5 | 0.99 |
//! | slabs coloured in steps of 256 | 0.9 | 2.0 | 2.4 | 10 | 1.41 |
//! | a line more from item to item (stride 2112) | 0.8 | 0.8 | 0.8 | 0.8 | 1.48 |
//!
//! The price of the stride is that every other item lies on two pages, and one of 32 items. With `colour`, a zone
//! whose alignment allows it has one more line in its stride; a zone that has no bytes to spare for slabs of
//! different colours gives up an item for them.
//!
//! The default is no colour: items lie as their layout says, and memory comes back page by page after a spike. Owners
//! of large items can vary the headroom in each item instead: packet buffers with 64 to 512 bytes of headroom by
//! their number spread over as many cache sets as coloured slabs do (counted, not measured), and each pins one page.
//! Ask for colour if batches are large, only the head of each item is touched, and few items survive or none for
//! long. Slabs of huge pages lose no page by it.
//!
//! Two CPUs, each with a batch of 64 from one zone, lose more without colour than one CPU does: a pair takes 3.7 ns
//! without colour and 2.9 with it where they share a cache, 7 and 2.8 where they do not, and 2.6 and 2.4 on one CPU
//! alone (`cargo lab alloc --case batch64,threads2 --size 2048`, Zen 5). Colour removes the effect; its cause was not
//! measured. Probably each CPU misses its first-level cache, and its prefetcher then fetches the other CPU's next item.

use crate::ZoneError;
use crate::region;
use core::alloc::Layout;
use core::ops::Range;

pub(crate) use options::ArenaOptions;
pub use options::RESERVE_BYTES_DEFAULT;

mod options;

/// The smallest slab: 16 pages of 4 KiB, and one page where pages are 64 KiB.
pub(crate) const SLAB_BYTES_MIN: usize = 64 * 1024;
/// A slab of huge pages is at least one.
pub(crate) const HUGE_BYTES: usize = 2 << 20;
/// Larger items get slabs of at least this many items, so that the waste stays small.
const ITEMS_PER_SLAB_MIN: usize = 8;
/// Keeps a slab's bitmap at 128 words (4096 with huge pages).
const STRIDE_MIN: usize = 8;
/// The least distance that one step of colour moves an item by: a cache line.
const LINE_BYTES: usize = 64;
/// Strides that are multiples of this let the first lines of all items of a slab share 2 of the 64
/// sets of a first-level cache whose ways are 4 KiB. A line more between items costs 1 item in 32.
const ALIASING_BYTES: usize = 2048;
/// The largest item of a zone, in bytes.
pub const ITEM_BYTES_MAX: usize = 1 << 20;
/// The largest alignment of a zone's items, in bytes.
pub const ITEM_ALIGN_MAX: usize = SLAB_BYTES_MIN;

/// Where an item lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ItemPlace {
    /// The slab, counted from the base of the reservation.
    pub(crate) slab: usize,
    /// The item within the slab.
    pub(crate) slot: usize,
}

/// Whether zones may have huge, coloured or guarded slabs. Without the feature these are constants, for which the way
/// from an address to its item has no instruction.
const EXTRAS: bool = cfg!(feature = "extras");

/// The arithmetic of one keg.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    stride: usize,
    slab_shift: u32,
    /// Colours are multiples of 2 to this.
    colour_shift: u32,
    /// The largest colour, one less than a power of two times a step.
    colour_mask: usize,
    /// ceil(2^[`RECIPROCAL_SHIFT`] / stride): a multiply instead of a division.
    reciprocal: u64,
    per_slab: usize,
    /// From the begin of an item's stride to the item: not 0 only before guard pages.
    lead: usize,
    /// Bytes of an item that may be touched, and of the redzone behind it.
    size: usize,
    #[cfg(feature = "invariants")]
    redzone: usize,
    unit_shift: u32,
    guard: bool,
}

/// Exact: with d the stride, the reciprocal exceeds 2^45 / d by less than 1, so with an offset
/// below 2^24 the result exceeds the true quotient by less than 2^24 / 2^45, which is not more
/// than 1/d for any d up to 2^21. And the product stays below 2^45 * (offset / d + 1), which is
/// at most 2^45 * (2^18 + 1): no overflow.
const RECIPROCAL_SHIFT: u32 = 45;
const _: () = assert!(HUGE_BYTES / STRIDE_MIN <= 1 << 18);
const _: () = assert!(2 * ITEM_BYTES_MAX * ITEMS_PER_SLAB_MIN <= 1 << 24);

impl Geometry {
    /// Lays items of `layout` out.
    pub(crate) fn new(layout: Layout, options: &ArenaOptions) -> Result<Self, ZoneError> {
        if layout.align() > ITEM_ALIGN_MAX {
            return Err(ZoneError::Align);
        }
        if layout.size() > ITEM_BYTES_MAX {
            return Err(ZoneError::TooBig);
        }
        // A page without access finds more than any redzone.
        let guard = options.guard && EXTRAS;
        let redzone = options.redzone.filter(|_| !guard).unwrap_or(0);
        // The reciprocal is exact for strides up to twice ITEM_BYTES_MAX.
        if redzone > ITEM_BYTES_MAX / 2 {
            return Err(ZoneError::TooBig);
        }
        let (stride, lead) = match guard {
            true => guarded_stride(layout),
            false => (plain_stride(layout, redzone, options.colour), 0),
        };
        // Guard pages would cut every huge page.
        let huge = options.huge && EXTRAS && !guard;
        let slab_bytes_min = if huge { HUGE_BYTES } else { SLAB_BYTES_MIN };
        let slab_bytes = (stride * ITEMS_PER_SLAB_MIN)
            .next_power_of_two()
            .max(slab_bytes_min);
        let slab_shift = slab_bytes.trailing_zeros();
        let mut geo = Self {
            stride,
            slab_shift,
            colour_shift: 0,
            colour_mask: 0,
            reciprocal: (1u64 << RECIPROCAL_SHIFT).div_ceil(stride as u64),
            per_slab: slab_bytes / stride,
            lead,
            size: layout.size().max(1) + redzone,
            #[cfg(feature = "invariants")]
            redzone,
            unit_shift: match huge {
                true => slab_shift,
                false => region::page_bytes().trailing_zeros(),
            },
            guard,
        };
        if options.colour && EXTRAS && !guard {
            geo.colour(layout.align());
        }
        Ok(geo)
    }

    /// Lets the first item begin at a different line in each of the next slabs. If the waste has no room for that, the
    /// slab has one item less, where an item is a small part of the slab.
    fn colour(&mut self, align: usize) {
        let step = align.max(LINE_BYTES);
        let waste = self.slab_bytes() - self.per_slab * self.stride;
        // Items a line apart differ within the slab already.
        let wants_room = waste < step && self.stride.is_multiple_of(2 * step);
        let room = match wants_room && self.per_slab >= 2 * ITEMS_PER_SLAB_MIN {
            true => {
                self.per_slab -= 1;
                waste + self.stride
            }
            false => waste,
        };
        let colours = 1usize << (room / step + 1).ilog2();
        self.colour_shift = step.trailing_zeros();
        self.colour_mask = (colours - 1) * step;
    }

    /// Bytes from one item to the next.
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// Bytes of a slab, a power of two.
    #[inline]
    pub(crate) fn slab_bytes(&self) -> usize {
        1 << self.slab_shift
    }

    /// Items in a slab.
    #[inline]
    pub(crate) fn per_slab(&self) -> usize {
        self.per_slab
    }

    /// Words of a slab's bitmap.
    #[inline]
    pub(crate) fn words_per_slab(&self) -> usize {
        self.per_slab.div_ceil(64)
    }

    /// Bytes behind each item that its owner must not touch.
    #[cfg(feature = "invariants")]
    pub(crate) fn redzone(&self) -> usize {
        self.redzone
    }

    /// Bytes of an item that may be touched, and of the redzone behind it.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Bytes of memory that an item needs for itself.
    pub(crate) fn footprint(&self) -> usize {
        match self.guard() {
            true => (self.lead() + self.size).next_multiple_of(self.unit_bytes()),
            false => self.stride,
        }
    }

    /// Whether each item has pages of its own, before a page that can't be accessed.
    pub(crate) fn guard(&self) -> bool {
        EXTRAS && self.guard
    }

    /// Whether slabs are made of huge pages.
    pub(crate) fn huge(&self) -> bool {
        EXTRAS && self.unit_shift == self.slab_shift && self.slab_bytes() >= HUGE_BYTES
    }

    /// Bytes of a unit.
    pub(crate) fn unit_bytes(&self) -> usize {
        1 << self.unit_shift
    }

    /// Units of a slab.
    #[inline]
    pub(crate) fn units_per_slab(&self) -> usize {
        1 << (self.slab_shift - self.unit_shift)
    }

    /// The place of the item that holds the byte at `offset` from the base.
    #[inline]
    pub(crate) fn place_of(&self, offset: usize) -> ItemPlace {
        let slab = offset >> self.slab_shift;
        // A byte before the first item wraps to the waste behind the last.
        let within = offset.wrapping_sub(self.colour_of(slab)) & (self.slab_bytes() - 1);
        ItemPlace {
            slab,
            slot: self.quotient(within),
        }
    }

    /// The first byte of an item, counted from the base.
    #[inline]
    pub(crate) fn offset_of(&self, place: ItemPlace) -> usize {
        (place.slab << self.slab_shift) + self.start_in_slab(place)
    }

    /// Items counted through all slabs: the index into the side tables.
    #[inline]
    pub(crate) fn number_of(&self, place: ItemPlace) -> usize {
        place.slab * self.per_slab + place.slot
    }

    /// Whether `offset` is the first byte of an item and not the middle of one or the waste.
    #[inline]
    pub(crate) fn is_item(&self, offset: usize) -> bool {
        let place = self.place_of(offset);
        place.slot < self.per_slab && self.offset_of(place) == offset
    }

    /// The units of its slab that an item lies on.
    #[inline]
    pub(crate) fn units_of(&self, place: ItemPlace) -> Range<usize> {
        let start = self.start_in_slab(place);
        start >> self.unit_shift..((start + self.size - 1) >> self.unit_shift) + 1
    }

    /// The slots whose items lie on these units of a slab, wholly or in part.
    pub(crate) fn slots_on(&self, slab: usize, units: Range<usize>) -> Range<usize> {
        let from = units.start << self.unit_shift;
        let to = units.end << self.unit_shift;
        let first = self.start_in_slab(ItemPlace { slab, slot: 0 });
        let end = match to.checked_sub(first + 1) {
            Some(last) => self.per_slab.min(self.quotient(last) + 1),
            None => 0,
        };
        let start = match from.checked_sub(first + self.size) {
            Some(past) => end.min(self.quotient(past) + 1),
            None => 0,
        };
        start..end
    }

    #[inline]
    fn start_in_slab(&self, place: ItemPlace) -> usize {
        self.colour_of(place.slab) + place.slot * self.stride + self.lead()
    }

    #[inline]
    fn lead(&self) -> usize {
        if EXTRAS { self.lead } else { 0 }
    }

    #[inline]
    fn colour_of(&self, slab: usize) -> usize {
        match EXTRAS {
            true => (slab << self.colour_shift) & self.colour_mask,
            false => 0,
        }
    }

    #[inline]
    fn quotient(&self, within: usize) -> usize {
        ((within as u64 * self.reciprocal) >> RECIPROCAL_SHIFT) as usize
    }
}

fn plain_stride(layout: Layout, redzone: usize, colour: bool) -> usize {
    let stride = (layout.size() + redzone)
        .max(STRIDE_MIN)
        .next_multiple_of(layout.align());
    let aliases = stride.is_multiple_of(ALIASING_BYTES) && layout.align() <= LINE_BYTES;
    match colour && aliases {
        true => stride + LINE_BYTES,
        false => stride,
    }
}

/// The stride of items that end at a page without access, and where in it they begin.
fn guarded_stride(layout: Layout) -> (usize, usize) {
    let page = region::page_bytes();
    let item = layout.size().max(1).next_multiple_of(layout.align());
    let pages = item.next_multiple_of(page);
    (
        (pages + page).next_multiple_of(layout.align()),
        pages - item,
    )
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
