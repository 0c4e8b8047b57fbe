//! A weak reference to a zone, for code that watches the zone and must not keep it.
//!
//! A handle would keep the zone, and a bare pointer would outlive it. With a weak reference, the zone detaches itself
//! before it ends, and a visiting thread counts as a thread inside, for which the end waits. So neither the drop of
//! the last handle nor a visit waits for the other: the later of the two frees the zone's memory.
//!
//! `models/end.rs` checks a visit while the last handle is dropped.
//!
//! Locks: `uma weak zone`, held for a few instructions; its holder calls only `enter`.

use crate::faults::{ZoneFault, planted};
use crate::zone_inner::ZoneInner;
use core::ptr::NonNull;
use kern::lock::LockClass;
use kern::order;
use kern::prim::Mutex;
use std::sync::Arc;

static WEAK_CLASS: LockClass = LockClass::new("uma weak zone", order::STATS);

/// A reference to a zone that is valid while the zone has handles.
pub(crate) struct WeakZone(Mutex<Option<ZonePtr>>);

#[derive(Clone, Copy)]
struct ZonePtr(NonNull<ZoneInner>);

// SAFETY: the address of a zone, which is Sync. A thread follows it only after it has entered the zone.
unsafe impl Send for ZonePtr {}

impl WeakZone {
    /// A reference without a zone yet.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(&WEAK_CLASS, None)))
    }

    /// Makes this refer to a zone.
    ///
    /// # Safety
    /// The zone has a handle, came from [`ZoneInner::make`], and [detaches](Self::detach) itself before it
    /// gives up what its handles hold.
    pub(crate) unsafe fn attach(&self, zone: NonNull<ZoneInner>) {
        *self.0.lock() = Some(ZonePtr(zone));
    }

    /// Removes the zone, so that no thread can enter by this reference. The drop of the last handle calls it before it
    /// releases the handles' share of the count.
    pub(crate) fn detach(&self) {
        *self.0.lock() = None;
    }

    /// Calls `how` with the zone, which can't end during the call. None, without a call, if the zone has no handle.
    pub(crate) fn with_zone<T>(&self, how: impl FnOnce(&ZoneInner) -> T) -> Option<T> {
        let visit = self.enter()?;
        // SAFETY: entered, and left only when `visit` is dropped.
        Some(how(unsafe { visit.0.as_ref() }))
    }

    fn enter(&self) -> Option<ZoneVisit> {
        let target = self.0.lock();
        let ZonePtr(zone) = (*target)?;
        // SAFETY: the caller of `attach` has promised that the zone detaches itself first. `detach` waits for the lock
        // that this thread holds, so the handles' share of the count still keeps the zone.
        unsafe { zone.as_ref() }.enter();
        if planted(ZoneFault::Visit) {
            // SAFETY: entered just now.
            unsafe { ZoneInner::leave(zone) };
        }
        Some(ZoneVisit(zone))
    }
}

/// A weak reference, locked during a fork.
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

/// A thread inside a zone. No other reference need keep the zone.
struct ZoneVisit(NonNull<ZoneInner>);

impl Drop for ZoneVisit {
    fn drop(&mut self) {
        if planted(ZoneFault::Visit) {
            // SAFETY: none; that is the mistake.
            return unsafe { self.0.as_ref() }.life.touch();
        }
        // SAFETY: entered by `enter`, once; the zone is not used after.
        unsafe { ZoneInner::leave(self.0) };
    }
}
