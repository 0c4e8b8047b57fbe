//! Samples: a few items whose allocation is recorded, so that a [census](crate::Census) can tell
//! which call sites hold how many items, and how long, in a program that runs at full speed.
//!
//! An allocation from a bucket leaves no trace, which makes it cheap. So sampled items come from a
//! range of their own. The arena keeps a few slabs behind its normal range; an item from there
//! fails the range check that every free makes anyway, and the cold branch behind that check, which
//! otherwise reports a foreign pointer, frees it:
//!
//! ```text
//!   | slab 0 | slab 1 | ...            | sample slab | sample slab |
//!   |<------- may_own: the fast way -->|<-- a record for each item: site, time, thread, weight
//! ```
//!
//! An item is sampled only in the slow path, when a CPU's bucket is empty: once in a given number of refills
//! ([`ZoneBuilder::sample_every`](crate::ZoneBuilder::sample_every)). A thread that frees its items at once never gets
//! there: it pays nothing and is not sampled. A thread that takes more than it frees is sampled in proportion. The
//! *weight* of a sample is the number of items that refills have brought since the sample before it.
//!
//! Two effects would distort the census. First, the item that empties a bucket is more often freed at once than kept.
//! So a sample that is freed before the next refill passes its turn, and its weight, to the next allocation, once.
//! Bias remains for threads whose runs of allocations and frees are longer than the set that stays: the census reports
//! their share as unaccounted for. Second, samples that stay use the slots up. So each time half of the remaining
//! slots are taken, samples become half as frequent and weigh twice as much.
//!
//! A queue that one thread fills and empties uses the items that its CPU has cached: its old samples
//! die, and no refill brings new ones. So a sample that grew old (`OLD`) is followed by another:
//! the CPU's bucket is put aside, and the next allocation there is the sample, with the same weight.
//!
//! Being few and exact, samples also find double frees and frees into the wrong zone at once, with
//! both sites.
//!
//! ```text
//!   sample.rs   an item's path   sample/turn.rs   when a zone has the turn    sample/table.rs   the records
//! ```
//!
//! Invariants: a sampled item is never in a bucket or a slab's bitmap; it counts in `out` of the keg and `holds` of
//! its zone like any other; a record is live exactly as long as its item is.
//! Locks: `uma samples` (rank `STATS`), taken inside of any other, held for a few stores.
//! Sources: tcmalloc's sampled page heap and GWP-ASan, for the address range that identifies a sample; seed 004
//! section 5.4 (if a limit is reached, there must be a way to find the call site).

use crate::geometry::Geometry;
use core::panic::Location;

#[cfg(not(any(loom, shuttle)))]
pub(crate) use table::TableHeld;
pub(crate) use table::{AllocSample, Misuse, NO_SLOTS, Samples, SlotRecord, SlotState};
pub(crate) use turn::Sampler;

mod table;
mod turn;

/// The call site of an allocation or a free.
pub(crate) type Site = &'static Location<'static>;

/// One item is sampled in this many refills, unless the builder says otherwise. Interpreters and
/// schedule checkers pay for reserved memory, and do without.
pub(crate) const SAMPLE_EVERY_DEFAULT: u32 = if cfg!(any(miri, loom)) { 0 } else { 16 };
/// Samples that may be live at once, if their slabs are not larger than the next.
const SLOTS_WANTED: usize = 256;
/// Address space for samples.
const SLABS_BYTES_MAX: usize = 1 << 20;

/// How many slabs to reserve for samples of items that lie so. Huge pages would come whole for one
/// sample, so there are none then.
pub(crate) fn sample_slabs(geo: &Geometry) -> usize {
    match geo.huge() {
        true => 0,
        false => (SLOTS_WANTED.div_ceil(geo.per_slab())).min(SLABS_BYTES_MAX / geo.slab_bytes()),
    }
}

/// A site, or that it is not known.
pub(crate) struct Where(pub(crate) Option<Site>);

impl core::fmt::Display for Where {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            Some(site) => write!(f, "{site}"),
            None => f.write_str("a place that was not noted"),
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
