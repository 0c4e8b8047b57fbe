//! The counts of a keg, and how many items it may give out by them.
//!
//! Invariant: `out` never exceeds the bound in force when it grew.
//! Locks: the keg's, around all of it.

use crate::AllocError;
use crate::slabs::Slabs;

/// Called once when items have come back.
pub(crate) type Callback = Box<dyn FnOnce() + Send>;

/// (k) The data under the keg's lock.
pub(crate) struct KegState {
    /// Absent in a cache-only zone.
    pub(crate) slabs: Option<Slabs>,
    /// Items out: live, or cached by a CPU or a depot.
    pub(crate) out: usize,
    pub(crate) out_peak: usize,
    /// The most that may be out, or [`NO_LIMIT`](crate::zone_inner::NO_LIMIT).
    pub(crate) limit: usize,
    /// How many of these are for [`urgent`](Urgency::Urgent) allocations only.
    pub(crate) reserve: usize,
    /// How many items the store can hold.
    pub(super) capacity: usize,
    pub(super) item_bytes: usize,
    /// The store refused an item although the limit allowed one.
    pub(super) starved: bool,
    pub(super) closed: bool,
    /// Threads that carry items of the keg or its store and will bring them here.
    pub(super) in_transit: usize,
    /// An allocation was refused, or a callback registered, while items were in transit: an import may bring fewer
    /// than it counted.
    pub(super) limit_was_overstated: bool,
    /// Grows when items come back: a thread that found none before the change searches again.
    pub(super) refill_generation: u64,
    pub(super) sleepers: usize,
    pub(super) callbacks: Vec<Callback>,
    /// The fewest free items since the last trim.
    pub(super) free_min: usize,
    pub(crate) sleeps: u64,
    pub(crate) closings: u64,
}

/// Whether an allocation may take from the reserve.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    Normal,
    /// May take the reserve.
    Urgent,
}

impl KegState {
    /// No item is out yet.
    pub(super) fn new(
        slabs: Option<Slabs>,
        limit: usize,
        reserve: usize,
        capacity: usize,
        item_bytes: usize,
    ) -> Self {
        Self {
            slabs,
            out: 0,
            out_peak: 0,
            limit,
            reserve,
            capacity,
            item_bytes,
            starved: false,
            closed: false,
            in_transit: 0,
            limit_was_overstated: false,
            refill_generation: 0,
            free_min: 0,
            sleepers: 0,
            callbacks: Vec::new(),
            sleeps: 0,
            closings: 0,
        }
    }

    /// How many items may be out for this kind of allocation.
    pub(super) fn bound(&self, urgency: Urgency) -> usize {
        let bound = self.limit.min(self.capacity);
        match urgency {
            Urgency::Normal => bound.saturating_sub(self.reserve),
            Urgency::Urgent => bound,
        }
    }

    /// Which bound stopped the allocation.
    pub(super) fn why_none(&self, urgency: Urgency) -> AllocError {
        let reserve = self.reserve * usize::from(urgency == Urgency::Normal);
        match self.out.saturating_add(reserve) >= self.limit {
            true => AllocError::Limit,
            false => AllocError::NoMemory,
        }
    }

    /// How many items could go out now.
    pub(super) fn available(&self) -> usize {
        let allowed = self.bound(Urgency::Normal).saturating_sub(self.out);
        match &self.slabs {
            Some(slabs) if self.starved => allowed.min(slabs.free()),
            None if self.starved => 0,
            _ => allowed,
        }
    }

    /// How many of `want` items one CPU gets. Near the limit it gets fewer, because the keg would soon have to be
    /// closed to take them back.
    pub(super) fn share_of(&self, want: usize, urgency: Urgency, cpus: usize) -> usize {
        let left = self.bound(urgency).saturating_sub(self.out);
        want.min((left / (2 * cpus)).max(1)).min(left)
    }

    /// Records the number of free items, if it is the lowest since the last trim.
    pub(super) fn mark_free(&mut self) {
        let free = self.slabs.as_ref().map_or(0, Slabs::free);
        self.free_min = self.free_min.min(free);
    }

    /// Bytes of free items that were needed at some time since the last call.
    pub(crate) fn working_set_bytes(&mut self) -> usize {
        let Some(slabs) = &self.slabs else { return 0 };
        let free = slabs.free();
        let idle = core::mem::replace(&mut self.free_min, free);
        free.saturating_sub(idle) * self.item_bytes
    }

    /// Whether the counts agree with the slabs.
    pub(crate) fn is_valid(&self) -> bool {
        self.slabs.as_ref().is_none_or(Slabs::is_valid)
    }
}
