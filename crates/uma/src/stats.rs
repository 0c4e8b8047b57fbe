//! What a zone holds and has done, as `vmstat -z` would show it.
//!
//! Called by: `raw.rs`. Calls: every layer, for its number. The layers are locked one after the
//! other, so numbers of a busy zone are of slightly different moments.

use crate::inner::Inner;
use crate::raw::limit_of;
use core::fmt;

/// Numbers of one zone. `Display` gives a row under [`ZoneStats::header`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ZoneStats {
    /// What its maker called it.
    pub name: &'static str,
    /// Bytes of an item.
    pub size: usize,
    /// The most items that may be live.
    pub limit: Option<usize>,
    /// Live items: given out and not taken back.
    pub used: usize,
    /// Free items in the caches of the CPUs and in the depot.
    pub cached: usize,
    /// Free items in slabs that have memory.
    pub free_in_slabs: usize,
    /// Allocations that succeeded.
    pub requests: u64,
    /// Frees.
    pub frees: u64,
    /// Allocations that failed.
    pub failures: u64,
    /// Times that a CPU and the depot had no free item and the slabs were asked.
    pub slab_visits: u64,
    /// Times that the slabs had none either and other CPUs were searched.
    pub robberies: u64,
    /// Bytes of the slabs that have memory. The resident size is less where items of new slabs
    /// have not been touched yet.
    pub bytes: usize,
    /// The most that `bytes` was.
    pub bytes_peak: usize,
}

impl ZoneStats {
    pub(crate) fn of(inner: &Inner) -> Self {
        let (mut requests, mut frees, mut cached) = (0u64, 0u64, 0);
        for slot in &inner.caches {
            let cache = slot.0.lock();
            requests = requests.wrapping_add(cache.allocs);
            frees = frees.wrapping_add(cache.frees);
            cached += cache.len();
        }
        cached += inner.depot.0.lock().len();
        let keg = inner.keg.0.lock();
        Self {
            name: inner.name,
            size: inner.layout.size(),
            limit: limit_of(inner),
            used: usize::try_from(requests.saturating_sub(frees)).unwrap_or(usize::MAX),
            cached,
            free_in_slabs: keg.free(),
            requests,
            frees,
            failures: inner.failures.get(),
            slab_visits: inner.slab_visits.get(),
            robberies: inner.robberies.get(),
            bytes: keg.bytes(),
            bytes_peak: keg.bytes_peak(),
        }
    }

    /// The line above the rows, without an end of line.
    #[must_use]
    pub fn header() -> &'static str {
        "ITEM                    SIZE     LIMIT      USED    CACHED      FREE        REQ     FAIL  \
         KBYTES    PEAKK"
    }
}

impl fmt::Display for ZoneStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self
            .limit
            .map_or_else(|| "-".to_owned(), |items| items.to_string());
        write!(
            f,
            "{:<20} {:>7} {:>9} {:>9} {:>9} {:>9} {:>10} {:>8} {:>7} {:>8}",
            self.name,
            self.size,
            limit,
            self.used,
            self.cached,
            self.free_in_slabs,
            self.requests,
            self.failures,
            self.bytes / 1024,
            self.bytes_peak / 1024,
        )
    }
}

#[cfg(test)]
mod tests;
