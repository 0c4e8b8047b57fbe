//! Several items in one call, by one section for each bucket.
//!
//! Invariant: a guard is forgotten once all of its hooks have returned, so that the fast path pays nothing.
//! Locks: none.

use crate::RawZone;
use crate::caught::Caught;
use crate::faults::{ZoneFault, planted};
use crate::hooks::Hooks;
use crate::keg::Urgency;
use crate::raw_ref::{Destructed, RawZoneRef};
use crate::sample::Site;
use crate::zone_inner::ZoneInner;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::panic::Location;
use core::ptr::NonNull;

impl<H: Hooks> RawZone<H> {
    /// Fills `out` from the front with as many items as there are, and returns their number. Much cheaper than as many
    /// single allocations.
    #[must_use = "the items given out are lost if their number is"]
    #[track_caller]
    #[inline]
    pub fn alloc_bulk(&self, out: &mut [MaybeUninit<NonNull<u8>>]) -> usize {
        // SAFETY: the handle keeps the zone.
        unsafe { self.as_ref_ptr().alloc_bulk(out) }
    }

    /// Frees several items. Much cheaper than as many single frees.
    ///
    /// # Panics
    /// As for [`free`](Self::free); but in release builds an item that is free already is noticed
    /// only at its slab.
    ///
    /// # Safety
    /// As for [`free`](Self::free), for each of them, all of them different.
    #[track_caller]
    #[inline]
    pub unsafe fn free_bulk(&self, items: &[NonNull<u8>]) {
        // SAFETY: the caller promises the same.
        unsafe { self.as_ref_ptr().free_bulk(items) }
    }
}

impl<H: Hooks> RawZoneRef<H> {
    /// As [`RawZone::alloc_bulk`].
    ///
    /// # Safety
    /// As for [`alloc`](Self::alloc).
    #[must_use = "the items given out are lost if their number is"]
    #[track_caller]
    #[inline]
    pub unsafe fn alloc_bulk(self, out: &mut [MaybeUninit<NonNull<u8>>]) -> usize {
        let site = Location::caller();
        // In some builds tests let it fail; then those before the failure are given out.
        let refused = (0..out.len()).find(|_| self.consult().is_err());
        let allowed = refused.unwrap_or(out.len());
        // SAFETY: the caller promises that a handle or a live item keeps the zone.
        let taken = unsafe { self.inner().as_ref() }.take_bulk(&mut out[..allowed], Some(site));
        let mut making = Making {
            zone: self,
            items: &out[..taken],
            made: 0,
        };
        while let Some(item) = making.items.get(making.made) {
            // SAFETY: take_bulk wrote the first `taken` entries.
            let item = unsafe { item.assume_init() };
            if self.constructed(item, site).is_err() {
                let made = making.keep();
                // `constructed` has freed the item that was refused.
                self.put_back_bulk(&out[made + 1..taken]);
                return made;
            }
            making.made += 1;
        }
        making.keep()
    }

    /// As [`RawZone::free_bulk`].
    ///
    /// # Panics
    /// As there.
    ///
    /// # Safety
    /// As there. The items keep the zone until they are freed.
    #[track_caller]
    #[inline]
    pub unsafe fn free_bulk(self, items: &[NonNull<u8>]) {
        if items.is_empty() {
            return;
        }
        let site = Location::caller();
        // SAFETY: the items are live and ours: they keep the zone.
        if !unsafe { self.inner().as_ref() }.surely_owns(items) {
            // SAFETY: the caller promises the same.
            return unsafe { self.free_each(items, site) };
        }
        let mut freeing = Freeing {
            zone: self,
            items,
            at: 0,
            site,
        };
        while let Some(&item) = items.get(freeing.at) {
            // SAFETY: the item is live and ours, and in the range.
            unsafe { self.destruct_owned(item, site) };
            freeing.at += 1;
        }
        core::mem::forget(freeing);
        // SAFETY: given up by their owner, and through `dtor`, so as `init` left them.
        unsafe { ZoneInner::put_bulk(self.inner(), items) }
    }

    /// [`free_bulk`](Self::free_bulk) of items among which are samples, or items of another zone.
    ///
    /// # Safety
    /// As there.
    #[cold]
    #[inline(never)]
    unsafe fn free_each(self, items: &[NonNull<u8>], site: Site) {
        let mut caught = Caught::default();
        for &item in items {
            // SAFETY: the item is live and ours.
            caught.call(|| unsafe { self.free_at(item, site) });
        }
        caught.resume();
    }

    /// [`free`](Self::free) of an item that was given up at `site`.
    ///
    /// # Safety
    /// As there.
    unsafe fn free_at(self, item: NonNull<u8>, site: Site) {
        // SAFETY: the item is live and ours: it keeps the zone.
        if unsafe { self.destruct(item, site) } == Destructed::Here {
            // SAFETY: given up by its owner, and through `dtor`, so as `init` left it.
            unsafe { ZoneInner::put(self.inner(), item) }
        }
    }

    /// Takes items back that no caller has seen.
    #[cold]
    fn put_back_bulk(self, items: &[MaybeUninit<NonNull<u8>>]) {
        for entry in items {
            // SAFETY: the caller passes entries that take_bulk wrote.
            let item = unsafe { entry.assume_init() };
            // SAFETY: no caller has seen the item.
            unsafe { self.put_back(item) };
        }
    }
}

impl ZoneInner {
    /// Fills `out` from the front with as many items as there are, and returns their number. Without a site none of
    /// them is a sample.
    pub(crate) fn take_bulk(
        &self,
        out: &mut [MaybeUninit<NonNull<u8>>],
        site: Option<Site>,
    ) -> usize {
        let mut taken = TakenItems {
            zone: self,
            out,
            len: 0,
        };
        loop {
            taken.len += self.percpu.pop_bulk(&mut taken.out[taken.len..]);
            if taken.len == taken.out.len() {
                return taken.keep();
            }
            let Ok(item) = self.take_slow(Urgency::Normal, site) else {
                return taken.keep();
            };
            taken.out[taken.len].write(item);
            taken.len += 1;
        }
    }

    /// Frees several items, with one section for as many as fit into each of this CPU's two buckets.
    ///
    /// # Safety
    /// As for [`put`](Self::put), for each of them.
    pub(crate) unsafe fn put_bulk(zone: NonNull<Self>, items: &[NonNull<u8>]) {
        let mut rest = items;
        let mut caught = Caught::default();
        while !rest.is_empty() || planted(ZoneFault::LookBack) {
            // SAFETY: the items in `rest` have not been freed and keep the zone.
            let inner = unsafe { zone.as_ref() };
            inner.life.touch();
            let pushed = inner.percpu.push_bulk(rest);
            let Some((&first, others)) = rest[pushed..].split_first() else {
                break;
            };
            // SAFETY: as above.
            caught.add(unsafe { Self::put_slow(zone, first) });
            rest = others;
        }
        caught.resume();
    }
}

/// Items taken for a caller; freed if a panic ends the allocation.
struct TakenItems<'a> {
    zone: &'a ZoneInner,
    out: &'a mut [MaybeUninit<NonNull<u8>>],
    /// Entries written, from the front.
    len: usize,
}

impl TakenItems<'_> {
    /// The caller owns the items now.
    fn keep(self) -> usize {
        ManuallyDrop::new(self).len
    }
}

impl Drop for TakenItems<'_> {
    fn drop(&mut self) {
        for item in &self.out[..self.len] {
            // SAFETY: an entry that was written.
            let item = unsafe { item.assume_init() };
            // SAFETY: it was taken just now, and no caller has seen it.
            unsafe { ZoneInner::put_back(NonNull::from(self.zone), item) };
        }
    }
}

/// Items of a bulk allocation that go through `ctor`, one after the other. A panic there sends all others back.
struct Making<'a, H: Hooks> {
    zone: RawZoneRef<H>,
    items: &'a [MaybeUninit<NonNull<u8>>],
    /// How many have been through it.
    made: usize,
}

impl<H: Hooks> Making<'_, H> {
    /// How many the caller has.
    #[inline]
    fn keep(self) -> usize {
        let made = self.made;
        core::mem::forget(self);
        made
    }
}

impl<H: Hooks> Drop for Making<'_, H> {
    #[cold]
    fn drop(&mut self) {
        let (made, rest) = self.items.split_at(self.made);
        let mut caught = Caught::default();
        for item in made {
            // SAFETY: an entry that was written.
            let item = unsafe { item.assume_init() };
            // SAFETY: it went through `ctor`, and no code uses it.
            caught.call(|| unsafe { self.zone.free_at(item, Location::caller()) });
        }
        // `constructed` has freed the item whose `ctor` panicked.
        caught.call(|| self.zone.put_back_bulk(&rest[1..]));
        caught.resume();
    }
}

/// Items of a bulk free that go through `dtor`, one after the other. A panic there frees all others.
struct Freeing<'a, H: Hooks> {
    zone: RawZoneRef<H>,
    items: &'a [NonNull<u8>],
    /// How many have been through it.
    at: usize,
    site: Site,
}

impl<H: Hooks> Drop for Freeing<'_, H> {
    #[cold]
    fn drop(&mut self) {
        let (done, rest) = self.items.split_at(self.at);
        let mut caught = Caught::default();
        // SAFETY: given up by their owner, and through `dtor`, so as `init` left them.
        caught.call(|| unsafe { ZoneInner::put_bulk(self.zone.inner(), done) });
        // `destruct` has freed the item whose `dtor` panicked.
        for &item in &rest[1..] {
            // SAFETY: live and ours.
            caught.call(|| unsafe { self.zone.free_at(item, self.site) });
        }
        caught.resume();
    }
}
