//! The pool: the zones that a stack's mbufs and clusters come from, with their limits.
//!
//! ```text
//!   mbuf              256 B    headers, small data
//!   mbuf_cluster      2 KiB    one frame of Ethernet's usual size
//!   mbuf_jumbo_page   4 KiB
//!   mbuf_jumbo_16k   16 KiB    bulk: four hold one 64 KiB segment
//! ```
//!
//! An mbuf remembers its zones in eight bytes. They stay valid as long as any mbuf lives: a pool
//! dropped with mbufs outstanding leaks its zones on purpose, and says so in
//! [`uma::leaked_zones`].
//!
//! Locks: those of `uma`. Source: seed 004, sections 2 and 5.4.

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use std::mem::ManuallyDrop;
use std::sync::Arc;

use kern::Counter;
use uma::{RawZone, RawZoneRef, ZoneError, ZoneStats};

use crate::error::NoBufs;
use crate::raw::MSIZE;

/// The cluster sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ClusterSize {
    /// 2 KiB.
    #[doc(alias = "MCLBYTES")]
    K2,
    /// 4 KiB.
    #[doc(alias = "MJUMPAGESIZE")]
    K4,
    /// 16 KiB.
    #[doc(alias = "MJUM16BYTES")]
    K16,
}

impl ClusterSize {
    /// Every size, smallest first.
    pub const ALL: [Self; 3] = [Self::K2, Self::K4, Self::K16];

    /// Bytes in a cluster of this size.
    pub const fn bytes(self) -> usize {
        match self {
            Self::K2 => 2 << 10,
            Self::K4 => 4 << 10,
            Self::K16 => 16 << 10,
        }
    }

    const fn zone_name(self) -> &'static str {
        match self {
            Self::K2 => "mbuf_cluster",
            Self::K4 => "mbuf_jumbo_page",
            Self::K16 => "mbuf_jumbo_16k",
        }
    }

    /// The smallest size that holds `len` bytes, or the largest there is.
    pub fn fitting(len: usize) -> Self {
        Self::ALL.into_iter().find(|s| s.bytes() >= len).unwrap_or(Self::K16)
    }
}

/// How much a pool may hold at most.
#[derive(Debug, Clone, Copy)]
pub struct PoolConfig {
    /// Live mbufs.
    #[doc(alias = "nmbufs")]
    pub mbufs_max: usize,
    /// Live bytes in clusters of all sizes; each size alone may use all of it.
    #[doc(alias = "nmbclusters")]
    pub cluster_bytes_max: usize,
}

impl Default for PoolConfig {
    /// 256 Ki mbufs (64 MiB) and 512 MiB of clusters a size.
    fn default() -> Self {
        Self { mbufs_max: 256 << 10, cluster_bytes_max: 512 << 20 }
    }
}

/// Calls of the buffer operations, after the table in the 2004 paper's section 4.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub(crate) pullups: Counter,
    pub(crate) pullups_copied: Counter,
    pub(crate) shares: Counter,
    pub(crate) bytes_copied: Counter,
}

/// The zones behind a pool; what an mbuf points to.
pub(crate) struct Zones {
    mbufs: RawZoneRef,
    clusters: [RawZoneRef; 3],
    pub(crate) stats: Stats,
}

impl Zones {
    #[inline]
    pub(crate) fn alloc_mbuf(&self) -> Result<NonNull<u8>, NoBufs> {
        // SAFETY: the zone lives as long as `self` (see `Inner`).
        Ok(unsafe { self.mbufs.alloc()? })
    }

    /// # Safety
    /// `m` came from `alloc_mbuf` of these zones and is not used again.
    #[inline]
    pub(crate) unsafe fn free_mbuf(&self, m: NonNull<u8>) {
        // SAFETY: as the caller says; the zone lives as long as `self`.
        unsafe { self.mbufs.free(m) }
    }

    /// A cluster and its count, which is 1.
    #[inline]
    pub(crate) fn alloc_cluster(
        &self,
        size: ClusterSize,
    ) -> Result<(NonNull<u8>, *const AtomicU32), NoBufs> {
        let zone = &self.clusters[size as usize];
        // SAFETY: the zone lives as long as `self`.
        let buf = unsafe { zone.alloc()? };
        // SAFETY: `buf` is a live item of this zone, which was built with counts.
        let refs = unsafe { zone.refcount(buf) };
        // Relaxed: whoever gets a reference gets it through something that synchronises.
        refs.store(1, Ordering::Relaxed);
        Ok((buf, refs))
    }

    /// # Safety
    /// `buf` came from `alloc_cluster(size)` of these zones and its last reference is gone.
    #[inline]
    pub(crate) unsafe fn free_cluster(&self, size: ClusterSize, buf: NonNull<u8>) {
        // SAFETY: as the caller says.
        unsafe { self.clusters[size as usize].free(buf) }
    }
}

/// Owns the zones; leaks `Zones` when mbufs still point to it.
struct Inner {
    zones: ManuallyDrop<Box<Zones>>,
    mbufs: RawZone,
    clusters: [RawZone; 3],
}

// SAFETY: `Zones` holds zone references whose operations are thread-safe, and counters.
unsafe impl Send for Inner {}
// SAFETY: as for Send.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.mbufs.live() == 0 {
            // SAFETY: dropped once, here; no mbuf is left to point to it.
            unsafe { ManuallyDrop::drop(&mut self.zones) }
        }
    }
}

/// A set of zones to take mbufs and clusters from: a cheap handle, to be cloned freely.
#[derive(Clone)]
pub struct MbufPool(Arc<Inner>);

impl MbufPool {
    /// Makes the zones. Nothing but address space is taken until the first allocation.
    pub fn new(config: PoolConfig) -> Result<Self, ZoneError> {
        let mbufs = RawZone::builder("mbuf", layout(MSIZE)).limit(config.mbufs_max).build()?;
        let zone = |size: ClusterSize| {
            RawZone::builder(size.zone_name(), layout(size.bytes()))
                .limit((config.cluster_bytes_max / size.bytes()).max(1))
                .refcounts()
                .build()
        };
        let clusters = [zone(ClusterSize::K2)?, zone(ClusterSize::K4)?, zone(ClusterSize::K16)?];
        let zones = ManuallyDrop::new(Box::new(Zones {
            mbufs: mbufs.as_ref_ptr(),
            clusters: [
                clusters[0].as_ref_ptr(),
                clusters[1].as_ref_ptr(),
                clusters[2].as_ref_ptr(),
            ],
            stats: Stats::default(),
        }));
        Ok(Self(Arc::new(Inner { zones, mbufs, clusters })))
    }

    #[inline]
    pub(crate) fn zones(&self) -> &Zones {
        &self.0.zones
    }

    /// Gives what is cached and free back to the system.
    pub fn drain(&self) {
        self.0.mbufs.drain();
        self.0.clusters.iter().for_each(RawZone::drain);
    }

    /// Mbufs and clusters in use: both zero once everything was freed (zone balance).
    pub fn live(&self) -> Live {
        Live {
            mbufs: self.0.mbufs.live(),
            clusters: self.0.clusters.iter().map(RawZone::live).sum(),
        }
    }

    /// What `netstat -m` shows.
    #[doc(alias = "netstat -m")]
    pub fn stats(&self) -> PoolStats {
        let s = &self.zones().stats;
        PoolStats {
            mbufs: self.0.mbufs.stats(),
            clusters: self.0.clusters.iter().map(RawZone::stats).collect(),
            pullups: s.pullups.get(),
            pullups_copied: s.pullups_copied.get(),
            shares: s.shares.get(),
            bytes_copied: s.bytes_copied.get(),
        }
    }
}

impl fmt::Debug for MbufPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MbufPool").field("live", &self.live()).finish()
    }
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, size).expect("sizes are powers of two")
}

/// Items in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Live {
    /// Mbufs.
    pub mbufs: usize,
    /// Clusters of every size.
    pub clusters: usize,
}

impl Live {
    /// Nothing is in use.
    pub const NONE: Self = Self { mbufs: 0, clusters: 0 };
}

/// A pool's figures.
#[derive(Debug, Clone)]
pub struct PoolStats {
    /// The mbuf zone.
    pub mbufs: ZoneStats,
    /// The cluster zones, smallest size first.
    pub clusters: Vec<ZoneStats>,
    /// Calls of pullup that found the bytes not contiguous...
    pub pullups: u64,
    /// ...and the bytes they copied.
    pub pullups_copied: u64,
    /// Ranges shared instead of copied.
    pub shares: u64,
    /// Bytes copied from mbuf to mbuf: internal data shared by value, pullups, compaction.
    pub bytes_copied: u64,
}

impl fmt::Display for PoolStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", ZoneStats::header())?;
        writeln!(f, "{}", self.mbufs)?;
        for c in &self.clusters {
            writeln!(f, "{c}")?;
        }
        writeln!(
            f,
            "{} ranges shared, {} pullups ({} bytes), {} bytes copied between mbufs",
            self.shares, self.pullups, self.pullups_copied, self.bytes_copied
        )
    }
}
