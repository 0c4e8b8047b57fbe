//! The keg: where the items of its zones come from, how many may be out, and what happens when
//! there are no more.
//!
//! Called by: `alloc.rs`, `free.rs`, `reclaim.rs`, `raw.rs`. Calls: `slabs.rs`, `inner.rs`.
//!
//! A zone has a keg; secondary zones share their master's. The limit counts the items that are
//! *out* of the keg, live or cached, so nothing is counted per allocation:
//!
//! ```text
//!   live <= out <= limit          out - live = free items in the caches of the CPUs and depots
//! ```
//!
//! # Open and closed
//!
//! An allocation that finds nothing anywhere near, and nothing here, **closes** the keg: every
//! CPU's buckets and every depot of every zone on the keg go back into the slabs ([`Keg::close`]),
//! and from then on all allocations and frees of these zones come here, one by one, under this
//! lock. Now out = live, and what is missing is live: so an allocation fails exactly when the
//! limit is reached. When enough has come back the keg **opens** again ([`Keg::reopen`]).
//!
//! The rest falls out of that. Sleepers keep the keg closed, so each free reaches one of them. A
//! limit set below what is out closes it. Preemption in the middle of anything is harmless: what a
//! thread carries between layers is counted as in transit, and an allocation about to fail waits
//! for those hands to empty.
//!
//! An import may bring less than was counted as out for it: whoever was refused meanwhile is told
//! to look again, or it would fail, or sleep, below the limit.
//!
//! `schedules/limit.rs` and `schedules/sleep.rs` check this essay in every order of two threads,
//! `schedules/crowd.rs` in random orders of four, `tests/closing.rs` on the machine.
//!
//! Closing costs two memory barriers on every CPU (tens of microseconds), so the keg opens only
//! with a good part of its items back: at the edge of a limit it stays a plain locked allocator.
//!
//! Locks: `uma keg members` (rank `KEG_MEMBERS`), then depots, then `uma keg` (rank `KEG`).
//! Sources: seed 004 section 5.4; Bonwick and Adams 2001; FreeBSD's `uz_sleepers`.

use crate::AllocError;
use crate::arena::Arena;
use crate::hooks::{Hooks, Import};
use crate::inner::{Inner, NO_LIMIT};
use crate::planted::{Bug, planted};
use crate::purge::Purge;
use crate::sample::Samples;
use crate::slabs::Slabs;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::time::Duration;
use kern::lock::LockClass;
use kern::order;
use kern::prim::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::time::Instant;

static MEMBERS_CLASS: LockClass = LockClass::new("uma keg members", order::KEG_MEMBERS);
static KEG_CLASS: LockClass = LockClass::new("uma keg", order::KEG);

/// The fewest free items with which a big keg opens.
const REOPEN_ITEMS_MIN: usize = if cfg!(any(loom, shuttle)) { 1 } else { 8 };
/// The most free items, a CPU, that it waits for.
const REOPEN_ITEMS_PER_CPU: usize = 256;

/// What items are made of.
pub(crate) enum Store {
    /// Slabs in an arena.
    Slabs(Arena),
    /// Somebody else's: a cache-only zone.
    Import(Box<dyn Import>),
}

/// Called once when items have come back.
pub(crate) type Callback = Box<dyn FnOnce() + Send>;

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
    come_back: Condvar,
    cpus: usize,
}

/// The keg's lock on cache lines of its own.
#[repr(align(128))]
struct StateSlot(Mutex<State>);

#[derive(Default)]
pub(crate) struct Members(pub(crate) Vec<NonNull<Inner>>);

// SAFETY: the pointers are to zones, which are Sync; a zone leaves the list before it ends.
unsafe impl Send for Members {}

/// (k) What the keg's lock protects.
pub(crate) struct State {
    /// Absent in a cache-only zone.
    pub(crate) slabs: Option<Slabs>,
    /// Items out: live, or cached by a CPU or a depot.
    pub(crate) out: usize,
    pub(crate) out_peak: usize,
    /// The most that may be out, or [`NO_LIMIT`].
    pub(crate) limit: usize,
    /// How many of those are for [`urgent`](Urgency::Urgent) allocations alone.
    pub(crate) reserve: usize,
    /// What the store can hold at all.
    capacity: usize,
    item_bytes: usize,
    /// The store refused while the limit would have allowed more.
    starved: bool,
    closed: bool,
    /// Threads that hold items of the keg's, or its store's, and will put them down here.
    carrying: usize,
    /// Somebody was refused while that was so: perhaps for items that an import will not bring.
    misled: bool,
    /// Times that items came back: whoever looked in vain before looks again.
    gives: u64,
    sleepers: usize,
    callbacks: Vec<Callback>,
    /// The fewest free items since the last trim.
    free_min: usize,
    pub(crate) sleeps: u64,
    pub(crate) closings: u64,
}

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    Normal,
    /// May take the reserve.
    Urgent,
}

/// What a closed keg says to an allocation.
#[must_use]
pub(crate) enum Last {
    Item(NonNull<u8>),
    /// Other threads carry free items, or the keg has opened: look again.
    Again(AllocError),
    Failed(AllocError),
}

/// What is to be done, without a lock, after items came back.
#[must_use]
struct After {
    callbacks: Vec<Callback>,
    reopen: bool,
}

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
        let state = State {
            slabs,
            out: 0,
            out_peak: 0,
            limit,
            reserve,
            capacity,
            item_bytes,
            starved: false,
            closed: false,
            carrying: 0,
            misled: false,
            gives: 0,
            free_min: 0,
            sleepers: 0,
            callbacks: Vec::new(),
            sleeps: 0,
            closings: 0,
        };
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
            come_back: Condvar::new(),
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

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.0.lock()
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
    pub(crate) fn join(&self, zone: NonNull<Inner>) {
        let mut members = self.lock_members();
        members.0.push(zone);
        if self.lock().closed {
            // SAFETY: the zone was just made and has a handle.
            unsafe { zone.as_ref() }.shut();
        }
    }

    /// A zone that is about to end is not taken back from, nor opened, any more.
    pub(crate) fn part(&self, zone: NonNull<Inner>) {
        self.lock_members().0.retain(|&member| member != zone);
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
            state.misled |= state.carrying > 0;
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
                state.carrying += 1;
                drop(state);
                let got = match self.import_fails() {
                    true => 0,
                    false => store.import(out).min(want),
                };
                state = self.lock();
                state.out -= want - got;
                state.starved = false;
                state.carrying -= 1;
                if got < want && state.misled && !planted(Bug::SilentImport) {
                    state.misled = false;
                    state.gives += 1;
                    let after = self.tell(&mut state, usize::MAX);
                    drop(state);
                    self.run(after);
                    state = self.lock();
                }
                got
            }
        };
        state.out_peak = state.out_peak.max(state.out);
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
        allowed
    }

    /// Such an item is back.
    pub(crate) fn give_sample(&self) {
        let after = {
            let mut state = self.lock();
            state.out -= 1;
            state.gives += 1;
            state.starved = false;
            self.tell(&mut state, 1)
        };
        self.run(after);
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
        let after = {
            let mut state = self.lock();
            if let Some(slabs) = state.slabs.as_mut() {
                slabs.purge_end(purge);
                slabs.forget_tail();
            }
            state.gives += 1;
            // Whoever looked meanwhile did not see these.
            state.starved = false;
            self.tell(&mut state, usize::MAX)
        };
        self.run(after);
    }

    /// Gives items back that went through no `init`, or through `fini` since.
    pub(crate) fn give(&self, items: &[NonNull<u8>]) {
        if let Store::Import(store) = &self.store {
            // SAFETY: they came from `import`, and are free and in the caller's hands alone.
            unsafe { store.release(items) };
        }
        let after = {
            let mut state = self.lock();
            if let (Store::Slabs(arena), Some(slabs)) = (&self.store, state.slabs.as_mut()) {
                slabs.give(arena, items);
            }
            state.out -= items.len();
            state.gives += 1;
            state.starved = false;
            self.tell(&mut state, items.len())
        };
        self.run(after);
    }

    /// Takes the caches of all CPUs and the depots of all zones back, and lets nothing be cached
    /// until the keg opens again. Nothing is done to a keg that is closed.
    pub(crate) fn close(&self) {
        {
            let members = self.lock_members();
            {
                let mut state = self.lock();
                if state.closed {
                    return;
                }
                state.closed = true;
                state.closings += 1;
                state.carrying += 1;
            }
            for zone in &members.0 {
                // SAFETY: a zone leaves the list, whose lock we hold, before it ends.
                unsafe { zone.as_ref() }.shut();
            }
        }
        self.gather();
        let after = {
            let mut state = self.lock();
            state.carrying -= 1;
            state.gives += 1;
            self.tell(&mut state, 0)
        };
        self.run(after);
    }

    /// Empties the depots of zones that were shut, a bucket at a time: hooks run without locks.
    fn gather(&self) {
        while let Some((zone, bucket)) = self.next_filled() {
            // SAFETY: next_filled entered the zone, so it does not end before we leave.
            unsafe { zone.as_ref() }.empty_into_keg(bucket);
            // SAFETY: entered once, left once, and not used after.
            unsafe { Inner::leave(zone) };
        }
    }

    fn next_filled(&self) -> Option<(NonNull<Inner>, crate::bucket::Owned)> {
        let members = self.lock_members();
        members.0.iter().find_map(|&zone| {
            // SAFETY: a zone leaves the list, whose lock we hold, before it ends.
            let inner = unsafe { zone.as_ref() };
            let bucket = inner.depot.lock().pop_filled()?;
            inner.enter();
            Some((zone, bucket))
        })
    }

    /// Lets items be cached again, if there is reason to.
    fn reopen(&self) {
        let members = self.lock_members();
        {
            let mut state = self.lock();
            if !self.may_reopen(&state) {
                return;
            }
            state.closed = false;
        }
        for zone in &members.0 {
            // SAFETY: a zone leaves the list, whose lock we hold, before it ends.
            unsafe { zone.as_ref() }.unshut();
        }
    }

    fn may_reopen(&self, state: &State) -> bool {
        let bound = state.bound(Urgency::Normal);
        let enough = (bound / 4)
            .clamp(REOPEN_ITEMS_MIN, REOPEN_ITEMS_PER_CPU * self.cpus)
            .min(bound);
        state.closed
            && state.carrying == 0
            && (state.sleepers == 0 || planted(Bug::Sleepers))
            && state.callbacks.is_empty()
            && state.available() >= enough.max(1)
    }

    /// One item from a keg that was just closed, or why there is none.
    pub(crate) fn take_last(&self, urgency: Urgency) -> Last {
        let gives = self.lock().gives;
        let mut one = [MaybeUninit::uninit()];
        let error = match self.take(&mut one, urgency) {
            // SAFETY: `take` wrote as many as it says.
            Ok(_) => return Last::Item(unsafe { one[0].assume_init() }),
            Err(error) => error,
        };
        let members = self.lock_members();
        let state = self.lock();
        // With these locks held nobody enters or leaves with items unseen: who takes some from a
        // cache is in transit before, who brings some here is until after, and has counted it.
        let held = state.slabs.as_ref().map_or(0, Slabs::held);
        let in_hands = state.carrying > 0
            || (held > 0 && error == AllocError::NoMemory)
            || members.0.iter().any(|zone| {
                // SAFETY: a zone leaves the list, whose lock we hold, before it ends.
                unsafe { zone.as_ref() }.in_transit() && !planted(Bug::Transit)
            });
        if in_hands || state.gives != gives || !state.closed {
            Last::Again(error)
        } else {
            Last::Failed(error)
        }
    }

    /// Waits for an item, until `deadline` if there is one.
    pub(crate) fn sleep(
        &self,
        urgency: Urgency,
        deadline: Option<Instant>,
    ) -> Result<NonNull<u8>, AllocError> {
        let mut state = self.lock();
        state.sleepers += 1;
        state.sleeps += 1;
        drop(state);
        // From now on it does not open, even if items came back meanwhile; it may have been open.
        self.close();
        state = self.lock();
        let taken = loop {
            let gives = state.gives;
            drop(state);
            let mut one = [MaybeUninit::uninit()];
            let taken = self.take(&mut one, urgency);
            state = self.lock();
            let error = match taken {
                // SAFETY: `take` wrote as many as it says.
                Ok(_) => break Ok(unsafe { one[0].assume_init() }),
                Err(error) => error,
            };
            if state.gives != gives && !planted(Bug::Gives) {
                continue;
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break Err(error);
            }
            state = self.come_back.wait(state, left);
        };
        state.sleepers -= 1;
        let after = self.tell(&mut state, 0);
        drop(state);
        self.run(after);
        taken
    }

    /// Has `callback` called, once, when items have come back. Says `false`, and calls nothing,
    /// when there is one to be had now.
    pub(crate) fn call_back(&self, callback: Callback) -> bool {
        loop {
            self.close();
            let mut state = self.lock();
            if state.available() > 0 {
                let after = self.tell(&mut state, 0);
                drop(state);
                self.run(after);
                return false;
            }
            // Else it has opened and run dry meanwhile.
            if state.closed {
                state.misled |= state.carrying > 0;
                state.callbacks.push(callback);
                return true;
            }
        }
    }

    /// Changes the limit.
    pub(crate) fn set_limit(&self, limit: usize) {
        let (over, after) = {
            let mut state = self.lock();
            state.limit = limit;
            state.gives += 1;
            let items = if planted(Bug::SilentLimit) {
                0
            } else {
                usize::MAX
            };
            let after = self.tell(&mut state, items);
            (state.out > limit, after)
        };
        self.run(after);
        if over {
            self.close();
        }
    }

    /// Wakes as many sleepers as `items` came back; the rest is for [`run`](Self::run).
    fn tell(&self, state: &mut State, items: usize) -> After {
        if state.sleepers > 0 && items > 0 {
            // Woken one by one, a sleeper that may not take the reserve could swallow the
            // wakeup of one that may.
            if items == 1 && state.reserve == 0 {
                self.come_back.notify_one();
            } else {
                self.come_back.notify_all();
            }
        }
        let callbacks = match items {
            0 => Vec::new(),
            _ => core::mem::take(&mut state.callbacks),
        };
        After {
            reopen: self.may_reopen(state),
            callbacks,
        }
    }

    fn run(&self, after: After) {
        if after.reopen {
            self.reopen();
        }
        for callback in after.callbacks {
            callback();
        }
    }
}

impl State {
    /// The most that may be out as far as this caller is concerned.
    fn bound(&self, urgency: Urgency) -> usize {
        let bound = self.limit.min(self.capacity);
        match urgency {
            Urgency::Normal => bound.saturating_sub(self.reserve),
            Urgency::Urgent => bound,
        }
    }

    /// Which bound was reached.
    fn why_none(&self, urgency: Urgency) -> AllocError {
        let reserve = self.reserve * usize::from(urgency == Urgency::Normal);
        match self.out.saturating_add(reserve) >= self.limit {
            true => AllocError::Limit,
            false => AllocError::NoMemory,
        }
    }

    /// Items that could go out now.
    fn available(&self) -> usize {
        let allowed = self.bound(Urgency::Normal).saturating_sub(self.out);
        match &self.slabs {
            Some(slabs) if self.starved => allowed.min(slabs.free()),
            None if self.starved => 0,
            _ => allowed,
        }
    }

    /// How many of `want` items one CPU gets: near the limit not all, or it would soon be
    /// closed to take them back.
    fn share_of(&self, want: usize, urgency: Urgency, cpus: usize) -> usize {
        let left = self.bound(urgency).saturating_sub(self.out);
        want.min((left / (2 * cpus)).max(1)).min(left)
    }

    /// Notes how few free items there were.
    fn mark_free(&mut self) {
        let free = self.slabs.as_ref().map_or(0, Slabs::free);
        self.free_min = self.free_min.min(free);
    }

    /// Bytes of free items that were needed at some time since this was last asked.
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
