//! A device around another that emulates a bad link in both directions.
//!
//! ```text
//!   the other device --receive--> [emulator, delay queue] --receive--> stack
//!   the other device <--transmit- [emulator, delay queue] <--transmit- stack
//! ```
//!
//! Frames wait here until their times. The stack adds the next of these times ([`Device::next_deadline`]) to its
//! deadlines, and then receives and transmits again: so the stack's driver drives the link, by the stack's clock.
//!
//! The queue and losses apply to frames of the MTU. So this device offers no offloads to the stack. It cuts large
//! segments that the wrapped device receives, and finishes their checksums, before they enter the link.
//!
//! Invariants: each direction holds at most [`HELD_MAX`] bytes of buffers; a frame beyond is dropped as
//! if the queue were full. The link counts lost frames ([`Impaired::counts`]); the stack does not, for it never
//! received them.
//!
//! Locks: one for each direction (IFQUEUE), held while frames are put in and taken out, with nothing called under it
//! but zones. [`Device::next_deadline`] takes none.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kern::{AtomicDeadline, Clock, LockClass, Mutex, Random, Time, order};
use mbuf::{Csum, MbufPool, Mbufq, Packet};
use wire::{EtherHeader, EtherType, Ipv4Header, MacAddr};

use super::{DelayQueue, LinkConfig, LinkCounts, LinkEmulator, LinkFrame};
use crate::device::{Budget, Capabilities, Device, Medium, offload};
use crate::drops::DropReason;

static LINK: LockClass = LockClass::new("impaired link", order::IFQUEUE);

/// Bytes of buffers that frames under way in one direction hold at most: enough for 1 Gbit/s over 100 ms.
pub const HELD_MAX: usize = 16 << 20;

/// A device whose frames go over an emulated link.
///
/// ```
/// use std::sync::Arc;
/// use mbuma::device::{Capabilities, Device, impair::Impaired, memory::Pipe};
/// use mbuma::{Config, IfConfig, MonotonicClock, Random, Stack};
///
/// let stack = Stack::new(Config::from_system())?;
/// let (device, _other_end) = Pipe::pair(Capabilities::plain(1500));
/// let link = "rate=20mbit,delay=40ms,loss=1%".parse()?;
/// let clock = Arc::new(MonotonicClock::new()); // that of the stack, where it has one of its own
/// let device = Impaired::new(device, [link, link], stack.pool(), clock, Random::from_seed(1));
/// stack.attach(Arc::new(device), IfConfig::new("wan0")).unwrap();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Impaired<D> {
    device: D,
    pool: MbufPool,
    clock: Arc<dyn Clock>,
    inward: OneWay,
    outward: OneWay,
    /// Received frames that could not be cut, since they were last reported.
    no_bufs: AtomicU64,
}

/// One direction.
#[derive(Debug)]
struct OneWay {
    under_way: Mutex<UnderWay>,
    /// When the next frame comes out. Written under the lock.
    next: AtomicDeadline,
}

#[derive(Debug)]
struct UnderWay {
    emulator: LinkEmulator,
    /// Each with the bytes of buffers that it holds.
    frames: DelayQueue<(Packet, usize)>,
    /// Their sum.
    held: usize,
}

/// A packet, and where it gets buffers from where it must be changed.
struct Carried<'p> {
    packet: Packet,
    pool: &'p MbufPool,
}

impl<D: Device> Impaired<D> {
    /// Puts a link around `device`: the first of `links` is for receiving, the second for transmitting. `clock`
    /// is that of the stack; `random` decides which frames meet a fault.
    pub fn new(
        device: D,
        links: [LinkConfig; 2],
        pool: &MbufPool,
        clock: Arc<dyn Clock>,
        mut random: Random,
    ) -> Self {
        let [inward, outward] = links.map(|link| OneWay::new(link, random.fork()));
        Self {
            device,
            pool: pool.clone(),
            clock,
            inward,
            outward,
            no_bufs: AtomicU64::new(0),
        }
    }

    /// The links' present properties, in the order of [`Impaired::new`].
    pub fn links(&self) -> [LinkConfig; 2] {
        [&self.inward, &self.outward].map(|way| way.under_way.lock().emulator.link())
    }

    /// The links' counts of events, in the order of [`Impaired::new`].
    pub fn counts(&self) -> [LinkCounts; 2] {
        [&self.inward, &self.outward].map(|way| way.under_way.lock().emulator.counts())
    }

    /// Cuts frames that the device merged, and finishes checksums that it trusts.
    fn finish(&self, frame: Packet, ready: &mut Mbufq) {
        let caps = self.capabilities();
        if offload::prepare(&self.pool, frame, caps, ready).is_err() {
            self.no_bufs.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl OneWay {
    fn new(link: LinkConfig, random: Random) -> Self {
        let under_way = UnderWay {
            emulator: LinkEmulator::new(link, random),
            frames: DelayQueue::new(),
            held: 0,
        };
        Self {
            under_way: Mutex::new(&LINK, under_way),
            next: AtomicDeadline::new(),
        }
    }

    /// Takes frames in, and moves those whose time has come to `out`, within `budget`; says whether more are due.
    fn pass(
        &self,
        now: Time,
        frames: &mut Mbufq,
        pool: &MbufPool,
        max: usize,
        out: &mut Mbufq,
    ) -> bool {
        let mut under_way = self.under_way.lock();
        while let Some(packet) = frames.dequeue() {
            under_way.take_in(now, Carried { packet, pool });
        }
        let mut left = max;
        while left > 0
            && let Some((packet, held)) = under_way.frames.pop_due(now)
        {
            under_way.held -= held;
            out.enqueue(packet);
            left -= 1;
        }
        let next = under_way.frames.next_at();
        self.next.set(next);
        next.is_some_and(|at| at <= now)
    }

    fn next_at(&self) -> Option<Time> {
        self.next.get()
    }

    /// Drops the frames under way, and says how many there were.
    fn clear(&self) -> usize {
        let mut under_way = self.under_way.lock();
        let dropped = std::mem::take(&mut under_way.frames);
        under_way.held = 0;
        self.next.set(None);
        drop(under_way);
        dropped.len()
    }
}

impl UnderWay {
    fn take_in(&mut self, now: Time, frame: Carried<'_>) {
        let Self {
            emulator,
            frames,
            held,
        } = self;
        if *held + frame.packet.pinned() > HELD_MAX {
            return emulator.overflow(frame.bytes(), &mut |_| ());
        }
        let mut arrive = |at, frame: Carried<'_>| {
            let pinned = frame.packet.pinned();
            *held += pinned;
            frames.push(at, (frame.packet, pinned));
        };
        emulator.send(now, frame, &mut arrive, &mut |_| ());
    }
}

/// That of the device. Frames that the link has delayed come at the deadline of the device.
impl<D: AsFd> AsFd for Impaired<D> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

impl<D: Device> Device for Impaired<D> {
    crate::device::forward_to!(device => medium: Medium, mac: Option<MacAddr>);

    /// None but the size of frames: queue and loss are meant for frames of the MTU.
    fn capabilities(&self) -> Capabilities {
        Capabilities::plain(self.device.capabilities().mtu)
    }

    fn receive(&self, rx: &mut Mbufq, budget: Budget) -> io::Result<bool> {
        let (mut arrived, mut ready) = (Mbufq::new(), Mbufq::new());
        // Even a device that is gone leaves frames under way.
        let more = self.device.receive(&mut arrived, budget);
        arrived.for_each(|frame| self.finish(frame, &mut ready));
        let now = self.clock.now();
        let due = (self.inward).pass(now, &mut ready, &self.pool, budget.frames, rx);
        more.map(|more| more || due)
    }

    fn take_drops(&self) -> Vec<(DropReason, u64)> {
        let mut drops = self.device.take_drops();
        match self.no_bufs.swap(0, Ordering::Relaxed) {
            0 => {}
            n => drops.push((DropReason::NoBufs, n)),
        }
        drops
    }

    fn detached(&self) -> usize {
        self.outward.clear();
        self.inward.clear() + self.device.detached()
    }

    fn transmit(&self, tx: &mut Mbufq) -> io::Result<usize> {
        let mut due = Mbufq::new();
        let now = self.clock.now();
        self.outward.pass(now, tx, &self.pool, usize::MAX, &mut due);
        let refused = self.device.transmit(&mut due);
        // Frames that a full device leaves are lost, as on a link.
        tx.append(&mut due);
        refused
    }

    fn next_deadline(&self) -> Option<Time> {
        let ways = [self.inward.next_at(), self.outward.next_at()];
        let ways = ways.into_iter().flatten();
        ways.chain(self.device.next_deadline()).min()
    }
}

impl LinkFrame for Carried<'_> {
    fn bytes(&self) -> usize {
        self.packet.len()
    }

    /// It never is: it was finished before.
    fn is_unfinished(&self) -> bool {
        false
    }

    fn duplicate(&mut self) -> Option<Self> {
        let packet = self.packet.copy_packet().ok()?;
        let pool = self.pool;
        Some(Self { packet, pool })
    }

    fn flip_bit(&mut self, bit: u64) -> bool {
        let (at, mut byte) = ((bit / 8) as usize, [0]);
        let may = self.ethertype() != Some(EtherType::ARP);
        if !may || self.packet.make_writable(self.pool, at, 1).is_err() {
            return false;
        }
        self.packet.copy_to(at, &mut byte);
        byte[0] ^= 1 << (bit % 8);
        // Its checksums count as unverified from now on.
        self.packet.header_mut().csum = Csum::empty();
        self.packet.write_at(at, &byte).is_ok()
    }

    fn cut_to(&mut self, len: usize) {
        self.packet.truncate(len);
        self.packet.header_mut().csum = Csum::empty();
    }

    fn mark_ce(&mut self) -> bool {
        const HEADERS: usize = EtherHeader::LEN + Ipv4Header::LEN;
        let ready = self.ethertype() == Some(EtherType::IPV4)
            && self.packet.pullup(HEADERS).is_ok()
            && self.packet.make_writable(self.pool, 0, HEADERS).is_ok();
        let front = self.packet.front_mut().filter(|_| ready);
        let header = front.and_then(|bytes| bytes.get_mut(EtherHeader::LEN..));
        header.is_some_and(|bytes| Ipv4Header::parse_mut(bytes).is_ok_and(Ipv4Header::mark_ce))
    }
}

impl Carried<'_> {
    fn ethertype(&self) -> Option<EtherType> {
        let mut header = [0; EtherHeader::LEN];
        let whole = self.packet.copy_to(0, &mut header);
        let parsed = EtherHeader::parse(&header).ok().filter(|_| whole);
        parsed.map(|(header, _)| header.ethertype())
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
