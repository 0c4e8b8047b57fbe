//! Zones whose spare memory is given back a piece at a time, by whoever calls.
//!
//! Called by: `reclaimer.rs`, and programs with a loop of their own. Calls: `link.rs`,
//! `reclaim.rs`.
//!
//! ```text
//!   ticks     |    |    |    |    |    |    |    |    |        one an interval while there is
//!   windows   |-------------------|-------------------|        something to give back, else
//!             measure             measure                      one a window
//!                  +----+----+----+ pieces of what the last window did not need
//! ```
//!
//! What was free during a whole window (four intervals) is what nobody needed: at the end of the
//! window buckets and caches of that kind go into the slabs, and the pages of slabs are given
//! back from then on, at most [`PIECE_BYTES`] at each tick. To give pages back takes the time of
//! one CPU and disturbs the others, who are interrupted to forget their translations; a piece
//! keeps both to a small part of each interval, and still 1 GB is gone in a second.
//!
//! Zones on one keg share a measure: the first that is watched stands for the slabs of all.

use crate::hooks::Hooks;
use crate::keg::Keg;
use crate::link::Link;
use crate::{Purged, RawZone};
use core::fmt;
use core::time::Duration;
use kern::Time;
use std::sync::Arc;

/// Intervals in a window.
const WINDOW_INTERVALS: u32 = 4;
/// What one tick gives back at most. At some 0.25 us a page this is 4 ms of one CPU.
const PIECE_BYTES: usize = 64 << 20;

/// Zones to give memory back from, for programs with a loop of their own; with a thread that
/// does it see [`Reclaimer`](crate::Reclaimer).
///
/// It keeps no zone: one whose last handle goes is forgotten.
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
/// // Time comes from the caller, and here passes fast.
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
    window_ends: Time,
    next: Time,
    /// Kegs seen in this tick, by address.
    kegs: Vec<usize>,
}

struct Watched {
    link: Arc<Link>,
    /// Bytes of free items that the last window needed; none, when no more than that is left.
    keep: Option<usize>,
}

/// What a tick did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Tick {
    /// When the next one is due; [`Time::MAX`] while no zone is watched.
    pub next: Time,
    /// What the system took.
    pub purged: Purged,
}

impl ReclaimSet {
    /// No zones, to be looked at once in each `interval` (at least a millisecond).
    #[must_use]
    pub fn new(interval: Duration) -> Self {
        Self {
            zones: Vec::new(),
            interval: interval.max(Duration::from_millis(1)),
            window_ends: Time::ZERO,
            next: Time::ZERO,
            kegs: Vec::new(),
        }
    }

    /// Looks after a zone until its last handle is gone. Twice is the same as once.
    pub fn watch<H: Hooks>(&mut self, zone: &RawZone<H>) {
        self.add(zone.inner().link.clone());
    }

    pub(crate) fn add(&mut self, link: Arc<Link>) {
        let known = |watched: &Watched| Arc::ptr_eq(&watched.link, &link);
        if !self.zones.iter().any(known) {
            self.zones.push(Watched { link, keep: None });
            // The first window of the first zone begins with the next tick.
            self.next = self.next.min(self.window_ends);
        }
    }

    /// How many zones are watched. One that is gone is counted until the next tick.
    #[must_use]
    pub fn len(&self) -> usize {
        self.zones.len()
    }

    /// Whether no zone is watched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.zones.is_empty()
    }

    /// Gives back a piece of what was not needed lately; nothing when called before the time
    /// that the last call named. Takes a few microseconds when there is nothing to do.
    pub fn tick(&mut self, now: Time) -> Tick {
        let mut purged = Purged::default();
        if now < self.next {
            return self.ticked(purged);
        }
        let measure = now >= self.window_ends;
        if measure {
            self.window_ends = now + self.interval * WINDOW_INTERVALS;
        }
        let mut budget = PIECE_BYTES;
        let mut kegs = core::mem::take(&mut self.kegs);
        kegs.clear();
        self.zones.retain_mut(|watched| {
            let Some(keg) = watched.visit(measure) else {
                return false;
            };
            let address = Arc::as_ptr(&keg).addr();
            if kegs.contains(&address) {
                watched.keep = None;
            } else {
                kegs.push(address);
                purged += watched.give_piece(&keg, measure, &mut budget);
            }
            true
        });
        self.kegs = kegs;
        if budget == 0 {
            // Whoever had to wait comes first next time.
            self.zones.rotate_left(1);
        }
        let goes_on = self.zones.iter().any(|watched| watched.keep.is_some());
        self.next = match goes_on {
            true => now + self.interval,
            false => self.window_ends,
        };
        self.ticked(purged)
    }

    fn ticked(&self, purged: Purged) -> Tick {
        let next = match self.zones.is_empty() {
            true => Time::MAX,
            false => self.next,
        };
        Tick { next, purged }
    }

    /// Gives back all that no live item needs, at once: when the system is short of memory.
    pub fn drain(&mut self) -> Purged {
        let mut purged = Purged::default();
        self.zones.retain_mut(|watched| {
            watched.keep = None;
            let keg = watched.link.visit(|zone| {
                zone.drain_caches();
                zone.keg.clone()
            });
            keg.is_some_and(|keg| {
                purged += keg.purge(0);
                true
            })
        });
        purged
    }
}

impl Watched {
    /// Looks after the caches once a window; nothing when the zone is gone. Pages are given back
    /// by the keg alone: a zone's allocations wait for threads that are inside it.
    fn visit(&self, measure: bool) -> Option<Arc<Keg>> {
        self.link.visit(|zone| {
            if measure {
                zone.trim_caches();
            }
            zone.keg.clone()
        })
    }

    /// Measures, if it is time to, and gives pages back, at most `budget` bytes.
    fn give_piece(&mut self, keg: &Keg, measure: bool, budget: &mut usize) -> Purged {
        if measure {
            self.keep = Some(keg.lock().working_set_bytes());
        }
        let Some(keep) = self.keep else {
            return Purged::default();
        };
        let piece = keg.purge_piece(keep, *budget);
        *budget -= piece.bytes.min(*budget);
        if !piece.more {
            self.keep = None;
        }
        piece.purged
    }
}

impl fmt::Debug for ReclaimSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReclaimSet")
            .field("zones", &self.zones.len())
            .field("interval", &self.interval)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}
