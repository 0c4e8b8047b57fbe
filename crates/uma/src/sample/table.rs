//! The samples of the zones on one keg: which slots of the sample slabs are taken, by which call sites, since when.
//!
//! Invariants: a record is live exactly as long as its item is; a slot that is being given back is not taken.
//! Locks: `uma samples` (rank `STATS`), taken inside of any other, held for a few stores.

use super::Site;
use crate::arena::Arena;
use crate::bitset::Bitset;
use crate::geometry::ItemPlace;
use crate::region::Purged;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use kern::lock::LockClass;
use kern::order;
use kern::prim::Mutex;
use std::thread::Thread;
use std::time::Instant;

static SAMPLES_CLASS: LockClass = LockClass::new("uma samples", order::STATS);

/// The samples of the zones on one keg.
pub(crate) struct Samples {
    pub(crate) slots: usize,
    /// How often the free slots have halved; [`NO_SLOTS`]: there are none. Written under the lock.
    pub(crate) shift: AtomicU32,
    table: Mutex<SampleTable>,
}

pub(crate) const NO_SLOTS: u32 = u32::MAX;

#[derive(Default)]
struct SampleTable {
    /// One for each slot, once the slabs are open.
    records: Vec<SlotRecord>,
    free: Bitset,
    /// Slots whose memory may be resident: those below.
    touched: usize,
    /// Memory is being given back: no slot may be taken.
    purging: bool,
    /// A slot was taken since the last check whether they lie idle.
    used: bool,
}

/// The state of one slot.
#[derive(Clone, Default)]
pub(crate) struct SlotRecord {
    pub(crate) state: SlotState,
    /// The address of the zone, as a name.
    pub(crate) zone: usize,
    pub(crate) sample: Option<AllocSample>,
    /// Where the item that was here before was freed.
    pub(crate) freed_at: Option<Site>,
    pub(crate) may_hand_on: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum SlotState {
    #[default]
    Free,
    Live,
    /// The caller has freed it; its hooks have not ended yet.
    Ending,
}

/// The state of a sampled item.
#[derive(Clone)]
pub(crate) struct AllocSample {
    pub(crate) site: Site,
    pub(crate) since: Instant,
    pub(crate) thread: Thread,
    /// Items that it stands for.
    pub(crate) weight: u64,
}

/// An invalid free in the range of the samples.
pub(crate) enum Misuse {
    NotAnItem,
    /// Where it was freed.
    Twice(Option<Site>),
    /// Where it was taken.
    OtherZone(Option<Site>),
}

impl Samples {
    /// No samples yet, in the sample slabs of an arena, if there is one.
    pub(crate) fn new(arena: Option<&Arena>) -> Self {
        let slots = arena.map_or(0, |a| a.sample_range().len() * a.geometry().per_slab());
        Self {
            slots,
            shift: AtomicU32::new(if slots == 0 { NO_SLOTS } else { 0 }),
            table: Mutex::new(&SAMPLES_CLASS, SampleTable::default()),
        }
    }

    /// Whether there can be any.
    pub(crate) fn has_slots(&self) -> bool {
        self.slots > 0
    }

    /// The lowest free slot.
    pub(crate) fn take(&self, arena: &Arena, record: SlotRecord) -> Option<NonNull<u8>> {
        let mut table = self.table.lock();
        if table.records.is_empty() && !table.open(arena, self.slots) {
            // If the system has no memory for samples, the zone does not try again.
            self.shift.store(NO_SLOTS, Relaxed);
            return None;
        }
        let slot = table.free.first().filter(|_| !table.purging)?;
        table.free.remove(slot);
        table.touched = table.touched.max(slot + 1);
        table.used = true;
        let freed_at = table.records[slot].freed_at;
        table.records[slot] = SlotRecord { freed_at, ..record };
        self.shift.store(self.shift_of(table.free.len()), Relaxed);
        Some(arena.item_at(place_of(arena, slot)))
    }

    pub(crate) fn shift_of(&self, free: usize) -> u32 {
        self.slots.checked_div(free).map_or(NO_SLOTS, usize::ilog2)
    }

    /// Marks the item as being freed, or returns the invalid use.
    pub(crate) fn begin_free(
        &self,
        arena: &Arena,
        item: NonNull<u8>,
        zone: usize,
        freed_at: Option<Site>,
    ) -> Result<(), Misuse> {
        if !arena.is_item(item) {
            return Err(Misuse::NotAnItem);
        }
        let slot = slot_of(arena, item);
        let mut table = self.table.lock();
        let record = table.records.get_mut(slot).ok_or(Misuse::NotAnItem)?;
        if record.state != SlotState::Live {
            return Err(Misuse::Twice(record.freed_at));
        }
        if record.zone != zone {
            return Err(Misuse::OtherZone(record.sample.as_ref().map(|s| s.site)));
        }
        record.state = SlotState::Ending;
        record.freed_at = freed_at;
        Ok(())
    }

    /// Frees the slot. Returns the sample, and whether it may pass its turn on.
    pub(crate) fn end_free(&self, arena: &Arena, item: NonNull<u8>) -> Option<(AllocSample, bool)> {
        let slot = slot_of(arena, item);
        let mut table = self.table.lock();
        table.free.insert(slot);
        self.shift.store(self.shift_of(table.free.len()), Relaxed);
        let record = &mut table.records[slot];
        record.state = SlotState::Free;
        let sample = record.sample.take()?;
        Some((sample, record.may_hand_on))
    }

    /// The live samples of a zone.
    #[cfg(not(feature = "invariants"))]
    pub(crate) fn of_zone(&self, zone: NonNull<()>) -> Vec<AllocSample> {
        let table = self.table.lock();
        let live = table
            .records
            .iter()
            .filter(|record| record.state == SlotState::Live && record.zone == zone.addr().get());
        live.filter_map(|record| record.sample.clone()).collect()
    }

    /// Bytes that samples may have made resident.
    pub(crate) fn bytes(&self, arena: &Arena) -> usize {
        let touched = self.table.lock().touched;
        (touched * arena.geometry().footprint()).next_multiple_of(arena.geometry().unit_bytes())
            * usize::from(touched > 0)
    }

    /// As [`purge`](Self::purge), if no sample was taken since the last time.
    pub(crate) fn purge_idle(&self, arena: &Arena) -> Purged {
        if core::mem::take(&mut self.table.lock().used) {
            return Purged::default();
        }
        self.purge(arena)
    }

    /// Gives the pages of slabs behind the last sample back.
    pub(crate) fn purge(&self, arena: &Arena) -> Purged {
        let per_slab = arena.geometry().per_slab();
        let (keep, touched) = {
            let mut table = self.table.lock();
            let used = table
                .records
                .iter()
                .rposition(|r| r.state != SlotState::Free);
            let keep = used.map_or(0, |slot| slot / per_slab + 1);
            if table.purging || table.touched <= keep * per_slab {
                return Purged::default();
            }
            table.purging = true;
            (keep, table.touched.div_ceil(per_slab))
        };
        let first = arena.sample_range().start;
        let slab_bytes = arena.geometry().slab_bytes();
        let run = (first + keep) * slab_bytes..(first + touched) * slab_bytes;
        // SAFETY: no slot there was in use, and `purging` keeps them from being taken.
        let purged = unsafe { arena.give_back(&[run], &[]) };
        let mut table = self.table.lock();
        table.purging = false;
        table.touched = keep * per_slab;
        purged
    }
}

/// The table of a keg, held for a fork.
#[cfg(not(any(loom, shuttle)))]
pub(crate) struct TableHeld<'a>(kern::MutexGuard<'a, SampleTable>);

#[cfg(not(any(loom, shuttle)))]
impl TableHeld<'_> {
    /// A purge that another thread had begun does not end.
    pub(crate) fn forget_others(&mut self) {
        kern::MutexGuard::forget_waiters(&self.0);
        self.0.purging = false;
    }
}

#[cfg(not(any(loom, shuttle)))]
impl Samples {
    /// Locks the table beside those of other kegs, for a fork.
    pub(crate) fn hold(&self) -> TableHeld<'_> {
        TableHeld(self.table.lock_for_fork())
    }
}

impl SampleTable {
    /// Gets the slabs and the records; says whether there was memory for both.
    fn open(&mut self, arena: &Arena, slots: usize) -> bool {
        let slabs = arena.sample_range().len();
        if self.free.grow(slots).is_err()
            || self.records.try_reserve_exact(slots).is_err()
            || arena.open_samples(slabs) < slabs
        {
            return false;
        }
        self.records.resize(slots, SlotRecord::default());
        (0..slots).for_each(|slot| self.free.insert(slot));
        true
    }
}

fn place_of(arena: &Arena, slot: usize) -> ItemPlace {
    let per_slab = arena.geometry().per_slab();
    ItemPlace {
        slab: arena.sample_range().start + slot / per_slab,
        slot: slot % per_slab,
    }
}

/// The item is one of the sample slabs.
fn slot_of(arena: &Arena, item: NonNull<u8>) -> usize {
    let place = arena.place_of(item);
    (place.slab - arena.sample_range().start) * arena.geometry().per_slab() + place.slot
}
