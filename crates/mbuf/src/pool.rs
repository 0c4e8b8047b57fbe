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
//! whose last handle goes with mbufs outstanding leaks its zones on purpose, and says so in
//! [`uma::leaked_zones`]. The mbufs may be used and freed all the same.
//!
//! Called by: `mbuf.rs`, `ext.rs`, users. Calls: `uma`.
//!
//! Locks: those of `uma`. Source: seed 004, sections 2 and 5.4.

use core::alloc::Layout;
use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use uma::{RawZone, RawZoneRef, ZoneError};

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
/// It lives, and so do the zones it names, as long as a handle of the pool or an mbuf of its does.
pub(crate) struct Zones {
    /// For frees: to be copied out, since the free of the last mbuf may end `Zones`.
    pub(crate) mbufs: RawZoneRef,
    clusters: [RawZoneRef; 3],
    pub(crate) stats: Stats,
}

impl Zones {
    #[inline]
    pub(crate) fn alloc_mbuf(&self) -> Result<NonNull<u8>, NoBufs> {
        // SAFETY: the zone lives as long as `self`.
        Ok(unsafe { self.mbufs.alloc()? })
    }

    /// A cluster, its count, which is 1, and the zone that it goes back to.
    #[inline]
    pub(crate) fn alloc_cluster(
        &self,
        size: ClusterSize,
    ) -> Result<(NonNull<u8>, NonNull<AtomicU32>, RawZoneRef), NoBufs> {
        let zone = self.clusters[size as usize];
        // SAFETY: the zone lives as long as `self`.
        let buf = unsafe { zone.alloc()? };
        // SAFETY: `buf` is a live item of this zone, which was built with counts.
        let refs = unsafe { zone.refcount(buf) };
        // Relaxed: whoever gets a reference gets it through something that synchronises.
        refs.store(1, Ordering::Relaxed);
        Ok((buf, NonNull::from(refs), zone))
    }
}

/// What the handles of a pool own.
struct Inner {
    /// From `Box::leak`: mbufs hold this address, which a moving Box would not allow.
    zones: NonNull<Zones>,
    mbufs: RawZone,
    clusters: ManuallyDrop<[RawZone; 3]>,
}

// SAFETY: zones are thread-safe, and `Zones` holds references to them, and counters.
unsafe impl Send for Inner {}
// SAFETY: as for Send.
unsafe impl Sync for Inner {}

impl Inner {
    /// Whether an mbuf may be live, when no handle is left.
    ///
    /// Others may free mbufs meanwhile, and make new ones from those they have. A sum of live items
    /// taken CPU by CPU could then come out as none while there is one. So the frees are counted
    /// before the allocations: if even so they are as many, then none was live in between; and
    /// where none is, there is nobody left to make one.
    fn has_mbufs(&self) -> bool {
        let frees = self.mbufs.stats().frees;
        self.mbufs.stats().requests != frees
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A live mbuf leads to `Zones`, and through it to the cluster zones, even to those of which
        // no cluster is live. So all of that stays, and the mbuf zone, which keeps itself, is
        // counted as leaked.
        if self.has_mbufs() {
            return;
        }
        // SAFETY: from Box::leak, and nobody is left to use it: the last mbuf's free copied the
        // zone's address out before it freed.
        drop(unsafe { Box::from_raw(self.zones.as_ptr()) });
        // SAFETY: dropped once, here.
        unsafe { ManuallyDrop::drop(&mut self.clusters) };
    }
}

/// A set of zones to take mbufs and clusters from: a cheap handle, to be cloned freely.
#[derive(Clone)]
pub struct MbufPool(Arc<Inner>);

impl MbufPool {
    /// Makes the zones. Nothing but address space is taken until the first allocation.
    pub fn new(config: PoolConfig) -> Result<Self, ZoneError> {
        let mbufs = RawZone::builder("mbuf", layout(MSIZE))
            .limit(config.mbufs_max)
            .build()?;
        let zone = |size: ClusterSize| {
            RawZone::builder(size.zone_name(), layout(size.bytes()))
                .limit(config.cluster_bytes_max / size.bytes())
                .refcounts()
                .build()
        };
        let clusters = [
            zone(ClusterSize::K2)?,
            zone(ClusterSize::K4)?,
            zone(ClusterSize::K16)?,
        ];
        let zones = Box::leak(Box::new(Zones {
            mbufs: mbufs.as_ref_ptr(),
            clusters: [
                clusters[0].as_ref_ptr(),
                clusters[1].as_ref_ptr(),
                clusters[2].as_ref_ptr(),
            ],
            stats: Stats::default(),
        }));
        let (zones, clusters) = (NonNull::from(zones), ManuallyDrop::new(clusters));
        Ok(Self(Arc::new(Inner {
            zones,
            mbufs,
            clusters,
        })))
    }

    #[inline]
    pub(crate) fn zones(&self) -> &Zones {
        // SAFETY: it lives as long as the handle.
        unsafe { self.0.zones.as_ref() }
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
        f.debug_struct("MbufPool")
            .field("live", &self.live())
            .finish()
    }
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, size).expect("sizes are powers of two")
}
