//! The buckets of one CPU, in the layout that the sections use.
//!
//! Locks: none.
//! Invariant: `loaded` and `previous` are never null and point to live buckets.

use crate::bucket::Bucket;
use core::mem::offset_of;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU64};
use kern::prim::AtomicU32;

/// Where a slot is: on lines that no neighbour writes, two of 64 B, as prefetchers fetch pairs.
///
/// It lies on the second of them, as a zone's own fields do ([`ZoneInner`](crate::zone_inner::ZoneInner)). Most items
/// begin at multiples of 128, and their owners write to their beginnings. A processor compares the lower 12 bits of
/// addresses to decide whether a load must wait for an earlier store: when a slot had the same offset in its page as
/// the item, a free and an allocation took 8 ns instead of 3.
#[repr(C, align(128))]
pub(super) struct OffsetSlot {
    beside: [u64; 8],
    pub(super) slot: CpuSlot,
}

/// The buckets of one CPU.
#[repr(C)]
pub(super) struct CpuSlot {
    /// The bucket on which items are popped and pushed. Written by sections of its CPU, or under the lock; by the
    /// drainer between its fences. Release, because statistics follow the pointer.
    pub(super) loaded: AtomicPtr<Bucket>,
    /// The bucket that `loaded` was exchanged for last. As `loaded`.
    pub(super) previous: AtomicPtr<Bucket>,
    /// Not 0: no exchange may begin. The drainer writes it and makes it visible by a fence.
    pub(super) stop: AtomicU64,
    /// Of the locked backend: 1 while a thread uses the slot. Acquire and Release.
    pub(super) lock: AtomicU32,
    /// Owned by the drainer: the buckets taken from `loaded` and `previous`, between its fences. Relaxed:
    /// no other thread reads it.
    pub(super) taken: [AtomicPtr<Bucket>; 2],
}

/// Where the sections find things.
#[cfg(not(any(loom, shuttle)))]
pub(super) const SLOT_SHIFT: u32 = size_of::<OffsetSlot>().trailing_zeros();
pub(super) const LOADED: usize = offset_of!(CpuSlot, loaded);
pub(super) const PREVIOUS: usize = offset_of!(CpuSlot, previous);
pub(super) const STOP: usize = offset_of!(CpuSlot, stop);

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(size_of::<OffsetSlot>() == 128 && offset_of!(OffsetSlot, slot) == 64);
const _: () = assert!(LOADED == 0 && PREVIOUS == 8 && STOP == 16);
#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(offset_of!(CpuSlot, lock) == 24);

impl OffsetSlot {
    pub(super) fn new() -> Self {
        let slot = CpuSlot {
            loaded: AtomicPtr::new(Bucket::sentinel().as_ptr()),
            previous: AtomicPtr::new(Bucket::sentinel().as_ptr()),
            stop: AtomicU64::new(0),
            lock: AtomicU32::new(0),
            taken: [const { AtomicPtr::new(core::ptr::null_mut()) }; 2],
        };
        let beside = [0; 8];
        Self { beside, slot }
    }
}

impl CpuSlot {
    pub(super) fn loaded(&self) -> NonNull<Bucket> {
        NonNull::new(self.loaded.load(Acquire)).expect("a slot is never null")
    }

    pub(super) fn previous(&self) -> NonNull<Bucket> {
        NonNull::new(self.previous.load(Acquire)).expect("a slot is never null")
    }

    /// The bucket that the field at this offset points to; the offset is [`LOADED`] or [`PREVIOUS`].
    #[cfg(any(feature = "extras", loom, shuttle))]
    pub(super) fn bucket<const FIELD: usize>(&self) -> NonNull<Bucket> {
        const { assert!(FIELD == LOADED || FIELD == PREVIOUS) };
        match FIELD {
            LOADED => self.loaded(),
            _ => self.previous(),
        }
    }

    /// Exchanges the two buckets. The caller owns the slot. A thread that reads statistics meanwhile may see one bucket
    /// twice.
    pub(super) fn swap(&self, loaded: NonNull<Bucket>, previous: NonNull<Bucket>) {
        self.loaded.store(previous.as_ptr(), Release);
        self.previous.store(loaded.as_ptr(), Release);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed) != 0
    }

    /// Takes both buckets out, and puts them aside. The slot must be stopped, and fenced.
    pub(super) fn take(&self) {
        for (from, to) in [&self.loaded, &self.previous].into_iter().zip(&self.taken) {
            to.store(from.load(Acquire), Relaxed);
            from.store(Bucket::sentinel().as_ptr(), Release);
        }
    }

    /// Undoes [`take`](Self::take).
    pub(super) fn put_back(&self) {
        for (to, from) in [&self.loaded, &self.previous].into_iter().zip(&self.taken) {
            to.store(from.load(Relaxed), Release);
        }
    }

    /// The buckets that [`take`](Self::take) put aside.
    pub(super) fn taken(&self) -> impl Iterator<Item = NonNull<Bucket>> {
        self.taken
            .iter()
            .map(|bucket| NonNull::new(bucket.load(Relaxed)).expect("a slot is never null"))
    }
}
