//! The count that keeps a zone, and the zone's end: see the head of the parent.

use super::ended::free_zone;
use super::{HANDLES, ZoneInner};
use crate::caught::Caught;
use crate::faults::{ZoneFault, planted};
use crate::warning::WarningKind;
use core::ptr::NonNull;
use core::sync::atomic::AtomicUsize as Tally;
use kern::prim::{Ordering, fence};

/// Zones whose last handle was dropped while items were live.
static LEAKED: Tally = Tally::new(0);

/// How many zones have lost their last handle while items of theirs are live. The owners of these items may still use
/// and free them. The last free ends the zone and lowers this number.
#[must_use]
pub fn leaked_zones() -> usize {
    // Relaxed: a statistic; no data depends on it.
    LEAKED.load(Ordering::Relaxed)
}

/// One thread inside, in the unit of `holds`. The bits below it count items.
const TRANSIT: u64 = 1 << 44;

impl ZoneInner {
    /// Counts this thread as inside; it may carry free items.
    pub(crate) fn enter(&self) {
        // Relaxed: the calling thread has a handle, a live item, or the lock of the keg's members or of the weak
        // reference, so the zone can't end. A thread that reads the count of threads inside does so after a fence on
        // all CPUs, or under the keg's lock, which this thread must take to return items.
        self.life.touch();
        self.depot.holds.fetch_add(TRANSIT, Ordering::Relaxed);
    }

    /// Counts this thread as outside, and ends the zone if the count is then zero.
    ///
    /// # Safety
    /// Entered before, and not left since; `inner` is not used after.
    pub(crate) unsafe fn leave(inner: NonNull<Self>) {
        // SAFETY: we are inside, which keeps the zone.
        unsafe { inner.as_ref() }.life.touch();
        // SAFETY: as above.
        let holds = unsafe { &raw const (*inner.as_ptr()).depot.holds };
        // SAFETY: as above; and the reference ends with this call, after which another thread may
        // end the zone. AtomicU64 has interior mutability, so no promise outlasts the access.
        let mut before = unsafe { &*holds }.fetch_sub(TRANSIT, Ordering::Release);
        if planted(ZoneFault::LateCheck) {
            // SAFETY: none; that is the mistake.
            before = unsafe { &*holds }.load(Ordering::Relaxed) + TRANSIT;
        }
        if before == TRANSIT {
            // SAFETY: the count is zero, and only this thread brought it there.
            unsafe { Self::end(inner) };
        }
    }

    /// Forgets the threads inside: the child of a fork has none of them. The caller holds all locks of the zone.
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) fn forget_others(&self) {
        let holds = &self.depot.holds;
        holds.store(holds.load(Ordering::Relaxed) % TRANSIT, Ordering::Relaxed);
    }

    /// Whether any thread is inside.
    pub(crate) fn in_transit(&self) -> bool {
        self.life.touch();
        self.depot.holds.load(Ordering::Acquire) >= TRANSIT
    }

    /// Items out of the keg for this zone: live or cached.
    pub(crate) fn out(&self) -> usize {
        let holds = self.depot.holds.load(Ordering::Acquire) % TRANSIT;
        let handles = u64::from(self.handles.0.load(Ordering::Relaxed) > 0);
        usize::try_from(holds.saturating_sub(handles * HANDLES)).unwrap_or(usize::MAX)
    }

    /// Counts items as out. The caller is inside or has a handle.
    pub(crate) fn count_out(&self, items: usize) {
        self.life.touch();
        self.depot.holds.fetch_add(items as u64, Ordering::Relaxed);
    }

    /// Counts items as back in the keg. The caller is inside or has a handle.
    pub(crate) fn count_returned(&self, items: usize) {
        self.life.touch();
        self.depot.holds.fetch_sub(items as u64, Ordering::Release);
    }

    /// The end of the last handle: closes the caches for good, and ends the zone unless items are live.
    ///
    /// # Safety
    /// `inner` came from [`make`](Self::make), its last handle is gone, and this is called once.
    pub(crate) unsafe fn retire(inner: NonNull<Self>) {
        // SAFETY: this thread releases the handles' share of the count only below.
        let zone = unsafe { inner.as_ref() };
        zone.weak.detach();
        // The handles' part of `holds` becomes this thread's. So the items of the caches are in transit, and an
        // allocation from another zone of the keg waits for them; and only `leave` decides about the end.
        if !planted(ZoneFault::Retire) {
            zone.depot
                .holds
                .fetch_add(TRANSIT - HANDLES, Ordering::Relaxed);
        }
        zone.close_caches_for_good();
        let mut caught = Caught::default();
        zone.empty_depot(&mut caught);
        kern::invariant!(zone.is_valid(), "zone '{}' is not sound", zone.name);
        if !zone
            .depot
            .holds
            .load(Ordering::Acquire)
            .is_multiple_of(TRANSIT)
        {
            zone.leaked.store(true, Ordering::Relaxed);
            LEAKED.fetch_add(1, Ordering::Relaxed);
            caught.call(|| zone.report_leak());
        }
        if planted(ZoneFault::Retire) {
            zone.depot
                .holds
                .fetch_add(TRANSIT - HANDLES, Ordering::Relaxed);
        }
        // SAFETY: entered just now, and `zone` is not used after.
        caught.call(|| unsafe { Self::leave(inner) });
        caught.resume();
    }

    /// Warns the owner that items are live without a handle.
    fn report_leak(&self) {
        self.warn(WarningKind::Leaked);
        #[cfg(feature = "invariants")]
        if !self.has_warner() {
            eprintln!("{}", self.warning(WarningKind::Leaked, 0));
        }
    }

    /// # Safety
    /// The count is zero, and the caller's subtraction made it so.
    #[cold]
    unsafe fn end(inner: NonNull<Self>) {
        // Acquire: pairs with the Release of every subtraction from `holds`, so all accesses of threads that left come
        // before.
        fence(Ordering::Acquire);
        // SAFETY: it is freed only below. It has no items, so no filled bucket, and a thread that finds it among the
        // keg's members would enter it only to take a filled bucket.
        let keg = unsafe { inner.as_ref() }.keg.clone();
        keg.part(inner);
        // SAFETY: as above.
        for held in unsafe { &inner.as_ref().held_kegs } {
            held.part(inner);
        }
        // SAFETY: as above.
        unsafe { inner.as_ref() }.life.end();
        // SAFETY: from Box::leak in `make`; no other thread is inside or can enter.
        let zone = unsafe { Box::from_raw(inner.as_ptr()) };
        if zone.leaked.load(Ordering::Relaxed) {
            LEAKED.fetch_sub(1, Ordering::Relaxed);
        }
        free_zone(zone);
    }
}
