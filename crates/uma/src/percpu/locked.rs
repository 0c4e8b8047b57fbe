//! The operations on slots under a try-lock, for machines where sections can't run.
//!
//! A thread tries the slot of its CPU first, then the neighbours of that slot: so a thread that is preempted inside a
//! slot delays no other thread. If all slots are busy, the answer is that of an empty bucket, or of a full one, and
//! the caller takes the slow path. There is no queue of waiters: one preempted waiter would stop all behind it.
//!
//! Invariant: a slot's buckets are touched only by the holder of its lock. The drainer's stores come between two
//! [`fence`]s and with the slot stopped; each fence waits for the holder of the moment, and later holders see the
//! store.
//! Locks: a slot's, one at a time; only [`fence`] waits. An operation inside a signal handler finds the slot busy
//! that its thread holds, and goes on to the next.

use super::{CpuSlot, Percpu, PushOutcome, current_cpu};
use crate::bucket::Bucket;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The lock of a slot, held.
pub(super) struct SlotGuard<'a>(pub(super) &'a CpuSlot);

impl<'a> SlotGuard<'a> {
    /// Loads the lock before the swap, so that the line of a busy slot stays with its holder.
    #[inline]
    fn try_on(slot: &'a CpuSlot) -> Option<Self> {
        let free = slot.lock.load(Relaxed) == 0 && slot.lock.swap(1, Acquire) == 0;
        free.then(|| Self(slot))
    }

    /// This CPU's slot, or the next slot whose lock is free.
    #[inline]
    pub(super) fn any_of(percpu: &'a Percpu) -> Option<Self> {
        let places = percpu.places();
        let (before, from) = places.split_at(current_cpu() % places.len());
        let mut slots = from.iter().chain(before).map(|place| &place.slot);
        slots.find_map(Self::try_on)
    }
}

impl Drop for SlotGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if cfg!(loom) {
            // loom lets a later swap miss this store, which no machine does.
            self.0.lock.swap(0, Release);
        } else {
            self.0.lock.store(0, Release);
        }
    }
}

pub(super) fn pop(percpu: &Percpu) -> Option<NonNull<u8>> {
    let held = SlotGuard::any_of(percpu)?;
    // SAFETY: the holder of the lock owns the slot's buckets, which are alive.
    unsafe { Bucket::pop(held.0.loaded()) }
}

pub(super) fn push(percpu: &Percpu, item: NonNull<u8>) -> PushOutcome {
    let Some(held) = SlotGuard::any_of(percpu) else {
        return PushOutcome::Full;
    };
    // SAFETY: the holder of the lock owns the slot's buckets, which are alive.
    unsafe { Bucket::push(held.0.loaded(), item) }
}

pub(super) fn exchange_previous(
    percpu: &Percpu,
    bucket: NonNull<Bucket>,
) -> Option<NonNull<Bucket>> {
    let held = SlotGuard::any_of(percpu).filter(|held| !held.0.is_stopped())?;
    let old = held.0.previous();
    held.0.previous.store(bucket.as_ptr(), Release);
    Some(old)
}

pub(super) fn replace_empty(percpu: &Percpu, bucket: NonNull<Bucket>) -> Option<NonNull<Bucket>> {
    replace(percpu, bucket, |old| {
        // SAFETY: a slot's buckets are alive.
        let (len, _) = unsafe { crate::bucket::peek(old) };
        len == 0
    })
}

pub(super) fn replace_full(percpu: &Percpu, bucket: NonNull<Bucket>) -> Option<NonNull<Bucket>> {
    replace(percpu, bucket, |old| {
        // SAFETY: a slot's buckets are alive.
        unsafe { Bucket::is_full(old) }
    })
}

fn replace(
    percpu: &Percpu,
    bucket: NonNull<Bucket>,
    ready: impl Fn(NonNull<Bucket>) -> bool,
) -> Option<NonNull<Bucket>> {
    let held = SlotGuard::any_of(percpu).filter(|held| !held.0.is_stopped())?;
    let old = held.0.loaded();
    if !ready(old) {
        return None;
    }
    held.0.loaded.store(bucket.as_ptr(), Release);
    Some(old)
}

pub(super) fn swap_for_pop(percpu: &Percpu) -> bool {
    swap(percpu, |bucket| {
        // SAFETY: a slot's buckets are alive.
        let (len, _) = unsafe { crate::bucket::peek(bucket) };
        len == 0
    })
}

pub(super) fn swap_for_push(percpu: &Percpu) -> bool {
    // SAFETY: a slot's buckets are alive.
    swap(percpu, |bucket| unsafe { Bucket::is_full(bucket) })
}

fn swap(percpu: &Percpu, used_up: impl Fn(NonNull<Bucket>) -> bool) -> bool {
    let Some(held) = SlotGuard::any_of(percpu).filter(|held| !held.0.is_stopped()) else {
        return false;
    };
    let (loaded, previous) = (held.0.loaded(), held.0.previous());
    let swaps = used_up(loaded) && !used_up(previous);
    if swaps {
        held.0.swap(loaded, previous);
    }
    swaps
}

/// All slots of a zone, held for a fork.
#[cfg(not(any(loom, shuttle)))]
pub(crate) struct SlotsHeld<'a> {
    _held: Vec<SlotGuard<'a>>,
}

/// Waits for each slot.
#[cfg(not(any(loom, shuttle)))]
pub(super) fn hold(percpu: &Percpu) -> SlotsHeld<'_> {
    let wait_for = |slot| {
        loop {
            match SlotGuard::try_on(slot) {
                Some(held) => return held,
                None => kern::prim::thread::yield_now(),
            }
        }
    };
    let slots = percpu.places().iter().map(|place| &place.slot);
    SlotsHeld {
        _held: slots.map(wait_for).collect(),
    }
}

/// Takes and releases each slot's lock once. Then every earlier holder has finished and its stores
/// are visible to the caller, and every later holder sees the caller's earlier stores.
pub(super) fn fence(percpu: &Percpu) {
    for place in percpu.places() {
        while SlotGuard::try_on(&place.slot).is_none() {
            kern::prim::thread::yield_now();
        }
    }
}
