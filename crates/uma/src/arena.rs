//! The reserved range that a keg cuts its slabs from, and the tables that run beside it.
//!
//! Called by: `keg.rs` (more slabs), `reclaim.rs` (fewer), `inner.rs` (addresses).
//! Calls: `region.rs`, `geometry.rs`.
//!
//! ```text
//!   items   | slab 0 | slab 1 | slab 2 | ...        at multiples of the slab size
//!   counts  |c c c c |c c c c |c c c c | ...        64 B an item (zones with reference counts)
//!   taken   |1011    |1111    |0000    | ...        1 bit an item (debug builds)
//! ```
//!
//! An item's number is found from its address by a subtraction, a shift and a multiply
//! ([`Geometry`]), so a count is reached without a load from any line that somebody writes.
//!
//! Nothing here is locked: the bases never change, and [`Arena::open`] is called under the keg's
//! lock.

use crate::ZoneError;
use crate::geometry::{Geometry, Place};
use crate::region::{self, Region};
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;
#[cfg(debug_assertions)]
use core::sync::atomic::{AtomicU8, Ordering};

/// A reference count has a cache line to itself: two CPUs that share two clusters must not meet.
const COUNT_BYTES: usize = 64;
/// Of a limited address space a zone takes at most one part in this many of what is left, so that
/// later zones, and the program, find some too.
const ADDRESS_SPACE_SHARE: usize = 8;
/// Slabs become accessible in steps of this many bytes: one system call for 64 small slabs.
const STEP_BYTES: usize = 4 << 20;

/// Memory for slabs.
#[derive(Debug)]
pub(crate) struct Arena {
    geo: Geometry,
    items: Region,
    counts: Option<Region>,
    #[cfg(debug_assertions)]
    taken: Region,
}

impl Arena {
    /// Reserves `bytes`, or half, or a quarter, ... whatever fits the address space.
    pub(crate) fn reserve(geo: Geometry, bytes: usize, counted: bool) -> Result<Self, ZoneError> {
        let share =
            region::address_space_left().map_or(usize::MAX, |left| left / ADDRESS_SPACE_SHARE);
        let mut slabs = (bytes.min(share) >> geo.slab_bytes().trailing_zeros()).max(1);
        while slabs > 0 {
            if let Some(arena) = Self::try_reserve(geo, slabs, counted) {
                return Ok(arena);
            }
            slabs /= 2;
        }
        Err(ZoneError::NoAddressSpace)
    }

    fn try_reserve(geo: Geometry, slabs: usize, counted: bool) -> Option<Self> {
        let items = slabs * geo.per_slab();
        Some(Self {
            geo,
            items: Region::reserve(slabs.checked_mul(geo.slab_bytes())?, geo.slab_bytes())?,
            counts: match counted {
                true => Some(Region::reserve(
                    items.checked_mul(COUNT_BYTES)?,
                    COUNT_BYTES,
                )?),
                false => None,
            },
            #[cfg(debug_assertions)]
            taken: Region::reserve(items.div_ceil(8), 1)?,
        })
    }

    /// Slabs reserved.
    pub(crate) fn slabs_max(&self) -> usize {
        self.items.len() / self.geo.slab_bytes()
    }

    /// Makes at least the first `slabs` accessible, beside their table entries, and more where
    /// that is cheap. The number that is, or `None` when the system refuses.
    pub(crate) fn open(&self, slabs: usize) -> Option<usize> {
        let step = (STEP_BYTES / self.geo.slab_bytes()).max(1);
        let stepped = slabs.next_multiple_of(step).min(self.slabs_max());
        [stepped, slabs]
            .into_iter()
            .find(|&slabs| self.open_exactly(slabs))
    }

    fn open_exactly(&self, slabs: usize) -> bool {
        let items = slabs * self.geo.per_slab();
        let counts = self
            .counts
            .as_ref()
            .is_none_or(|counts| counts.open(items * COUNT_BYTES));
        #[cfg(debug_assertions)]
        let counts = counts && self.taken.open(items.div_ceil(8));
        counts && self.items.open(slabs * self.geo.slab_bytes())
    }

    /// Gives the pages under a run of slabs back, and the whole pages of their counts.
    ///
    /// # Safety
    /// No item of these slabs is live or cached, and none is taken during the call.
    pub(crate) unsafe fn give_back(&self, run: Range<usize>) {
        let bytes = self.geo.slab_bytes();
        // SAFETY: the caller says that nobody holds an item there, so nobody needs the bytes.
        unsafe { self.items.give_back(run.start * bytes, run.end * bytes) };
        if let Some(counts) = &self.counts {
            let bytes = self.geo.per_slab() * COUNT_BYTES;
            // SAFETY: a count lives as long as its item does; only whole pages of this run go.
            unsafe { counts.give_back(run.start * bytes, run.end * bytes) };
        }
    }

    /// The address of an item.
    pub(crate) fn item_at(&self, place: Place) -> NonNull<u8> {
        let offset = self.geo.offset_of(place);
        debug_assert!(offset < self.items.len());
        // SAFETY: the keg asks only for slabs below slabs_max and slots below per_slab, so the
        // offset is within the reservation.
        unsafe { self.items.base().add(offset) }
    }

    /// Bytes from the base; anything for a pointer that is not ours.
    #[inline]
    fn offset_of(&self, item: NonNull<u8>) -> usize {
        item.addr()
            .get()
            .wrapping_sub(self.items.base().addr().get())
    }

    /// Where an item of ours lies.
    #[inline]
    pub(crate) fn place_of(&self, item: NonNull<u8>) -> Place {
        self.geo.place_of(self.offset_of(item))
    }

    /// Whether the address is in our range.
    #[inline]
    pub(crate) fn owns(&self, pointer: NonNull<u8>) -> bool {
        self.offset_of(pointer) < self.items.len()
    }

    /// Whether the address is that of an item of ours, and not inside or between items.
    #[cfg(debug_assertions)]
    pub(crate) fn is_item(&self, pointer: NonNull<u8>) -> bool {
        self.owns(pointer) && self.geo.is_item(self.offset_of(pointer))
    }

    /// The reference count of an item.
    ///
    /// # Panics
    /// If the zone was made without reference counts.
    ///
    /// # Safety
    /// `item` is a live item of this arena: that its entry was opened rests on it.
    #[inline]
    pub(crate) unsafe fn count_of(&self, item: NonNull<u8>) -> &AtomicU32 {
        let Some(counts) = &self.counts else {
            no_counts()
        };
        let number = self.geo.number_of(self.place_of(item));
        // SAFETY: the item is ours, so its number is below the table's length in entries.
        let entry = unsafe { counts.base().add(number * COUNT_BYTES) };
        // SAFETY: the entry is 64-byte aligned, opened with the item's slab, zero or a value an
        // AtomicU32 left there, touched by nothing but through this type, and mapped as long as
        // the arena, which the result borrows, exists.
        unsafe { entry.cast::<AtomicU32>().as_ref() }
    }
}

#[cold]
fn no_counts() -> ! {
    panic!("refcount() on a zone that was built without .refcounts()")
}

/// Who is live, by a bit each: how debug builds catch a double free where it happens.
#[cfg(debug_assertions)]
impl Arena {
    fn taken_of(&self, item: NonNull<u8>) -> (&AtomicU8, u8) {
        let number = self.geo.number_of(self.place_of(item));
        // SAFETY: `item` was checked to be ours, so its number is below the table's bits.
        let byte = unsafe { self.taken.base().add(number / 8) };
        // SAFETY: the byte was opened with the item's slab, every value is an AtomicU8, and the
        // table is reached by nothing else and mapped as long as the arena.
        (
            unsafe { byte.cast::<AtomicU8>().as_ref() },
            1 << (number % 8),
        )
    }

    /// Notes that an item goes to a caller.
    pub(crate) fn mark_taken(&self, item: NonNull<u8>) {
        assert!(
            self.is_item(item),
            "uma gave out {item:p}, which is not an item of this zone"
        );
        let (byte, bit) = self.taken_of(item);
        // Relaxed: the locks on the item's way order this against the free before it.
        let before = byte.fetch_or(bit, Ordering::Relaxed);
        assert!(before & bit == 0, "uma gave out {item:p} twice");
    }

    /// Notes that an item comes back from a caller, or says what is wrong with that.
    pub(crate) fn mark_freed(&self, item: NonNull<u8>, zone: &str) {
        assert!(
            self.is_item(item),
            "foreign free: {item:p} is not an item of zone '{zone}'"
        );
        let (byte, bit) = self.taken_of(item);
        // Relaxed: as above.
        let before = byte.fetch_and(!bit, Ordering::Relaxed);
        assert!(
            before & bit != 0,
            "double free: {item:p} of zone '{zone}' is free already"
        );
    }
}
