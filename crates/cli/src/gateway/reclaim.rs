//! Giving the pool's memory back to the system, on worker 0's loop: a piece at each tick, while there is something to
//! give back; all of it, in pieces, when the system is short of memory.
//!
//! While no worker uses the pool there are no ticks, so that an idle mbuma is not woken. The first worker that uses it
//! then wakes worker 0 ([`WorkerPool::note_use`](super::worker_pool::WorkerPool::note_use)).
//!
//! Called by: front, start. Calls: [`uma::LoopReclaimer`], the C library's heap.
//! Invariants: this is the only code that reclaims the pool; a tick has at most one timer.
//! Locks: none of its own.

use std::time::{Duration, Instant};

use kern::{Callout, CalloutId, Time};
use mbuma::runtime::{Interest, Readiness};
use serde::Serialize;
use uma::{LoopReclaimer, Pace};

use super::shared::Shared;
use super::shortages::ShortageWatch;
use super::table::{Kind, Token};
use crate::sys::heap;

/// Pages given back that make a spike: 4 MiB.
const SPIKE_PAGES: usize = 1024;
/// How long after a spike timers and lists may keep what it left on the heap.
const REST_KEPT: Duration = Duration::from_secs(5);

/// The reclaimer of the pool's memory.
pub(super) struct PoolReclaim {
    zones: LoopReclaimer,
    /// The one timer, and when it comes.
    timer: Option<(Time, CalloutId)>,
    /// Pages that were given back when the heap was last trimmed.
    pages_at_trim: usize,
    /// When the heap is trimmed once more.
    trim_again: Option<Time>,
    /// The longest that a trim of the heap took.
    longest_trim: Duration,
    shortages: ShortageWatch,
}

/// The memory given back so far, and the time that it kept worker 0 from packets.
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
    /// For the stack's pool. Where memory pressure cannot be watched, the ticks look for themselves.
    pub(super) fn new(shared: &Shared) -> PoolReclaim {
        let mut zones = LoopReclaimer::new(Pace::default());
        shared.stack.pool().watch_with(zones.set_mut());
        let lost = zones.event().is_some_and(|fd| {
            shared
                .poller()
                .add(fd, TOKEN, Interest::PriorityEdge)
                .is_err()
        });
        if lost {
            zones.lose_event();
        }
        PoolReclaim {
            zones,
            timer: None,
            pages_at_trim: 0,
            trim_again: None,
            longest_trim: Duration::ZERO,
            shortages: ShortageWatch::default(),
        }
    }

    /// The work done so far.
    pub(super) fn figures(&self) -> ReclaimFigures {
        let stats = self.zones.stats();
        ReclaimFigures {
            ticks: stats.ticks,
            drains: stats.drains,
            pages: stats.purged.pages,
            busy_us: micros(stats.busy),
            longest_tick_us: micros(stats.longest),
            longest_heap_trim_us: micros(self.longest_trim),
        }
    }

    /// The pressure trigger has news.
    pub(super) fn event(&mut self, shared: &mut Shared, readiness: Readiness) {
        match readiness.failed() {
            true => self.zones.lose_event(),
            false => self.zones.press(shared.now()),
        }
        self.set_timer(&mut shared.timers);
    }

    /// A worker has used the pool again.
    pub(super) fn resume(&mut self, shared: &mut Shared) {
        self.zones.resume(shared.now());
        self.set_timer(&mut shared.timers);
    }

    /// A tick.
    pub(super) fn timer(&mut self, shared: &mut Shared) {
        self.timer = None;
        let now = shared.now();
        let is_last = self.zones.tick(now);
        if is_last {
            shared.worker_pool.expect_use();
        }
        self.trim_heap(now, is_last);
        self.shortages.look(shared);
        self.set_timer(&mut shared.timers);
    }

    /// A spike of buffers comes with connections, flows and lists, which lie on the heap: once the buffers
    /// of a spike are given back, the heap is trimmed; and again later, or when ticks end, for the pieces that timers
    /// and lists kept until then.
    fn trim_heap(&mut self, now: Time, is_last: bool) {
        let pages = self.zones.stats().purged.pages;
        if !self.zones.has_more() && pages - self.pages_at_trim >= SPIKE_PAGES {
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

    /// Sets the timer for the next tick, in the place of one that comes later.
    fn set_timer(&mut self, timers: &mut Callout<Token>) {
        let Some(at) = self.zones.deadline() else {
            return;
        };
        match self.timer {
            Some((set, _)) if set <= at => return,
            Some((_, later)) => drop(timers.cancel(later)),
            None => {}
        }
        self.timer = Some((at, timers.schedule(at, TOKEN)));
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Names the timer, the trigger and the turn.
const TOKEN: Token = Token::only(Kind::Reclaim);

#[cfg(test)]
mod tests;
