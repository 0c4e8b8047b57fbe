//! A cache for one worker.
//!
//! No data is shared, so no operation synchronises: an item comes from a list in a struct behind `&mut`. The zone sees
//! only the batches. The items in the cache count as live: no other thread can take them back, so the cache is small,
//! and only threads that ask for one have it.
//!
//! Source: DPDK's per-lcore mempool caches, Linux's prefilled sheaves.

use crate::caught::Caught;
use crate::hooks::{Hooks, NoHooks};
use crate::keg::Urgency;
use crate::raw_ref::Destructed;
use crate::zone_inner::ZoneInner;
use crate::{AllocError, RawZone};
use core::mem::MaybeUninit;
use core::panic::Location;
use core::ptr::NonNull;

/// A worker's own cache of a zone; from [`RawZone::local`].
///
/// ```
/// use core::alloc::Layout;
/// use uma::RawZone;
///
/// let zone = RawZone::builder("packet", Layout::new::<[u64; 32]>()).build()?;
/// let mut cache = zone.local(32);
/// assert_eq!(cache.prefill(8), 8); // the next eight allocations cannot fail
/// let item = cache.alloc()?;
/// // SAFETY: it came from this zone and is not used any more.
/// unsafe { cache.free(item) };
/// drop(cache);
/// assert_eq!(zone.live(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct LocalCache<H: Hooks = NoHooks> {
    zone: RawZone<H>,
    /// Items as `init` left them, in the first `len` entries.
    items: Box<[MaybeUninit<NonNull<u8>>]>,
    len: usize,
    batch: usize,
}

// SAFETY: the items are free and ours alone; they do not depend on a thread.
unsafe impl<H: Hooks> Send for LocalCache<H> {}

impl<H: Hooks> LocalCache<H> {
    pub(crate) fn new(zone: RawZone<H>, batch: usize) -> Self {
        let batch = batch.max(1);
        Self {
            zone,
            items: vec![MaybeUninit::uninit(); batch * 2].into_boxed_slice(),
            len: 0,
            batch,
        }
    }

    /// Items that it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Gives an item out.
    ///
    /// # Errors
    /// As [`RawZone::alloc`].
    #[track_caller]
    #[inline]
    pub fn alloc(&mut self) -> Result<NonNull<u8>, AllocError> {
        let site = Location::caller();
        self.zone.as_ref_ptr().consult()?;
        if self.len == 0 {
            if let Some(item) = self.zone.inner().sample(Some(site)) {
                return self.zone.as_ref_ptr().constructed(item, site);
            }
            self.refill(self.batch)?;
        }
        self.len -= 1;
        // SAFETY: entries below the old length are written.
        let item = unsafe { self.items[self.len].assume_init() };
        self.zone.as_ref_ptr().constructed(item, site)
    }

    /// Takes an item back.
    ///
    /// # Panics
    /// As [`RawZone::free`].
    ///
    /// # Safety
    /// As for [`RawZone::free`].
    #[track_caller]
    #[inline]
    pub unsafe fn free(&mut self, item: NonNull<u8>) {
        // SAFETY: the caller promises the same.
        if unsafe { self.zone.as_ref_ptr().destruct(item, Location::caller()) } == Destructed::Gone
        {
            return;
        }
        let mut caught = Caught::default();
        if self.len == self.items.len() {
            caught = self.spill(self.batch);
        }
        self.items[self.len].write(item);
        self.len += 1;
        caught.resume();
    }

    /// Fills the cache to at least `items`, up to twice the batch, so that as many allocations can fail only by a
    /// constructor. Returns how many it holds.
    pub fn prefill(&mut self, items: usize) -> usize {
        let want = items.min(self.items.len());
        if want > self.len {
            // The caller gets as many as there were.
            let _ = self.refill(want - self.len);
        }
        self.len
    }

    /// Gives all it holds back to the zone.
    pub fn flush(&mut self) {
        self.spill(self.len).resume();
    }

    #[cold]
    fn refill(&mut self, items: usize) -> Result<(), AllocError> {
        let room = &mut self.items[self.len..self.len + items];
        self.len += self.zone.inner().take_bulk(room, None);
        if self.len > 0 {
            return Ok(());
        }
        // The single allocation has the error, or may find an item.
        let item = self.zone.inner().take(Urgency::Normal, None)?;
        self.items[0].write(item);
        self.len = 1;
        Ok(())
    }

    /// Gives the `items` that came last back to the zone.
    #[cold]
    fn spill(&mut self, items: usize) -> Caught {
        let from = self.len - items;
        // SAFETY: entries below the length are written.
        let items = unsafe { self.items[from..self.len].assume_init_ref() };
        self.len = from;
        let mut caught = Caught::default();
        let zone = self.zone.as_ref_ptr().inner();
        // SAFETY: they are free, as `init` left them, and ours; the handle keeps the zone.
        caught.call(|| unsafe { ZoneInner::put_bulk(zone, items) });
        caught
    }
}

impl<H: Hooks> Drop for LocalCache<H> {
    fn drop(&mut self) {
        self.flush();
    }
}
