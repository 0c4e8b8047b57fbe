//! The handle of a zone of raw items: it counts, and keeps the zone.
//!
//! When the last [`RawZone`] of a zone goes, so does the zone, as soon as no item of it is live.
//! The handle carries the type of the zone's hooks, so that `ctor` and `dtor` are called directly.
//! Locks: none of its own.

use crate::hooks::{Hooks, NoHooks};
use crate::keg::Urgency;
use crate::percpu::PushOutcome;
use crate::zone_inner::{NO_LIMIT, ZoneInner};
use crate::{AllocError, Census, Purged, RawZoneRef, ZoneBuilder, ZoneStats};
use core::alloc::Layout;
use core::fmt;
use core::panic::Location;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;
use kern::prim::{Ordering, fence};

/// A zone: an allocator of items of one layout, with a cache on every CPU.
///
/// A handle: clones are the same zone. After the drop of the last handle the zone ends as soon as no item is live;
/// until then the owners of items may use and free them, and [`leaked_zones`](crate::leaked_zones) counts the zone.
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
pub struct RawZone<H: Hooks = NoHooks> {
    zone: RawZoneRef<H>,
}

impl RawZone {
    /// Begins the description of a zone; the statistics show `name`.
    pub fn builder(name: &'static str, layout: Layout) -> ZoneBuilder {
        ZoneBuilder::new(name, layout)
    }
}

impl<H: Hooks> RawZone<H> {
    /// # Safety
    /// `inner` is a new zone whose one handle is this, made with hooks of type `H`.
    pub(crate) unsafe fn from_inner(inner: NonNull<ZoneInner>) -> Self {
        Self {
            // SAFETY: says the caller.
            zone: unsafe { RawZoneRef::from_inner(inner) },
        }
    }

    #[inline]
    pub(crate) fn inner(&self) -> &ZoneInner {
        // SAFETY: made by from_inner, and the zone does not end before its last handle.
        unsafe { self.zone.inner().as_ref() }
    }

    /// Allocates an item. Its content is as `init` and `ctor` left it, or undefined.
    ///
    /// # Errors
    /// [`AllocError`]: the limit is reached, memory has run out, or a hook refused.
    #[doc(alias = "uma_zalloc")]
    #[track_caller]
    #[inline]
    pub fn alloc(&self) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: the handle keeps the zone.
        unsafe { self.zone.alloc() }
    }

    /// As [`alloc`](Self::alloc), and may take from the [reserve](ZoneBuilder::reserve): for work
    /// that lets other code free memory (an acknowledgement, a reset, a timer).
    ///
    /// # Errors
    /// As there; the reserve is used up too.
    #[doc(alias = "M_USE_RESERVE")]
    #[track_caller]
    #[inline]
    pub fn alloc_urgent(&self) -> Result<NonNull<u8>, AllocError> {
        let site = Location::caller();
        self.zone.consult()?;
        let item = self.inner().take(Urgency::Urgent, Some(site))?;
        self.zone.constructed(item, site)
    }

    /// As [`alloc`](Self::alloc), but does not empty the caches of other CPUs and waits for no other thread: may fail
    /// while items are free. For an `init` that builds on another zone's items ([`ZoneBuilder::holds_items_of`]),
    /// because other threads wait for the thread that runs it.
    ///
    /// # Errors
    /// As there, and where the free items are with other threads.
    #[track_caller]
    pub fn alloc_near(&self) -> Result<NonNull<u8>, AllocError> {
        let site = Location::caller();
        self.zone.consult()?;
        let item = self.inner().take_near(site)?;
        self.zone.constructed(item, site)
    }

    /// Takes an item back.
    ///
    /// # Panics
    /// If the item is not of this zone; or if it is free already. The checks that need no extra
    /// access notice that: when it is the item last freed on this CPU, and when it reaches its
    /// slab. Debug builds, and the feature `invariants`, notice always.
    ///
    /// # Safety
    /// `item` came from an allocation of this zone and was not freed since. No thread uses it or its reference count
    /// any more.
    #[doc(alias = "uma_zfree")]
    #[track_caller]
    #[inline]
    pub unsafe fn free(&self, item: NonNull<u8>) {
        // SAFETY: the caller promises the same.
        unsafe { self.zone.free(item) }
    }

    /// An item of this CPU's loaded bucket only: no lock, no system call, no `ctor`. For tests of
    /// the operations that a signal handler may use.
    #[doc(hidden)]
    #[track_caller]
    #[inline]
    pub fn pop_fast(&self) -> Option<NonNull<u8>> {
        let item = self.inner().percpu.pop()?;
        self.inner().unpoison_item(item);
        self.inner().mark_taken(item, Location::caller());
        Some(item)
    }

    /// Undoes [`pop_fast`](Self::pop_fast): puts an item into this CPU's loaded bucket if that has room. Returns
    /// whether it had.
    ///
    /// # Safety
    /// As for [`free`](Self::free), for an item of `pop_fast`, if this returns true.
    #[doc(hidden)]
    #[track_caller]
    #[inline]
    pub unsafe fn push_fast(&self, item: NonNull<u8>) -> bool {
        self.inner().mark_freed(item, Location::caller());
        self.inner().poison_item(item);
        let percpu = &self.inner().percpu;
        let again = |outcome| percpu.push_again(item, outcome) == PushOutcome::Done;
        let is_down = percpu.push(item).map_or_else(again, |()| true);
        if !is_down {
            self.inner().unpoison_item(item);
            self.inner().mark_taken(item, Location::caller());
        }
        is_down
    }

    /// The reference count beside an item, found by arithmetic on the address alone. Zero until a
    /// user stores a value; that value stays until the item is freed.
    ///
    /// # Panics
    /// If the zone was built without [`refcounts`](ZoneBuilder::refcounts).
    ///
    /// # Safety
    /// `item` is a live item of this zone. The count stays readable as long as the zone, but is
    /// void after the item was freed.
    #[doc(alias = "uma_find_refcnt")]
    #[inline]
    pub unsafe fn refcount(&self, item: NonNull<u8>) -> &AtomicU32 {
        // SAFETY: the caller says that the item is live and ours, and the handle keeps the zone
        // as long as the result is borrowed.
        unsafe { self.zone.refcount(item) }
    }

    /// Whether the address is in the range that this zone cuts its items from. Always false for a
    /// cache-only zone, which has none.
    #[inline]
    #[must_use]
    pub fn owns(&self, pointer: NonNull<u8>) -> bool {
        // SAFETY: the handle keeps the zone.
        unsafe { self.zone.owns(pointer) }
    }

    /// Items allocated and not freed. Exact if no other thread allocates or frees at the same time.
    #[must_use]
    pub fn live(&self) -> usize {
        self.inner().live()
    }

    /// The hooks that the zone was built with.
    #[must_use]
    pub fn hooks(&self) -> &H {
        // SAFETY: a RawZone<H> is only made of a zone with hooks of type H.
        unsafe { self.inner().hooks::<H>() }
    }

    /// Which call sites hold the live items, and for how long: an estimate from samples, or exact with the feature
    /// `invariants`. See [`Census`].
    #[must_use]
    pub fn census(&self) -> Census {
        Census::of(self.inner())
    }

    /// The figures of the zone.
    #[must_use]
    pub fn stats(&self) -> ZoneStats {
        ZoneStats::of(self.inner())
    }

    /// The layout of the items.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.inner().layout
    }

    /// Changes the limit on live items of this zone and those that share its slabs; `None` is no limit. If more are
    /// live than the new limit allows, allocations fail until enough have been freed.
    #[doc(alias = "uma_zone_set_max")]
    pub fn set_limit(&self, items: Option<usize>) {
        self.inner().keg.set_limit(items.unwrap_or(NO_LIMIT));
    }

    /// Gives back all memory that no live item needs: the caches of all CPUs and the depot go into the slabs, free
    /// pages to the system, even those between live items. It takes some time, and the next allocations are slower;
    /// other threads may allocate and free meanwhile.
    #[doc(alias = "uma_zone_reclaim")]
    #[doc(alias = "UMA_RECLAIM_DRAIN_CPU")]
    pub fn drain(&self) -> Purged {
        self.inner().drain()
    }

    /// Gives back memory that was not needed since the last trim: buckets that lay in the depot all the time, the
    /// caches of idle CPUs, pages that were free all the time. Cheap if there is no such memory; meant to be called a
    /// few times a second ([`Reclaimer`](crate::Reclaimer) does).
    #[doc(alias = "UMA_RECLAIM_TRIM")]
    pub fn trim(&self) -> Purged {
        self.inner().trim()
    }

    /// Lets allocations of this zone fail from now on by a plan, with [`AllocError::NoMemory`]. An allocation that may
    /// sleep without a limit of time does not consult it.
    #[cfg(feature = "invariants")]
    pub fn fail(&self, plan: crate::FailPlan) {
        self.fail_at(crate::FailPoint::Alloc, plan);
    }

    /// Lets a fail point fail from now on, by a plan.
    #[cfg(feature = "invariants")]
    pub fn fail_at(&self, point: crate::FailPoint, plan: crate::FailPlan) {
        self.at_point(point, |point| point.set(plan));
    }

    /// How often the plan was consulted since it was set.
    #[cfg(feature = "invariants")]
    #[must_use]
    pub fn consulted(&self, point: crate::FailPoint) -> u64 {
        self.at_point(point, crate::fail::Point::consulted)
    }

    #[cfg(feature = "invariants")]
    fn at_point<T: Default>(
        &self,
        point: crate::FailPoint,
        how: impl FnOnce(&crate::fail::Point) -> T,
    ) -> T {
        use crate::FailPoint;
        let inner = self.inner();
        match point {
            FailPoint::Alloc => how(&inner.fails.alloc),
            FailPoint::Init => how(&inner.fails.init),
            FailPoint::Ctor => how(&inner.fails.ctor),
            #[cfg(feature = "extras")]
            FailPoint::Import => how(&inner.keg.import_point),
            FailPoint::Bucket => how(&inner.depot.lock().bucket_point),
            // A cache-only zone has no slabs to fail.
            FailPoint::Pages => match &inner.keg.lock().slabs {
                Some(slabs) => how(&slabs.grow_point),
                None => T::default(),
            },
        }
    }

    /// Whether the zone's structures agree with each other. For tests: it reads every slab.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.inner().is_valid()
    }

    /// The zone in eight bytes, without keeping it.
    #[must_use]
    pub fn as_ref_ptr(&self) -> RawZoneRef<H> {
        self.zone
    }

    /// Begins the description of a secondary zone: one with caches and hooks of its own, and the
    /// slabs and the limit of this one. Its `init` and `fini` run inside of this one's.
    #[doc(alias = "uma_zsecond_create")]
    pub fn secondary(&self, name: &'static str) -> ZoneBuilder {
        ZoneBuilder::secondary(name, self.inner())
    }
}

impl<H: Hooks> Clone for RawZone<H> {
    fn clone(&self) -> Self {
        // Relaxed: there is a handle, so the zone cannot end meanwhile. Overflow needs 2^64
        // handles, each of which is 8 bytes somewhere.
        self.inner().handles.0.fetch_add(1, Ordering::Relaxed);
        Self { zone: self.zone }
    }
}

impl<H: Hooks> Drop for RawZone<H> {
    fn drop(&mut self) {
        // Release, and the fence: all that was done through any handle comes before the end.
        if self.inner().handles.0.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            // SAFETY: from_inner got it from `make`; this was the last handle, and without one no
            // other can be made.
            unsafe { ZoneInner::retire(self.zone.inner()) };
        }
    }
}

impl<H: Hooks> fmt::Debug for RawZone<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawZone")
            .field("name", &self.inner().name)
            .finish_non_exhaustive()
    }
}
