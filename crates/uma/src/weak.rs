//! The way from a watcher to a zone that it does not keep.
//!
//! A handle would keep the zone, and a bare pointer would outlive it. A link is neither: the zone
//! cuts it before it ends, and a visitor counts as a thread inside, which the end waits for. So
//! neither the last handle nor a visit ever waits for the other: whichever is later frees the
//! zone's memory.
//!
//! `schedules/end.rs` checks a visit while the last handle goes.
//!
//! Locks: `uma weak zone`, held for a few instructions and never around anything else.

use crate::planted::{Bug, planted};
use crate::zone_inner::ZoneInner;
use core::ptr::NonNull;
use kern::lock::LockClass;
use kern::order;
use kern::prim::Mutex;
use std::sync::Arc;

static WEAK_CLASS: LockClass = LockClass::new("uma weak zone", order::STATS);

/// A zone as long as it has handles, and nothing after.
pub(crate) struct WeakZone(Mutex<Option<ZonePtr>>);

#[derive(Clone, Copy)]
struct ZonePtr(NonNull<ZoneInner>);

// SAFETY: the address of a zone, which is Sync, and is followed only by whoever has entered it.
unsafe impl Send for ZonePtr {}

impl WeakZone {
    /// A link to nothing yet.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(&WEAK_CLASS, None)))
    }

    /// Leads to a zone from now on.
    ///
    /// # Safety
    /// The zone has a handle, came from [`ZoneInner::make`], and [cuts](Self::detach) this before it
    /// gives up what its handles hold.
    pub(crate) unsafe fn attach(&self, zone: NonNull<ZoneInner>) {
        *self.0.lock() = Some(ZonePtr(zone));
    }

    /// Lets nobody in any more. Called by the end of the last handle, before it gives up what
    /// the handles held.
    pub(crate) fn detach(&self) {
        *self.0.lock() = None;
    }

    /// Does something with the zone, which does not end meanwhile; nothing when it is gone.
    pub(crate) fn with_zone<T>(&self, how: impl FnOnce(&ZoneInner) -> T) -> Option<T> {
        let visit = self.enter()?;
        // SAFETY: entered, and left only when `visit` is dropped.
        Some(how(unsafe { visit.0.as_ref() }))
    }

    fn enter(&self) -> Option<ZoneVisit> {
        let target = self.0.lock();
        let ZonePtr(zone) = (*target)?;
        // SAFETY: `attach` was promised that the zone cuts this first, and it cannot while this is
        // locked: the zone still has what its handles hold.
        unsafe { zone.as_ref() }.enter();
        if planted(Bug::Visit) {
            // SAFETY: entered just now.
            unsafe { ZoneInner::leave(zone) };
        }
        Some(ZoneVisit(zone))
    }
}

/// A link, held for a fork.
#[cfg(not(any(loom, shuttle)))]
pub(crate) struct WeakHeld<'a>(kern::MutexGuard<'a, Option<ZonePtr>>);

#[cfg(not(any(loom, shuttle)))]
impl WeakHeld<'_> {
    pub(crate) fn forget_others(&self) {
        kern::MutexGuard::forget_waiters(&self.0);
    }
}

#[cfg(not(any(loom, shuttle)))]
impl WeakZone {
    /// Locks it beside those of other zones, for a fork.
    pub(crate) fn hold(&self) -> WeakHeld<'_> {
        WeakHeld(self.0.lock_for_fork())
    }
}

/// A thread inside a zone that nothing else may keep.
struct ZoneVisit(NonNull<ZoneInner>);

impl Drop for ZoneVisit {
    fn drop(&mut self) {
        if planted(Bug::Visit) {
            // SAFETY: none; that is the mistake.
            return unsafe { self.0.as_ref() }.life.touch();
        }
        // SAFETY: entered by `enter`, once; the zone is not used after.
        unsafe { ZoneInner::leave(self.0) };
    }
}
