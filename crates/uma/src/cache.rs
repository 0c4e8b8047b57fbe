//! The cache of one CPU: two buckets and two counts under one lock.
//!
//! Called by: `alloc.rs`, `free.rs`, `reclaim.rs`, `stats.rs`. Calls: `bucket.rs`, `depot.rs`.
//!
//! ```text
//!   alloc ---pop--->  [ loaded ]  <---push--- free
//!                     [previous]     swapped in when loaded runs empty (alloc) or full (free)
//! ```
//!
//! Two buckets, so that a caller who goes back and forth over the edge of one does not visit the
//! depot each time. One cache per CPU, on lines of its own; the lock is contended only when a
//! thread loses its CPU inside.
//!
//! Locks: `uma cpu cache` (rank `ZONE_CPU`), taken before the depot's and the keg's.
//! Source: seed 004 section 5.3.

use crate::bucket::Bucket;
use crate::depot::Depot;
use core::ptr::NonNull;
use kern::lock::{LockClass, Mutex};
use kern::order;

static CACHE_CLASS: LockClass = LockClass::new("uma cpu cache", order::ZONE_CPU);

/// A cache on cache lines that no neighbour writes: two of 64 B, as prefetchers fetch pairs.
#[repr(align(128))]
pub(crate) struct CacheSlot(pub(crate) Mutex<Cache>);

impl CacheSlot {
    /// An empty cache, that owns no bucket yet.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(&CACHE_CLASS, Cache::default()))
    }
}

/// What one CPU holds of a zone.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    loaded: Bucket,
    previous: Bucket,
    /// Items given to callers on this CPU; wraps, only the sum over all CPUs means something.
    pub(crate) allocs: u64,
    /// Items taken back from callers on this CPU.
    pub(crate) frees: u64,
}

impl Cache {
    /// Whether a [`pop`](Self::pop) would give nothing.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.loaded.is_empty() && self.previous.is_empty()
    }

    /// Items inside.
    pub(crate) fn len(&self) -> usize {
        self.loaded.len() + self.previous.len()
    }

    /// A free item of this CPU.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<NonNull<u8>> {
        if self.loaded.is_empty() && !self.previous.is_empty() {
            core::mem::swap(&mut self.loaded, &mut self.previous);
        }
        self.loaded.pop()
    }

    /// Keeps a free item on this CPU; says whether there was room.
    #[inline]
    #[must_use]
    pub(crate) fn push(&mut self, item: NonNull<u8>) -> bool {
        if self.loaded.is_full() && !self.previous.is_full() {
            core::mem::swap(&mut self.loaded, &mut self.previous);
        }
        self.loaded.push(item)
    }

    /// Trades the empty loaded bucket for a filled one of the depot; says whether there was one.
    pub(crate) fn refill_from(&mut self, depot: &mut Depot) -> bool {
        debug_assert!(self.is_empty(), "a cache is refilled only when it ran out");
        let Some(filled) = depot.pop_filled() else {
            return false;
        };
        depot.keep_empty(core::mem::replace(&mut self.loaded, filled));
        true
    }

    /// Makes room: the full previous bucket travels to the depot, the loaded one becomes the
    /// previous, and an empty one of `capacity` items is loaded. Says whether that was possible.
    pub(crate) fn make_room(&mut self, depot: &mut Depot, capacity: usize) -> bool {
        let Some(empty) = depot.empty_bucket(capacity) else {
            return false;
        };
        let older = core::mem::take(&mut self.previous);
        if let Err(older) = depot.push_filled(older) {
            self.previous = older;
            depot.keep_empty(empty);
            return false;
        }
        self.previous = core::mem::replace(&mut self.loaded, empty);
        true
    }

    /// Takes over a bucket with items, or hands it back when there is no place for it.
    pub(crate) fn deposit(&mut self, filled: Bucket, depot: &mut Depot) -> Result<(), Bucket> {
        if !self.previous.is_empty() && !self.loaded.is_empty() {
            return depot.push_filled(filled);
        }
        if !self.loaded.is_empty() {
            core::mem::swap(&mut self.loaded, &mut self.previous);
        }
        depot.keep_empty(core::mem::replace(&mut self.loaded, filled));
        Ok(())
    }

    /// Gives up one bucket with items, the colder first.
    pub(crate) fn surrender(&mut self) -> Option<Bucket> {
        [&mut self.previous, &mut self.loaded]
            .into_iter()
            .find(|bucket| !bucket.is_empty())
            .map(core::mem::take)
    }

    /// Gives up everything, the memory of the buckets too.
    pub(crate) fn empty_out(&mut self) -> [Bucket; 2] {
        [
            core::mem::take(&mut self.loaded),
            core::mem::take(&mut self.previous),
        ]
    }
}
