//! The guard for the time in which a hook runs: it decides where the item goes if the hook panics.
//!
//! Invariant: a guard is forgotten once its hook has returned, so that the fast path pays nothing. Locks: none.

use super::RawZoneRef;
use crate::hooks::Hooks;
use crate::zone_inner::ZoneInner;
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
