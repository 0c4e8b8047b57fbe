//! A trace kept by a design: the memory that takes, all together, at the peak of a queue, and by the packets' sizes.
//!
//! Packets go through a queue of a fixed length, as through a socket buffer or a device's ring: each is made, kept
//! until that many came after it, and freed. So a trace of any length is measured in the memory of one queue, and the
//! peak is the most that any run of that many packets takes.
//!
//! Invariant: all classes together have as many packets, bytes and allocated bytes as the trace.

use super::designs::{Design, Keep};
use super::trace::{Frame, Trace};
use crate::Error;
use crate::harness::summary::Summary;
use mbuf::{MbufPool, Packet, PoolConfig};
use std::collections::VecDeque;

/// The most bytes of the packets of a class; the last one has all that are longer.
pub(super) const CLASSES: [(&str, u32); 10] = [
    ("<=64", 64),
    ("<=128", 128),
    ("<=256", 256),
    ("<=512", 512),
    ("<=1024", 1024),
    ("<=1518", 1518),
    ("<=4096", 4096),
    ("<=9216", 9216),
    ("<=64K", 64 << 10),
    (">64K", u32::MAX),
];

/// Packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) packets: u64,
    /// Bytes of the packets.
    pub(super) shown: u64,
    /// Bytes of the memory that they are in.
    pub(super) allocated: u64,
}

impl Sum {
    fn add(&mut self, shown: u64, allocated: u64) {
        self.packets += 1;
        self.shown += shown;
        self.allocated += allocated;
    }

    /// Bytes that were allocated and are unused.
    pub(super) fn wasted(&self) -> u64 {
        self.allocated - self.shown
    }

    /// Wasted bytes, per cent of those that were allocated.
    pub(super) fn wasted_percent(&self) -> f64 {
        self.wasted() as f64 * 100.0 / self.allocated as f64
    }

    /// A packet's share of `bytes`; none where there are no packets.
    pub(super) fn each(&self, bytes: u64) -> Option<f64> {
        (self.packets > 0).then(|| bytes as f64 / self.packets as f64)
    }
}

/// The memory that a design took for a trace.
pub(super) struct Tally {
    pub(super) design: Design,
    pub(super) all: Sum,
    /// By size, as [`CLASSES`].
    pub(super) classes: [Sum; CLASSES.len()],
    /// Wasted bytes of each packet.
    pub(super) wasted: Summary,
    /// Items that were popped from their caches.
    pub(super) items: u64,
    /// The most that a queue of packets took, in bytes.
    pub(super) peak: u64,
}

impl Tally {
    /// Runs `trace`, which has packets, through a queue of `queue` packets.
    ///
    /// # Errors
    /// [`Error::Bad`] if the queue is longer than a pool may hold.
    pub(super) fn of(design: Design, trace: &Trace, queue: usize) -> Result<Self, Error> {
        Self::on(&pool()?, design, trace, queue)
    }

    /// The same on a pool that was not used before.
    pub(super) fn on(
        pool: &MbufPool,
        design: Design,
        trace: &Trace,
        queue: usize,
    ) -> Result<Self, Error> {
        let mut store = Store::new(pool, design, trace);
        let mut line = Line::new(queue);
        let (mut all, mut classes) = (Sum::default(), [Sum::default(); CLASSES.len()]);
        let mut wasted = Vec::with_capacity(trace.frames.len());
        for frame in &trace.frames {
            line.make_room();
            let kept = store.keep(*frame).ok_or_else(|| too_long(queue))?;
            let (shown, allocated) = (u64::from(frame.len), kept.bytes);
            line.push(kept);
            all.add(shown, allocated);
            classes[class(frame.len)].add(shown, allocated);
            wasted.push((allocated - shown) as f64);
        }
        Ok(Self {
            design,
            all,
            classes,
            wasted: Summary::of(wasted).ok_or_else(|| Error::Bad("an empty trace".to_owned()))?,
            items: store.items(),
            peak: line.peak,
        })
    }
}

fn too_long(queue: usize) -> Error {
    Error::Bad(format!(
        "{queue} packets of this trace are more than a pool holds (256 MiB of mbufs, 1 GiB of clusters of a size): \
        choose a shorter --queue"
    ))
}

/// The class of a packet of `len` bytes.
fn class(len: u32) -> usize {
    CLASSES.partition_point(|(_, most)| *most < len)
}

/// A packet in the queue.
struct Kept {
    bytes: u64,
    /// The packet itself, where there is one.
    _packet: Option<Packet>,
}

/// The queue, and the most that was in it.
struct Line {
    held: VecDeque<Kept>,
    most: usize,
    bytes: u64,
    peak: u64,
}

impl Line {
    fn new(most: usize) -> Self {
        Self {
            held: VecDeque::with_capacity(most),
            most,
            bytes: 0,
            peak: 0,
        }
    }

    /// Lets the first go if no more fit.
    fn make_room(&mut self) {
        if self.held.len() == self.most
            && let Some(first) = self.held.pop_front()
        {
            self.bytes -= first.bytes;
        }
    }

    fn push(&mut self, kept: Kept) {
        self.bytes += kept.bytes;
        self.peak = self.peak.max(self.bytes);
        self.held.push_back(kept);
    }
}

/// Where packets are made.
struct Store<'a> {
    design: Design,
    pool: &'a MbufPool,
    /// As many bytes as the longest packet has.
    bytes: Vec<u8>,
    /// Items of the packets that were only worked out.
    modelled: u64,
}

impl<'a> Store<'a> {
    fn new(pool: &'a MbufPool, design: Design, trace: &Trace) -> Self {
        Self {
            design,
            pool,
            bytes: vec![0; trace.longest()],
            modelled: 0,
        }
    }

    /// None if the pool is empty.
    fn keep(&mut self, frame: Frame) -> Option<Kept> {
        let len = frame.len as usize;
        match self.design.keep {
            Keep::Made(make) => {
                let packet = make(self.pool, &self.bytes[..len]).ok()?;
                Some(Kept {
                    bytes: packet.pinned() as u64,
                    _packet: Some(packet),
                })
            }
            Keep::Modelled(footprint) => {
                let footprint = footprint(len);
                self.modelled += footprint.items;
                Some(Kept {
                    bytes: footprint.bytes,
                    _packet: None,
                })
            }
        }
    }

    fn items(&self) -> u64 {
        self.modelled + Popped::from(self.pool).all()
    }
}

/// The allocations of a pool, in pops.
pub(super) struct Popped {
    /// Mbufs alone.
    pub(super) mbufs: u64,
    /// Mbufs together with a cluster of 2 KiB, in one pop.
    pub(super) packets: u64,
    /// Larger clusters, each for an mbuf that was popped as well.
    pub(super) larger: u64,
}

impl Popped {
    /// Clusters of 2 KiB are not counted by themselves: the packet zone takes them, ahead of the packets.
    pub(super) fn from(pool: &MbufPool) -> Self {
        let stats = pool.stats();
        let larger = stats.clusters.iter().skip(1);
        Self {
            mbufs: stats.mbufs.requests,
            packets: stats.packets.requests,
            larger: larger.map(|zone| zone.requests).sum(),
        }
    }

    fn all(&self) -> u64 {
        self.mbufs + self.packets + self.larger
    }
}

/// A pool that holds any queue worth measuring, and that a mistake cannot fill the machine from.
pub(super) fn pool() -> Result<MbufPool, Error> {
    MbufPool::new(PoolConfig {
        mbufs_max: 1 << 20,
        cluster_bytes_max: 1 << 30,
    })
    .map_err(|error| Error::Bad(format!("there is no pool to be had: {error}")))
}
