//! A keg without items: closed, so that what is missing is live; sleepers; open again.
//!
//! An allocation that finds nothing anywhere near, and nothing here, **closes** the keg: every
//! CPU's buckets and every depot of every zone on the keg go back into the slabs ([`Keg::close`]),
//! and from then on all allocations and frees of these zones come here, one by one, under this
//! lock. Now out = live, and what is missing is live: so an allocation fails exactly when the
//! limit is reached. When enough has come back the keg **opens** again ([`Keg::reopen`]).
//!
//! Free items of a zone on another keg may hold items of this one (an mbuf with its cluster:
//! [`ZoneBuilder::holds_items_of`](crate::ZoneBuilder::holds_items_of)). Such a **holder** is shut for as long as
//! this keg is closed: what it had free comes back through its `fini`, and what is freed to it too.
//! So there is one moment at which nothing of ours is free there either, nor in anybody's hands.
//!
//! The rest falls out of that. Sleepers keep the keg closed, so each free reaches one of them. A
//! limit set below what is out closes it. Preemption in the middle of anything is harmless: what a
//! thread carries between layers is counted as in transit, and an allocation about to fail waits
//! for those hands to empty.
//!
//! `schedules/limit.rs` and `schedules/sleep.rs` check this essay in every order of two threads,
//! `schedules/crowd.rs` in random orders of four, `tests/closing.rs` on the machine.
//!
//! Closing costs two memory barriers on every CPU (tens of microseconds), so the keg opens only
//! with a good part of its items back: at the edge of a limit it stays a plain locked allocator.
//!
//! Invariants: closed and opened with the members locked, so that all zones agree; never open with
//! a sleeper, a callback, or hands that carry items. Hooks and callbacks run without a lock.
//! Locks: as in `keg.rs`; sleepers wait on the keg's.
//! Sources: Bonwick and Adams 2001; FreeBSD's `uz_sleepers`.

use super::{Callback, Keg, KegState, Members, Urgency};
use crate::AllocError;
use crate::bucket::Owned;
use crate::caught::Caught;
use crate::planted::{Bug, planted};
use crate::slabs::Slabs;
use crate::weak::WeakZone;
use crate::zone_inner::ZoneInner;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

/// The fewest free items with which a big keg opens.
const REOPEN_ITEMS_MIN: usize = if cfg!(any(loom, shuttle)) { 1 } else { 8 };
/// The most free items, a CPU, that it waits for.
const REOPEN_ITEMS_PER_CPU: usize = 256;

/// What a closed keg says to an allocation.
#[must_use]
pub(crate) enum LastAttempt {
    Item(NonNull<u8>),
    /// Other threads carry free items, or the keg has opened: look again.
    Again(AllocError),
    Failed(AllocError),
}

/// What is to be done, without a lock, after items came back.
#[must_use]
pub(super) struct Followup {
    callbacks: Vec<Callback>,
    reopen: bool,
}

impl Members {
    /// Ways to those holders that have a handle still. One that has none is shut for good.
    fn weak_holders(&self) -> Vec<Arc<WeakZone>> {
        let link = |zone: &NonNull<ZoneInner>| {
            // SAFETY: a zone leaves the list, which is locked, before it ends.
            unsafe { zone.as_ref() }.weak.clone()
        };
        self.holders.iter().map(link).collect()
    }
}

impl Keg {
    /// Takes the caches of all CPUs and the depots of all zones back, and lets nothing be cached
    /// until the keg opens again. Nothing is done to a keg that is closed.
    pub(crate) fn close(&self) {
        let holders = {
            let members = self.lock_members();
            {
                let mut state = self.lock();
                if state.closed {
                    return;
                }
                state.closed = true;
                state.closings += 1;
                state.in_transit += 1;
            }
            for zone in &members.zones {
                // SAFETY: a zone leaves the list, whose lock we hold, before it ends.
                unsafe { zone.as_ref() }.close_caches();
            }
            members.weak_holders()
        };
        // Each takes the lock of its own keg's members, so ours is given up first. `in_transit` keeps
        // us from opening meanwhile.
        let mut caught = Caught::default();
        for holder in holders {
            caught.call(|| holder.with_zone(ZoneInner::pin_closed));
        }
        self.gather(&mut caught);
        let followup = {
            let mut state = self.lock();
            state.in_transit -= 1;
            state.refill_generation += 1;
            self.note_refill(&mut state, 0)
        };
        caught.call(|| self.run_followup(followup));
        caught.resume();
    }

    /// Empties the depots of zones that were shut, a bucket at a time: hooks run without locks.
    fn gather(&self, caught: &mut Caught) {
        while let Some((zone, bucket)) = self.next_filled() {
            // SAFETY: next_filled entered the zone, so it does not end before we leave.
            unsafe { zone.as_ref() }.empty_into_keg(bucket, caught);
            // SAFETY: entered once, left once, and not used after.
            caught.call(|| unsafe { ZoneInner::leave(zone) });
        }
    }

    fn next_filled(&self) -> Option<(NonNull<ZoneInner>, Owned)> {
        let members = self.lock_members();
        members.zones.iter().find_map(|&zone| {
            // SAFETY: a zone leaves the list, whose lock we hold, before it ends.
            let inner = unsafe { zone.as_ref() };
            let bucket = inner.depot.lock().pop_filled()?;
            inner.enter();
            Some((zone, bucket))
        })
    }

    /// Lets items be cached again, if there is reason to.
    fn reopen(&self) {
        let holders = {
            let members = self.lock_members();
            {
                let mut state = self.lock();
                if !self.may_reopen(&state) {
                    return;
                }
                state.closed = false;
            }
            for zone in &members.zones {
                // SAFETY: a zone leaves the list, whose lock we hold, before it ends.
                unsafe { zone.as_ref() }.open_caches();
            }
            members.weak_holders()
        };
        // Who closes us again meanwhile has them shut once more, and counts: see `pin_closed`.
        let mut caught = Caught::default();
        for holder in holders {
            caught.call(|| holder.with_zone(ZoneInner::unpin_closed));
        }
        caught.resume();
    }

    fn may_reopen(&self, state: &KegState) -> bool {
        let bound = state.bound(Urgency::Normal);
        let enough = (bound / 4)
            .clamp(REOPEN_ITEMS_MIN, REOPEN_ITEMS_PER_CPU * self.cpus)
            .min(bound);
        state.closed
            && state.in_transit == 0
            && (state.sleepers == 0 || planted(Bug::Sleepers))
            && state.callbacks.is_empty()
            && state.available() >= enough.max(1)
    }

    /// One item from a keg that was just closed, or why there is none.
    pub(crate) fn take_last(&self, urgency: Urgency) -> LastAttempt {
        let refill_generation = self.lock().refill_generation;
        let mut one = [MaybeUninit::uninit()];
        let error = match self.take(&mut one, urgency) {
            // SAFETY: `take` wrote as many as it says.
            Ok(_) => return LastAttempt::Item(unsafe { one[0].assume_init() }),
            Err(error) => error,
        };
        let members = self.lock_members();
        let state = self.lock();
        // Asked before the zones: what comes out of free items of theirs meanwhile is in the hands of
        // who frees it, whom we ask about next, and who can't put it down while we hold the lock.
        let held_elsewhere = members.holders.iter().any(|zone| {
            // SAFETY: a zone leaves the list, whose lock we hold, before it ends.
            unsafe { zone.as_ref() }.in_transit() && !planted(Bug::Holder)
        });
        // With these locks held nobody enters or leaves with items unseen: who takes some from a
        // cache is in transit before, who brings some here is until after, and has counted it.
        let held = state.slabs.as_ref().map_or(0, Slabs::held);
        let in_hands = state.in_transit > 0
            || held_elsewhere
            || (held > 0 && error == AllocError::NoMemory)
            || members.zones.iter().any(|zone| {
                // SAFETY: a zone leaves the list, whose lock we hold, before it ends.
                unsafe { zone.as_ref() }.in_transit() && !planted(Bug::Transit)
            });
        if in_hands || state.refill_generation != refill_generation || !state.closed {
            LastAttempt::Again(error)
        } else {
            LastAttempt::Failed(error)
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
        let mut caught = Caught::default();
        caught.call(|| self.close());
        state = self.lock();
        let taken = loop {
            let refill_generation = state.refill_generation;
            drop(state);
            let mut one = [MaybeUninit::uninit()];
            let taken = caught.call(|| self.take(&mut one, urgency));
            state = self.lock();
            let error = match taken {
                // SAFETY: `take` wrote as many as it says.
                Some(Ok(_)) => break Ok(unsafe { one[0].assume_init() }),
                Some(Err(error)) => error,
                None => AllocError::NoMemory,
            };
            if caught.is_some() {
                break Err(error);
            }
            if state.refill_generation != refill_generation && !planted(Bug::StaleGeneration) {
                continue;
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break Err(error);
            }
            state = self.items_returned.wait(state, left);
        };
        state.sleepers -= 1;
        let followup = self.note_refill(&mut state, 0);
        drop(state);
        caught.call(|| self.run_followup(followup));
        if let (true, Ok(item)) = (caught.is_some(), taken) {
            caught.call(|| self.give(&[item]));
            caught.resume();
            return Err(AllocError::NoMemory);
        }
        caught.resume();
        taken
    }

    /// Has `callback` called, once, when items have come back. Says `false`, and calls nothing,
    /// when there is one to be had now.
    pub(crate) fn call_back(&self, callback: Callback) -> bool {
        loop {
            self.close();
            let mut state = self.lock();
            if state.available() > 0 {
                let followup = self.note_refill(&mut state, 0);
                drop(state);
                self.run_followup(followup);
                return false;
            }
            // Else it has opened and run dry meanwhile.
            if state.closed {
                state.limit_was_overstated |= state.in_transit > 0;
                state.callbacks.push(callback);
                return true;
            }
        }
    }

    /// Changes the limit.
    pub(crate) fn set_limit(&self, limit: usize) {
        let (over, followup) = {
            let mut state = self.lock();
            state.limit = limit;
            state.refill_generation += 1;
            let items = if planted(Bug::SilentLimit) {
                0
            } else {
                usize::MAX
            };
            let followup = self.note_refill(&mut state, items);
            (state.out > limit, followup)
        };
        let mut caught = Caught::default();
        caught.call(|| self.run_followup(followup));
        if over {
            caught.call(|| self.close());
        }
        caught.resume();
    }

    /// Wakes as many sleepers as `items` came back; the rest is for [`run_followup`](Self::run_followup).
    pub(super) fn note_refill(&self, state: &mut KegState, items: usize) -> Followup {
        if state.sleepers > 0 && items > 0 {
            // Woken one by one, a sleeper that may not take the reserve could swallow the
            // wakeup of one that may.
            if items == 1 && state.reserve == 0 {
                self.items_returned.notify_one();
            } else {
                self.items_returned.notify_all();
            }
        }
        let callbacks = match items {
            0 => Vec::new(),
            _ => core::mem::take(&mut state.callbacks),
        };
        Followup {
            reopen: self.may_reopen(state),
            callbacks,
        }
    }

    pub(super) fn run_followup(&self, followup: Followup) {
        let mut caught = Caught::default();
        if followup.reopen {
            caught.call(|| self.reopen());
        }
        for callback in followup.callbacks {
            caught.call(callback);
        }
        caught.resume();
    }
}
