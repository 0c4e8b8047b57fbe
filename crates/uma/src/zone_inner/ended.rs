//! Keeps the memory of zones that have ended during a model, so that a use after the end is found.

use super::ZoneInner;

/// Frees the memory of a zone. A model does so only at its end.
pub(super) fn free_zone(zone: Box<ZoneInner>) {
    #[cfg(all(test, any(loom, shuttle)))]
    kept::keep(zone);
    #[cfg(not(all(test, any(loom, shuttle))))]
    drop(zone);
}

#[cfg(all(test, any(loom, shuttle)))]
pub(crate) use kept::{ended_zones, forget_ended_zones};

#[cfg(all(test, any(loom, shuttle)))]
mod kept {
    use super::ZoneInner;
    use core::cell::RefCell;
    use core::mem::ManuallyDrop;

    std::thread_local! {
        // All threads of a model are coroutines on one system thread, which is the test's.
        static ENDED_ZONES: RefCell<Vec<ManuallyDrop<Box<ZoneInner>>>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn keep(zone: Box<ZoneInner>) {
        ENDED_ZONES.with_borrow_mut(|zones| zones.push(ManuallyDrop::new(zone)));
    }

    /// The zones that have ended since the last call. Called at the end of a model's run.
    #[expect(clippy::vec_box, reason = "threads may still have their addresses")]
    pub(crate) fn ended_zones() -> Vec<Box<ZoneInner>> {
        let zones = ENDED_ZONES.take().into_iter();
        zones.map(ManuallyDrop::into_inner).collect()
    }

    /// Forgets the zones of a model that has failed: they belong to a machine that no longer exists.
    pub(crate) fn forget_ended_zones() {
        ENDED_ZONES.take();
    }
}
