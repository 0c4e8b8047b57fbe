//! Zones whose spare memory the thread that calls [`ReclaimSet::tick`] gives back, a piece at a time.
//!
//! ```text
//!   ticks     |    |    |    |    |    |    |    |    |        one an interval while there is
//!   windows   |-------------------|-------------------|        something to give back, else
//!             measure             measure                      one a window
//!                  +----+----+----+ pieces of memory that the last window did not need
//! ```
//!
//! Memory that was free during a whole window (four intervals, unless [`ReclaimSet::window`] sets another) was not
//! needed. At the end of the window, cached items of that kind go into the slabs, and from then on free pages of the
//! slabs go back to the system. Giving pages back takes one CPU's time and interrupts the others to flush their TLBs.
//! So a tick gives back at most a piece ([`ReclaimSet::set_piece_bytes`]), and moves a proportional number of cached
//! items. After a window in which no zone was used and no memory was given back, the set is [idle](Tick::idle): its
//! caller may stop ticking until a zone is used again.
//!
//! Zones on one keg share a measure: at the end of a window the first of them that is visited measures the keg, and
//! holds the result ([`Watched::keep`]) until the slabs of all are given back.
//!
//! A zone should be watched by one set: each measurement begins a new window, so that two sets would both see shorter
//! windows and give back memory that is needed again at once.

use crate::hooks::Hooks;
use crate::keg::Keg;
use crate::weak::WeakZone;
use crate::{Purged, RawZone};
use core::time::Duration;
use kern::Time;
use std::sync::Arc;

/// Intervals in a window.
const WINDOW_INTERVALS: u32 = 4;
/// The most that one tick gives back, unless the caller says otherwise. At some 0.25 us a page this is 4 ms of one
/// CPU.
const PIECE_BYTES: usize = 64 << 20;
/// Bytes of a piece for each cached item that a tick may move to the slabs: to move one costs as much as to give back
/// an eighth of a page.
const PIECE_PER_ITEM: usize = 512;

/// Zones to give memory back from, for programs with a loop of their own; with a thread that
/// does it see [`Reclaimer`](crate::Reclaimer).
///
/// It keeps no zone: it forgets a zone when the last handle is dropped.
///
/// ```
/// use core::{alloc::Layout, time::Duration};
/// use kern::Time;
/// use uma::{RawZone, ReclaimSet};
///
/// let zone = RawZone::builder("cluster", Layout::from_size_align(2048, 2048).unwrap()).build()?;
/// let mut set = ReclaimSet::new(Duration::from_millis(50));
/// set.watch(&zone);
///
/// let item = zone.alloc()?;
/// // SAFETY: it came from this zone and is not used any more.
/// unsafe { zone.free(item) };
/// assert!(zone.stats().bytes > 0);
///
/// // Time comes from the caller, and passes fast here.
/// let mut now = Time::ZERO;
/// while now < Time::from_secs(1) {
///     now = set.tick(now).next;
/// }
/// assert_eq!(zone.stats().bytes, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ReclaimSet {
    zones: Vec<Watched>,
    interval: Duration,
    window: Duration,
    piece_bytes: usize,
    window_ends: Time,
    next: Time,
    /// No zone was used in the last window, or since, and no memory was given back.
    idle: bool,
    /// Kegs that gave pages back in this tick, by address.
    kegs: Vec<usize>,
}

struct Watched {
    weak: Arc<WeakZone>,
    /// Buckets of the depot that the last window did not need, and that are not moved yet.
    excess: usize,
    /// Bytes of free items that the last window needed; none, when no more than that is left.
    keep: Option<usize>,
}

/// The result of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct Tick {
    /// When the next tick is due; [`Time::MAX`] while no zone is watched.
    pub next: Time,
    /// The pages that the system took.
    pub purged: Purged,
    /// In the last window no zone was used, and no memory is left to give back: the caller need not call again before
    /// a zone is used.
    pub idle: bool,
}

/// The result of a visit to a zone, or its keg.
#[derive(Clone, Copy, Default)]
struct Visited {
    purged: Purged,
    /// The zone was used in this window, or has more to give back.
    was_used: bool,
}

impl ReclaimSet {
    /// A set without zones that ticks once in each `interval` (at least a millisecond).
    #[must_use]
    pub fn new(interval: Duration) -> Self {
        let interval = interval.max(Duration::from_millis(1));
        Self {
            zones: Vec::new(),
            interval,
            window: interval * WINDOW_INTERVALS,
            piece_bytes: PIECE_BYTES,
            window_ends: Time::ZERO,
            next: Time::ZERO,
            idle: false,
            kegs: Vec::new(),
        }
    }

    /// Memory that is free for this time (at least one interval) is not needed. Default: four intervals.
    #[must_use]
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window.max(self.interval);
        self
    }

    /// The most that one tick gives back, which bounds the time of a tick: 0.25 to 1 us for each 4 KiB. Default: 64
    /// MiB.
    pub fn set_piece_bytes(&mut self, bytes: usize) {
        self.piece_bytes = bytes.max(1);
    }

    /// Watches a zone until its last handle is dropped. A second call for a zone has no effect.
    pub fn watch<H: Hooks>(&mut self, zone: &RawZone<H>) {
        self.add(zone.inner().weak.clone());
    }

    pub(crate) fn add(&mut self, weak: Arc<WeakZone>) {
        let known = |watched: &Watched| Arc::ptr_eq(&watched.weak, &weak);
        if !self.zones.iter().any(known) {
            let (excess, keep) = (0, None);
            self.zones.push(Watched { weak, excess, keep });
            // The first window of the first zone begins with the next tick.
            self.next = self.next.min(self.window_ends);
        }
    }

    /// How many zones are watched. A zone that has ended is counted until the next tick.
    #[must_use]
    pub fn len(&self) -> usize {
        self.zones.len()
    }

    /// Whether no zone is watched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.zones.is_empty()
    }

    /// Gives back a piece of the memory that was not needed lately; none when called before the time that the last
    /// call named. Takes a few microseconds when there is no such memory.
    pub fn tick(&mut self, now: Time) -> Tick {
        if now < self.next {
            return self.ticked(Purged::default());
        }
        let measure = now >= self.window_ends;
        if measure {
            self.window_ends = now + self.window;
        }
        let found = self.visit_all(measure);
        self.idle = !found.was_used && (measure || self.idle);
        self.next = match self.has_more() {
            true => now + self.interval,
            false => self.window_ends,
        };
        self.ticked(found.purged)
    }

    /// Visits all zones, and forgets zones that have ended.
    fn visit_all(&mut self, measure: bool) -> Visited {
        let mut all = Visited::default();
        let mut budget = self.piece_bytes;
        let mut kegs = core::mem::take(&mut self.kegs);
        kegs.clear();
        self.zones.retain_mut(|watched| {
            let Some((keg, was_used)) = watched.visit(measure, budget / PIECE_PER_ITEM) else {
                return false;
            };
            all.was_used |= was_used;
            let address = Arc::as_ptr(&keg).addr();
            if kegs.contains(&address) {
                watched.keep = None;
            } else if measure || watched.keep.is_some() {
                kegs.push(address);
                let given = watched.give_piece(&keg, measure, &mut budget);
                all.purged += given.purged;
                all.was_used |= given.was_used;
            }
            true
        });
        self.kegs = kegs;
        if budget == 0 {
            // Zones that this tick did not reach are first in the next one.
            self.zones.rotate_left(1);
        }
        all
    }

    fn ticked(&self, purged: Purged) -> Tick {
        let next = match self.zones.is_empty() {
            true => Time::MAX,
            false => self.next,
        };
        let idle = self.zones.is_empty() || self.idle;
        Tick { next, purged, idle }
    }

    /// Whether the next tick has work before the window ends.
    pub(crate) fn has_more(&self) -> bool {
        self.zones.iter().any(Watched::has_more)
    }

    /// Gives back all that no live item needs, at once: when the system is short of memory.
    #[doc(alias = "uma_reclaim")]
    pub fn drain(&mut self) -> Purged {
        let mut purged = Purged::default();
        for keg in self.drain_caches() {
            purged += keg.purge(0);
        }
        let watched = self.zones.iter_mut();
        watched.for_each(|watched| watched.keep = None);
        purged
    }

    /// Gives back all that no live item needs, a piece at each tick from `now` on: when the system is short of
    /// memory, and the caller has other work that must not wait.
    pub fn drain_in_pieces(&mut self, now: Time) {
        let _ = self.drain_caches();
        let watched = self.zones.iter_mut();
        watched.for_each(|watched| watched.keep = Some(0));
        (self.next, self.idle) = (now, false);
    }

    /// Empties the caches of all zones into the slabs; returns the kegs.
    fn drain_caches(&mut self) -> Vec<Arc<Keg>> {
        let mut kegs = Vec::with_capacity(self.zones.len());
        self.zones.retain_mut(|watched| {
            watched.excess = 0;
            let keg = watched.weak.with_zone(|zone| {
                zone.drain_caches();
                zone.keg.clone()
            });
            let lives = keg.is_some();
            kegs.extend(keg);
            lives
        });
        kegs
    }
}

impl Watched {
    /// Handles the caches: measures once a window, and moves about `items_max` items. Returns whether the zone was
    /// used, or `None` if it has ended. Pages are given back without entering the zone, because its allocations wait
    /// for threads that are inside.
    fn visit(&mut self, measure: bool, items_max: usize) -> Option<(Arc<Keg>, bool)> {
        self.weak.with_zone(|zone| {
            let mut was_used = self.excess > 0;
            if measure {
                let trimmed = zone.trim_caches(items_max);
                (self.excess, was_used) = (trimmed.excess_left, trimmed.was_used);
            } else if self.excess > 0 {
                self.excess = zone.move_excess(self.excess, items_max);
            }
            (zone.keg.clone(), was_used)
        })
    }

    /// Measures, if it is time to, and gives pages back, at most `budget` bytes.
    fn give_piece(&mut self, keg: &Keg, measure: bool, budget: &mut usize) -> Visited {
        let mut given = Visited::default();
        if measure {
            let keep = keg.lock().working_set_bytes();
            given.was_used = keep > 0;
            self.keep = Some(keep);
        }
        let Some(keep) = self.keep else {
            return given;
        };
        if *budget == 0 {
            // A purge of 0 bytes finds no pages, and would end this zone's turn: the zone keeps its turn for the next
            // tick.
            given.was_used = true;
            return given;
        }
        let piece = keg.purge_piece(keep, *budget);
        *budget -= piece.bytes.min(*budget);
        if !piece.more {
            self.keep = None;
        }
        given.was_used |= piece.more || piece.bytes > 0;
        given.purged = piece.purged;
        given
    }

    /// Whether the next tick has work before the window ends.
    fn has_more(&self) -> bool {
        self.excess > 0 || self.keep.is_some()
    }
}

kern::impl_debug!(ReclaimSet |this|
    zones: this.zones.len(), interval: this.interval, next: this.next,
);

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
