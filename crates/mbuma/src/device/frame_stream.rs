//! Ethernet frames over a UNIX stream socket, each behind its length: QEMU's `-netdev stream`, as passt speaks it.
//!
//! ```text
//!   virtual machine --writes--> | length | frame | length | frame | ...   --> receive
//!   virtual machine <--reads--- | length | frame | ...                    <-- transmit
//! ```
//!
//! A length has 32 bits, in network byte order, and counts the frame alone. One read takes in as many frames as there
//! are, into clusters that stay their storage; one write sends as many as there is room for. A frame has no header of
//! offloads: checksums are complete both ways, and no packet is larger than the MTU.
//!
//! A [`FrameStream`] that has a listener serves one peer after the other, because a virtual machine may be started
//! again. It refuses a second peer beside the first. Its descriptor becomes readable when there is work: a frame, a
//! peer, room behind frames that wait.
//!
//! The peer is not trusted:
//!
//! | the peer | the effect |
//! |---|---|
//! | announces a frame that is too long | the connection ends, because the next frame's begin is unknown |
//! | announces a frame without an Ethernet header | the frame is dropped |
//! | sends a part of a frame, in pieces of any size | at most four times its bytes are pinned |
//! | sends many frames at once | those beyond the budget wait for the next poll |
//! | reads nothing | at most [`QUEUE_FRAMES_MAX`] frames of [`QUEUE_BYTES_MAX`] bytes wait; those beyond are dropped |
//!
//! Invariants: nothing blocks. Locks: `rx`, `tx` (IFQUEUE), never both, during a read or a write.
//! Sources: QEMU's net/stream.c; passt(1).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;

use kern::{Clock, LockClass, Mutex, Time, order};
use mbuf::{MbufPool, Mbufq};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

pub use super::frame_queue::{QUEUE_BYTES_MAX, QUEUE_FRAMES_MAX};
use super::peer_listener::PeerListener;
use super::{Budget, Capabilities, Device, take_counts};
use crate::drops::DropReason;
use frame_reader::{FrameReader, NextFrame};
use send_queue::SendQueue;

mod deframer;
mod frame_reader;
mod send_queue;

static RX: LockClass = LockClass::new("frame stream receive", order::IFQUEUE);
static TX: LockClass = LockClass::new("frame stream transmit", order::IFQUEUE);

/// A device whose frames cross a UNIX stream socket (`-netdev stream` of QEMU, passt(1)).
#[derive(Debug)]
pub struct FrameStream {
    mtu: u16,
    listener: Option<PeerListener>,
    /// An epoll set with the listener and the peer in it.
    set: OwnedFd,
    rx: Mutex<FrameReader>,
    tx: Mutex<SendQueue>,
    /// Frames wait for room in the socket. Written under `tx`; a reader that misses a change is called again, because
    /// the set is watched by level.
    blocked: AtomicBool,
    drops: StreamDrops,
}

/// Frames dropped since they were last reported. Relaxed: numbers that order nothing.
#[derive(Debug, Default)]
struct StreamDrops {
    no_bufs: AtomicU64,
    bad_length: AtomicU64,
    /// They waited for a peer that has left.
    unsent: AtomicU64,
}

impl FrameStream {
    /// A device for the peers that connect to `listener`, one after the other. While there is none, frames are dropped.
    /// Frames are read into clusters of `pool`. `clock` is that of the stack.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn listen(
        listener: UnixListener,
        mtu: u16,
        clock: Arc<dyn Clock>,
        pool: &MbufPool,
    ) -> io::Result<Self> {
        let mut device = Self::new(mtu, pool)?;
        device.listener = Some(PeerListener::new(listener, clock, device.as_fd())?);
        Ok(device)
    }

    /// Has `waker` woken when a peer is refused because there is another one; the first call counts.
    pub fn set_refusal_waker(&self, waker: Waker) {
        if let Some(listener) = &self.listener {
            listener.set_refusal_waker(waker);
        }
    }

    /// A device for this peer alone: it ends with the connection.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn connected(peer: UnixStream, mtu: u16, pool: &MbufPool) -> io::Result<Self> {
        let device = Self::new(mtu, pool)?;
        device.join(peer)?;
        Ok(device)
    }

    fn new(mtu: u16, pool: &MbufPool) -> io::Result<Self> {
        Ok(Self {
            mtu,
            listener: None,
            set: epoll::create(CreateFlags::CLOEXEC)?,
            rx: Mutex::new(&RX, FrameReader::new(pool)),
            tx: Mutex::new(&TX, SendQueue::default()),
            blocked: AtomicBool::new(false),
            drops: StreamDrops::default(),
        })
    }

    fn watch(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let data = EventData::new_u64(0);
        Ok(epoll::add(&self.set, fd, data, EventFlags::IN)?)
    }

    /// Takes a peer in.
    fn join(&self, peer: UnixStream) -> io::Result<()> {
        peer.set_nonblocking(true)?;
        self.watch(peer.as_fd())?;
        let peer = Arc::new(peer);
        self.rx.lock().join(Arc::clone(&peer));
        self.send(|queue| queue.join(peer));
        Ok(())
    }

    /// Accepts the peers that wait: connects the first if there is none, and refuses the others.
    fn accept(&self) {
        if let Some(listener) = &self.listener {
            listener.accept(self.as_fd(), |peer| self.take(peer));
        }
    }

    /// Connects a peer, unless there is one.
    fn take(&self, peer: UnixStream) {
        let before = self.rx.lock().lose_ended_peer();
        before.iter().for_each(|before| self.part(before));
        if !self.rx.lock().is_connected() {
            // If the set has no memory for it, the peer's connection is closed.
            let _ = self.join(peer);
        } else if let Some(listener) = &self.listener {
            drop(peer);
            listener.tell_refusal();
        }
    }

    /// The connection has ended.
    fn part(&self, peer: &Arc<UnixStream>) {
        // It fails if another thread has removed it from the set.
        let _ = epoll::delete(&self.set, peer.as_fd());
        self.send(|queue| queue.part(peer));
    }

    /// Changes the queue, and sends the frames for which there is room.
    fn send(&self, change: impl FnOnce(&mut SendQueue)) {
        let mut queue = self.tx.lock();
        change(&mut queue);
        let waits = queue.flush();
        if self.blocked.swap(waits, Ordering::Relaxed) != waits {
            self.watch_for_room(&queue, waits);
        }
        let done = queue.take_done();
        let unsent = queue.take_unsent();
        drop(queue);
        self.drops.unsent.fetch_add(unsent, Ordering::Relaxed);
        drop(done);
    }

    fn watch_for_room(&self, queue: &SendQueue, waits: bool) {
        let mut interest = EventFlags::IN;
        interest.set(EventFlags::OUT, waits);
        if let Some(peer) = queue.peer() {
            // It fails only if another thread has noticed the peer's end.
            let _ = epoll::modify(&self.set, peer, EventData::new_u64(0), interest);
        }
    }

    /// Takes frames from the peer within `budget`.
    fn read(&self, rx: &mut Mbufq, budget: Budget) -> ReadEnd {
        let mut reader = self.rx.lock();
        let mut bytes = 0;
        for _ in 0..budget.frames {
            if bytes >= budget.bytes {
                break;
            }
            match reader.next_frame() {
                NextFrame::Whole(packet) => {
                    bytes += packet.len();
                    rx.enqueue(packet);
                }
                NextFrame::NoBufs => count(&self.drops.no_bufs),
                NextFrame::BadLength => count(&self.drops.bad_length),
                NextFrame::Drained => return ReadEnd::Drained,
                NextFrame::Idle => return ReadEnd::Idle,
                NextFrame::End(peer) => return ReadEnd::Peer(peer),
                NextFrame::TooLong(peer) => {
                    count(&self.drops.bad_length);
                    return ReadEnd::Peer(peer);
                }
            }
        }
        ReadEnd::Budget
    }
}

/// Why no more frames are taken.
enum ReadEnd {
    /// More may wait.
    Budget,
    /// All were taken.
    Drained,
    /// There were none.
    Idle,
    /// The connection has ended.
    Peer(Arc<UnixStream>),
}

impl Device for FrameStream {
    fn capabilities(&self) -> Capabilities {
        Capabilities::plain(self.mtu)
    }

    fn receive(&self, rx: &mut Mbufq, budget: Budget) -> io::Result<bool> {
        if self.blocked.load(Ordering::Relaxed) {
            self.send(|_| ());
        }
        match self.read(rx, budget) {
            ReadEnd::Budget => return Ok(true),
            ReadEnd::Drained => return Ok(false),
            // Another event than a frame made the descriptor readable.
            ReadEnd::Idle => {}
            ReadEnd::Peer(peer) => self.part(&peer),
        }
        self.accept();
        match self.listener.is_some() || self.rx.lock().is_connected() {
            true => Ok(false),
            false => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn take_drops(&self) -> Vec<(DropReason, u64)> {
        take_counts([
            (DropReason::NoBufs, &self.drops.no_bufs),
            (DropReason::BadFrameLength, &self.drops.bad_length),
            (DropReason::DeviceError, &self.drops.unsent),
        ])
    }

    fn transmit(&self, tx: &mut Mbufq) -> io::Result<usize> {
        self.send(|queue| queue.add(tx));
        Ok(0)
    }

    fn next_deadline(&self) -> Option<Time> {
        self.listener.as_ref().and_then(PeerListener::deadline)
    }
}

impl AsFd for FrameStream {
    /// Readable when there is work for [`Device::receive`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

fn count(drops: &AtomicU64) {
    drops.fetch_add(1, Ordering::Relaxed);
}

#[cfg(all(test, not(shuttle)))]
mod tests;
