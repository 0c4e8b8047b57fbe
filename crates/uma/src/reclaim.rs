//! Giving memory back: caches and depot into the slabs, empty slabs to the system.
//!
//! Called by: `raw.rs`, `inner.rs` (the end of a zone). Calls: `cache.rs`, `depot.rs`, `keg.rs`,
//! `arena.rs`, `fini`.
//!
//! Never part of a free: giving pages back costs thousands of times what a free does. Items on
//! their way are counted as in transit, so that an allocation that finds nothing meanwhile waits
//! for them instead of failing. Source: seed 004 section 5.5.

use crate::bucket::Bucket;
use crate::inner::Inner;

impl Inner {
    /// Empties the caches of all CPUs and the depot into the slabs, and gives the pages of the
    /// slabs that are empty then to the system. Others may allocate and free meanwhile.
    pub(crate) fn drain(&self) {
        for slot in &self.caches {
            let transit = self.enter_transit();
            let buckets = slot.0.lock().empty_out();
            buckets
                .iter()
                .for_each(|bucket| self.give_bucket_to_slabs(bucket));
            drop(transit);
        }
        let transit = self.enter_transit();
        let buckets: Vec<Bucket> = self.depot.0.lock().empty_out();
        buckets
            .iter()
            .for_each(|bucket| self.give_bucket_to_slabs(bucket));
        drop(transit);
        self.give_empty_slabs_back();
    }

    fn give_empty_slabs_back(&self) {
        let transit = self.enter_transit();
        let runs = self.keg.0.lock().leave();
        for run in &runs {
            // SAFETY: `leave` took the slabs out of use while all their items were free, and
            // `left` below is what brings them back.
            unsafe { self.arena.give_back(run.clone()) };
        }
        let mut keg = self.keg.0.lock();
        keg.left(&runs);
        debug_assert!(
            keg.is_valid(),
            "the keg of zone '{}' is not sound",
            self.name
        );
        drop(keg);
        drop(transit);
    }
}
