//! A pool's figures: what is in use, and what the buffer operations did.
//!
//! Called by: [`MbufPool`](crate::MbufPool). Calls: the zones' statistics.

use core::fmt;

use kern::Counter;
use uma::ZoneStats;

/// Calls of the buffer operations, after the table in the 2004 paper's section 4.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub(crate) pullups: Counter,
    pub(crate) pullups_copied: Counter,
    pub(crate) bytes_copied: Counter,
}

/// Items in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Live {
    /// Mbufs.
    pub mbufs: usize,
    /// Clusters of every size.
    pub clusters: usize,
    /// Tags.
    pub tags: usize,
}

impl Live {
    /// Nothing is in use.
    pub const NONE: Self = Self {
        mbufs: 0,
        clusters: 0,
        tags: 0,
    };
}

/// A pool's figures.
#[derive(Debug, Clone)]
pub struct PoolStats {
    /// The mbuf zone.
    pub mbufs: ZoneStats,
    /// The packet zone: mbufs with a cluster of 2 KiB each.
    pub packets: ZoneStats,
    /// The cluster zones, smallest size first.
    pub clusters: Vec<ZoneStats>,
    /// Calls of pullup that found the bytes not contiguous...
    pub pullups: u64,
    /// ...and the bytes they copied.
    pub pullups_copied: u64,
    /// Bytes copied from mbuf to mbuf: internal data shared by value, pullups, compaction.
    pub bytes_copied: u64,
}

impl fmt::Display for PoolStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", ZoneStats::header())?;
        writeln!(f, "{}", self.mbufs)?;
        writeln!(f, "{}", self.packets)?;
        for c in &self.clusters {
            writeln!(f, "{c}")?;
        }
        writeln!(
            f,
            "{} pullups ({} bytes), {} bytes copied between mbufs",
            self.pullups, self.pullups_copied, self.bytes_copied
        )
    }
}
