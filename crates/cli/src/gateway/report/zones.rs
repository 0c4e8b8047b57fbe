//! The pool's zones, as `netstat -z` shows them: `vmstat -z`, with the lines of the program that hold the items, how
//! often zones were short of them, and the memory that was given back.
//!
//! Invariants: bounded: a row for each zone, and for each line of the program that allocates.
//! Locks: those of the zones, one after the other.

use std::fmt;

use mbuf::{MbufPool, PoolStats, Shortage};
use serde_json::{Value, json};
use uma::{Census, ZoneStats};

use super::{ReclaimFigures, value};

/// The figures.
pub(super) struct ZoneReport {
    stats: PoolStats,
    /// In the order of the zones.
    census: Vec<Census>,
    shortages: Vec<Shortage>,
    reclaim: ReclaimFigures,
}

impl ZoneReport {
    /// A pool's figures now.
    pub(super) fn of(pool: &MbufPool, reclaim: ReclaimFigures) -> ZoneReport {
        ZoneReport {
            stats: pool.stats(),
            census: pool.census(),
            shortages: pool.shortages().collect(),
            reclaim,
        }
    }

    /// A list of zones, each with its census, and its shortages if it has a limit of its own.
    pub(super) fn to_json(&self) -> Value {
        let zones = self.stats.zones().zip(&self.census);
        let all = zones.map(|(stats, census)| {
            let mut zone = value(stats);
            zone["census"] = value(census);
            let short = self.shortages.iter().find(|s| s.zone == stats.name);
            zone["shortages"] = short.map_or(Value::Null, |short| {
                json!({
                    "near_limit": short.near_limit,
                    "at_limit": short.at_limit,
                    "no_memory": short.no_memory,
                })
            });
            zone
        });
        all.collect()
    }
}

impl fmt::Display for ZoneReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", ZoneStats::header())?;
        self.stats
            .zones()
            .try_for_each(|zone| writeln!(f, "{zone}"))?;
        writeln!(f)?;
        // Of a zone without records nothing is known but the figures above.
        let recorded = self
            .census
            .iter()
            .filter(|census| !census.holders.is_empty());
        for census in recorded {
            writeln!(f, "{census}")?;
        }
        for short in &self.shortages {
            let (near, limit, memory) = (short.near_limit, short.at_limit, short.no_memory);
            if near + limit + memory > 0 {
                writeln!(
                    f,
                    "zone '{}' was short: {near} times near its limit; allocations that failed: {limit} at the limit, \
                     {memory} for want of memory",
                    short.zone
                )?;
            }
        }
        let ReclaimFigures {
            ticks,
            drains,
            pages,
            busy_us,
            longest_tick_us,
            longest_heap_trim_us,
        } = self.reclaim;
        writeln!(
            f,
            "given back: {pages} pages in {ticks} ticks, {drains} times for memory pressure; {busy_us} us in all, \
             longest tick {longest_tick_us} us, longest heap trim {longest_heap_trim_us} us"
        )
    }
}
