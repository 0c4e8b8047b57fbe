//! A keg without items is closed: no cache holds an item, so each item that is out is live.
//!
//! An allocation that finds no item in its CPU's buckets, the depot or the slabs **closes** the keg
//! ([`Keg::close`]): the buckets of every CPU and the depots of every zone on the keg go back into the slabs. While
//! the keg is closed, every allocation and free of these zones takes its lock and moves one item. So `out` is the
//! number of live items, and an allocation fails exactly when the limit is reached. When enough items have come back
//! the keg **opens** again ([`Keg::reopen`]).
//!
//! | state | `closed` | `in_transit` | caches | allocation without a cached item | free | next state |
//! |---|---|---|---|---|---|---|
//! | open | no | imports only | in use | takes a bucketful from the slabs | to the CPU's bucket | closing: an allocation finds no item; a thread is about to sleep or registers a callback; the limit is set below `out` |
//! | closing | yes | the closing thread | the closing thread empties them | takes one item; finds none: [`Again`](LastAttempt::Again) | to its slab | closed: the caches are empty; `refill_generation` grows by one |
//! | closed | yes | threads that purge or import | empty | takes one item; finds none and no item is in transit: [`Failed`](LastAttempt::Failed) | to its slab; wakes sleepers | open: no sleeper, no callback, no item in transit, and enough free items ([`Keg::may_reopen`]) |
//!
//! Three counters make the failure exact:
//!
//! 1. *In transit.* A thread that carries free items between two layers is counted: by its zone
//!    ([`ZoneInner::in_transit`]) or by the keg (`in_transit`). An allocation must not fail while the count is not
//!    zero. So it does no harm if the kernel preempts a thread that carries items.
//! 2. *Refill generation.* It grows whenever items come back. A thread that found no item, in an allocation or before
//!    a sleep, compares it with the value from before its search; if it has grown, the thread searches again.
//! 3. *Limit was overstated.* An import counts items as out before they arrive. If it brings fewer, and an allocation
//!    was refused or a callback registered meanwhile, the importing thread raises the generation and wakes the
//!    sleepers.
//!
//! Free items of a zone on another keg may hold items of this keg (an mbuf with its cluster:
//! [`ZoneBuilder::holds_items_of`](crate::ZoneBuilder::holds_items_of)). The caches of such a **holder zone** are
//! closed for as long as this keg is closed: its free items go through `fini`, which returns what they hold, and so
//! does each item that is freed to it. So there is a moment at which no item of this keg is free there, and no thread
//! carries one.
//!
//! Sleepers keep the keg closed, so each free reaches one of them.
//!
//! Closing costs two memory barriers on every CPU (tens of microseconds). So the keg opens only when a good part of
//! its items is back: near its limit it works as a plain allocator under a lock.
//!
//! `models/limit.rs` and `models/sleep.rs` check these claims in every order of two threads,
//! `models/crowd.rs` in random orders of four, `tests/zones/closing.rs` on the machine.
//!
//! Invariants: a keg is closed and opened with its members locked, so that all its zones agree. It must not open
//! while it has a sleeper, a callback, or items in transit. Hooks and callbacks run without a lock.
//! Locks: as in `keg.rs`; sleepers wait on the keg's.
//! Sources: Bonwick and Adams 2001; FreeBSD's `uz_sleepers`.

use super::{Callback, Keg, KegState, Members, Urgency};
use crate::AllocError;
use crate::bucket::Owned;
use crate::caught::Caught;
use crate::faults::{ZoneFault, planted};
use crate::slabs::Slabs;
use crate::weak::WeakZone;
use crate::zone_inner::ZoneInner;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use std::sync::Arc;

/// The fewest free items with which a keg with a high limit opens.
const REOPEN_ITEMS_MIN: usize = if cfg!(any(loom, shuttle)) { 1 } else { 8 };
/// The most free items for each CPU that a keg waits for before it opens.
const REOPEN_ITEMS_PER_CPU: usize = 256;

/// The answer of a closed keg to an allocation.
#[must_use]
pub(crate) enum LastAttempt {
    Item(NonNull<u8>),
    /// Free items are in transit, or the keg has opened: the caller must try again.
    Again(AllocError),
    Failed(AllocError),
}

/// Work for the thread that brought items back, after it has released the keg's lock.
#[must_use]
pub(super) struct Followup {
    callbacks: Vec<Callback>,
    reopen: bool,
}

impl Members {
    /// Weak references to the holder zones that still have a handle. The caches of a zone without a handle are closed
    /// for good.
    fn weak_holders(&self) -> Vec<Arc<WeakZone>> {
        let link = |zone: &NonNull<ZoneInner>| {
            // SAFETY: a zone leaves the list, which is locked, before it ends.
            unsafe { zone.as_ref() }.weak.clone()
        };
        self.holders.iter().map(link).collect()
    }
}

impl Keg {
    /// Takes back the caches of all CPUs and the depots of all zones. No cache takes items until the keg opens again.
    /// Has no effect on a closed keg.
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
        // Each holder zone locks the members of its own keg, so this thread has released ours. The keg can't open
        // meanwhile, because `in_transit` counts this thread.
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

    /// Empties the depots of zones whose caches are closed, a bucket at a time: hooks run without locks.
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

    /// Opens the keg, so that items are cached again, if [`may_reopen`](Self::may_reopen) still holds.
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
        // If another thread closes the keg again meanwhile, it pins these zones once more: `pin_closed` counts.
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
            && (state.sleepers == 0 || planted(ZoneFault::Sleepers))
            && state.callbacks.is_empty()
            && state.available() >= enough.max(1)
    }

    /// Takes one item from a keg that the caller has just closed; the error says why there is none.
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
        // The holder zones must be checked before this keg's zones. An item of this keg that leaves a holder's free
        // item meanwhile is carried by the thread that frees it. That thread is in transit in one of the zones
        // checked below, and it can't return the item while this thread has the keg's lock.
        let held_elsewhere = members.holders.iter().any(|zone| {
            // SAFETY: a zone leaves the list, whose lock we hold, before it ends.
            unsafe { zone.as_ref() }.in_transit() && !planted(ZoneFault::Holder)
        });
        // While this thread holds both locks, it sees every thread that carries items: a thread counts itself in
        // transit before it takes items from a cache, and a thread that brings items back stays in transit until it
        // has counted them under the lock.
        let held = state.slabs.as_ref().map_or(0, Slabs::held);
        let in_hands = state.in_transit > 0
            || held_elsewhere
            || (held > 0 && error == AllocError::NoMemory)
            || members.zones.iter().any(|zone| {
                // SAFETY: a zone leaves the list, whose lock we hold, before it ends.
                unsafe { zone.as_ref() }.in_transit() && !planted(ZoneFault::Transit)
            });
        if in_hands || state.refill_generation != refill_generation || !state.closed {
            LastAttempt::Again(error)
        } else {
            LastAttempt::Failed(error)
        }
    }

    /// Changes the limit.
    pub(crate) fn set_limit(&self, limit: usize) {
        let (over, followup) = {
            let mut state = self.lock();
            state.limit = limit;
            state.refill_generation += 1;
            let items = if planted(ZoneFault::SilentLimit) {
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

    /// Wakes as many sleepers as `items` have come back. The caller passes the result to
    /// [`run_followup`](Self::run_followup).
    pub(super) fn note_refill(&self, state: &mut KegState, items: usize) -> Followup {
        if state.sleepers > 0 && items > 0 {
            // If each free woke one sleeper, the wakeup could go to a sleeper that may not take from the reserve, and
            // a sleeper that may would not be woken.
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
