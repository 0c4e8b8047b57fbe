//! The pool: the zones that a stack's mbufs and clusters come from, with their limits.
//!
//! ```text
//!   mbuf              256 B    headers, small data
//!   mbuf_cluster      2 KiB    one frame of Ethernet's usual size
//!   mbuf_jumbo_page   4 KiB
//!   mbuf_jumbo_9k     9 KiB    a jumbo frame
//!   mbuf_jumbo_16k   16 KiB    bulk: four hold one 64 KiB segment
//!   mbuf_tag           64 B    notes about packets
//!   packet            256 B    an mbuf with a cluster of 2 KiB, in one pop (packets.rs)
//! ```
//!
//! An mbuf remembers its zones in eight bytes. They stay valid as long as any mbuf lives, even if
//! the pool's last handle goes before: the zones belong to the mbuf zone, which ends with its last
//! item. ([`uma::leaked_zones`] counts such zones meanwhile.)
//!
//! Locks: those of `uma`. Source: seed 004, sections 2 and 5.4.

use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use uma::{Census, Hooks, RawZone, RawZoneRef, ReclaimSet, ZoneError, ZoneStats};

use crate::error::NoBufs;
use crate::faults::{MbufFault, planted};
use crate::raw::MSIZE;
use crate::refs::Refs;
use crate::tag::TAG_SIZE;

mod cluster;
mod init_once;
mod packets;
mod shortage;
mod stats;

pub use cluster::ClusterSize;
use init_once::InitOnce;
use packets::Packets;
use shortage::ShortageLog;
pub use shortage::{NEAR_LIMIT_PERCENT, Shortage};
pub(crate) use stats::Stats;
pub use stats::{Calls, Live, PoolStats};

/// How much a pool may hold at most (seed 004, section 5.4).
#[derive(Debug, Clone, Copy)]
pub struct PoolConfig {
    /// Live mbufs, without the [`MBUFS_RESERVED`]; also the limit on tags, which have a zone of their own.
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

/// Mbufs beyond [`PoolConfig::mbufs_max`] for [`Packet::with_reserve`](crate::Packet::with_reserve) alone: an
/// acknowledgement or a reset, which the device sends and frees at once. Their 64 KiB are resident from the start.
pub const MBUFS_RESERVED: usize = if cfg!(any(loom, shuttle)) { 2 } else { 256 };

/// The rest of a pool's storage, in bytes: see [`MbufPool::headroom`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headroom {
    /// Bytes of clusters that are not in use.
    pub left: usize,
    /// Bytes that there may be.
    pub max: usize,
}

/// The zones behind a pool, to which each mbuf points.
///
/// The mbuf zone owns it, in place of hooks, so that it lives exactly as long as a handle of the pool or an mbuf.
pub(crate) struct Zones {
    /// For frees: must be copied out, since the free of the last mbuf may end `Zones`. Set in
    /// [`MbufPool::new`], before any other code has the pool.
    mbufs: InitOnce<RawZoneRef<Zones>>,
    /// The same, for packets.
    packets: InitOnce<RawZoneRef<Packets>>,
    clusters: [RawZone; ClusterSize::ALL.len()],
    tags: RawZone,
    /// Free packets that have no cluster.
    bare: AtomicUsize,
    pub(crate) stats: Stats,
    shortages: Shortages,
}

/// The counters of warnings: of mbufs and packets, of clusters, of tags.
struct Shortages {
    mbufs: ShortageLog,
    clusters: [ShortageLog; ClusterSize::ALL.len()],
    tags: ShortageLog,
}

impl Shortages {
    fn new() -> Self {
        Self {
            mbufs: ShortageLog::new("mbuf"),
            clusters: ClusterSize::ALL.map(|size| ShortageLog::new(size.zone_name())),
            tags: ShortageLog::new("mbuf_tag"),
        }
    }
}

impl Hooks for Zones {}

impl Zones {
    /// The zone that mbufs come from.
    #[inline]
    pub(crate) fn mbufs(&self) -> RawZoneRef<Zones> {
        // SAFETY: set before any other code had the pool.
        unsafe { self.mbufs.get() }
    }

    /// The zone that packets come from. It lives as long as a handle of the pool or a packet.
    #[inline]
    pub(crate) fn packets(&self) -> RawZoneRef<Packets> {
        // SAFETY: set before any other code had the pool.
        unsafe { self.packets.get() }
    }

    /// The zone that tags come from.
    pub(crate) fn tags(&self) -> &RawZone {
        &self.tags
    }

    #[inline]
    #[track_caller]
    pub(crate) fn alloc_mbuf(&self) -> Result<NonNull<u8>, NoBufs> {
        // SAFETY: the zone lives as long as `self`.
        Ok(unsafe { self.mbufs().alloc()? })
    }

    /// A cluster.
    #[inline]
    #[track_caller]
    pub(crate) fn alloc_cluster(&self, size: ClusterSize) -> Result<Fresh, NoBufs> {
        let zone = &self.clusters[size as usize];
        Ok(begin(zone, zone.alloc()?))
    }

    /// As `cluster`, if one is near: see [`RawZone::alloc_near`].
    pub(crate) fn alloc_cluster_near(&self, size: ClusterSize) -> Result<Fresh, NoBufs> {
        let zone = &self.clusters[size as usize];
        Ok(begin(zone, zone.alloc_near()?))
    }

    /// A packet is being freed whose cluster stays with others.
    pub(crate) fn packet_left_cluster(&self) {
        // Relaxed: a number for statistics.
        self.bare.fetch_add(1, Ordering::Relaxed);
    }

    /// A packet without a cluster got one, or was freed.
    pub(crate) fn bare_packet_ends(&self) {
        self.bare.fetch_sub(1, Ordering::Relaxed);
    }

    fn clusters_live(&self) -> usize {
        self.clusters.iter().map(RawZone::live).sum()
    }
}

/// A cluster just allocated, its count, which is 1, and the zone that it goes back to.
pub(crate) type Fresh = (NonNull<u8>, NonNull<Refs>, RawZoneRef);

#[inline]
fn begin(zone: &RawZone, buf: NonNull<u8>) -> Fresh {
    // SAFETY: `buf` is a live item of this zone, which was built with counts.
    let count = unsafe { zone.refcount(buf) };
    (buf, Refs::begin(count), zone.as_ref_ptr())
}

/// A set of zones to take mbufs and clusters from (seed 004, section 2): a cheap handle, to be cloned freely.
///
/// It is a handle of the packet zone, which keeps the others.
#[derive(Clone)]
pub struct MbufPool(RawZone<Packets>);

impl MbufPool {
    /// Makes the zones. Until the first allocation the pool takes only address space and the pages of its reserve.
    ///
    /// # Errors
    /// [`ZoneError`]: the system has no address space or no memory for the reserve.
    pub fn new(config: PoolConfig) -> Result<Self, ZoneError> {
        let mbufs = Self::make_mbufs(config, Self::make_zones(config)?)?;
        let packets = Self::make_packets(config, &mbufs)?;
        let zones = mbufs.hooks();
        // SAFETY: there is no mbuf of these zones yet, and no other code has had the pool.
        unsafe { zones.mbufs.give(mbufs.as_ref_ptr()) };
        // SAFETY: as above.
        unsafe { zones.packets.give(packets.as_ref_ptr()) };
        Ok(Self(packets))
    }

    // Each in a function of its own, because threads of a model have small stacks.
    #[inline(never)]
    fn make_zones(config: PoolConfig) -> Result<Zones, ZoneError> {
        let shortages = Shortages::new();
        let zone = |size: ClusterSize| {
            let limit = config.cluster_bytes_max / size.bytes();
            let zone = RawZone::builder(size.zone_name(), layout(size.bytes(), size.align()));
            let log = &shortages.clusters[size as usize];
            log.listen(zone.limit(limit).refcounts(), limit).build()
        };
        let tags = RawZone::builder("mbuf_tag", layout(TAG_SIZE, TAG_SIZE));
        let tags = shortages.tags.listen(tags, config.mbufs_max);
        Ok(Zones {
            mbufs: InitOnce::nothing(),
            packets: InitOnce::nothing(),
            clusters: [
                zone(ClusterSize::K2)?,
                zone(ClusterSize::K4)?,
                zone(ClusterSize::K9)?,
                zone(ClusterSize::K16)?,
            ],
            tags: tags.limit(config.mbufs_max).build()?,
            bare: AtomicUsize::new(0),
            stats: Stats::default(),
            shortages,
        })
    }

    #[inline(never)]
    fn make_mbufs(config: PoolConfig, zones: Zones) -> Result<RawZone<Zones>, ZoneError> {
        let zone = RawZone::builder("mbuf", layout(MSIZE, MSIZE));
        let zone = zones.shortages.mbufs.listen(zone, config.mbufs_max);
        zone.limit(config.mbufs_max.saturating_add(MBUFS_RESERVED))
            .reserve(MBUFS_RESERVED)
            .hooks(zones)
            .build()
    }

    #[inline(never)]
    fn make_packets(
        config: PoolConfig,
        mbufs: &RawZone<Zones>,
    ) -> Result<RawZone<Packets>, ZoneError> {
        let log = &mbufs.hooks().shortages.mbufs;
        let packets = log.listen(mbufs.secondary("packet"), config.mbufs_max);
        let packets = match planted(MbufFault::Unheld) {
            false => packets.holds_items_of(&mbufs.hooks().clusters[ClusterSize::K2 as usize]),
            true => packets,
        };
        let mbufs = mbufs.clone();
        packets.hooks(Packets { mbufs }).build()
    }

    #[inline]
    fn mbufs(&self) -> &RawZone<Zones> {
        &self.0.hooks().mbufs
    }

    #[inline]
    pub(crate) fn zones(&self) -> &Zones {
        self.mbufs().hooks()
    }

    /// An mbuf with a cluster, by way of the packet zone.
    #[inline]
    #[track_caller]
    pub(crate) fn alloc_packet(&self) -> Result<NonNull<u8>, NoBufs> {
        Ok(self.0.alloc()?)
    }

    /// An mbuf, from the reserve if there is no other.
    #[inline]
    #[track_caller]
    pub(crate) fn alloc_urgent(&self) -> Result<NonNull<u8>, NoBufs> {
        Ok(self.mbufs().alloc_urgent()?)
    }

    /// Adds the pool's zones to `set`, which gives unused memory back. A pool must be watched by one set only (see
    /// [`ReclaimSet`]).
    pub fn watch_with(&self, set: &mut ReclaimSet) {
        // Packets first: this frees the clusters that they hold, for the same tick.
        set.watch(&self.0);
        set.watch(self.mbufs());
        self.zones()
            .clusters
            .iter()
            .for_each(|zone| set.watch(zone));
        set.watch(&self.zones().tags);
    }

    /// Which call sites hold how much of each zone, by samples, in the order of [`PoolStats::zones`].
    ///
    /// [`PoolStats::zones`]: crate::PoolStats::zones
    pub fn census(&self) -> Vec<Census> {
        let zones = self.zones();
        let first = [self.mbufs().census(), self.0.census()];
        let clusters = zones.clusters.iter().map(RawZone::census);
        let all = first.into_iter().chain(clusters);
        all.chain([zones.tags.census()]).collect()
    }

    /// How often the zones of mbufs, clusters and tags came near their limits, reached them, or found no memory.
    pub fn shortages(&self) -> impl Iterator<Item = Shortage> {
        let Shortages {
            mbufs,
            clusters,
            tags,
        } = &self.zones().shortages;
        let all = [mbufs].into_iter().chain(clusters).chain([tags]);
        all.map(ShortageLog::read)
    }

    /// Gives cached and free memory back to the system.
    #[doc(alias = "mb_reclaim")]
    pub fn drain(&self) {
        // Packets first: this frees the clusters that they held.
        self.0.drain();
        self.mbufs().drain();
        for zone in &self.zones().clusters {
            zone.drain();
        }
        self.zones().tags.drain();
    }

    /// Mbufs, clusters and tags in use: all zero once everything was freed (zone balance).
    pub fn live(&self) -> Live {
        let zones = self.zones();
        let packets = self.0.stats();
        let ready = self.clusters_ready(&packets);
        Live {
            mbufs: packets.used + self.mbufs().live(),
            // Those that free packets hold are free.
            clusters: zones.clusters_live().saturating_sub(ready),
            tags: zones.tags.live(),
        }
    }

    /// The storage that is left of the cluster size with the least left. Reads all zones: for occasional use, not for
    /// each packet.
    pub fn headroom(&self) -> Headroom {
        let zones = self.zones().clusters.iter().zip(ClusterSize::ALL);
        let rooms = zones.map(|(zone, size)| {
            let stats = zone.stats();
            let max = stats.limit.unwrap_or(usize::MAX / size.bytes());
            Headroom {
                left: max.saturating_sub(stats.used) * size.bytes(),
                max: max * size.bytes(),
            }
        });
        rooms
            .min_by_key(|room| room.left)
            .unwrap_or(Headroom { left: 0, max: 0 })
    }

    /// The figures of `netstat -m`.
    #[doc(alias = "netstat -m")]
    pub fn stats(&self) -> PoolStats {
        let (zones, packets) = (self.zones(), self.0.stats());
        let clusters: Vec<_> = zones.clusters.iter().map(RawZone::stats).collect();
        let s = &zones.stats;
        let mbufs = self.mbufs().stats();
        let clusters_taken = clusters.iter().map(|zone| zone.requests).sum::<u64>();
        PoolStats {
            calls: Calls {
                get: mbufs.requests,
                getcl: packets.requests,
                clget: clusters_taken.saturating_sub(s.paired.get()),
                pullup_copied: s.pullups_copied.get(),
            },
            clusters_cached_in_packets: self.clusters_ready(&packets),
            mbufs,
            packets,
            clusters,
            tags: zones.tags.stats(),
            bytes_copied: s.bytes_copied.get(),
            pages_mapped: s.pages_mapped.get(),
            pages_read: s.pages_read.get(),
        }
    }

    /// Clusters that free packets hold.
    fn clusters_ready(&self, packets: &ZoneStats) -> usize {
        let bare = self.zones().bare.load(Ordering::Relaxed);
        packets.cached().saturating_sub(bare)
    }
}

kern::impl_debug!(MbufPool |this| live: this.live());

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).expect("sizes are multiples of powers of two")
}
