//! Warnings: a zone calls its owner when it fills up, is exhausted, or is left with items live.
//!
//! The zone calls its owner without any lock of this crate, at most once a second for each kind of warning.
//!
//! Source: FreeBSD's `uma_zone_set_warning` and `uma_zone_set_maxaction`.

use crate::zone_inner::ZoneInner;
use crate::{AllocError, Census, ZoneStats};
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// The shortest time between two warnings of one kind of one zone, in milliseconds.
const BETWEEN_MS: u64 = 1000;

/// The argument of [`ZoneBuilder::warn`](crate::ZoneBuilder::warn)'s callback.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Warning {
    /// The name of the zone.
    pub zone: &'static str,
    /// The kind of event.
    pub kind: WarningKind,
    /// How often it happened since the last warning of this kind that was given.
    pub suppressed: u64,
    /// The numbers of the zone.
    pub stats: ZoneStats,
    /// Which call sites hold the items.
    pub census: Census,
}

/// The kind of event of a [`Warning`] (uma(9)'s `uma_zone_set_warning` and `uma_zone_set_maxaction`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WarningKind {
    /// As many items have left the slabs as [`high_water`](crate::ZoneBuilder::high_water) says.
    HighWater,
    /// An allocation failed, or went to sleep, because of the limit.
    Exhausted,
    /// An allocation failed, or went to sleep, for want of memory.
    NoMemory,
    /// The last handle went while items were live.
    Leaked,
}

impl fmt::Display for WarningKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::HighWater => "high water",
            Self::Exhausted => "exhausted",
            Self::NoMemory => "no memory",
            Self::Leaked => "leaked",
        })
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "zone '{}': {}", self.zone, self.kind)?;
        if self.suppressed > 0 {
            write!(f, " ({} more since the last warning)", self.suppressed)?;
        }
        write!(f, "\n{}", self.census)
    }
}

type Callback = Box<dyn Fn(&Warning) + Send + Sync>;

/// A zone's callback, and when it may be called.
pub(crate) struct Warner {
    callback: Option<Callback>,
    high_water: usize,
    /// Whether the items out are above the mark.
    above: AtomicBool,
    made: Instant,
    throttles: [Throttle; 4],
}

/// (a) All relaxed: the thread whose compare-exchange moves `next_ms` sends the warning, and no other data depends on
/// it.
#[derive(Default)]
struct Throttle {
    /// Milliseconds from the making of the zone to when the next warning may be given.
    next_ms: AtomicU64,
    suppressed: AtomicU64,
}

impl Throttle {
    /// Whether a warning may be given now, and how many were not since the last one.
    fn turn(&self, now_ms: u64) -> Option<u64> {
        let next = self.next_ms.load(Relaxed);
        let mine = now_ms >= next
            && self
                .next_ms
                .compare_exchange(next, now_ms + BETWEEN_MS, Relaxed, Relaxed)
                .is_ok();
        if !mine {
            self.suppressed.fetch_add(1, Relaxed);
            return None;
        }
        Some(self.suppressed.swap(0, Relaxed))
    }
}

impl Default for Warner {
    fn default() -> Self {
        Self {
            callback: None,
            high_water: usize::MAX,
            above: AtomicBool::new(false),
            made: Instant::now(),
            throttles: Default::default(),
        }
    }
}

impl Warner {
    pub(crate) fn set_callback(&mut self, callback: Callback) {
        self.callback = Some(callback);
    }

    pub(crate) fn set_high_water(&mut self, items: usize) {
        self.high_water = items;
    }
}

impl ZoneInner {
    /// Warns when the items out of the keg have passed the mark since they last were below it.
    pub(crate) fn warn_if_high(&self) {
        let warner = &self.warner;
        if warner.callback.is_none() || warner.high_water == usize::MAX {
            return;
        }
        let is_above = self.keg.out() >= warner.high_water;
        let was_above = warner.above.load(Relaxed);
        if is_above != was_above && warner.above.swap(is_above, Relaxed) != is_above && is_above {
            self.warn(WarningKind::HighWater);
        }
    }

    /// Warns about an allocation that fails for this reason, or is about to sleep.
    pub(crate) fn warn_of(&self, error: AllocError) {
        match error {
            AllocError::Limit => self.warn(WarningKind::Exhausted),
            AllocError::NoMemory => self.warn(WarningKind::NoMemory),
            AllocError::Hook => {}
        }
    }

    /// Calls the callback, if there is one and it is not too soon. No lock is held.
    pub(crate) fn warn(&self, kind: WarningKind) {
        let Some(callback) = &self.warner.callback else {
            return;
        };
        let now_ms = u64::try_from(self.warner.made.elapsed().as_millis()).unwrap_or(u64::MAX / 2);
        if let Some(suppressed) = self.warner.throttles[kind as usize].turn(now_ms) {
            callback(&self.warning(kind, suppressed));
        }
    }

    /// Whether the owner has set a callback.
    #[cfg(feature = "invariants")]
    pub(crate) fn has_warner(&self) -> bool {
        self.warner.callback.is_some()
    }

    pub(crate) fn warning(&self, kind: WarningKind, suppressed: u64) -> Warning {
        Warning {
            zone: self.name,
            kind,
            suppressed,
            stats: ZoneStats::of(self),
            census: Census::of(self),
        }
    }
}
