//! How often each zone of a pool came near its limit, reached it, or found no memory.
//!
//! A zone warns on the thread whose allocation met the condition, which may hold any lock of the stack: a warning is
//! only counted here. The pool's owner reads the counts from time to time.
//!
//! Invariants: a count never shrinks.
//! Locks: none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use uma::{Hooks, Warning, WarningKind, ZoneBuilder};

/// Percent of a zone's limit: with so many items out of its slabs, live or cached, the zone is
/// [near](Shortage::near_limit) it.
pub const NEAR_LIMIT_PERCENT: usize = 80;

/// How often a zone was short of items since the pool was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The zone. Packets share the limit of `mbuf`, and are counted there.
    pub zone: &'static str,
    /// Times that [`NEAR_LIMIT_PERCENT`] of the limit were passed.
    pub near_limit: u64,
    /// Allocations that failed, or slept, because of the limit.
    pub at_limit: u64,
    /// Allocations that failed, or slept, because the system had no memory.
    pub no_memory: u64,
}

/// The counts of the zones that have one limit. Relaxed: no data depends on these numbers. `uma` reports suppressed
/// warnings with the next one, so a count may lag by a second.
#[derive(Debug, Default)]
struct ShortageCounts {
    near_limit: AtomicU64,
    at_limit: AtomicU64,
    no_memory: AtomicU64,
}

/// The counters of a zone's warnings.
#[derive(Clone, Debug)]
pub(super) struct ShortageLog {
    zone: &'static str,
    counts: Arc<ShortageCounts>,
}

impl ShortageLog {
    /// For a zone, and those that share its limit.
    pub(super) fn new(zone: &'static str) -> Self {
        let counts = Arc::default();
        Self { zone, counts }
    }

    /// Lets a zone with this limit warn here. Not in models, whose threads would take the locks that a warning's census
    /// needs.
    pub(super) fn listen<H: Hooks>(&self, builder: ZoneBuilder<H>, limit: usize) -> ZoneBuilder<H> {
        if cfg!(any(loom, shuttle)) {
            return builder;
        }
        let mark = (limit / 100).saturating_mul(NEAR_LIMIT_PERCENT)
            + limit % 100 * NEAR_LIMIT_PERCENT / 100;
        let log = self.clone();
        let builder = builder.high_water(mark.max(1));
        builder.warn(move |warning| log.note(warning))
    }

    fn note(&self, warning: &Warning) {
        let count = match warning.kind {
            WarningKind::HighWater => &self.counts.near_limit,
            WarningKind::Exhausted => &self.counts.at_limit,
            WarningKind::NoMemory => &self.counts.no_memory,
            // The same text as `uma` writes for a zone without a listener.
            _ => {
                if cfg!(feature = "invariants") {
                    eprintln!("{warning}");
                }
                return;
            }
        };
        count.fetch_add(1 + warning.suppressed, Ordering::Relaxed);
    }

    /// The counts so far.
    pub(super) fn read(&self) -> Shortage {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Shortage {
            zone: self.zone,
            near_limit: count(&self.counts.near_limit),
            at_limit: count(&self.counts.at_limit),
            no_memory: count(&self.counts.no_memory),
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
