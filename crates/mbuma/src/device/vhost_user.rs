//! A network card for a virtual machine, in memory that the machine shares: vhost-user's back-end.
//!
//! ```text
//!   front-end (QEMU, for example) --messages, descriptors--> memory and rings
//!   driver --chains of one ring--> receive         copied once, from the machine's memory into clusters
//!   driver <--chains of the other-- transmit       copied once, from mbufs into the machine's memory
//!   driver --kick--> |device| --call--> driver     only when the other side asked for it
//! ```
//!
//! One pair of queues. A virtio-net header before each frame leaves checksums and large segments of TCP and UDP to the
//! other side, in both directions, as on a TAP; offloads that the machine's driver did not accept are done here.
//! Numbers are little-endian, because both sides are. A [`VhostUser`] serves one front-end after the other, because a
//! virtual machine may be started again, and refuses a second one beside the first. Its descriptor becomes readable
//! when there is work.
//!
//! Neither the driver nor the front-end is trusted:
//!
//! | the driver | the effect |
//! |---|---|
//! | describes a frame by a chain that loops, is too long, leaves the memory, or has the wrong direction | the frame is dropped, and its chain is given back |
//! | sends a frame that is too short or too long, or whose header is invalid | the same |
//! | puts an invalid entry in a ring, or a chain for our frames that can't be written | the ring is not used until it is set up again; the front-end is notified |
//! | makes many frames available | those beyond the budget wait for the next poll |
//! | gives no buffers | at most [`QUEUE_FRAMES_MAX`](super::frame_stream::QUEUE_FRAMES_MAX) frames wait |
//!
//! | the front-end | the effect |
//! |---|---|
//! | sends an invalid message, one with too few or too many descriptors, or memory behind the end of its file | it gets an error, if it asked for a reply; otherwise the connection ends |
//! | sends a part of a message | the device waits for the rest, and blocks no thread |
//! | passes descriptors that are not eventfds | the device watches them, never reads them, and sets them not to block before it writes them |
//! | reads no replies | the connection ends |
//! | fills the count of an eventfd that it passed, and clears O_NONBLOCK again | this process blocks |
//! | shortens memory that it shared, or delays an access to it (by a file system of its own) | this process ends, or blocks |
//!
//! The last two can't be avoided with shared files, and harm only the front-end itself: this process serves only its
//! machine. No system call writes an eventfd without regard to its flag (`pwritev2` accepts RWF_NOWAIT only for reads
//! of one). Sealed memory can't be shortened (QEMU's memory-backend-memfd is sealed), but seals can't be required:
//! cloud-hypervisor's memory and files in hugetlbfs can't be sealed.
//!
//! Invariants: nothing else blocks. Locks: `state` (IFQUEUE), during a copy, a call and a message.
//! Sources: virtio 1.2 sections 2.7 and 5.1; QEMU's docs/interop/vhost-user.rst.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use kern::{Clock, LockClass, Mutex, MutexGuard, Time, order};
use mbuf::{MbufPool, Mbufq};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use super::peer_listener::{LISTENER, PeerListener, has_ended};
use super::{Budget, Capabilities, Device, offload, take_counts};
use crate::drops::DropReason;
use frame_intake::{FrameIntake, TakenFrame};
use frame_output::FrameOutput;
use front_end::{FROM_MACHINE, FrontEnd, Handled, TO_MACHINE};
use message::MessageEnd;
use vring::RingBroken;

mod buffers;
mod features;
mod frame_intake;
mod frame_output;
mod front_end;
mod memory;
mod message;
mod ring_setup;
mod vring;

static STATE: LockClass = LockClass::new("vhost-user device", order::IFQUEUE);

/// The front-end's number in the device's set.
const FRONT_END: u64 = 1;
/// Messages of a turn at most.
const MESSAGES_MAX: usize = 32;
/// Events of a turn: of the listener, the front-end, two kicks.
const EVENTS_MAX: usize = 4;

/// A device whose frames lie in a virtual machine's memory (virtio 1.2 sections 2.7 and 5.1).
#[derive(Debug)]
pub struct VhostUser {
    mtu: u16,
    pool: MbufPool,
    listener: PeerListener,
    /// An epoll set with the listener, the front-end and the kicks in it.
    set: Arc<OwnedFd>,
    state: Mutex<CardState>,
    drops: VhostDrops,
}

/// What changes.
#[derive(Debug)]
struct CardState {
    front_end: Option<FrontEnd>,
    intake: FrameIntake,
    output: FrameOutput,
}

/// Frames dropped since they were last reported. Relaxed: numbers that order nothing.
#[derive(Debug, Default)]
struct VhostDrops {
    no_bufs: AtomicU64,
    bad_vnet: AtomicU64,
    bad_length: AtomicU64,
    bad_descriptors: AtomicU64,
    bad_message: AtomicU64,
    /// They waited for a driver that has left.
    unsent: AtomicU64,
}

impl VhostUser {
    /// A card for the front-ends that connect to `listener`, one after the other. While there is none, frames are
    /// dropped. Frames are copied into clusters of `pool`. `clock` is that of the stack.
    ///
    /// # Errors
    /// The process has no descriptor left.
    pub fn listen(
        listener: UnixListener,
        mtu: u16,
        clock: Arc<dyn Clock>,
        pool: &MbufPool,
    ) -> io::Result<Self> {
        let set = Arc::new(epoll::create(CreateFlags::CLOEXEC)?);
        let state = CardState {
            front_end: None,
            intake: FrameIntake::new(pool),
            output: FrameOutput::default(),
        };
        Ok(Self {
            mtu,
            pool: pool.clone(),
            listener: PeerListener::new(listener, clock, set.as_fd())?,
            set,
            state: Mutex::new(&STATE, state),
            drops: VhostDrops::default(),
        })
    }

    /// Has `waker` woken when a front-end is refused because there is another one; the first call counts.
    pub fn set_refusal_waker(&self, waker: Waker) {
        self.listener.set_refusal_waker(waker);
    }

    /// Handles the events of the set. A kick needs no action here, because the rings are checked in any case. Returns
    /// whether a front-end was refused.
    fn handle_events(&self, state: &mut CardState) -> bool {
        let nothing = Event {
            flags: EventFlags::empty(),
            data: EventData::new_u64(0),
        };
        let mut room = [nothing; EVENTS_MAX];
        let waited = epoll::wait(&*self.set, &mut room[..], Some(&Timespec::default()));
        let happened = &room[..waited.unwrap_or(0)];
        let any = |key| happened.iter().any(|event| event.data.u64() == key);
        if any(FRONT_END) {
            self.handle_messages(state);
        }
        let mut refused = false;
        if any(LISTENER) || self.listener.deadline().is_some() {
            self.listener
                .accept(self.as_fd(), |peer| refused |= !self.join(state, peer));
        }
        refused
    }

    fn handle_messages(&self, state: &mut CardState) {
        for _ in 0..MESSAGES_MAX {
            let Some(front_end) = &mut state.front_end else {
                return;
            };
            match front_end.handle_next() {
                Ok(Handled::Message) => {}
                Ok(Handled::Restart) => state.lose_frames(&self.drops),
                Ok(Handled::Nothing) => return,
                Err(end) => {
                    if end == MessageEnd::Bad {
                        self.drops.count(DropReason::BadFrontEndMessage);
                    }
                    return state.part(&self.drops);
                }
            }
        }
    }

    /// Connects a front-end; false if there is one.
    fn join(&self, state: &mut CardState, peer: UnixStream) -> bool {
        if state
            .front_end
            .as_ref()
            .is_some_and(|one| has_ended(one.peer()))
        {
            state.part(&self.drops);
        }
        if state.front_end.is_some() {
            return false;
        }
        let data = EventData::new_u64(FRONT_END);
        let watch = || epoll::add(&*self.set, peer.as_fd(), data, EventFlags::IN);
        // If the set has no memory for it, the front-end's connection is closed.
        if peer.set_nonblocking(true).is_ok() && watch().is_ok() {
            state.front_end = Some(FrontEnd::new(peer, &self.set));
        }
        true
    }

    /// Takes frames of the machine within `budget`; true if more may wait.
    fn take_frames(&self, state: &mut CardState, rx: &mut Mbufq, budget: Budget) -> bool {
        let Some(front_end) = &mut state.front_end else {
            return false;
        };
        let (features, memory) = (front_end.features, &front_end.memory);
        let setup = &mut front_end.rings[FROM_MACHINE];
        let Some((ring, mapped)) = setup.live(memory, features) else {
            return false;
        };
        let (mut bytes, header) = (0, features.header());
        let mut take = |rx: &mut Mbufq| {
            ring.be_quiet(mapped)?;
            for _ in 0..budget.frames {
                if bytes >= budget.bytes {
                    break;
                }
                match state.intake.take(mapped, ring, header.len)? {
                    TakenFrame::Whole(packet) => {
                        bytes += packet.len();
                        rx.enqueue(packet);
                    }
                    TakenFrame::Dropped(reason) => self.drops.count(reason),
                    TakenFrame::Nothing => return ring.await_kick(mapped, 0),
                }
            }
            Ok(true)
        };
        let more = take(rx);
        let called = setup.call(memory);
        match more.and_then(|more| called.map(|()| more)) {
            Ok(more) => more,
            Err(RingBroken) => {
                setup.break_down();
                self.drops.count(DropReason::BadDescriptors);
                false
            }
        }
    }
}

impl CardState {
    /// The offloads that the driver accepts, if there is one.
    fn left_to_driver(&mut self, mtu: u16) -> Option<Capabilities> {
        let front_end = self.front_end.as_mut()?;
        let features = front_end.features;
        let ring = &mut front_end.rings[TO_MACHINE];
        ring.live(&front_end.memory, features)?;
        Some(features.left_to_driver(mtu))
    }

    /// The front-end has left: removes its memory, rings, and frames for them.
    fn part(&mut self, drops: &VhostDrops) {
        self.front_end = None;
        self.lose_frames(drops);
    }

    /// Frames that wait are for a driver that has left.
    fn lose_frames(&mut self, drops: &VhostDrops) {
        let lost = self.output.clear();
        drops.add(DropReason::DeviceError, lost as u64);
    }

    fn flush(&mut self, drops: &VhostDrops) {
        let Some(front_end) = &mut self.front_end else {
            return;
        };
        let (features, memory) = (front_end.features, &front_end.memory);
        let setup = &mut front_end.rings[TO_MACHINE];
        let Some((ring, mapped)) = setup.live(memory, features) else {
            return;
        };
        let flushed = self.output.flush(mapped, ring, features.header());
        if flushed.and_then(|()| setup.call(memory)).is_err() {
            setup.break_down();
            // A broken ring is reported even if no frame is lost.
            let lost = self.output.clear().max(1);
            drops.add(DropReason::BadDescriptors, lost as u64);
        }
    }

    /// Releases the lock, and then drops the frames that are done.
    fn release(mut state: MutexGuard<'_, CardState>) {
        let done = state.output.take_done();
        drop(state);
        drop(done);
    }
}

/// Does the offloads that the driver did not accept. Returns the number of frames for which it failed.
fn prepare(tx: &mut Mbufq, caps: Capabilities, pool: &MbufPool) -> usize {
    if caps == Capabilities::whole(caps.mtu) {
        return 0;
    }
    let (mut ready, mut refused) = (Mbufq::new(), 0);
    while let Some(frame) = tx.dequeue() {
        if offload::prepare(pool, frame, caps, &mut ready).is_err() {
            refused += 1;
        }
    }
    *tx = ready;
    refused
}

impl VhostDrops {
    fn count(&self, reason: DropReason) {
        self.add(reason, 1);
    }

    fn add(&self, reason: DropReason, frames: u64) {
        let counter = match reason {
            DropReason::NoBufs => &self.no_bufs,
            DropReason::BadVnetHeader => &self.bad_vnet,
            DropReason::BadFrameLength => &self.bad_length,
            DropReason::BadFrontEndMessage => &self.bad_message,
            DropReason::DeviceError => &self.unsent,
            _ => &self.bad_descriptors,
        };
        counter.fetch_add(frames, Ordering::Relaxed);
    }
}

impl Device for VhostUser {
    fn capabilities(&self) -> Capabilities {
        Capabilities::whole(self.mtu)
    }

    fn receive(&self, rx: &mut Mbufq, budget: Budget) -> io::Result<bool> {
        let mut state = self.state.lock();
        let refused = self.handle_events(&mut state);
        let more = self.take_frames(&mut state, rx, budget);
        // A kick may mean that there are buffers for frames that wait.
        state.flush(&self.drops);
        CardState::release(state);
        if refused {
            self.listener.tell_refusal();
        }
        Ok(more)
    }

    fn take_drops(&self) -> Vec<(DropReason, u64)> {
        take_counts([
            (DropReason::NoBufs, &self.drops.no_bufs),
            (DropReason::BadVnetHeader, &self.drops.bad_vnet),
            (DropReason::BadFrameLength, &self.drops.bad_length),
            (DropReason::BadDescriptors, &self.drops.bad_descriptors),
            (DropReason::BadFrontEndMessage, &self.drops.bad_message),
            (DropReason::DeviceError, &self.drops.unsent),
        ])
    }

    fn transmit(&self, tx: &mut Mbufq) -> io::Result<usize> {
        let Some(caps) = self.state.lock().left_to_driver(self.mtu) else {
            return Ok(0);
        };
        let unfit = prepare(tx, caps, &self.pool);
        let mut state = self.state.lock();
        // A new driver may accept fewer offloads: the frames wait, and are prepared for it.
        if state.left_to_driver(self.mtu) == Some(caps) {
            state.output.add(tx);
        }
        state.flush(&self.drops);
        let refused = unfit + state.output.take_refused();
        CardState::release(state);
        Ok(refused)
    }

    fn next_deadline(&self) -> Option<Time> {
        self.listener.deadline()
    }
}

impl AsFd for VhostUser {
    /// Readable when there is work for [`Device::receive`].
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
