//! Gives memory of zones back from within a program's own event loop: no thread, and a bounded time per call.
//!
//! The loop has two duties. It calls [`tick`](LoopReclaimer::tick) when [`deadline`](LoopReclaimer::deadline) has
//! come, and [`press`](LoopReclaimer::press) when [`event`](LoopReclaimer::event) has priority data (`EPOLLPRI`).
//!
//! While the zones are not used there is no deadline, so that an idle program is not woken. The program must call
//! [`resume`](LoopReclaimer::resume) when it uses them again.
//!
//! It holds no lock and no thread, so after a fork the child has only its memory and a descriptor that exec closes;
//! the child must not tick.
//!
//! Locks: none of its own.

use crate::hooks::Hooks;
use crate::reclaim::pressure::{Pressure, PressureSource};
use crate::{RawZone, ReclaimSet, ReclaimStats};
use core::time::Duration;
use kern::{Clock, MonotonicClock, Time};
use std::os::fd::BorrowedFd;

/// The shortest time between two drains for want of memory, and between two looks at a source that must be read.
const PRESSURE_PAUSE: Duration = Duration::from_secs(1);

/// The least and the most that a tick gives back, and the first tick's amount: a page takes 0.2 to 1 us.
const PIECE_FIRST: usize = 256 << 10;
const PIECE_LEAST: usize = 128 << 10;
const PIECE_MOST: usize = 4 << 20;
/// With fewer pages than this, a tick's time says little about the time of a page.
const PAGES_TO_JUDGE: usize = 32;
/// The page size of most systems; the clamp above bounds the error with another size.
const PAGE: usize = 4096;

/// How a [`LoopReclaimer`] paces its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Time between two ticks while memory is given back.
    pub interval: Duration,
    /// Memory that is free for this time is not needed.
    pub window: Duration,
    /// The longest time that a tick should take. The pieces that ticks give back grow and shrink to suit.
    pub tick_max: Duration,
}

impl Default for Pace {
    /// For a loop whose packets must not wait: 0.1 ms in each 4 ms, for memory that half a second did not need.
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(4),
            window: Duration::from_millis(500),
            tick_max: Duration::from_micros(100),
        }
    }
}

/// Zones whose memory the program's own loop gives back.
#[derive(Debug)]
pub struct LoopReclaimer {
    set: ReclaimSet,
    pressure: Pressure,
    pace: Pace,
    /// The most that the next tick gives back.
    piece_bytes: usize,
    /// When the next tick is due. None while the zones are not used.
    deadline: Option<Time>,
    /// The last tick found no use.
    was_idle: bool,
    /// The earliest instant for the next drain.
    next_drain: Time,
    /// The earliest instant for the next look at a source that must be read. An event may come at any time between
    /// two looks, so they don't put off drains.
    next_look: Time,
    stats: ReclaimStats,
    clock: MonotonicClock,
}

impl LoopReclaimer {
    /// No zones yet, and no deadline.
    #[must_use]
    pub fn new(pace: Pace) -> Self {
        Self::with_pressure(pace, Pressure::open())
    }

    fn with_pressure(pace: Pace, pressure: Pressure) -> Self {
        let set = ReclaimSet::new(pace.interval).window(pace.window);
        let mut reclaimer = Self {
            set,
            piece_bytes: PIECE_FIRST,
            pace,
            pressure,
            deadline: None,
            was_idle: false,
            next_drain: Time::ZERO,
            next_look: Time::ZERO,
            stats: ReclaimStats::default(),
            clock: MonotonicClock::new(),
        };
        reclaimer.set.set_piece_bytes(PIECE_FIRST);
        reclaimer
    }

    /// Watches a zone until its last handle is dropped. A second call for a zone has no effect.
    pub fn watch<H: Hooks>(&mut self, zone: &RawZone<H>) {
        self.set.watch(zone);
    }

    /// The zones that are watched.
    pub fn set_mut(&mut self) -> &mut ReclaimSet {
        &mut self.set
    }

    /// When [`tick`](Self::tick) is due; none while the zones are not used.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.deadline
    }

    /// A zone may have been used: ticks begin again, unless they never ended.
    pub fn resume(&mut self, now: Time) {
        self.was_idle = false;
        self.deadline.get_or_insert(now + self.pace.window);
    }

    /// Gives a piece back if it is time to. Returns whether the zones are not used any more: from then on the caller
    /// must call [`resume`](Self::resume) when they are. One more tick follows, which counts the use until the caller
    /// noticed; after it there is no deadline.
    pub fn tick(&mut self, now: Time) -> bool {
        if self.deadline.is_none_or(|at| now < at) {
            return self.was_idle;
        }
        let began = self.clock.now();
        if now >= self.next_look {
            self.next_look = now + PRESSURE_PAUSE;
            if self.pressure.is_high() {
                self.drain(now);
            }
        }
        let tick = self.set.tick(now);
        let was_idle = core::mem::replace(&mut self.was_idle, tick.idle);
        self.deadline = (!tick.idle || !was_idle).then_some(tick.next);
        self.stats.ticks += 1;
        self.stats.purged += tick.purged;
        let busy = self.note(began);
        self.suit(busy, tick.purged.pages);
        tick.idle
    }

    /// Fits the next piece to the time that a tick should take, by the time that this tick took for `pages`: the piece
    /// shrinks at once, and grows by half of the difference.
    fn suit(&mut self, busy: Duration, pages: usize) {
        if pages < PAGES_TO_JUDGE {
            return;
        }
        let per_page = busy.as_nanos() as usize / pages;
        let suits = self.pace.tick_max.as_nanos() as usize / per_page.max(1) * PAGE;
        let piece = self.piece_bytes.midpoint(suits).min(suits);
        self.piece_bytes = piece.clamp(PIECE_LEAST, PIECE_MOST);
        self.set.set_piece_bytes(self.piece_bytes);
    }

    /// Whether the next tick has more to give back.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.set.has_more()
    }

    /// The kernel's descriptor that has priority data when tasks have stalled for want of memory; to be watched by
    /// edge. `None` if the kernel has none for this user: then the ticks read a source.
    #[must_use]
    pub fn event(&self) -> Option<BorrowedFd<'_>> {
        self.pressure.event()
    }

    /// The descriptor has priority data: from now on each tick gives a piece back, until no free memory is left.
    pub fn press(&mut self, now: Time) {
        if now >= self.next_drain {
            let began = self.clock.now();
            self.drain(now);
            self.note(began);
        }
    }

    /// The descriptor reports an error, as when its cgroup is gone: it is closed.
    pub fn lose_event(&mut self) {
        self.pressure.close();
    }

    fn drain(&mut self, now: Time) {
        self.set.drain_in_pieces(now);
        self.stats.drains += 1;
        (self.deadline, self.was_idle) = (Some(now), false);
        self.next_drain = now + PRESSURE_PAUSE;
    }

    fn note(&mut self, began: Time) -> Duration {
        let busy = self.clock.now() - began;
        self.stats.busy += busy;
        self.stats.longest = self.stats.longest.max(busy);
        busy
    }

    /// The source by which it notices that the system is short of memory.
    #[must_use]
    pub fn pressure_source(&self) -> PressureSource {
        self.pressure.source()
    }

    /// The figures so far.
    #[must_use]
    pub fn stats(&self) -> ReclaimStats {
        self.stats
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
