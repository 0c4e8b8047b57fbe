//! Which pages are given back to the system, and how.
//!
//! Never part of a free, because giving a page back takes a hundred times as long. Three steps; the longest runs
//! without the keg's lock:
//!
//! ```text
//!   purge_begin   choose units without an item in use, and hold their items,        (lock)
//!                 so that no thread can allocate them
//!   Purge::run    madvise                                                        (no lock)
//!   purge_end     release the items                                                 (lock)
//! ```
//!
//! Whole empty slabs go first, the highest before the lower, because items are taken from the
//! lowest; then pages within partly used slabs, of the sparsest first, because those are taken
//! from last. An item that lies on two pages pins both. A slab is looked at again only after an
//! item came back to it.
//!
//! A page of reference counts goes when the items of all its counts are free; the purge then holds
//! these items too.
//!
//! Measured (`cost_of_a_page`, 16 MiB a purge, 4 KiB pages): 150 to 200 ns a page, of which 4 are
//! under the lock when slabs are empty, and 220 with 7 to 30 when 1 to 6 % of the items live; the
//! lock is held for 0.02 to 0.1 ms at a time, because the slabs that one purge examines are
//! bounded.
//!
//! One purge of a keg at a time.

use super::Slabs;
use crate::arena::{Arena, COUNT_BYTES};
use crate::region::{Purged, VECTORS_MAX};
use crate::slab::{CLASSES, Shelf};
use core::ops::Range;
use std::collections::TryReserveError;

/// Partly used slabs that one purge looks into at most: some 0.4 us each under the keg's lock. A purge of few bytes
/// examines fewer: one for each [`BYTES_PER_LOOK`].
const LOOKS_MAX: usize = 1024;
const LOOKS_LEAST: usize = 64;
const BYTES_PER_LOOK: usize = 8 << 10;
/// Runs of one purge: two calls' worth.
const RUNS_MAX: usize = 2 * VECTORS_MAX;

/// Units on their way out, and the items that are held meanwhile.
#[derive(Debug, Default)]
#[must_use = "the items that it holds are lost until purge_end"]
pub(crate) struct Purge {
    /// Bytes of items.
    items: Vec<Range<usize>>,
    /// Bytes of counts.
    counts: Vec<Range<usize>>,
    /// Slabs of which items are held.
    slabs: Vec<Range<usize>>,
    units: usize,
    /// Whether it stopped before the last slab.
    more: bool,
    /// Whether another purge was under way, so that this one has no pages.
    busy: bool,
}

impl Purge {
    /// Whether there are no pages to give back; then the purge holds none, and may be dropped.
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.counts.is_empty()
    }

    /// Whether another purge may find more at once, because this one stopped at a bound.
    pub(crate) fn has_more(&self) -> bool {
        self.more
    }

    /// Whether it is empty because another purge of the keg has not ended.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Units that probably were resident and will not be.
    pub(crate) fn units(&self) -> usize {
        self.units
    }

    /// Gives the pages back. Without the keg's lock: it takes some 0.2 us a page.
    pub(crate) fn run(&self, arena: &Arena) -> Purged {
        // SAFETY: all items on these pages, and of these counts, were free when `purge_begin`
        // held them, and no thread can take them before `purge_end` consumes this.
        unsafe { arena.give_back(&self.items, &self.counts) }
    }

    /// Makes room for all the runs that a purge may have, so that it need not ask the heap, which
    /// may take its time, while the keg's lock is held.
    pub(crate) fn reserve(&mut self, counted: bool) -> Result<(), TryReserveError> {
        self.items.try_reserve(RUNS_MAX)?;
        self.slabs.try_reserve(RUNS_MAX)?;
        self.counts.try_reserve(RUNS_MAX * usize::from(counted))
    }

    /// Whether there is room for one more unit.
    fn has_room(&self) -> bool {
        self.items.len().max(self.slabs.len()) < RUNS_MAX
    }
}

impl Slabs {
    /// Chooses pages to give back, at most `max_bytes`. The memory of items in use and about
    /// `keep_bytes` more stay resident. Empty, and [busy](Purge::is_busy), while another purge has
    /// not ended.
    pub(crate) fn purge_begin(&mut self, keep_bytes: usize, max_bytes: usize) -> Purge {
        if self.purging {
            return Purge {
                busy: true,
                ..Purge::default()
            };
        }
        let mut purge = core::mem::take(&mut self.spare);
        let budget = self.purgeable_units(keep_bytes, max_bytes);
        let left = self.purge_empty(budget, &mut purge);
        let looks_max = (max_bytes / BYTES_PER_LOOK).clamp(LOOKS_LEAST, LOOKS_MAX);
        let left = self.purge_partial(left, looks_max, &mut purge);
        purge.more |= (left == 0 && budget > 0) || !purge.has_room();
        for i in 0..purge.slabs.len() {
            for n in purge.slabs[i].clone() {
                self.purge_counts(n, &mut purge);
            }
        }
        self.purging = !purge.is_empty();
        if !self.purging {
            let more = core::mem::take(&mut purge.more);
            self.spare = purge;
            return Purge {
                more,
                ..Purge::default()
            };
        }
        purge
    }

    /// Releases the items that a purge held.
    pub(crate) fn purge_end(&mut self, mut purge: Purge) {
        if purge.is_empty() {
            return;
        }
        for n in purge.slabs.drain(..).flatten() {
            self.release(n);
        }
        purge.items.clear();
        purge.counts.clear();
        // Its lists serve again.
        self.spare = Purge {
            units: 0,
            more: false,
            ..purge
        };
        self.purging = false;
    }

    /// The thread that began a purge does not exist any more: its items stay held, and another purge may begin.
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) fn forget_purge(&mut self) {
        self.purging = false;
    }

    fn purgeable_units(&self, keep_bytes: usize, max_bytes: usize) -> usize {
        let unit = self.geo.unit_bytes();
        let floor = self.floor.div_ceil(self.geo.per_slab()) * self.geo.slab_bytes();
        let needed = (self.out() * self.geo.footprint()).saturating_add(keep_bytes);
        let slack = self.bytes().saturating_sub(needed.max(floor));
        (slack / unit).min(max_bytes.div_ceil(unit))
    }

    /// Units of empty slabs, from the highest on; returns the rest of the budget.
    fn purge_empty(&mut self, mut budget: usize, purge: &mut Purge) -> usize {
        let mut end = self.slabs.len();
        let empty = Shelf::Empty.index().unwrap_or(CLASSES);
        while budget > 0
            && purge.has_room()
            && let Some(n) = self.shelves[empty].last_before(end)
        {
            budget -= self.purge_slab(n, budget, purge);
            end = n;
        }
        budget
    }

    /// Units within partly used slabs, of the sparsest first; returns the rest of the budget.
    fn purge_partial(&mut self, mut budget: usize, looks_max: usize, purge: &mut Purge) -> usize {
        if self.geo.units_per_slab() == 1 {
            return budget;
        }
        let mut looks = 0;
        for class in (0..CLASSES).rev() {
            let mut from = 0;
            while budget > 0
                && purge.has_room()
                && let Some(n) = self.shelves[class].next_from(from)
            {
                from = n + 1;
                if !self.slabs[n].dirty {
                    continue;
                }
                if looks == looks_max {
                    purge.more = true;
                    return budget;
                }
                looks += 1;
                budget -= self.purge_slab(n, budget, purge);
            }
        }
        budget
    }

    /// Units of one slab all of whose items are free, up to `budget`; says how many.
    fn purge_slab(&mut self, n: usize, budget: usize, purge: &mut Purge) -> usize {
        let slab = self.slabs[n];
        let is_empty = slab.free as usize == self.geo.per_slab();
        if is_empty && slab.units as usize <= budget {
            return self.purge_whole(n, purge);
        }
        let (mut gone, mut held, mut from) = (0, 0, 0);
        let mut is_dirty = true;
        while gone < budget && purge.has_room() {
            let Some(unit) = self.touched.next_from(n, from) else {
                is_dirty = false;
                break;
            };
            from = unit + 1;
            let slots = self.geo.slots_on(n, unit..from);
            if self.all_free(n, slots.clone()) {
                held += self.hold(n, slots);
                self.touched.unmark(n, unit);
                add_run(&mut purge.items, self.bytes_of(n, unit..from));
                gone += 1;
            }
        }
        if held > 0 {
            add_run(&mut purge.slabs, n..n + 1);
        }
        purge.units += gone;
        self.change(n, |slab| {
            slab.free -= held;
            slab.held += held;
            slab.units -= gone as u32;
            slab.dirty &= is_dirty;
        });
        gone
    }

    /// A slab all of whose items are free, as one run, so that neighbours make one run too.
    fn purge_whole(&mut self, n: usize, purge: &mut Purge) -> usize {
        let gone = self.slabs[n].units;
        while let Some(unit) = self.touched.next_from(n, 0) {
            self.touched.unmark(n, unit);
        }
        let held = self.hold(n, 0..self.geo.per_slab());
        self.change(n, |slab| {
            slab.free -= held;
            slab.held += held;
            slab.units = 0;
            slab.dirty = false;
        });
        add_run(
            &mut purge.items,
            self.bytes_of(n, 0..self.geo.units_per_slab()),
        );
        add_run(&mut purge.slabs, n..n + 1);
        purge.units += gone as usize;
        gone as usize
    }

    /// Pages with counts of this slab, if no item in use needs them. The page of the counts behind the last slab is
    /// left out: the next slab may begin to use it during the purge.
    fn purge_counts(&mut self, n: usize, purge: &mut Purge) {
        let per_page = self.touched.counts_per_page();
        let pages_max = self.slabs.len() * self.geo.per_slab() / per_page;
        for page in self.touched.count_pages_of(n) {
            let parts = parts(page * per_page..(page + 1) * per_page, self.geo.per_slab());
            if page < pages_max
                && self.touched.is_count_page(page)
                && purge.counts.try_reserve(1).is_ok()
                && purge.slabs.try_reserve(parts.clone().count()).is_ok()
                && parts.clone().all(|(n, slots)| self.all_free(n, slots))
            {
                parts.for_each(|(n, slots)| self.hold_for_counts(n, slots, purge));
                self.touched.unmark_count_page(page);
                let bytes = per_page * COUNT_BYTES;
                add_run(&mut purge.counts, page * bytes..(page + 1) * bytes);
            }
        }
    }

    fn hold_for_counts(&mut self, n: usize, slots: Range<usize>, purge: &mut Purge) {
        let held = self.hold(n, slots);
        self.change(n, |slab| {
            slab.free -= held;
            slab.held += held;
        });
        add_run(&mut purge.slabs, n..n + 1);
    }

    fn bytes_of(&self, n: usize, units: Range<usize>) -> Range<usize> {
        let (slab, unit) = (n * self.geo.slab_bytes(), self.geo.unit_bytes());
        slab + units.start * unit..slab + units.end * unit
    }
}

/// A run of item numbers, cut where slabs end.
fn parts(
    numbers: Range<usize>,
    per_slab: usize,
) -> impl Iterator<Item = (usize, Range<usize>)> + Clone {
    let slabs = numbers.start / per_slab..numbers.end.div_ceil(per_slab);
    slabs.map(move |n| {
        let first = n * per_slab;
        let end = (numbers.end - first).min(per_slab);
        (n, numbers.start.saturating_sub(first)..end)
    })
}

/// Adds a run to a list, as part of the last one where they touch or overlap.
fn add_run(runs: &mut Vec<Range<usize>>, run: Range<usize>) {
    match runs.last_mut() {
        Some(last) if run.start <= last.end && last.start <= run.end => {
            *last = last.start.min(run.start)..last.end.max(run.end);
        }
        _ => runs.push(run),
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
