//! Guards for the time in which hooks run: each decides where items go if a hook panics.
//!
//! Invariant: a guard is forgotten once its hooks have returned, so that the fast path pays nothing. Locks: none.

use super::RawZoneRef;
use crate::caught::Caught;
use crate::hooks::Hooks;
use crate::sample::Site;
use crate::zone_inner::ZoneInner;
use core::mem::MaybeUninit;
use core::panic::Location;
use core::ptr::NonNull;

/// An item whose `ctor` or `dtor` runs: a panic there sends it to its slab.
pub(super) struct Hooked<H: Hooks> {
    zone: RawZoneRef<H>,
    item: NonNull<u8>,
    /// Whether it was handed to a caller before.
    was_given: bool,
}

impl<H: Hooks> Hooked<H> {
    #[inline]
    pub(super) fn begin(zone: RawZoneRef<H>, item: NonNull<u8>, was_given: bool) -> Self {
        Self {
            zone,
            item,
            was_given,
        }
    }

    /// The hook has returned.
    #[inline]
    pub(super) fn end(self) {
        core::mem::forget(self);
    }
}

impl<H: Hooks> Drop for Hooked<H> {
    #[cold]
    fn drop(&mut self) {
        let (zone, item) = (self.zone.inner, self.item);
        // SAFETY: the item keeps the zone.
        let inner = unsafe { zone.as_ref() };
        if !self.was_given {
            inner.counts.refused.inc();
        }
        if inner.may_own(item) {
            // SAFETY: only this thread has it: no caller has had it yet, or its caller gave it up.
            unsafe { ZoneInner::discard(zone, item) };
        } else {
            inner.begin_free_sample(item, None);
            // SAFETY: as above; it keeps the zone until the call.
            unsafe { ZoneInner::end_free_sample(zone, item) };
        }
    }
}

/// Items of a bulk allocation that go through `ctor`, one after the other. A panic there sends all others back.
pub(super) struct Making<'a, H: Hooks> {
    pub(super) zone: RawZoneRef<H>,
    pub(super) items: &'a [MaybeUninit<NonNull<u8>>],
    /// How many have been through it.
    pub(super) made: usize,
}

impl<H: Hooks> Making<'_, H> {
    /// How many the caller has.
    #[inline]
    pub(super) fn keep(self) -> usize {
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
pub(super) struct Freeing<'a, H: Hooks> {
    pub(super) zone: RawZoneRef<H>,
    pub(super) items: &'a [NonNull<u8>],
    /// How many have been through it.
    pub(super) at: usize,
    pub(super) site: Site,
}

impl<H: Hooks> Drop for Freeing<'_, H> {
    #[cold]
    fn drop(&mut self) {
        let (done, rest) = self.items.split_at(self.at);
        let mut caught = Caught::default();
        // SAFETY: given up by their owner, and through `dtor`, so as `init` left them.
        caught.call(|| unsafe { ZoneInner::put_bulk(self.zone.inner, done) });
        // `destruct` has freed the item whose `dtor` panicked.
        for &item in &rest[1..] {
            // SAFETY: live and ours.
            caught.call(|| unsafe { self.zone.free_at(item, self.site) });
        }
        caught.resume();
    }
}
