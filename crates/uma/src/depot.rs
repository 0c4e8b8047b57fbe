//! The depot: where whole buckets wait between the CPU that filled them and the one that empties
//! them.
//!
//! Called by: `cache.rs` (with the CPU's lock held), `reclaim.rs`, `stats.rs`. Calls: `bucket.rs`.
//!
//! When one CPU allocates and another frees, items go round through here a bucket at a time: the
//! lock is taken once for as many items as a bucket holds. Last in, first out, so that what is
//! handed on is as warm as can be.
//!
//! Locks: `uma depot` (rank `ZONE`), inside a CPU cache's, outside the keg's. Every operation is
//! O(1). Source: seed 004 section 5.3 (the zone's bucket layer).

use crate::bucket::Bucket;
use kern::lock::{LockClass, Mutex};
use kern::order;

static DEPOT_CLASS: LockClass = LockClass::new("uma depot", order::ZONE);

/// The depot on cache lines of its own.
#[repr(align(128))]
pub(crate) struct DepotSlot(pub(crate) Mutex<Depot>);

impl DepotSlot {
    /// A depot without buckets.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(&DEPOT_CLASS, Depot::default()))
    }
}

/// Buckets that belong to no CPU.
#[derive(Debug, Default)]
pub(crate) struct Depot {
    filled: Vec<Bucket>,
    empty: Vec<Bucket>,
    /// Items in `filled`, so that nobody has to count.
    items: usize,
}

impl Depot {
    /// Items that wait here.
    pub(crate) fn len(&self) -> usize {
        self.items
    }

    /// The filled bucket that came last.
    pub(crate) fn pop_filled(&mut self) -> Option<Bucket> {
        let bucket = self.filled.pop()?;
        self.items -= bucket.len();
        Some(bucket)
    }

    /// Takes a bucket over, or hands it back when the list cannot grow.
    pub(crate) fn push_filled(&mut self, bucket: Bucket) -> Result<(), Bucket> {
        if bucket.is_empty() {
            self.keep_empty(bucket);
            return Ok(());
        }
        if self.filled.try_reserve(1).is_err() {
            return Err(bucket);
        }
        self.items += bucket.len();
        self.filled.push(bucket);
        Ok(())
    }

    /// An empty bucket, a used one rather than a new one; nothing when the heap has run out.
    pub(crate) fn empty_bucket(&mut self, capacity: usize) -> Option<Bucket> {
        self.empty.pop().or_else(|| Bucket::with_capacity(capacity))
    }

    /// Keeps an empty bucket for later. One that finds no place is dropped: it is only memory.
    pub(crate) fn keep_empty(&mut self, bucket: Bucket) {
        debug_assert!(bucket.is_empty());
        if bucket.is_some() && self.empty.try_reserve(1).is_ok() {
            self.empty.push(bucket);
        }
    }

    /// Gives up every filled bucket, and the memory of the empty ones.
    pub(crate) fn empty_out(&mut self) -> Vec<Bucket> {
        self.items = 0;
        self.empty = Vec::new();
        core::mem::take(&mut self.filled)
    }

    /// Whether the count is true and every filled bucket has items.
    pub(crate) fn is_valid(&self) -> bool {
        self.items == self.filled.iter().map(Bucket::len).sum::<usize>()
            && self.filled.iter().all(|bucket| !bucket.is_empty())
            && self
                .empty
                .iter()
                .all(|bucket| bucket.is_empty() && bucket.is_some())
    }
}
