//! What all handles of a zone point to, and the count of its live items.
//!
//! Called by: `raw.rs`, `builder.rs`. Calls: everything below. The ways of an item are in
//! `alloc.rs`, `free.rs` and `reclaim.rs`; here is what they share.
//!
//! Locking key of [`Inner`]: (c) constant, (p) the lock of a CPU's cache, (P) changed only with
//! the locks of all CPU caches held and read under any one of them, (d) the depot's lock, (k) the
//! keg's, (a) atomic. Order: CPU cache, depot, keg. Never is a hook called, nor pages given back,
//! with one held.
//!
//! # How live items are counted
//!
//! Each cache counts, under its own lock, the items it gave out and took back; the sum over all
//! CPUs is the number of live items, and nothing shared is written. A zone with a limit needs the
//! sum at every allocation, so it keeps it in `live` as well, changed under the cache's lock
//! together with the cache's counts. [`Inner::set_limit`] goes from one way to the other with all
//! caches locked, when the sum is exact. So a limit is never passed and never felt early.
//!
//! The count of a free is the last thing a free does to the zone, but for the unlock. That is what
//! lets [`Inner::retire`] conclude from a count of zero, taken with all caches locked, that nobody
//! is inside. (The references that such a free still has on its stack are to a type with interior
//! mutability, which promises nobody that it stays to the end of a call.)

use crate::arena::Arena;
use crate::bucket::Bucket;
use crate::cache::{Cache, CacheSlot};
use crate::depot::DepotSlot;
use crate::geometry::Geometry;
use crate::hooks::Hooks;
use crate::keg::KegSlot;
use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};
use kern::{Counter, MutexGuard, cpu};

/// The value of `limit` that stands for none.
pub(crate) const NO_LIMIT: usize = usize::MAX;

/// Zones whose last handle went while items were live.
static LEAKED: AtomicUsize = AtomicUsize::new(0);

/// How many zones lost their last handle while items of theirs were live. Their memory stays
/// until the process ends, so that those who hold the items may still use and free them.
#[must_use]
pub fn leaked_zones() -> usize {
    // Relaxed: a number to look at, that orders nothing.
    LEAKED.load(Ordering::Relaxed)
}

/// A zone's state.
pub(crate) struct Inner {
    /// (c)
    pub(crate) caches: Box<[CacheSlot]>,
    /// (c)
    pub(crate) arena: Arena,
    /// (c)
    pub(crate) hooks: Option<Box<dyn Hooks>>,
    /// (P) The most items that may be live, or [`NO_LIMIT`].
    pub(crate) limit: AtomicUsize,
    /// (c) Items a bucket holds.
    pub(crate) bucket_items: usize,
    /// (c)
    pub(crate) name: &'static str,
    /// (c)
    pub(crate) layout: Layout,
    /// (d)
    pub(crate) depot: DepotSlot,
    /// (k)
    pub(crate) keg: KegSlot,
    /// (a) Live items, while there is a limit.
    pub(crate) live: PaddedCount,
    /// (a) Threads that carry free items between layers, where no list shows them.
    pub(crate) in_transit: PaddedCount,
    /// (a) Handles ([`RawZone`](crate::RawZone)).
    pub(crate) handles: PaddedCount,
    /// (a)
    pub(crate) failures: Counter,
    /// (a)
    pub(crate) slab_visits: Counter,
    /// (a)
    pub(crate) robberies: Counter,
}

/// An atomic that may be written often, away from what is only read.
#[repr(align(128))]
pub(crate) struct PaddedCount(pub(crate) AtomicUsize);

impl PaddedCount {
    pub(crate) fn new(n: usize) -> Self {
        Self(AtomicUsize::new(n))
    }
}

/// What a builder decided.
pub(crate) struct Plan {
    pub(crate) name: &'static str,
    pub(crate) layout: Layout,
    pub(crate) geo: Geometry,
    pub(crate) arena: Arena,
    pub(crate) limit: usize,
    pub(crate) bucket_items: usize,
    pub(crate) hooks: Option<Box<dyn Hooks>>,
}

impl Inner {
    /// A zone with one handle and nothing in it.
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            caches: (0..cpu::count().max(1)).map(|_| CacheSlot::new()).collect(),
            keg: KegSlot::new(plan.geo),
            arena: plan.arena,
            hooks: plan.hooks,
            limit: AtomicUsize::new(plan.limit),
            bucket_items: plan.bucket_items,
            name: plan.name,
            layout: plan.layout,
            depot: DepotSlot::new(),
            live: PaddedCount::new(0),
            in_transit: PaddedCount::new(0),
            handles: PaddedCount::new(1),
            failures: Counter::new(),
            slab_visits: Counter::new(),
            robberies: Counter::new(),
        }
    }

    /// Locks the cache of the CPU we are on. We may be moved off it any time: then it is the
    /// cache of another CPU, which costs time and nothing else.
    #[inline]
    pub(crate) fn lock_cache(&self) -> MutexGuard<'_, Cache> {
        let cpu = cpu::current();
        // CPU numbers may have holes; the remainder is only for those.
        let slot = if cpu < self.caches.len() {
            cpu
        } else {
            cpu % self.caches.len()
        };
        self.caches[slot].0.lock()
    }

    /// Locks every cache, in the order of their numbers, which is the order within the class.
    pub(crate) fn lock_all(&self) -> Vec<MutexGuard<'_, Cache>> {
        self.caches
            .iter()
            .map(|slot| slot.0.lock_nested())
            .collect()
    }

    /// Whether the limit lets one more item live, as far as one can see without taking it.
    #[inline]
    pub(crate) fn may_grow(&self) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        limit == NO_LIMIT || self.live.0.load(Ordering::Relaxed) < limit
    }

    /// Counts an item as given out, unless the limit forbids it.
    #[inline]
    pub(crate) fn count_alloc(&self, cache: &mut Cache) -> bool {
        // Relaxed, here and below: `limit` changes only under all cache locks and we hold one;
        // `live` is a bare number, whose changes are atomic and order nothing.
        let limit = self.limit.load(Ordering::Relaxed);
        if limit != NO_LIMIT && !self.live_add(limit) {
            return false;
        }
        cache.allocs = cache.allocs.wrapping_add(1);
        true
    }

    fn live_add(&self, limit: usize) -> bool {
        let step = |live| if live < limit { Some(live + 1) } else { None };
        self.live
            .0
            .try_update(Ordering::Relaxed, Ordering::Relaxed, step)
            .is_ok()
    }

    /// Counts an item as taken back.
    #[inline]
    pub(crate) fn count_free(&self, cache: &mut Cache) {
        cache.frees = cache.frees.wrapping_add(1);
        self.live_sub();
    }

    /// Counts an item as never given out: its constructor refused.
    pub(crate) fn uncount_alloc(&self, cache: &mut Cache) {
        cache.allocs = cache.allocs.wrapping_sub(1);
        self.live_sub();
    }

    #[inline]
    fn live_sub(&self) {
        if self.limit.load(Ordering::Relaxed) != NO_LIMIT {
            self.live.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Live items, exactly: nothing is given out or taken back while they are summed.
    pub(crate) fn live_exact(&self) -> usize {
        sum_live(&self.lock_all())
    }

    /// Live items, cheaply; exact when nothing is given out or taken back meanwhile.
    pub(crate) fn live(&self) -> usize {
        let live = self.caches.iter().fold(0u64, |sum, slot| {
            let cache = slot.0.lock();
            sum.wrapping_add(cache.allocs).wrapping_sub(cache.frees)
        });
        // A free seen without its allocation, on another CPU, can make it seem negative.
        usize::try_from(i64::from_ne_bytes(live.to_ne_bytes())).unwrap_or(0)
    }

    /// Changes the limit. One below the live items makes allocations fail until enough are freed.
    pub(crate) fn set_limit(&self, limit: Option<usize>) {
        let caches = self.lock_all();
        self.live.0.store(sum_live(&caches), Ordering::Relaxed);
        self.limit
            .store(limit.unwrap_or(NO_LIMIT), Ordering::Relaxed);
    }

    /// Whether all layers are sound. Locks one after the other, so that it may run at any time.
    pub(crate) fn is_valid(&self) -> bool {
        let depot_is_valid = self.depot.0.lock().is_valid();
        depot_is_valid && self.keg.0.lock().is_valid()
    }

    /// Says that free items are in this thread's hands until the answer is dropped.
    pub(crate) fn enter_transit(&self) -> Transit<'_> {
        // Relaxed: it rises before a lock is taken and falls after one is released, and `rob`
        // reads it with all of them held.
        self.in_transit.0.fetch_add(1, Ordering::Relaxed);
        Transit(self)
    }

    /// Puts free items back into their slabs, after `fini` if they went through `init`.
    pub(crate) fn give_to_slabs(&self, items: &[NonNull<u8>], initialised: bool) {
        if let (Some(hooks), true) = (&self.hooks, initialised) {
            for &item in items {
                // SAFETY: the item is free, went through `init`, and is in our hands alone.
                unsafe { hooks.fini(item) };
            }
        }
        self.keg.0.lock().give(&self.arena, items);
    }

    /// Puts the items of a bucket that found no place into their slabs.
    pub(crate) fn give_bucket_to_slabs(&self, bucket: &Bucket) {
        if !bucket.is_empty() {
            self.give_to_slabs(bucket.items(), true);
        }
    }

    /// The end of the last handle: unmaps the zone, or leaves it to those who hold its items.
    ///
    /// # Safety
    /// `inner` came from `Box::leak`, and no handle is left.
    pub(crate) unsafe fn retire(inner: NonNull<Self>) {
        // SAFETY: nothing but this function frees a zone, and it runs once.
        let zone = unsafe { inner.as_ref() };
        // With no handle left only holders of live items may call, and each call ends in a count
        // under a cache's lock. So when none is live, all that ever called have left.
        let abandoned = zone.live_exact() > 0;
        zone.drain();
        debug_assert!(
            zone.is_valid(),
            "zone '{}' is not sound at its end",
            zone.name
        );
        if abandoned {
            LEAKED.fetch_add(1, Ordering::Relaxed);
        } else {
            // SAFETY: from Box::leak, and as said above nobody else is inside or may enter.
            drop(unsafe { Box::from_raw(inner.as_ptr()) });
        }
    }
}

fn sum_live(caches: &[MutexGuard<'_, Cache>]) -> usize {
    let live = caches.iter().fold(0u64, |sum, cache| {
        sum.wrapping_add(cache.allocs).wrapping_sub(cache.frees)
    });
    usize::try_from(live).unwrap_or(usize::MAX)
}

/// Proof that [`Inner::in_transit`] was raised; lowers it when dropped.
pub(crate) struct Transit<'a>(&'a Inner);

impl Drop for Transit<'_> {
    fn drop(&mut self) {
        // Release: whoever sees the lower number sees what was put down before.
        self.0.in_transit.0.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
impl Inner {
    /// A zone without handles, for tests that look into its layers.
    pub(crate) fn for_test(layout: Layout, reserve_bytes: usize, bucket_items: usize) -> Self {
        let geo = Geometry::new(layout).expect("tests use layouts that fit");
        Self::new(Plan {
            name: "test",
            layout,
            geo,
            arena: Arena::reserve(geo, reserve_bytes, false).expect("there is address space"),
            limit: NO_LIMIT,
            bucket_items,
            hooks: None,
        })
    }
}
