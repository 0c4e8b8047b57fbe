//! The pool: the zones that a stack's mbufs and clusters come from, with their limits.
//!
//! ```text
//!   mbuf              256 B    headers, small data
//!   mbuf_cluster      2 KiB    one frame of Ethernet's usual size
//!   mbuf_jumbo_page   4 KiB
//!   mbuf_jumbo_16k   16 KiB    bulk: four hold one 64 KiB segment
//! ```
//!
//! An mbuf remembers its zones in eight bytes. They stay valid as long as any mbuf lives, even if
//! the pool's last handle goes before: the zones belong to the mbuf zone, which ends with its last
//! item. ([`uma::leaked_zones`] counts such zones meanwhile.)
//!
//! Called by: `mbuf.rs`, `ext.rs`, users. Calls: `uma`.
//!
//! Locks: those of `uma`. Source: seed 004, sections 2 and 5.4.

use core::alloc::Layout;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;

use uma::{Hooks, RawZone, RawZoneRef, ZoneError};

use crate::error::NoBufs;
use crate::raw::MSIZE;

mod cluster;
mod stats;

pub use cluster::ClusterSize;
pub(crate) use stats::Stats;
pub use stats::{Live, PoolStats};

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
        Self {
            mbufs_max: 256 << 10,
            cluster_bytes_max: 512 << 20,
        }
    }
}

/// The zones behind a pool; what an mbuf points to.
///
/// It is the mbuf zone's own: in the place for hooks, so that it lives exactly as long as a handle
/// of the pool or an mbuf does.
pub(crate) struct Zones {
    /// For frees: to be copied out, since the free of the last mbuf may end `Zones`.
    mbufs: OnceLock<RawZoneRef<Zones>>,
    clusters: [RawZone; 3],
    pub(crate) stats: Stats,
}

impl Hooks for Zones {}

impl Zones {
    /// The zone that mbufs come from.
    #[inline]
    pub(crate) fn mbufs(&self) -> RawZoneRef<Zones> {
        match self.mbufs.get() {
            Some(&zone) => zone,
            None => unreachable!("a pool is not shown to anybody before this is set"),
        }
    }

    #[inline]
    #[track_caller]
    pub(crate) fn alloc_mbuf(&self) -> Result<NonNull<u8>, NoBufs> {
        // SAFETY: the zone lives as long as `self`.
        Ok(unsafe { self.mbufs().alloc()? })
    }

    /// A cluster, its count, which is 1, and the zone that it goes back to.
    #[inline]
    #[track_caller]
    pub(crate) fn alloc_cluster(
        &self,
        size: ClusterSize,
    ) -> Result<(NonNull<u8>, NonNull<AtomicU32>, RawZoneRef), NoBufs> {
        let zone = &self.clusters[size as usize];
        let buf = zone.alloc()?;
        // SAFETY: `buf` is a live item of this zone, which was built with counts.
        let refs = unsafe { zone.refcount(buf) };
        // Relaxed: whoever gets a reference gets it through something that synchronises.
        refs.store(1, Ordering::Relaxed);
        Ok((buf, NonNull::from(refs), zone.as_ref_ptr()))
    }
}

/// A set of zones to take mbufs and clusters from: a cheap handle, to be cloned freely.
#[derive(Clone)]
pub struct MbufPool(RawZone<Zones>);

impl MbufPool {
    /// Makes the zones. Nothing but address space is taken until the first allocation.
    pub fn new(config: PoolConfig) -> Result<Self, ZoneError> {
        let zone = |size: ClusterSize| {
            RawZone::builder(size.zone_name(), layout(size.bytes()))
                .limit(config.cluster_bytes_max / size.bytes())
                .refcounts()
                .build()
        };
        let zones = Zones {
            mbufs: OnceLock::new(),
            clusters: [
                zone(ClusterSize::K2)?,
                zone(ClusterSize::K4)?,
                zone(ClusterSize::K16)?,
            ],
            stats: Stats::default(),
        };
        let mbufs = RawZone::builder("mbuf", layout(MSIZE))
            .limit(config.mbufs_max)
            .hooks(zones)
            .build()?;
        let itself = mbufs.hooks().mbufs.set(mbufs.as_ref_ptr());
        debug_assert!(itself.is_ok(), "nobody else has set it");
        Ok(Self(mbufs))
    }

    #[inline]
    pub(crate) fn zones(&self) -> &Zones {
        self.0.hooks()
    }

    /// Gives what is cached and free back to the system.
    pub fn drain(&self) {
        self.0.drain();
        for zone in &self.zones().clusters {
            zone.drain();
        }
    }

    /// Mbufs and clusters in use: both zero once everything was freed (zone balance).
    pub fn live(&self) -> Live {
        Live {
            mbufs: self.0.live(),
            clusters: self.zones().clusters.iter().map(RawZone::live).sum(),
        }
    }

    /// What `netstat -m` shows.
    #[doc(alias = "netstat -m")]
    pub fn stats(&self) -> PoolStats {
        let s = &self.zones().stats;
        PoolStats {
            mbufs: self.0.stats(),
            clusters: self.zones().clusters.iter().map(RawZone::stats).collect(),
            pullups: s.pullups.get(),
            pullups_copied: s.pullups_copied.get(),
            shares: s.shares.get(),
            bytes_copied: s.bytes_copied.get(),
        }
    }
}

impl fmt::Debug for MbufPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MbufPool")
            .field("live", &self.live())
            .finish()
    }
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, size).expect("sizes are powers of two")
}
