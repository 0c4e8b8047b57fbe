//! The reserved range that a keg cuts its slabs from, and the tables that run beside it.
//!
//! ```text
//!           |<------- normal_len ------->|<- samples ->|
//!   items   | slab 0 | slab 1 | ...      | slab n | ...     at multiples of the slab size
//!   counts  |c c c c |c c c c | ...      |c c c c | ...     64 B an item (reference counts)
//!   taken   |1011    |1111    | ...      |0000    | ...     1 bit an item (debug builds)
//! ```
//!
//! The sample slabs are for items that are watched one by one: because they lie behind all
//! others, one comparison in a free tells the two kinds apart.
//!
//! An item's number is found from its address by a subtraction, a shift and a multiply ([`Geometry`]), so a count is
//! reached without a load from any line that is written to.
//!
//! Locks: none. The bases never change, and the caller of [`Arena::open`] holds the keg's lock. [`Arena::open_samples`]
//! may be called at any time: ranges that are open stay open.

use crate::ZoneError;
use crate::geometry::{ArenaOptions, Geometry, ItemPlace};
use crate::region::{self, PageSize, Purged, Region, give_back_runs};
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;
#[cfg(any(debug_assertions, feature = "invariants"))]
use core::sync::atomic::{AtomicU8, Ordering};

/// A reference count has a cache line to itself: CPUs that count on two clusters must not share a line.
pub(crate) const COUNT_BYTES: usize = 64;
/// If the address space is limited, a zone takes at most the rest divided by this, so that some is left for later zones
/// and for the program.
const ADDRESS_SPACE_SHARE: usize = 8;
/// Slabs become accessible in steps of this many bytes: one system call for 64 small slabs.
const STEP_BYTES: usize = 4 << 20;

/// Memory for slabs.
#[derive(Debug)]
pub(crate) struct Arena {
    geo: Geometry,
    items: Region,
    /// Bytes of the slabs before the samples.
    normal_len: usize,
    counts: Option<Region>,
    #[cfg(any(debug_assertions, feature = "invariants"))]
    taken: Region,
}

impl Arena {
    /// Reserves the size that the options give, or half, or a quarter, and so on until it fits the address space.
    pub(crate) fn reserve(geo: Geometry, options: &ArenaOptions) -> Result<Self, ZoneError> {
        let share =
            region::address_space_left().map_or(usize::MAX, |left| left / ADDRESS_SPACE_SHARE);
        let bytes = options.reserve_bytes.min(share);
        let mut slabs = (bytes >> geo.slab_bytes().trailing_zeros()).max(1);
        while slabs > 0 {
            if let Some(arena) = Self::try_reserve(geo, slabs, options) {
                return Ok(arena);
            }
            slabs /= 2;
        }
        Err(ZoneError::NoAddressSpace)
    }

    fn try_reserve(geo: Geometry, slabs: usize, options: &ArenaOptions) -> Option<Self> {
        let total = slabs.checked_add(options.sample_slabs)?;
        let items = total.checked_mul(geo.per_slab())?;
        let table = |bytes, align| Region::reserve(bytes, align, PageSize::Small);
        let pages = match geo.huge() {
            true => PageSize::Huge,
            false => PageSize::Small,
        };
        let bytes = total.checked_mul(geo.slab_bytes())?;
        Some(Self {
            geo,
            items: Region::reserve(bytes, geo.slab_bytes(), pages)?,
            normal_len: slabs * geo.slab_bytes(),
            counts: match options.refcounts {
                true => Some(table(items.checked_mul(COUNT_BYTES)?, COUNT_BYTES)?),
                false => None,
            },
            #[cfg(any(debug_assertions, feature = "invariants"))]
            taken: table(items.div_ceil(8), 1)?,
        })
    }

    /// How the items lie.
    #[inline]
    pub(crate) fn geometry(&self) -> &Geometry {
        &self.geo
    }

    /// The first byte of the first slab.
    #[inline]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.items.base()
    }

    /// Bytes from the base to the end of the last sample slab.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Bytes from the base to the end of the slabs before the samples.
    #[inline]
    pub(crate) fn normal_len(&self) -> usize {
        self.normal_len
    }

    /// Slabs reserved, without the samples.
    pub(crate) fn slabs_max(&self) -> usize {
        self.normal_len / self.geo.slab_bytes()
    }

    /// The sample slabs, open or not.
    pub(crate) fn sample_range(&self) -> Range<usize> {
        self.slabs_max()..self.items.len() / self.geo.slab_bytes()
    }

    /// Whether items have reference counts.
    pub(crate) fn is_counted(&self) -> bool {
        self.counts.is_some()
    }

    /// Makes at least the slabs from `open` to `slabs` accessible, with their table entries, and more where that is
    /// cheap. Returns the end of the accessible slabs, or `None` if the system refuses.
    pub(crate) fn open(&self, open: usize, slabs: usize) -> Option<usize> {
        let step = match self.geo.guard() {
            true => 1,
            false => (STEP_BYTES / self.geo.slab_bytes()).max(1),
        };
        let stepped = slabs.next_multiple_of(step).min(self.slabs_max());
        [stepped, slabs]
            .into_iter()
            .find(|&slabs| self.open_exactly(open..slabs))
    }

    /// Makes the first `n` sample slabs accessible, or as many as there are. Returns how many, or `None` if the system
    /// refuses.
    pub(crate) fn open_samples(&self, n: usize) -> usize {
        let all = self.sample_range();
        let some = all.start..all.end.min(all.start + n);
        match self.open_exactly(some.clone()) {
            true => some.len(),
            false => 0,
        }
    }

    fn open_exactly(&self, run: Range<usize>) -> bool {
        let per_slab = self.geo.per_slab();
        let (start, end) = (run.start * per_slab, run.end * per_slab);
        let counts = self
            .counts
            .as_ref()
            .is_none_or(|counts| counts.open(start * COUNT_BYTES..end * COUNT_BYTES));
        #[cfg(any(debug_assertions, feature = "invariants"))]
        let counts = counts && self.taken.open(start / 8..end.div_ceil(8));
        counts && self.each_part(run, |part| self.items.open(part))
    }

    /// Makes the pages of a run of slabs resident. Returns whether there was memory.
    ///
    /// # Safety
    /// The slabs are open, all their items are free, and none is taken during the call.
    pub(crate) unsafe fn populate(&self, run: Range<usize>) -> bool {
        // SAFETY: the caller promises that no item there is in use.
        self.each_part(run, |part| unsafe { self.items.populate(part) })
    }

    /// Calls a function on all bytes of a run of slabs, or on all but the guard pages; stops at the
    /// first failure.
    fn each_part(&self, run: Range<usize>, how: impl Fn(Range<usize>) -> bool) -> bool {
        let bytes = self.geo.slab_bytes();
        if !self.geo.guard() {
            return how(run.start * bytes..run.end * bytes);
        }
        let slots = || 0..self.geo.per_slab();
        let mut places = run.flat_map(|slab| slots().map(move |slot| ItemPlace { slab, slot }));
        places.all(|place| {
            let start = self.geo.offset_of(place);
            how(start..start + self.geo.size())
        })
    }

    /// Gives pages back: ranges of bytes of the items, and of their counts. Where the system allows, one call gives
    /// many ranges back.
    ///
    /// # Safety
    /// No item that has a byte in these ranges, or whose count has, is in use or is
    /// allocated during the call.
    pub(crate) unsafe fn give_back(
        &self,
        items: &[Range<usize>],
        counts: &[Range<usize>],
    ) -> Purged {
        // SAFETY: so says the caller.
        let mut purged = unsafe { give_back_runs(&self.items, items) };
        if let Some(region) = &self.counts {
            // SAFETY: a count is needed as long as its item is held, and no longer.
            purged += unsafe { give_back_runs(region, counts) };
        }
        purged
    }

    /// The address of an item.
    pub(crate) fn item_at(&self, place: ItemPlace) -> NonNull<u8> {
        let offset = self.geo.offset_of(place);
        debug_assert!(offset < self.items.len());
        // SAFETY: callers ask only for slabs below the end of sample_range and slots below
        // per_slab, so the offset is within the reservation.
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
    pub(crate) fn place_of(&self, item: NonNull<u8>) -> ItemPlace {
        self.geo.place_of(self.offset_of(item))
    }

    /// Whether the address is in our range, samples and all.
    #[inline]
    pub(crate) fn owns(&self, pointer: NonNull<u8>) -> bool {
        self.offset_of(pointer) < self.items.len()
    }

    /// Whether the address is that of an item of ours, and not inside or between items.
    #[inline]
    pub(crate) fn is_item(&self, pointer: NonNull<u8>) -> bool {
        self.owns(pointer) && self.geo.is_item(self.offset_of(pointer))
    }

    /// The reference count of an item.
    ///
    /// # Panics
    /// If the zone was made without reference counts.
    ///
    /// # Safety
    /// `item` is a live item of this arena, so its entry is open.
    #[inline]
    pub(crate) unsafe fn count_of(&self, item: NonNull<u8>) -> &AtomicU32 {
        let Some(counts) = &self.counts else {
            no_counts()
        };
        let number = self.geo.number_of(self.place_of(item));
        // SAFETY: the item is ours, so its number is below the table's length in entries.
        let entry = unsafe { counts.base().add(number * COUNT_BYTES) };
        // SAFETY: the entry is 64-byte aligned and as long, opened with the item's slab, zero or a value that
        // an AtomicU32 left there, accessed only through this type, and mapped as long as the arena, which the result
        // borrows, exists.
        unsafe { entry.cast::<AtomicU32>().as_ref() }
    }
}

#[cold]
fn no_counts() -> ! {
    panic!("refcount() on a zone that was built without .refcounts()")
}

/// Which items are live, a bit each: so debug builds find a double free at the free itself.
#[cfg(any(debug_assertions, feature = "invariants"))]
impl Arena {
    fn taken_of(&self, item: NonNull<u8>) -> (&AtomicU8, u8) {
        let number = self.geo.number_of(self.place_of(item));
        // SAFETY: `item` was checked to be ours, so its number is below the table's bits.
        let byte = unsafe { self.taken.base().add(number / 8) };
        // SAFETY: the byte was opened with the item's slab, every value is an AtomicU8, and only
        // this code accesses the table, which is mapped as long as the arena.
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

    /// Notes that an item comes back from a caller, or reports an invalid free.
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
