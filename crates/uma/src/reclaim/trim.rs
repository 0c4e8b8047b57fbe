//! Giving memory back: caches and depot into the slabs, free pages to the system.
//!
//! | level | takes back | when |
//! |---|---|---|
//! | trim | buckets and pages that were not needed since the last trim; caches of CPUs that did not use them | at each tick |
//! | drain | all free items of all CPUs, all free pages | on pressure, or when asked |
//!
//! Never part of a free: giving pages back costs a hundred times what a free does. Items that the
//! trim carries are counted as in transit, so that an allocation that finds no item waits for them
//! instead of failing.
//!
//! The last handle may be dropped during a visit. So the visiting thread checks in the zone's own depot whether caches
//! may open again, under the lock under which it was closed for good.
//!
//! Sources: seed 004 section 5.5; Bonwick and Adams 2001, section 3.3 (the working set: memory that was needed at some
//! time since the last measurement).

use crate::caught::Caught;
use crate::depot::SlotUse;
use crate::faults::{ZoneFault, planted};
use crate::keg::Keg;
use crate::region::Purged;
use crate::zone_inner::ZoneInner;
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::thread;

/// Bytes that a purge gives back before it releases the items and the keg's lock.
const STEP_BYTES: usize = 8 << 20;
/// How long to wait for another thread's purge of the keg: it is some milliseconds from its end.
const BUSY_NAPS_MAX: usize = 1000;
const BUSY_NAP: Duration = Duration::from_micros(200);

/// One step of a purge.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub(crate) struct PurgeStep {
    pub(crate) purged: Purged,
    /// Bytes that counted against the bound.
    pub(crate) bytes: usize,
    /// Whether there may be more.
    pub(crate) more: bool,
    /// Whether that is because another thread is purging this keg.
    busy: bool,
}

/// The result of trimming a zone's caches.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) struct Trimmed {
    /// Buckets of the depot that were not needed, and still have to be moved.
    pub(crate) excess_left: usize,
    /// Whether the zone was used since the last trim, or the trim found anything to move.
    pub(crate) was_used: bool,
}

impl ZoneInner {
    /// Empties the caches of all CPUs and the depot into the slabs, and gives all free pages of the keg to the system.
    /// Other threads may allocate and free meanwhile.
    pub(crate) fn drain(&self) -> Purged {
        {
            let _inside = self.inside();
            self.drain_caches();
        }
        self.keg.purge(0)
    }

    /// Empties the caches of all CPUs and the depot into the slabs. The caller is inside.
    pub(crate) fn drain_caches(&self) {
        self.empty_caches(|_| true);
        let mut caught = Caught::default();
        self.empty_depot(&mut caught);
        self.depot.lock().free_empty();
        caught.resume();
    }

    /// Gives back the memory that was not needed since the last trim.
    pub(crate) fn trim(&self) -> Purged {
        {
            let _inside = self.inside();
            let _ = self.trim_caches(usize::MAX);
        }
        let keep = self.keg.lock().working_set_bytes();
        self.keg.purge(keep)
    }

    /// Takes the buckets of idle CPUs into the depot, then moves [excess](Self::move_excess). The
    /// caller is inside.
    pub(crate) fn trim_caches(&self, items_max: usize) -> Trimmed {
        let (idle, was_used) = self.idle_cpus();
        let has_idle = idle.contains(&true);
        if has_idle {
            self.empty_caches(|cpu| idle[cpu]);
        }
        let (excess, is_idle) = {
            let mut depot = self.depot.lock();
            let is_idle = depot.is_idle();
            let excess = depot.excess();
            self.note_cross_cpu(&depot);
            (excess, is_idle)
        };
        let excess_left = self.move_excess(excess, items_max);
        if is_idle {
            self.depot.lock().free_empty();
        }
        Trimmed {
            excess_left,
            was_used: was_used || has_idle || !is_idle || excess > 0,
        }
    }

    /// Moves up to `buckets` filled buckets, which were not needed lately, from the depot into the slabs: about
    /// `items_max` items at most. Returns how many buckets are left. The caller is inside.
    pub(crate) fn move_excess(&self, buckets: usize, items_max: usize) -> usize {
        let (mut moved, mut left) = (0, buckets);
        let mut caught = Caught::default();
        while left > 0 && moved < items_max {
            // A separate statement: the guard must be dropped before hooks run.
            let bucket = self.depot.lock().pop_filled();
            let Some(bucket) = bucket else {
                left = 0;
                break;
            };
            moved += bucket.len();
            left -= 1;
            self.empty_into_keg(bucket, &mut caught);
        }
        if moved > 0 {
            self.depot.lock().free_empty();
        }
        caught.resume();
        left
    }

    /// The CPUs that hold buckets of this zone and did not use them since the last call; and whether any other CPU
    /// did use its buckets.
    fn idle_cpus(&self) -> (Vec<bool>, bool) {
        let mut idle = vec![false; self.percpu.cpus()];
        let mut was_used = false;
        let _members = self.keg.lock_members();
        let mut depot = self.depot.lock();
        self.percpu.each_slot(|cpu, loaded, previous| {
            let seen = depot.saw_again(cpu, [loaded, previous]);
            idle[cpu] = seen == SlotUse::Same;
            was_used |= seen == SlotUse::Changed;
        });
        (idle, was_used)
    }

    /// Takes the buckets of some CPUs into the depot, then allows these CPUs exchanges again.
    fn empty_caches(&self, cpus: impl Fn(usize) -> bool) {
        let _members = self.keg.lock_members();
        // The keg closed it at a shortage, or the zone has ended: it stays closed and empty.
        if self.depot.lock().is_closed() {
            return;
        }
        // If the system refuses the fence, the caches stay as they are.
        let _ = self
            .percpu
            .drain_cpus(cpus, |bucket| self.depot.lock().push(bucket));
        self.percpu.start();
    }

    /// Takes the buckets of all CPUs into the depot, for an allocation whose items `init` refuses. Returns false if at
    /// some moment no item of this zone was free, neither in a cache nor carried by a thread.
    pub(crate) fn gather_built(&self) -> bool {
        let _members = self.keg.lock_members();
        if self.depot.lock().is_closed() {
            // Free items have been through `fini`, or are on their way there.
            return self.in_transit();
        }
        let put_down = |bucket| self.depot.lock().push(bucket);
        let _ = self.percpu.drain_cpus(|_| true, put_down);
        let found = {
            let depot = self.depot.lock();
            // No CPU takes items from here now. A thread counts itself in transit before it takes items, and stays so
            // until it has returned them here; both need this lock.
            depot.len() > 0 || (self.in_transit() && !planted(ZoneFault::Refusal))
        };
        self.percpu.start();
        found
    }

    /// Empties the depot into the keg, a bucket at a time.
    pub(crate) fn empty_depot(&self, caught: &mut Caught) {
        loop {
            // A separate statement: the guard must be dropped before hooks run.
            let bucket = self.depot.lock().pop_filled();
            match bucket {
                Some(bucket) => self.empty_into_keg(bucket, caught),
                None => return,
            }
        }
    }

    /// Stops the caches and puts their items into the depot, which takes no more. The keg's members
    /// are locked.
    pub(crate) fn close_caches(&self) {
        self.depot.lock().close();
        // If the system refuses the fence, the buckets stay in their slots, and the zone stays with
        // them: only memory is lost.
        let _ = self.percpu.drain(|bucket| self.depot.lock().push(bucket));
    }

    /// As [`close_caches`](Self::close_caches), for a zone whose last handle was dropped.
    pub(crate) fn close_caches_for_good(&self) {
        let _members = self.keg.lock_members();
        self.retired.store(true, Ordering::Relaxed);
        self.close_caches();
    }

    /// Keeps the zone closed and empty until as many calls of [`unpin_closed`](Self::unpin_closed): a keg whose items
    /// our free items hold is closed. The caller is inside.
    pub(crate) fn pin_closed(&self) {
        {
            let _members = self.keg.lock_members();
            let before = self.pins.fetch_add(1, Ordering::Relaxed);
            if before == 0 && !self.depot.lock().is_closed() {
                self.close_caches();
            }
        }
        let mut caught = Caught::default();
        self.empty_depot(&mut caught);
        caught.resume();
    }

    /// Such a keg has opened again.
    pub(crate) fn unpin_closed(&self) {
        let _members = self.keg.lock_members();
        self.pins.fetch_sub(1, Ordering::Relaxed);
        if !self.keg.is_closed() {
            self.open_caches();
        }
    }

    /// Lets the caches work again, unless the zone has no handle, or a closed keg needs what the zone's free items
    /// hold. The keg's members are locked.
    pub(crate) fn open_caches(&self) {
        let pinned = self.pins.load(Ordering::Relaxed) > 0;
        if !self.retired.load(Ordering::Relaxed) && !pinned {
            self.depot.lock().open();
            self.percpu.start();
        }
    }
}

impl Keg {
    /// Gives free pages back until about `keep` bytes of them are left.
    pub(crate) fn purge(&self, keep: usize) -> Purged {
        let mut done = Purged::default();
        if let (0, Some(arena)) = (keep, self.arena()) {
            done += self.samples.purge(arena);
        }
        let mut naps = 0;
        loop {
            let piece = self.purge_piece(keep, usize::MAX);
            done += piece.purged;
            if !piece.more || naps == BUSY_NAPS_MAX {
                return done;
            }
            if piece.busy {
                naps += 1;
                thread::sleep(BUSY_NAP);
            }
        }
    }

    /// As [`purge`](Self::purge), about `max` bytes of it at most. In steps, without the lock
    /// while the system works.
    pub(crate) fn purge_piece(&self, keep: usize, max: usize) -> PurgeStep {
        let mut piece = PurgeStep::default();
        let Some(arena) = self.arena() else {
            return piece;
        };
        piece.purged += self.samples.purge_idle(arena);
        while piece.bytes < max {
            let step = STEP_BYTES.min(max - piece.bytes);
            let Some(purge) = self.begin_purge(keep, step) else {
                break;
            };
            piece.more = purge.has_more();
            piece.busy = purge.is_busy();
            if purge.is_empty() {
                piece.more |= piece.busy;
                return piece;
            }
            piece.purged += purge.run(arena);
            piece.bytes += purge.units() * arena.geometry().unit_bytes();
            self.end_purge(purge);
            if !piece.more {
                break;
            }
        }
        piece
    }
}
