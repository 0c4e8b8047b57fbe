//! A pool's figures: how much is in use, and how often buffer operations were called.
//!
//! The zones count allocations without an instruction of their own; [`Stats`] counts the rest,
//! outside of the paths that every packet takes, or there in a CPU's own counter.

use core::fmt;

use kern::Counter;
use uma::ZoneStats;

use super::ClusterSize;

/// Calls of the buffer operations, after the table in the 2004 paper's section 4.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub(crate) pullups_copied: Counter,
    pub(crate) bytes_copied: Counter,
    /// Clusters that went to the packet zone, not to a caller.
    pub(crate) paired: Counter,
    pub(crate) pages_mapped: Counter,
    pub(crate) pages_read: Counter,
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
    /// No item is in use.
    pub const NONE: Self = Self {
        mbufs: 0,
        clusters: 0,
        tags: 0,
    };
}

/// How often each operation was called, as in the paper's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Calls {
    /// Mbufs alone.
    #[doc(alias = "m_get")]
    #[doc(alias = "m_gethdr")]
    pub get: u64,
    /// Mbufs with a cluster, in one.
    #[doc(alias = "m_getcl")]
    pub getcl: u64,
    /// Clusters alone, of every size.
    #[doc(alias = "m_clget")]
    #[doc(alias = "m_cljget")]
    pub clget: u64,
    /// Pullups of bytes that were not contiguous, and were copied. The others, several for each packet, are not
    /// counted.
    #[doc(alias = "m_pullup")]
    pub pullup_copied: u64,
}

/// A pool's figures. `Display` writes the text of `netstat -m`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PoolStats {
    /// The mbuf zone.
    pub mbufs: ZoneStats,
    /// The packet zone: mbufs with a cluster of 2 KiB each, of the mbuf zone's slabs.
    pub packets: ZoneStats,
    /// The cluster zones, smallest size first.
    pub clusters: Vec<ZoneStats>,
    /// The tag zone.
    pub tags: ZoneStats,
    /// Clusters in free packets: their zone counts them as in use, but any allocation may get them.
    pub clusters_cached_in_packets: usize,
    /// Calls.
    pub calls: Calls,
    /// Bytes copied from mbuf to mbuf: internal data shared by value, pullups, unsharing,
    /// compaction.
    pub bytes_copied: u64,
    /// Pages of page lists that were shown in place...
    pub pages_mapped: u64,
    /// ...and those that had to be read for that.
    pub pages_read: u64,
}

impl PoolStats {
    /// Every zone: mbufs, packets, clusters, tags.
    pub fn zones(&self) -> impl Iterator<Item = &ZoneStats> {
        let first = [&self.mbufs, &self.packets];
        first.into_iter().chain(&self.clusters).chain([&self.tags])
    }

    /// Bytes of buffers in use.
    pub fn bytes_used(&self) -> usize {
        let used: usize = self.zones().map(|zone| zone.bytes_live).sum();
        let ready = self.clusters_cached_in_packets * ClusterSize::K2.bytes();
        used.saturating_sub(ready)
    }

    /// Bytes of memory behind all zones. The slabs of the mbuf zone hold packets too and count once.
    pub fn bytes_total(&self) -> usize {
        let total: usize = self.zones().map(|zone| zone.bytes).sum();
        total - self.packets.bytes
    }
}

/// Free items: with the CPUs, in the depot, in slabs.
fn cache(zone: &ZoneStats) -> usize {
    zone.cached() + zone.free_in_slabs
}

impl fmt::Display for PoolStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mbufs, packets) = (&self.mbufs, &self.packets);
        let current = mbufs.used + packets.used;
        let cached = cache(mbufs) + packets.cached();
        let total = current + cached;
        writeln!(
            f,
            "{current}/{cached}/{total} mbufs in use (current/cache/total)"
        )?;
        writeln!(
            f,
            "{}/{} mbufs with a cluster from the packet zone in use (current/cache)",
            packets.used,
            packets.cached()
        )?;
        for (zone, size) in self.clusters.iter().zip(ClusterSize::ALL) {
            let ready = match size {
                ClusterSize::K2 => self.clusters_cached_in_packets,
                _ => 0,
            };
            let current = zone.used.saturating_sub(ready);
            let cached = cache(zone) + ready;
            let (k, total) = (size.bytes() / 1024, current + cached);
            let max = zone.limit.map_or("-".to_owned(), |n| n.to_string());
            writeln!(
                f,
                "{current}/{cached}/{total}/{max} clusters of {k} KiB in use (current/cache/total/max)"
            )?;
        }
        writeln!(
            f,
            "{}/{} tags in use (current/cache)",
            self.tags.used,
            cache(&self.tags)
        )?;
        let (used, total) = (self.bytes_used(), self.bytes_total());
        let k = |bytes: usize| bytes.div_ceil(1024);
        writeln!(
            f,
            "{}K/{}K/{}K bytes allocated to network (current/cache/total)",
            k(used),
            k(total.saturating_sub(used)),
            k(total.max(used))
        )?;
        let denied = self.clusters.iter().map(|zone| zone.failures).sum::<u64>();
        writeln!(
            f,
            "{}/{denied}/{} requests denied (mbufs/clusters/mbufs with a cluster)",
            mbufs.failures, packets.failures
        )?;
        let calls = self.calls;
        writeln!(
            f,
            "{}/{}/{} calls (get/getcl/clget), {} pullups that copied, {} bytes copied between mbufs",
            calls.get, calls.getcl, calls.clget, calls.pullup_copied, self.bytes_copied
        )?;
        writeln!(
            f,
            "{} pages of page lists mapped, {} read",
            self.pages_mapped, self.pages_read
        )
    }
}
