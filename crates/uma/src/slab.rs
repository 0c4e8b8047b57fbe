//! A slab: a run of pages cut into items, described out of line.
//!
//! The bitmap of [`Slabs`](crate::slabs::Slabs) has the free items of slab n; this file only
//! decides from which slab the next item comes. No code writes into a free item, so pages may go
//! back to the system, and come again, without a change here.

/// Classes of fullness. Within one the lowest address is preferred.
pub(crate) const CLASSES: usize = 16;
/// The number of lists of slabs, in the order in which items are taken from them.
pub(crate) const SHELVES: usize = CLASSES + 2;

/// The list on which a slab waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shelf {
    /// No free item: on no list.
    Full,
    /// Some items taken, some free; class 0 is the fullest.
    Partial(usize),
    /// All items free, some pages there.
    Empty,
    /// All items free, no pages.
    Cold,
}

impl Shelf {
    /// The index among the [`SHELVES`]; items are taken from the lowest first.
    #[inline]
    pub(crate) fn index(self) -> Option<usize> {
        match self {
            Self::Full => None,
            Self::Partial(class) => Some(class),
            Self::Empty => Some(CLASSES),
            Self::Cold => Some(CLASSES + 1),
        }
    }
}

/// One slab's entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slab {
    /// Free items that may be taken.
    pub(crate) free: u32,
    /// Free items that may not, because their pages are being given back.
    pub(crate) held: u32,
    /// Units that may be resident.
    pub(crate) units: u32,
    /// No word of the bitmap before this one has a free item.
    pub(crate) first_word: u32,
    /// An item came back since a purge last examined the pages.
    pub(crate) dirty: bool,
}

/// Computes the class of fullness, for slabs of a given number of items.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fullness {
    per_slab: u32,
    /// 2^32 * CLASSES / per_slab: a multiply instead of a division at every give.
    scale: u64,
}

impl Fullness {
    pub(crate) fn new(per_slab: usize) -> Self {
        Self {
            per_slab: per_slab as u32,
            scale: ((CLASSES as u64) << 32) / per_slab as u64,
        }
    }

    /// Where a slab belongs.
    #[inline]
    pub(crate) fn shelf_of(&self, slab: &Slab) -> Shelf {
        if slab.free == 0 {
            Shelf::Full
        } else if slab.free < self.per_slab {
            Shelf::Partial(((u64::from(slab.free - 1) * self.scale) >> 32) as usize)
        } else if slab.units > 0 {
            Shelf::Empty
        } else {
            Shelf::Cold
        }
    }
}
