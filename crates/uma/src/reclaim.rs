//! Giving memory back: caches and depot into the slabs, free pages to the system.
//!
//! Called by: `raw.rs`, `reclaimer.rs`, `keg.rs`, `inner.rs` (the end of a zone). Calls:
//! `percpu.rs`, `depot.rs`, `keg.rs`, `slabs.rs`, `fini`.
//!
//! | level | takes back | when |
//! |---|---|---|
//! | trim | buckets and pages that nobody needed since the last trim, caches of CPUs that slept | on a tick |
//! | drain | all free items of all CPUs, all free pages | on pressure, or when asked |
//!
//! Never part of a free: giving pages back costs a hundred times what a free does. Items on their
//! way are counted as in transit, so that an allocation that finds nothing meanwhile waits for
//! them instead of failing.
//!
//! Sources: seed 004 section 5.5; Bonwick and Adams 2001, section 3.3 (the working set is what
//! was needed at some time since one last looked).

use crate::inner::Inner;
use crate::keg::Keg;
use crate::purge::Purged;
use core::sync::atomic::Ordering;

/// How much a purge hands back before it lets others have the keg's lock again, in bytes.
const PURGE_BYTES_MAX: usize = 32 << 20;

impl Inner {
    /// Empties the caches of all CPUs and the depot into the slabs, and gives all free pages of
    /// the keg to the system. Others may allocate and free meanwhile.
    pub(crate) fn drain(&self) -> Purged {
        let _inside = self.inside();
        self.empty_caches(|_| true);
        self.empty_depot();
        self.depot.lock().free_empty();
        self.keg.purge(0)
    }

    /// Gives back what was not needed since the last trim.
    pub(crate) fn trim(&self) -> Purged {
        let _inside = self.inside();
        let idle = self.idle_cpus();
        if idle.contains(&true) {
            self.empty_caches(|cpu| idle[cpu]);
        }
        let excess = self.depot.lock().excess();
        for _ in 0..excess {
            let Some(bucket) = self.depot.lock().pop_filled() else {
                break;
            };
            self.empty_into_keg(bucket);
        }
        if excess > 0 {
            self.depot.lock().free_empty();
        }
        let keep = self.keg.lock().working_set_bytes();
        self.keg.purge(keep)
    }

    /// The CPUs that hold buckets of this zone and did nothing with them since the last time.
    fn idle_cpus(&self) -> Vec<bool> {
        let mut idle = vec![false; self.percpu.cpus()];
        let _members = self.keg.lock_members();
        let mut depot = self.depot.lock();
        self.percpu.each_slot(|cpu, loaded, previous| {
            idle[cpu] = depot.saw_again(cpu, [loaded, previous]);
        });
        idle
    }

    /// Takes the buckets of some CPUs into the depot; these CPUs go on at once.
    fn empty_caches(&self, cpus: impl Fn(usize) -> bool) {
        let _members = self.keg.lock_members();
        let closed = self.keg.lock().is_closed();
        // Should the system refuse the fence, the caches stay as they are.
        let _ = self
            .percpu
            .drain_cpus(cpus, |bucket| self.depot.lock().push(bucket));
        if !closed {
            self.percpu.start();
        }
    }

    /// Empties the depot into the keg, a bucket at a time.
    pub(crate) fn empty_depot(&self) {
        loop {
            // A statement of its own: the guard must be gone when hooks run.
            let bucket = self.depot.lock().pop_filled();
            match bucket {
                Some(bucket) => self.empty_into_keg(bucket),
                None => return,
            }
        }
    }

    /// Stops the caches and puts what they held into the depot, which takes no more. The keg's
    /// members are locked.
    pub(crate) fn shut(&self) {
        self.depot.lock().close();
        // Should the system refuse the fence, the buckets stay where they are, and the zone with
        // them: memory is lost, and nothing else.
        let _ = self.percpu.drain(|bucket| self.depot.lock().push(bucket));
    }

    /// As [`shut`](Self::shut), for a zone whose last handle is gone.
    pub(crate) fn shut_for_good(&self) {
        let _members = self.keg.lock_members();
        self.retired.store(true, Ordering::Relaxed);
        self.shut();
    }

    /// Lets the caches work again, unless nobody has a handle. The keg's members are locked.
    pub(crate) fn unshut(&self) {
        if !self.retired.load(Ordering::Relaxed) {
            self.depot.lock().open();
            self.percpu.start();
        }
    }
}

impl Keg {
    /// Gives free pages back until about `keep` bytes of them are left, in steps, without the
    /// lock while the system works.
    pub(crate) fn purge(&self, keep: usize) -> Purged {
        let mut done = Purged::default();
        let Some(arena) = self.arena() else {
            return done;
        };
        loop {
            let Some(purge) = self.begin_purge(keep, PURGE_BYTES_MAX) else {
                return done;
            };
            done += purge.run(arena);
            let more = purge.has_more();
            self.end_purge(purge);
            if !more {
                return done;
            }
        }
    }
}
