//! How items lie in slabs, and how an address becomes a slab and a slot.
//!
//! Called by: `keg.rs`, `arena.rs`, `builder.rs`. Calls: nothing. Immutable once made, so it is
//! copied wherever it is needed.
//!
//! ```text
//!  base                 base + slab_bytes      base + 2 * slab_bytes
//!   | item | item | ... | waste |  item | item | ...
//!   |<-stride->|
//! ```
//!
//! Invariants: a slab is a power of two of at least [`SLAB_BYTES_MIN`]; the stride is a multiple
//! of the alignment; slabs begin at multiples of their size; so every item is aligned.

use crate::ZoneError;
use core::alloc::Layout;

/// The smallest slab: 16 pages of 4 KiB, and one page where pages are 64 KiB.
pub(crate) const SLAB_BYTES_MIN: usize = 64 * 1024;
/// Larger items get slabs of at least this many items, so that the waste stays small.
const ITEMS_PER_SLAB_MIN: usize = 8;
/// Keeps a slab's bitmap at 128 words.
const STRIDE_MIN: usize = 8;
/// The largest item of a zone, in bytes.
pub const ITEM_BYTES_MAX: usize = 1 << 20;
/// The largest alignment of a zone's items, in bytes.
pub const ITEM_ALIGN_MAX: usize = SLAB_BYTES_MIN;

/// Where an item lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The slab, counted from the base of the reservation.
    pub(crate) slab: usize,
    /// The item within the slab.
    pub(crate) slot: usize,
}

/// The arithmetic of one keg.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    stride: usize,
    slab_shift: u32,
    per_slab: usize,
    /// ceil(2^[`RECIPROCAL_SHIFT`] / stride): a multiply instead of a division.
    reciprocal: u64,
}

/// Exact: the reciprocal is too big by less than one part in 2^48, which over offsets below 2^24
/// and strides below 2^21 adds less than 2^45 / 2^48 of a byte. And the product stays below
/// per_slab * 2^48 <= 2^61: no overflow.
const RECIPROCAL_SHIFT: u32 = 48;
const _: () = assert!(SLAB_BYTES_MIN / STRIDE_MIN <= 1 << 13);

impl Geometry {
    /// Lays items of `layout` out.
    pub(crate) fn new(layout: Layout) -> Result<Self, ZoneError> {
        if layout.align() > ITEM_ALIGN_MAX {
            return Err(ZoneError::Align);
        }
        if layout.size() > ITEM_BYTES_MAX {
            return Err(ZoneError::TooBig);
        }
        let stride = layout
            .size()
            .max(STRIDE_MIN)
            .next_multiple_of(layout.align());
        let slab_bytes = (stride * ITEMS_PER_SLAB_MIN)
            .next_power_of_two()
            .max(SLAB_BYTES_MIN);
        Ok(Self {
            stride,
            slab_shift: slab_bytes.trailing_zeros(),
            per_slab: slab_bytes / stride,
            reciprocal: (1u64 << RECIPROCAL_SHIFT).div_ceil(stride as u64),
        })
    }

    /// Bytes from one item to the next.
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// Bytes of a slab, a power of two.
    pub(crate) fn slab_bytes(&self) -> usize {
        1 << self.slab_shift
    }

    /// Items in a slab.
    pub(crate) fn per_slab(&self) -> usize {
        self.per_slab
    }

    /// Words of a slab's bitmap.
    pub(crate) fn words_per_slab(&self) -> usize {
        self.per_slab.div_ceil(64)
    }

    /// The place of the item that holds the byte at `offset` from the base.
    #[inline]
    pub(crate) fn place_of(&self, offset: usize) -> Place {
        let slab = offset >> self.slab_shift;
        let within = (offset & (self.slab_bytes() - 1)) as u64;
        let slot = (within * self.reciprocal) >> RECIPROCAL_SHIFT;
        Place {
            slab,
            slot: slot as usize,
        }
    }

    /// The first byte of an item, counted from the base.
    #[inline]
    pub(crate) fn offset_of(&self, place: Place) -> usize {
        (place.slab << self.slab_shift) + place.slot * self.stride
    }

    /// Items counted through all slabs: the index into the side tables.
    #[inline]
    pub(crate) fn number_of(&self, place: Place) -> usize {
        place.slab * self.per_slab + place.slot
    }

    /// Whether `offset` is the first byte of an item and not the middle of one or the waste.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn is_item(&self, offset: usize) -> bool {
        let place = self.place_of(offset);
        place.slot < self.per_slab && self.offset_of(place) == offset
    }
}

#[cfg(test)]
mod tests;
