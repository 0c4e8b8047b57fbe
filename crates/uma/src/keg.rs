//! The keg: where the items of its zones come from, and how many may be out.
//!
//! Its counts are in `keg/state.rs`; `keg/closed.rs` handles a keg without items.
//!
//! A zone has a keg; secondary zones share their master's. The limit counts the items that are
//! *out* of the keg, live or cached, so no allocation from a cache is counted:
//!
//! ```text
//!   live <= out <= limit          out - live = free items in the caches of the CPUs and depots
//! ```
//!
//! Invariant: a thread that brings items back calls [`Keg::note_refill`] under the lock under which it brings them.
//! Locks: `uma keg members` (rank `KEG_MEMBERS`), then depots, then `uma keg` (rank `KEG`). An
//! import is called without any lock.
//! Sources: seed 004 section 5.4.

use crate::AllocError;
use crate::arena::Arena;
use crate::caught::Caught;
use crate::hooks::Hooks;
use crate::sample::Samples;
use crate::slabs::Purge;
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
#[cfg(feature = "extras")]
mod import;
#[cfg(feature = "extras")]
mod sleepers;
mod state;

static MEMBERS_CLASS: LockClass = LockClass::new("uma keg members", order::KEG_MEMBERS);
static KEG_CLASS: LockClass = LockClass::new("uma keg", order::KEG);

/// Where items come from.
pub(crate) enum Store {
    /// Slabs in an arena.
    Slabs(Arena),
    /// The owner of a cache-only zone.
    #[cfg(feature = "extras")]
    Import(Box<dyn crate::hooks::Import>),
}

/// Items, and how many of them the zones may have.
pub(crate) struct Keg {
    pub(crate) store: Store,
    /// The master's, if it has any: every item of every zone on this keg goes through its `init`
    /// and `fini`.
    pub(crate) hooks: Option<Arc<dyn Hooks>>,
    /// The items whose allocation is recorded.
    pub(crate) samples: Samples,
    /// Which caller has which item.
    #[cfg(feature = "invariants")]
    pub(crate) ledger: crate::invariants::Ledger,
    /// Failures that a test has ordered.
    #[cfg(all(feature = "invariants", feature = "extras"))]
    pub(crate) import_point: crate::fail::Point,
    state: StateSlot,
    /// The zones on this keg. A thread that takes caches back must hold this lock.
    members: Mutex<Members>,
    items_returned: Condvar,
    /// A copy of the state's `out` that is read without its lock. Relaxed: only warnings depend on it.
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
    /// A keg with no item out.
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
            #[cfg(feature = "extras")]
            Store::Import(_) => Samples::new(None),
        };
        Self {
            store,
            hooks,
            samples,
            #[cfg(feature = "invariants")]
            ledger: crate::invariants::Ledger::new(),
            #[cfg(all(feature = "invariants", feature = "extras"))]
            import_point: crate::fail::Point::default(),
            state: StateSlot(Mutex::new(&KEG_CLASS, state)),
            members: Mutex::new(&MEMBERS_CLASS, Members::default()),
            items_returned: Condvar::new(),
            out_seen: AtomicUsize::new(0),
            cpus: crate::percpu::cpus().max(1),
        }
    }

    /// The arena, unless the zone is cache-only.
    #[inline]
    pub(crate) fn arena(&self) -> Option<&Arena> {
        match &self.store {
            Store::Slabs(arena) => Some(arena),
            #[cfg(feature = "extras")]
            Store::Import(_) => None,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, KegState> {
        self.state.0.lock()
    }

    /// Items out of the keg, for all zones on it. The number may be a moment old.
    pub(crate) fn out(&self) -> usize {
        self.out_seen.load(Ordering::Relaxed)
    }

    /// Publishes `out` after the lock holder has changed it.
    fn show_out(&self, state: &KegState) {
        self.out_seen.store(state.out, Ordering::Relaxed);
    }

    /// Whether the zones may not cache items.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Locks the list of members. A thread that closes or drains caches of these zones must hold it.
    pub(crate) fn lock_members(&self) -> MutexGuard<'_, Members> {
        self.members.lock()
    }

    /// Prepares slabs and pages for `items` items. Returns for how many there is room.
    pub(crate) fn prealloc(&self, items: usize) -> usize {
        let mut state = self.lock();
        match (&self.store, state.slabs.as_mut()) {
            (Store::Slabs(arena), Some(slabs)) => {
                let ready = slabs.prealloc(arena, items);
                slabs.set_floor(items.min(ready));
                ready
            }
            // An import's items can't be prepared.
            _ => items,
        }
    }

    /// Adds a new zone, which takes its items from this keg.
    pub(crate) fn join(&self, zone: NonNull<ZoneInner>) {
        let mut members = self.lock_members();
        members.zones.push(zone);
        if self.lock().closed {
            // SAFETY: the zone was just made and has a handle.
            unsafe { zone.as_ref() }.close_caches();
        }
    }

    /// Removes a zone that is about to end from the lists.
    pub(crate) fn part(&self, zone: NonNull<ZoneInner>) {
        let mut members = self.lock_members();
        members.zones.retain(|&member| member != zone);
        members.holders.retain(|&holder| holder != zone);
    }

    /// Adds a new zone on another keg whose free items hold items of this one.
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

    /// Takes items out, into the front of `out`, as many as the limit and the store allow. The last item has the
    /// lowest address: allocations empty a bucket from its end.
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
            #[cfg(feature = "extras")]
            Store::Import(store) => {
                let (locked, got) = self.take_imported(state, &**store, out);
                state = locked;
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

    /// Counts a sample, which is not an item of the slabs, as out. Returns whether the limit allows it.
    pub(crate) fn take_sample(&self) -> bool {
        let mut state = self.lock();
        let allowed = state.out < state.bound(Urgency::Normal);
        state.out += usize::from(allowed);
        state.out_peak = state.out_peak.max(state.out);
        self.show_out(&state);
        allowed
    }

    /// Counts a sample as back.
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

    /// Picks free pages beyond `keep` bytes. Their items can't be allocated while the system takes the pages back.
    /// None for a cache-only zone.
    pub(crate) fn begin_purge(&self, keep: usize, max: usize) -> Option<Purge> {
        let mut state = self.lock();
        // An allocation that finds no item meanwhile waits for these items: see `take_last`.
        Some(state.slabs.as_mut()?.purge_begin(keep, max))
    }

    /// The system has the pages; their items can be allocated again, on new pages.
    pub(crate) fn end_purge(&self, purge: Purge) {
        let followup = {
            let mut state = self.lock();
            if let Some(slabs) = state.slabs.as_mut() {
                slabs.purge_end(purge);
                slabs.forget_tail();
            }
            state.refill_generation += 1;
            // A thread that searched for an item meanwhile did not find these.
            state.starved = false;
            self.note_refill(&mut state, usize::MAX)
        };
        self.run_followup(followup);
    }

    /// Takes items back that have not been through `init`, or have been through `fini` since.
    pub(crate) fn give(&self, items: &[NonNull<u8>]) {
        let mut caught = Caught::default();
        #[cfg(feature = "extras")]
        if let Store::Import(store) = &self.store {
            // SAFETY: they came from `import`, are free, and only the caller has them.
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
