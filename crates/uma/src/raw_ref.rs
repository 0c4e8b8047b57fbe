//! A zone in eight bytes, and the steps of every allocation and free: the check that the item is of
//! this zone, `ctor`, `dtor`, and the records of builds that check more.
//!
//! Invariant: a [`RawZoneRef<H>`](RawZoneRef) is of a zone with hooks of type `H`. It does not keep
//! the zone: its holder must know that a handle or a live item does. Locks: none.

use crate::AllocError;
#[cfg(feature = "invariants")]
use crate::builder::has_hooks;
use crate::cacheline;
use crate::caught::Caught;
use crate::hooks::{Hooks, NoHooks};
use crate::keg::Urgency;
use crate::sample::Site;
use crate::zone_inner::ZoneInner;
use core::fmt;
use core::marker::PhantomData;
use core::panic::Location;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU32;
use guards::Hooked;

mod guards;

/// A zone in eight bytes, for items that must find their zone.
///
/// It does not keep the zone. A [`RawZone`](crate::RawZone) does, or a live item: the zone does not end while one
/// is live, even if the last handle is dropped. So the owner of an item may free it through this.
pub struct RawZoneRef<H: Hooks = NoHooks> {
    inner: NonNull<ZoneInner>,
    hooks: PhantomData<fn() -> H>,
}

impl<H: Hooks> Clone for RawZoneRef<H> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<H: Hooks> Copy for RawZoneRef<H> {}

impl<H: Hooks> PartialEq for RawZoneRef<H> {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner
    }
}

impl<H: Hooks> Eq for RawZoneRef<H> {}

impl<H: Hooks> fmt::Debug for RawZoneRef<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RawZoneRef").field(&self.inner).finish()
    }
}

// SAFETY: a plain address of an Inner, which is Sync (asserted below), and so are its hooks; using
// it is unsafe and says when it may be.
unsafe impl<H: Hooks> Send for RawZoneRef<H> {}
// SAFETY: as above.
unsafe impl<H: Hooks> Sync for RawZoneRef<H> {}

impl<H: Hooks> RawZoneRef<H> {
    /// # Safety
    /// `inner` is a zone made with hooks of type `H`.
    #[inline]
    pub(crate) unsafe fn from_inner(inner: NonNull<ZoneInner>) -> Self {
        Self {
            inner,
            hooks: PhantomData,
        }
    }

    /// The state of the zone.
    #[inline]
    pub(crate) fn inner(self) -> NonNull<ZoneInner> {
        self.inner
    }

    /// As [`RawZone::alloc`](crate::RawZone::alloc).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// During the call a handle exists, or an item of the zone that is live throughout.
    #[track_caller]
    #[inline]
    pub unsafe fn alloc(self) -> Result<NonNull<u8>, AllocError> {
        let site = Location::caller();
        self.consult()?;
        // SAFETY: the caller promises that a handle or a live item keeps the zone.
        let item = unsafe { self.inner.as_ref() }.take(Urgency::Normal, Some(site))?;
        self.constructed(item, site)
    }

    /// As [`RawZone::free`](crate::RawZone::free).
    ///
    /// # Panics
    /// As there.
    ///
    /// # Safety
    /// As there. The item itself keeps the zone until it is freed.
    #[track_caller]
    #[inline]
    pub unsafe fn free(self, item: NonNull<u8>) {
        // SAFETY: the item is live and ours: it keeps the zone.
        if unsafe { self.destruct(item, Location::caller()) } == Destructed::Gone {
            return;
        }
        // SAFETY: given up by its owner, and through `dtor`, so as `init` left it.
        unsafe { ZoneInner::put(self.inner, item) }
    }

    /// As [`RawZone::refcount`](crate::RawZone::refcount).
    ///
    /// # Panics
    /// As there.
    ///
    /// # Safety
    /// As there; and the caller must not use the count after the zone has ended, which the
    /// lifetime, chosen by the caller, does not ensure.
    #[inline]
    #[must_use]
    pub unsafe fn refcount<'a>(self, item: NonNull<u8>) -> &'a AtomicU32 {
        // SAFETY: the live item keeps the zone.
        let inner: &'a ZoneInner = unsafe { self.inner.as_ref() };
        let Some(arena) = inner.keg.arena() else {
            panic!("refcount() on a cache-only zone, whose items are not its own")
        };
        // SAFETY: the caller says that the item is live and ours.
        unsafe { arena.count_of(item) }
    }

    /// As [`RawZone::owns`](crate::RawZone::owns).
    ///
    /// # Safety
    /// As for [`alloc`](Self::alloc).
    #[inline]
    #[must_use]
    pub unsafe fn owns(self, pointer: NonNull<u8>) -> bool {
        // SAFETY: the caller promises that a handle or a live item keeps the zone.
        let arena = unsafe { self.inner.as_ref() }.keg.arena();
        arena.is_some_and(|arena| arena.owns(pointer))
    }

    /// Whether an allocation may continue: in some builds tests let it fail.
    #[inline]
    pub(crate) fn consult(self) -> Result<(), AllocError> {
        #[cfg(feature = "invariants")]
        {
            // SAFETY: the caller promises that a handle or a live item keeps the zone.
            let inner = unsafe { self.inner.as_ref() };
            if inner.fails.alloc.fails() {
                return inner.fail(AllocError::NoMemory);
            }
        }
        Ok(())
    }

    /// Runs `ctor` over an item just taken; an item that it refuses goes back to the cache.
    #[inline]
    pub(crate) fn constructed(
        self,
        item: NonNull<u8>,
        site: Site,
    ) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: the caller that took the item promises that the zone is kept.
        let inner = unsafe { self.inner.as_ref() };
        inner.unpoison_item(item);
        #[cfg(feature = "invariants")]
        {
            if inner.is_plain() {
                inner.check_trashed(item);
            }
            if has_hooks::<H>() && inner.fails.ctor.fails() {
                return self.refused(item);
            }
        }
        // SAFETY: a RawZoneRef<H> is only made of a zone with hooks of type H.
        let hooks = unsafe { inner.hooks::<H>() };
        let hooked = Hooked::<H>::begin(self, item, false);
        // SAFETY: the item came through `init` into a cache, and only this thread has it.
        let made = unsafe { hooks.ctor(item) };
        hooked.end();
        if made.is_err() {
            return self.refused(item);
        }
        inner.mark_taken(item, site);
        Ok(item)
    }

    #[cold]
    fn refused(self, item: NonNull<u8>) -> Result<NonNull<u8>, AllocError> {
        // SAFETY: as in `constructed`.
        let inner = unsafe { self.inner.as_ref() };
        // SAFETY: no caller has seen the item.
        unsafe { self.put_back(item) };
        inner.fail(AllocError::Hook)
    }

    /// # Safety
    /// The item was taken, no caller has seen it, and it is as `init` left it.
    pub(crate) unsafe fn put_back(self, item: NonNull<u8>) {
        // SAFETY: so says the caller, and the item keeps the zone.
        unsafe { ZoneInner::put_back(self.inner, item) };
    }

    /// Checks an item that comes back, and runs `dtor`.
    ///
    /// # Safety
    /// The item is live and of this zone.
    #[inline]
    pub(crate) unsafe fn destruct(self, item: NonNull<u8>, site: Site) -> Destructed {
        // SAFETY: the item keeps the zone.
        let inner = unsafe { self.inner.as_ref() };
        if !inner.may_own(item) {
            // SAFETY: so says the caller.
            unsafe { self.destruct_sample(item, site) };
            return Destructed::Gone;
        }
        // SAFETY: so says the caller, and it is in the range.
        unsafe { self.destruct_owned(item, site) };
        Destructed::Here
    }

    /// Runs `dtor` over an item that comes back and is no sample.
    ///
    /// # Safety
    /// As for [`destruct`](Self::destruct), and [`ZoneInner::may_own`] says yes.
    #[inline]
    pub(crate) unsafe fn destruct_owned(self, item: NonNull<u8>, site: Site) {
        // SAFETY: the item keeps the zone.
        let inner = unsafe { self.inner.as_ref() };
        inner.mark_freed(item, site);
        // SAFETY: a RawZoneRef<H> is only made of a zone with hooks of type H.
        let hooks = unsafe { inner.hooks::<H>() };
        let hooked = Hooked::<H>::begin(self, item, true);
        // SAFETY: the item went through `ctor`, and its caller gave it up.
        unsafe { hooks.dtor(item) };
        hooked.end();
        inner.trash_plain(item);
        if inner.hands_over() {
            // SAFETY: it is live and its caller gave it up; zones that say so are of memory, and have room for a
            // word in each item.
            unsafe { cacheline::claim_exclusive(item) };
        }
        inner.poison_item(item);
    }

    /// Takes an item back that is not in the range of the zone's items: a sample, or an item of another zone.
    ///
    /// # Panics
    /// If it is not a live sample of this zone.
    ///
    /// # Safety
    /// As for [`destruct`](Self::destruct).
    #[cold]
    #[inline(never)]
    unsafe fn destruct_sample(self, item: NonNull<u8>, site: Site) {
        // SAFETY: the item keeps the zone.
        let inner = unsafe { self.inner.as_ref() };
        inner.begin_free_sample(item, Some(site));
        inner.mark_freed(item, site);
        // SAFETY: a RawZoneRef<H> is only made of a zone with hooks of type H.
        let hooks = unsafe { inner.hooks::<H>() };
        let mut caught = Caught::default();
        // SAFETY: the item went through `ctor`, and its caller gave it up.
        caught.call(|| unsafe { hooks.dtor(item) });
        inner.trash_plain(item);
        // SAFETY: it keeps the zone until the call.
        caught.call(|| unsafe { ZoneInner::end_free_sample(self.inner, item) });
        caught.resume();
    }
}

/// The result of a free.
#[derive(PartialEq, Eq)]
#[must_use]
pub(crate) enum Destructed {
    /// It is as `init` left it, and must be freed.
    Here,
    /// It was a sample, and is back in its slot.
    Gone,
}

const _: () = {
    const fn is_shareable<T: Send + Sync>() {}
    is_shareable::<crate::keg::Keg>();
};
