//! The figures of a zone, as `vmstat -z` would show them.
//!
//! The layers are locked one after the other, so numbers of a busy zone are of slightly different moments.
//!
//! No allocation from a cache counts itself. The store that takes an item out of a bucket also
//! counts it, in the upper part of the same word (`bucket.rs`); the rest is arithmetic:
//!
//! ```text
//!   requests = pops of all buckets, ever + items taken past the buckets - refused by `ctor`
//!   used     = items out of the keg - items in buckets
//!   frees    = requests - used
//! ```

use crate::percpu::Backend;
use crate::zone_inner::{NO_LIMIT, ZoneInner};
use core::fmt;
use serde::Serialize;

/// Numbers of one zone. `Display` gives a row under [`ZoneStats::header`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ZoneStats {
    /// The name of the zone.
    pub name: &'static str,
    /// How threads access its caches.
    pub backend: Backend,
    /// Bytes of an item.
    pub size: usize,
    /// The most items that may be live, in all zones that share the slabs.
    pub limit: Option<usize>,
    /// Live items: allocated and not freed.
    pub used: usize,
    /// Free items in the buckets of the CPUs.
    pub cached_by_cpus: usize,
    /// Free items in the depot.
    pub cached_in_depot: usize,
    /// Free items in slabs that have memory. Shared with the zones on the same slabs, as are
    /// `bytes` and `bytes_peak`.
    pub free_in_slabs: usize,
    /// Allocations that succeeded.
    pub requests: u64,
    /// Frees.
    pub frees: u64,
    /// Allocations that failed.
    pub failures: u64,
    /// Allocations that slept.
    pub sleeps: u64,
    /// Times that a CPU's buckets had no item.
    pub misses: u64,
    /// Visits to the slabs, because the depot had none either.
    pub imports: u64,
    /// Searches of other CPUs' caches, because this CPU's buckets, the depot and the keg had no item.
    pub shortages: u64,
    /// Times that caches were taken back from all CPUs.
    pub closings: u64,
    /// Times that a CPU found the depot locked.
    pub contentions: u64,
    /// Items that a new bucket holds by now.
    pub bucket_items: usize,
    /// Bytes of the slabs that have memory. The resident size is less where items of new slabs
    /// have not been touched yet.
    pub bytes: usize,
    /// The most that `bytes` was.
    pub bytes_peak: usize,
    /// Bytes of the live items.
    pub bytes_live: usize,
}

impl ZoneStats {
    pub(crate) fn of(inner: &ZoneInner) -> Self {
        // The items are read first: a pop between the two reads then only adds to `used`, which can't become negative.
        let out = inner.out();
        let depot = inner.depot.lock();
        let (cached, popped) = depot.sums();
        let (in_depot, bucket_items) = (depot.len(), depot.bucket_items());
        let contentions = depot.contentions;
        drop(depot);
        let used = out.saturating_sub(cached);
        let counts = &inner.counts;
        let requests =
            (popped.wrapping_add(counts.direct.get())).wrapping_sub(counts.refused.get());
        let of_samples = (inner.keg.arena()).map_or(0, |arena| inner.keg.samples.bytes(arena));
        let keg = inner.keg.lock();
        let of_slabs =
            |number: fn(&crate::slabs::Slabs) -> usize| keg.slabs.as_ref().map_or(0, number);
        Self {
            name: inner.name,
            backend: inner.percpu.backend(),
            size: inner.layout.size(),
            limit: (keg.limit != NO_LIMIT).then_some(keg.limit),
            used,
            cached_by_cpus: cached.saturating_sub(in_depot),
            cached_in_depot: in_depot,
            free_in_slabs: of_slabs(crate::slabs::Slabs::free),
            requests,
            frees: requests.saturating_sub(used as u64),
            failures: counts.failures.get(),
            sleeps: keg.sleeps,
            misses: counts.misses.get(),
            imports: counts.imports.get(),
            shortages: counts.shortages.get(),
            closings: keg.closings,
            contentions,
            bucket_items,
            bytes: of_slabs(crate::slabs::Slabs::bytes) + of_samples,
            bytes_peak: of_slabs(crate::slabs::Slabs::bytes_peak) + of_samples,
            bytes_live: used * inner.layout.size(),
        }
    }

    /// Free items that no slab has: with the CPUs and in the depot.
    #[must_use]
    pub fn cached(&self) -> usize {
        self.cached_by_cpus + self.cached_in_depot
    }

    /// The line above the rows, without an end of line.
    #[must_use]
    pub fn header() -> &'static str {
        "ITEM                    SIZE     LIMIT      USED      CPUS     DEPOT     SLABS        REQ     \
         FAIL    SLEEP     MISS  KBYTES    PEAKK"
    }
}

impl fmt::Display for ZoneStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self
            .limit
            .map_or_else(|| "-".to_owned(), |items| items.to_string());
        write!(
            f,
            "{:<20} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>8} {:>8} {:>8} {:>7} {:>8}",
            self.name,
            self.size,
            limit,
            self.used,
            self.cached_by_cpus,
            self.cached_in_depot,
            self.free_in_slabs,
            self.requests,
            self.failures,
            self.sleeps,
            self.misses,
            self.bytes / 1024,
            self.bytes_peak / 1024,
        )
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
