//! The handles of a zone of raw items: one that counts, and one that fits where eight bytes are.
//!
//! Called by: users, `zone.rs`. Calls: `inner.rs` and the ways of an item.
//!
//! A [`RawZone`] keeps its zone; when the last one goes, so does the zone, unless items are
//! live. A [`RawZoneRef`] keeps nothing: its holder knows that a handle or a live item does.

use crate::inner::{Inner, NO_LIMIT};
use crate::{AllocError, ZoneBuilder, ZoneStats};
use core::alloc::Layout;
use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering, fence};

/// A zone: an allocator of items of one layout, with a cache on every CPU.
///
/// A handle: clones are the same zone. Dropping the last one unmaps everything; if items are live
/// then, their memory is left to their holders for good, and
/// [`leaked_zones`](crate::leaked_zones) counts that.
///
/// ```
/// use core::alloc::Layout;
/// use uma::RawZone;
///
/// let layout = Layout::from_size_align(2048, 2048).unwrap();
/// let clusters = RawZone::builder("cluster", layout).limit(1000).refcounts().build()?;
/// let cluster = clusters.alloc()?;
/// assert_eq!(cluster.addr().get() % 2048, 0);
/// // SAFETY: it came from this zone and is not used any more.
/// unsafe { clusters.free(cluster) };
/// assert_eq!(clusters.live(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "uma_zone_t")]
pub struct RawZone {
    inner: NonNull<Inner>,
}

// SAFETY: a handle is a counted reference to an Inner, which is Sync (asserted below), and the
// last handle may go on any thread because Inner is Send.
unsafe impl Send for RawZone {}
// SAFETY: as above; `&RawZone` gives nothing but `&Inner`.
unsafe impl Sync for RawZone {}

const _: () = {
    const fn is_shareable<T: Send + Sync>() {}
    is_shareable::<Inner>();
};

impl RawZone {
    /// Begins the description of a zone; `name` is what the statistics call it.
    pub fn builder(name: &'static str, layout: Layout) -> ZoneBuilder {
        ZoneBuilder::new(name, layout)
    }

    pub(crate) fn from_inner(inner: Inner) -> Self {
        Self {
            inner: NonNull::from(Box::leak(Box::new(inner))),
        }
    }

    #[inline]
    fn inner(&self) -> &Inner {
        // SAFETY: made by from_inner, and only the drop of the last handle ends it.
        unsafe { self.inner.as_ref() }
    }

    /// Gives an item out. What it holds is what `init` and `ctor` left, or anything.
    ///
    /// # Errors
    /// [`AllocError`]: the limit is reached, memory has run out, or a hook refused.
    #[doc(alias = "uma_zalloc")]
    #[inline]
    pub fn alloc(&self) -> Result<NonNull<u8>, AllocError> {
        self.inner().alloc()
    }

    /// Takes an item back.
    ///
    /// # Panics
    /// In debug builds, if the item is free already or not of this zone.
    ///
    /// # Safety
    /// `item` came from an allocation of this zone, was not freed since, and nobody uses it or
    /// its reference count any more.
    #[doc(alias = "uma_zfree")]
    #[inline]
    pub unsafe fn free(&self, item: NonNull<u8>) {
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { self.inner().free(item) }
    }

    /// Gives out as many items as `out` takes or as there are, and says how many: they are the
    /// first ones of `out`. Cheaper than as many single allocations.
    #[must_use = "the items given out are lost if their number is"]
    pub fn alloc_bulk(&self, out: &mut [MaybeUninit<NonNull<u8>>]) -> usize {
        self.inner().alloc_bulk(out)
    }

    /// Takes several items back. Cheaper than as many single frees.
    ///
    /// # Safety
    /// As for [`free`](Self::free), for each of them, all of them different.
    pub unsafe fn free_bulk(&self, items: &[NonNull<u8>]) {
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { self.inner().free_bulk(items) }
    }

    /// The reference count beside an item, found by arithmetic on the address alone. Zero in an
    /// item that never had one; from then on what its users stored, until the item is freed.
    ///
    /// # Panics
    /// If the zone was built without [`refcounts`](ZoneBuilder::refcounts).
    ///
    /// # Safety
    /// `item` is a live item of this zone. The count stays readable as long as the zone, but
    /// means nothing after the item was freed.
    #[doc(alias = "uma_find_refcnt")]
    #[inline]
    pub unsafe fn refcount(&self, item: NonNull<u8>) -> &AtomicU32 {
        // SAFETY: the caller says that the item is live and ours.
        unsafe { self.inner().arena.count_of(item) }
    }

    /// Whether the address is in the range that this zone cuts its items from.
    #[inline]
    #[must_use]
    pub fn owns(&self, pointer: NonNull<u8>) -> bool {
        self.inner().arena.owns(pointer)
    }

    /// Items given out and not taken back. Exact when no other thread allocates or frees.
    #[must_use]
    pub fn live(&self) -> usize {
        self.inner().live()
    }

    /// What the zone holds and has done.
    #[must_use]
    pub fn stats(&self) -> ZoneStats {
        ZoneStats::of(self.inner())
    }

    /// The layout of the items.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.inner().layout
    }

    /// Changes the most items that may be live, at any time; `None` is no limit. When more are
    /// live than a new limit allows, allocations fail until enough have been freed.
    #[doc(alias = "uma_zone_set_max")]
    pub fn set_limit(&self, items: Option<usize>) {
        self.inner().set_limit(items);
    }

    /// Gives back all memory that no live item needs: the caches of all CPUs and the depot go
    /// into the slabs, the pages of empty slabs to the system. It takes a while, and the next
    /// allocations are slower; other threads go on meanwhile.
    #[doc(alias = "uma_zone_reclaim")]
    pub fn drain(&self) {
        self.inner().drain();
    }

    /// Whether the zone's structures agree with each other. For tests: it looks at every slab.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.inner().is_valid()
    }

    /// The zone in eight bytes, without keeping it.
    #[must_use]
    pub fn as_ref_ptr(&self) -> RawZoneRef {
        RawZoneRef(self.inner)
    }
}

impl Clone for RawZone {
    fn clone(&self) -> Self {
        // Relaxed: there is a handle, so the zone cannot end meanwhile. Overflow needs 2^64
        // handles, each of which is 8 bytes somewhere.
        self.inner().handles.0.fetch_add(1, Ordering::Relaxed);
        Self { inner: self.inner }
    }
}

impl Drop for RawZone {
    fn drop(&mut self) {
        // Release, and the fence: all that was done through any handle comes before the end.
        if self.inner().handles.0.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            // SAFETY: from Box::leak in from_inner; this was the last handle, and without one no
            // other can be made.
            unsafe { Inner::retire(self.inner) };
        }
    }
}

impl fmt::Debug for RawZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawZone")
            .field("name", &self.inner().name)
            .finish_non_exhaustive()
    }
}

/// A zone in eight bytes, for items that must find the way back to where they came from.
///
/// It does not keep the zone. What keeps it is a [`RawZone`] somewhere, or a live item of the
/// zone: while one is live the zone is not unmapped, even if the last handle goes. So whoever
/// holds an item may free it through this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RawZoneRef(NonNull<Inner>);

// SAFETY: a plain address of an Inner, which is Sync; using it is unsafe and says when it may be.
unsafe impl Send for RawZoneRef {}
// SAFETY: as above.
unsafe impl Sync for RawZoneRef {}

impl RawZoneRef {
    /// As [`RawZone::alloc`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// During the call a handle exists, or an item of the zone that is live throughout.
    #[inline]
    pub unsafe fn alloc(self) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: the caller says that something keeps the zone.
        unsafe { self.0.as_ref() }.alloc()
    }

    /// As [`RawZone::free`].
    ///
    /// # Safety
    /// As there. The item itself keeps the zone until it is freed, so nothing else need.
    #[inline]
    pub unsafe fn free(self, item: NonNull<u8>) {
        let inner: *const Inner = self.0.as_ptr();
        // SAFETY: the live item keeps the zone until its free is counted, which is the last that
        // `free` does there (inner.rs).
        let inner = unsafe { &*inner };
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { inner.free(item) }
    }

    /// As [`RawZone::alloc_bulk`].
    ///
    /// # Safety
    /// As for [`alloc`](Self::alloc).
    #[must_use = "the items given out are lost if their number is"]
    pub unsafe fn alloc_bulk(self, out: &mut [MaybeUninit<NonNull<u8>>]) -> usize {
        // SAFETY: the caller says that something keeps the zone.
        unsafe { self.0.as_ref() }.alloc_bulk(out)
    }

    /// As [`RawZone::free_bulk`].
    ///
    /// # Safety
    /// As there. The items keep the zone until they are freed.
    pub unsafe fn free_bulk(self, items: &[NonNull<u8>]) {
        // SAFETY: the live items keep the zone.
        let inner = unsafe { self.0.as_ref() };
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { inner.free_bulk(items) }
    }

    /// As [`RawZone::refcount`].
    ///
    /// # Panics
    /// As there.
    ///
    /// # Safety
    /// As there; and the count is not used when nothing keeps the zone any more, which the
    /// lifetime, chosen by the caller, does not say.
    #[inline]
    #[must_use]
    pub unsafe fn refcount<'a>(self, item: NonNull<u8>) -> &'a AtomicU32 {
        // SAFETY: the live item keeps the zone.
        let inner: &'a Inner = unsafe { self.0.as_ref() };
        // SAFETY: the caller says that the item is live and ours.
        unsafe { inner.arena.count_of(item) }
    }

    /// As [`RawZone::owns`].
    ///
    /// # Safety
    /// As for [`alloc`](Self::alloc).
    #[inline]
    #[must_use]
    pub unsafe fn owns(self, pointer: NonNull<u8>) -> bool {
        // SAFETY: the caller says that something keeps the zone.
        unsafe { self.0.as_ref() }.arena.owns(pointer)
    }
}

/// The limit as users say it.
pub(crate) fn limit_of(inner: &Inner) -> Option<usize> {
    let limit = inner.limit.load(Ordering::Relaxed);
    (limit != NO_LIMIT).then_some(limit)
}
