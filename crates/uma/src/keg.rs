//! The keg: where the items of its zones come from, and how many may be out.
//!
//! What it counts is in `keg/state.rs`; what happens when there are no more items, in `keg/closed.rs`.
//!
//! A zone has a keg; secondary zones share their master's. The limit counts the items that are
//! *out* of the keg, live or cached, so nothing is counted per allocation:
//!
//! ```text
//!   live <= out <= limit          out - live = free items in the caches of the CPUs and depots
//! ```
//!
//! An import may bring less than was counted as out for it: whoever was refused meanwhile is told
//! to look again, or it would fail, or sleep, below the limit.
//!
//! Invariant: whatever brings items back says so under the lock that it brings them under
//! ([`Keg::note_refill`]).
//! Locks: `uma keg members` (rank `KEG_MEMBERS`), then depots, then `uma keg` (rank `KEG`). An
//! import is called without any.
//! Sources: seed 004 section 5.4.

use crate::AllocError;
use crate::arena::Arena;
use crate::caught::Caught;
use crate::hooks::{Hooks, Import, Imported};
use crate::planted::{Bug, planted};
use crate::reclaim::purge::Purge;
use crate::sample::Samples;
use crate::slabs::Slabs;
use crate::zone_inner::{NO_LIMIT, ZoneInner};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};
use kern::lock::LockClass;
use kern::order;
use kern::prim::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;

pub(crate) use closed::LastAttempt;
#[cfg(not(any(loom, shuttle)))]
pub(crate) use held::KegsHeld;
pub(crate) use state::{Callback, KegState, Urgency};

mod closed;
#[cfg(not(any(loom, shuttle)))]
mod held;
mod state;

static MEMBERS_CLASS: LockClass = LockClass::new("uma keg members", order::KEG_MEMBERS);
static KEG_CLASS: LockClass = LockClass::new("uma keg", order::KEG);

/// What items are made of.
pub(crate) enum Store {
    /// Slabs in an arena.
    Slabs(Arena),
    /// Somebody else's: a cache-only zone.
    Import(Box<dyn Import>),
}

/// Items, and who may have them.
pub(crate) struct Keg {
    pub(crate) store: Store,
    /// The master's, if it has any: every item of every zone on this keg goes through its `init`
    /// and `fini`.
    pub(crate) hooks: Option<Arc<dyn Hooks>>,
    /// Items whose allocation is remembered.
    pub(crate) samples: Samples,
    /// Who has which item.
    #[cfg(feature = "invariants")]
    pub(crate) ledger: crate::invariants::Ledger,
    /// What tests let fail.
    #[cfg(feature = "invariants")]
    pub(crate) import_point: crate::fail::Point,
    state: StateSlot,
    /// The zones on this keg. Its lock also serialises whoever takes caches back.
    members: Mutex<Members>,
    items_returned: Condvar,
    /// `out` of the state, to be read without its lock. Relaxed: it decides whether to warn, nothing else.
    out_seen: AtomicUsize,
    cpus: usize,
}

/// The keg's lock on cache lines of its own.
#[repr(align(128))]
struct StateSlot(Mutex<KegState>);

#[derive(Default)]
pub(crate) struct Members {
    /// The zones on this keg.
    pub(crate) zones: Vec<NonNull<ZoneInner>>,
    /// Zones on other kegs whose free items hold items of this one.
    pub(crate) holders: Vec<NonNull<ZoneInner>>,
}

// SAFETY: the pointers are to zones, which are Sync; a zone leaves the lists before it ends.
unsafe impl Send for Members {}

impl Keg {
    /// A keg with nothing out.
    pub(crate) fn new(
        store: Store,
        slabs: Option<Slabs>,
        hooks: Option<Arc<dyn Hooks>>,
        limit: usize,
        reserve: usize,
    ) -> Self {
        let (capacity, item_bytes) = match (&store, &slabs) {
            (Store::Slabs(arena), Some(slabs)) => {
                (slabs.capacity(arena), arena.geometry().stride())
            }
            _ => (NO_LIMIT, 0),
        };
        let state = KegState::new(slabs, limit, reserve, capacity, item_bytes);
        let samples = match &store {
            Store::Slabs(arena) => Samples::new(Some(arena)),
            Store::Import(_) => Samples::new(None),
        };
        Self {
            store,
            hooks,
            samples,
            #[cfg(feature = "invariants")]
            ledger: crate::invariants::Ledger::new(),
            #[cfg(feature = "invariants")]
            import_point: crate::fail::Point::default(),
            state: StateSlot(Mutex::new(&KEG_CLASS, state)),
            members: Mutex::new(&MEMBERS_CLASS, Members::default()),
            items_returned: Condvar::new(),
            out_seen: AtomicUsize::new(0),
            cpus: crate::percpu::cpus().max(1),
        }
    }

    /// The arena, if there is one.
    #[inline]
    pub(crate) fn arena(&self) -> Option<&Arena> {
        match &self.store {
            Store::Slabs(arena) => Some(arena),
            Store::Import(_) => None,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, KegState> {
        self.state.0.lock()
    }

    /// Items out of the keg, for all zones on it: as of a moment ago.
    pub(crate) fn out(&self) -> usize {
        self.out_seen.load(Ordering::Relaxed)
    }

    /// The lock holder has changed `out`.
    fn show_out(&self, state: &KegState) {
        self.out_seen.store(state.out, Ordering::Relaxed);
    }

    /// Whether nothing may be cached.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Held by whoever stops or drains the caches of these zones.
    pub(crate) fn lock_members(&self) -> MutexGuard<'_, Members> {
        self.members.lock()
    }

    /// Has slabs and pages ready for `items` items; says for how many there is room.
    pub(crate) fn prealloc(&self, items: usize) -> usize {
        let mut state = self.lock();
        match (&self.store, state.slabs.as_mut()) {
            (Store::Slabs(arena), Some(slabs)) => {
                let ready = slabs.prealloc(arena, items);
                slabs.set_floor(items.min(ready));
                ready
            }
            // What an import can give is not ours to prepare.
            _ => items,
        }
    }

    /// A new zone draws from this keg.
    pub(crate) fn join(&self, zone: NonNull<ZoneInner>) {
        let mut members = self.lock_members();
        members.zones.push(zone);
        if self.lock().closed {
            // SAFETY: the zone was just made and has a handle.
            unsafe { zone.as_ref() }.close_caches();
        }
    }

    /// A zone that is about to end is not taken back from, nor opened, any more.
    pub(crate) fn part(&self, zone: NonNull<ZoneInner>) {
        let mut members = self.lock_members();
        members.zones.retain(|&member| member != zone);
        members.holders.retain(|&holder| holder != zone);
    }

    /// The free items of a new zone on another keg hold items of this one.
    pub(crate) fn join_holder(&self, zone: NonNull<ZoneInner>) {
        let closed = {
            let mut members = self.lock_members();
            members.holders.push(zone);
            self.lock().closed
        };
        if closed {
            // SAFETY: the zone was just made and has a handle.
            unsafe { zone.as_ref() }.pin_closed();
        }
    }

    /// Takes items out, into the front of `out`, as many as limit and store allow. The last one
    /// has the lowest address, and a bucket is emptied from its end.
    pub(crate) fn take(
        &self,
        out: &mut [MaybeUninit<NonNull<u8>>],
        urgency: Urgency,
    ) -> Result<usize, AllocError> {
        let mut state = self.lock();
        let want = state.share_of(out.len(), urgency, self.cpus);
        if want == 0 {
            state.limit_was_overstated |= state.in_transit > 0;
            return Err(state.why_none(urgency));
        }
        let out = &mut out[..want];
        let got = match &self.store {
            Store::Slabs(arena) => {
                let got = state
                    .slabs
                    .as_mut()
                    .map_or(0, |slabs| slabs.take(arena, out));
                state.out += got;
                state.mark_free();
                got
            }
            Store::Import(store) => {
                // What may be coming counts as out, and whoever finds too little waits for us.
                state.out += want;
                state.in_transit += 1;
                drop(state);
                let mut imported = Imported::new(out);
                let mut caught = Caught::default();
                if !self.import_fails() {
                    caught.call(|| store.import(&mut imported));
                }
                let got = imported.len();
                state = self.lock();
                state.out -= want - got;
                state.starved = false;
                state.in_transit -= 1;
                if got < want && state.limit_was_overstated && !planted(Bug::SilentImport) {
                    state.limit_was_overstated = false;
                    state.refill_generation += 1;
                    let followup = self.note_refill(&mut state, usize::MAX);
                    drop(state);
                    caught.call(|| self.run_followup(followup));
                    state = self.lock();
                }
                if caught.is_some() {
                    drop(state);
                    if got > 0 {
                        caught.call(|| self.give(imported.items()));
                    }
                    caught.resume();
                    return Err(AllocError::NoMemory);
                }
                got
            }
        };
        state.out_peak = state.out_peak.max(state.out);
        self.show_out(&state);
        state.starved |= got == 0;
        match got {
            0 => Err(AllocError::NoMemory),
            got => Ok(got),
        }
    }

    /// Why an allocation would have to wait now, if it would.
    pub(crate) fn shortage(&self) -> Option<AllocError> {
        let state = self.lock();
        (state.available() == 0).then(|| state.why_none(Urgency::Normal))
    }

    fn import_fails(&self) -> bool {
        #[cfg(feature = "invariants")]
        return self.import_point.fails();
        #[cfg(not(feature = "invariants"))]
        false
    }

    /// Counts an item as out that is not of the slabs; says whether the limit allows it.
    pub(crate) fn take_sample(&self) -> bool {
        let mut state = self.lock();
        let allowed = state.out < state.bound(Urgency::Normal);
        state.out += usize::from(allowed);
        state.out_peak = state.out_peak.max(state.out);
        self.show_out(&state);
        allowed
    }

    /// Such an item is back.
    pub(crate) fn give_sample(&self) {
        let followup = {
            let mut state = self.lock();
            state.out -= 1;
            self.show_out(&state);
            state.refill_generation += 1;
            state.starved = false;
            self.note_refill(&mut state, 1)
        };
        self.run_followup(followup);
    }

    /// Picks free pages beyond `keep` bytes and takes their items out of use while the system
    /// takes them back; nothing from a cache-only zone.
    pub(crate) fn begin_purge(&self, keep: usize, max: usize) -> Option<Purge> {
        let mut state = self.lock();
        // An allocation that finds no item meanwhile waits for these: see `take_last`.
        Some(state.slabs.as_mut()?.purge_begin(keep, max))
    }

    /// The pages are gone; their items may be had again, on new ones.
    pub(crate) fn end_purge(&self, purge: Purge) {
        let followup = {
            let mut state = self.lock();
            if let Some(slabs) = state.slabs.as_mut() {
                slabs.purge_end(purge);
                slabs.forget_tail();
            }
            state.refill_generation += 1;
            // Whoever looked meanwhile did not see these.
            state.starved = false;
            self.note_refill(&mut state, usize::MAX)
        };
        self.run_followup(followup);
    }

    /// Gives items back that went through no `init`, or through `fini` since.
    pub(crate) fn give(&self, items: &[NonNull<u8>]) {
        let mut caught = Caught::default();
        if let Store::Import(store) = &self.store {
            // SAFETY: they came from `import`, and are free and in the caller's hands alone.
            caught.call(|| unsafe { store.release(items) });
        }
        let followup = {
            let mut state = self.lock();
            if let (Store::Slabs(arena), Some(slabs)) = (&self.store, state.slabs.as_mut()) {
                slabs.give(arena, items);
            }
            state.out -= items.len();
            self.show_out(&state);
            state.refill_generation += 1;
            state.starved = false;
            self.note_refill(&mut state, items.len())
        };
        caught.call(|| self.run_followup(followup));
        caught.resume();
    }
}
