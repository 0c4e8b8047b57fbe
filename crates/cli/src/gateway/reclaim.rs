//! The work after worker 0 has given some of the pool's memory back to the system: the C library's heap is trimmed
//! after a spike, and shortages are reported.
//!
//! Locks: none of its own.

use std::time::{Duration, Instant};

use kern::Time;
use serde::Serialize;
use uma::{LoopReclaimer, ReclaimStats};

use super::shared::Shared;
use super::shortages::ShortageWatch;
use crate::sys::heap;

/// Pages given back that make a spike: 4 MiB.
const SPIKE_PAGES: usize = 1024;
/// The time for which timers and lists may keep memory of a spike on the heap.
const REST_KEPT: Duration = Duration::from_secs(5);

/// The state of the heap.
#[derive(Default)]
pub(super) struct PoolReclaim {
    /// Pages that were given back when the heap was last trimmed.
    pages_at_trim: usize,
    /// When the heap is trimmed once more.
    trim_again: Option<Time>,
    /// The longest that a trim of the heap took.
    longest_trim: Duration,
    shortages: ShortageWatch,
}

/// The memory given back so far, and the time that this took of worker 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ReclaimFigures {
    pub(super) ticks: u64,
    /// Times that the system was short of memory.
    pub(super) drains: u64,
    /// Pages of the zones that the system took.
    pub(super) pages: usize,
    pub(super) busy_us: u64,
    /// The longest tick, without the heap.
    pub(super) longest_tick_us: u64,
    /// The longest trim of the heap, which follows a spike.
    pub(super) longest_heap_trim_us: u64,
}

impl PoolReclaim {
    /// The work done so far.
    pub(super) fn figures(&self, shared: &Shared) -> ReclaimFigures {
        let reclaimer = shared.context.reclaimer();
        let stats = reclaimer.map_or_else(ReclaimStats::default, LoopReclaimer::stats);
        ReclaimFigures {
            ticks: stats.ticks,
            drains: stats.drains,
            pages: stats.purged.pages,
            busy_us: micros(stats.busy),
            longest_tick_us: micros(stats.longest),
            longest_heap_trim_us: micros(self.longest_trim),
        }
    }

    /// A tick has given memory back.
    pub(super) fn tick(&mut self, shared: &mut Shared, is_last: bool) {
        let now = shared.now();
        if let Some(zones) = shared.context.reclaimer() {
            self.trim_heap(zones, now, is_last);
        }
        self.shortages.look(shared);
    }

    /// A spike of buffers comes with connections, flows and lists, which lie on the heap: once the buffers
    /// of a spike are given back, the heap is trimmed; and again later, or when ticks end, for the pieces that timers
    /// and lists kept until then.
    fn trim_heap(&mut self, zones: &LoopReclaimer, now: Time, is_last: bool) {
        let pages = zones.stats().purged.pages;
        if !zones.has_more() && pages - self.pages_at_trim >= SPIKE_PAGES {
            self.pages_at_trim = pages;
            self.trim_again = Some(now + REST_KEPT);
            self.trim();
        } else if self.trim_again.is_some_and(|at| is_last || at <= now) {
            self.trim_again = None;
            self.trim();
        }
    }

    fn trim(&mut self) {
        let began = Instant::now();
        heap::trim();
        self.longest_trim = self.longest_trim.max(began.elapsed());
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
