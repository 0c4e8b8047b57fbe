//! The receive buffer of one socket: the only state that a sender and its receiver share.
//!
//! ```text
//!   socket A                                     socket B
//!     tx ----------------> Rcvbuf of B <----------- rx
//!     rx ----------------> Rcvbuf of A <----------- tx
//! ```
//!
//! A connection is two of these. Each has one lock, and no operation on data takes two: a sender locks
//! its peer's, a receiver its own. Data moves by reference, a stream's bytes gather in one chain.
//!
//! Bytes with rights have boundaries in a stream: a read ends before such bytes, and a read that brings
//! rights ends behind their bytes. So rights arrive with the bytes that they were sent with.
//!
//! A full buffer takes no message; any other takes the next message whole. So a sender waits exactly while the buffer
//! is full. A read that makes the buffer half empty wakes all waiting senders.
//!
//! A splice may read or write instead of a program ([`splice`]): the program then waits, and changes are reported to
//! the splice.
//!
//! Invariant: the thread that finds nothing adds its waker before it releases the lock. Locks: `inner` (UNIX_RCV),
//! inside of the flight's lock where sockets go into it. Sources: the sockbuf of 4.4BSD; unix(4) and unix(7); seed 002.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use kern::{Giant, LockClass, order};
use mbuf::MbufPool;

use super::error::UnixError;
use super::flight::Flight;
use super::lock::{Lock, Locked};
use super::message::{Message, ReceivedMessage, Sender};
use super::rights::{Cargo, Passed, pack, unpack};
use crate::sockbuf::{Ancillary, QueuedRecord, RecordBuf};
use crate::tcp::spliced::SpliceTurn;
use crate::waiters::{WaitBy, WaiterSet, Wakes, Want};

mod splice;

static RCV: LockClass = LockClass::new("unix receive buffer", order::UNIX_RCV);

/// How messages lie in a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Bytes without boundaries.
    Stream,
    /// Records of a connection. An error comes before queued records, as Linux has it.
    Records,
    /// Datagrams, from any socket.
    Datagrams,
}

/// The reason for refusing a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SendRefusal {
    /// It is full.
    Full,
    /// Its owner reads no more, or its writer has ended the direction.
    Shut,
    /// Its owner has gone.
    Gone,
    /// Its owner accepts messages only of its peer.
    Stranger,
}

/// Whether the owner reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Reader {
    #[default]
    Open,
    Shut,
    Gone,
}

/// One socket's receive side.
#[doc(alias = "so_rcv")]
pub(crate) struct Rcvbuf {
    /// The socket that it is the receive side of.
    pub(super) owner: u64,
    shape: Shape,
    inner: Lock<RcvbufState>,
}

/// The rights and the sender of a message while it waits.
#[derive(Default)]
pub(super) struct Attached {
    pub(super) cargo: Vec<Cargo>,
    sender: Option<Sender>,
}

impl Ancillary for Attached {
    fn count(&self) -> usize {
        self.cargo.len()
    }
}

/// Messages that are not read yet.
pub(super) type Unread = VecDeque<QueuedRecord<Attached>>;

struct RcvbufState {
    records: RecordBuf<Attached>,
    reader: Reader,
    /// The writer writes no more.
    eof: bool,
    /// The writer closed without having read everything.
    reset: bool,
    /// The only socket that may write, for datagrams.
    only_from: Option<u64>,
    /// The wakers of the owner, which waits to read, and of senders, which wait to write.
    waiters: WaiterSet,
    /// The splice that reads instead of the owner, and the one that writes instead of the sender.
    splices: [Option<Arc<dyn SpliceTurn>>; 2],
}

/// The wakers of the threads that wait for a change, or the splice in their place; called with no lock held.
#[derive(Default)]
#[must_use = "the change is told by it"]
pub(super) struct Told {
    wakes: Wakes,
    splice: Option<Arc<dyn SpliceTurn>>,
}

impl Rcvbuf {
    pub(super) fn new(giant: &Arc<Giant>, owner: u64, shape: Shape, hiwat: usize) -> Self {
        Self {
            owner,
            shape,
            inner: Lock::new(giant, &RCV, RcvbufState::new(hiwat)),
        }
    }

    /// Appends a whole message. If the buffer is full, the thread that makes room or closes wakes `waiter`.
    ///
    /// # Errors
    /// The refusal; the message comes back.
    #[doc(alias = "sbappendcontrol")]
    pub(super) fn push(
        &self,
        pool: &MbufPool,
        flight: &Flight,
        message: Message,
        sender: Option<Sender>,
        waiter: Option<&Waker>,
    ) -> Result<(), (SendRefusal, Message)> {
        let unix = message.rights.iter().any(Passed::is_unix);
        let mut graph = unix.then(|| flight.lock());
        let mut inner = self.inner.lock();
        if let Err(refusal) = inner.admit(sender.as_ref()) {
            if let (SendRefusal::Full, Some(waiter)) = (refusal, waiter) {
                inner.waiters.add(Want::Write, waiter);
            }
            return Err((refusal, message));
        }
        let (cargo, handles) = pack(message.rights, self.owner, graph.as_deref_mut());
        let record = QueuedRecord {
            data: message.data,
            with: Attached { cargo, sender },
        };
        let was_empty = inner.records.is_empty();
        let copied = match self.shape {
            Shape::Stream => inner.records.join(pool, record),
            Shape::Records | Shape::Datagrams => {
                inner.records.push(record);
                None
            }
        };
        let told = was_empty.then(|| inner.tell(Want::Read));
        drop(inner);
        drop(graph);
        // Without a lock, because dropping the last reference to an object, or calling a waker, runs foreign code.
        drop((copied, handles));
        self.announce(told);
        Ok(())
    }

    /// Takes up to `max` bytes of the first message, and all their rights; `None` at the end. If the
    /// buffer is empty, the thread that sends or closes wakes `waiter`.
    ///
    /// # Errors
    /// `WouldBlock`; `Reset`, once; `NoBufs`, and nothing has changed.
    #[doc(alias = "soreceive")]
    pub(super) fn pop(
        &self,
        flight: &Flight,
        max: usize,
        waiter: Option<&Waker>,
    ) -> Result<Option<ReceivedMessage>, UnixError> {
        let mut inner = self.inner.lock();
        if let Some(verdict) = inner.verdict(self.shape, waiter) {
            return verdict;
        }
        let was_above = inner.records.is_above_half();
        let taken = match self.shape {
            Shape::Stream => inner.records.take_bytes(max)?,
            Shape::Records | Shape::Datagrams => inner.records.pop().unwrap_or_default(),
        };
        let room = was_above && !inner.records.is_above_half();
        let told = room.then(|| inner.tell(Want::Write));
        drop(inner);
        let mut received = ReceivedMessage {
            data: taken.data,
            sender: taken.with.sender,
            rights: unpack(taken.with.cargo, self.owner, flight),
            truncated: false,
        };
        if received.data.len() > max {
            received.data.truncate(max);
            received.truncated = true;
        }
        self.announce(told);
        Ok(Some(received))
    }

    /// Whether a read would not wait; if it would, the change wakes `waiter`.
    pub(super) fn is_readable(&self, waiter: Option<&Waker>) -> bool {
        let mut inner = self.inner.lock();
        let ready = inner.is_readable();
        if let (false, Some(waiter)) = (ready, waiter) {
            inner.waiters.add(Want::Read, waiter);
        }
        ready
    }

    /// Whether a write would not wait; if it would, the change wakes `waiter`.
    pub(super) fn is_writable(&self, waiter: Option<&Waker>) -> bool {
        let mut inner = self.inner.lock();
        let ready = inner.is_writable();
        if let (false, Some(waiter)) = (ready, waiter) {
            inner.waiters.add(Want::Write, waiter);
        }
        ready
    }

    /// The room in bytes, if that is worth a turn of a sender with `wanted` bytes; if not, the reader that makes room
    /// wakes `waiting`.
    ///
    /// # Errors
    /// `Full`, or the reason for taking no more.
    pub(super) fn room(
        &self,
        wanted: usize,
        waiting: Option<WaitBy<'_>>,
    ) -> Result<usize, SendRefusal> {
        let mut inner = self.inner.lock();
        let (space, hiwat) = inner.records.space();
        // A writer is woken when half of the buffer is free.
        let enough = wanted.min(hiwat / 2).max(1);
        let room = inner.admit(None).and(match space < enough {
            true => Err(SendRefusal::Full),
            false => Ok(space),
        });
        if let (Err(SendRefusal::Full), Some(waiting)) = (room, waiting) {
            inner.waiters.register(Want::Write, waiting);
        }
        room
    }

    /// Sets the kept waker for data; it is called at once if there is data.
    pub(super) fn keep_reader(&self, waker: Option<Waker>) {
        let mut inner = self.inner.lock();
        let now = inner.is_readable().then(|| waker.clone()).flatten();
        let old = inner.waiters.keep(Want::Read, waker);
        drop(inner);
        drop(old);
        self.inner.outward(|| now.into_iter().for_each(Waker::wake));
    }

    /// Sets the kept waker for room.
    pub(super) fn keep_writer(&self, waker: Option<Waker>) {
        let mut inner = self.inner.lock();
        let old = inner.waiters.keep(Want::Write, waker);
        drop(inner);
        drop(old);
    }

    /// Accepts messages of one socket only; of any socket with `None`.
    pub(super) fn only_from(&self, sender: Option<u64>) {
        self.inner.lock().only_from = sender;
    }

    /// Whether it takes messages of `sender`.
    pub(super) fn takes_from(&self, sender: u64) -> bool {
        let only = self.inner.lock().only_from;
        only.is_none_or(|only| only == sender)
    }

    /// The owner reads no messages but those that wait already.
    #[doc(alias = "socantrcvmore")]
    pub(super) fn shut_reader(&self) {
        let mut inner = self.inner.lock();
        if inner.reader == Reader::Open {
            inner.reader = Reader::Shut;
        }
        self.wake_all(inner);
    }

    /// The writer writes no more; `reset`: it closed without having read everything.
    #[doc(alias = "socantsendmore")]
    pub(super) fn shut_writer(&self, reset: bool) {
        self.announce(self.end_writer(reset));
    }

    /// The same, but the caller wakes the waiting threads.
    fn end_writer(&self, reset: bool) -> [Told; 2] {
        let mut inner = self.inner.lock();
        inner.eof = true;
        inner.reset |= reset;
        inner.tell_all()
    }

    /// The owner goes. Unread data comes back, to be dropped without a lock.
    #[doc(alias = "sbflush")]
    pub(super) fn close_reader(&self) -> Unread {
        let mut inner = self.inner.lock();
        inner.reader = Reader::Gone;
        let records = inner.records.flush();
        let kept = (inner.waiters.keep(Want::Read, None), inner.only_from.take());
        self.wake_all(inner);
        drop(kept);
        records
    }

    /// The pending reset, if there is one: the owner gets it once.
    #[doc(alias = "SO_ERROR")]
    pub(super) fn take_reset(&self) -> bool {
        std::mem::take(&mut self.inner.lock().reset)
    }

    /// Wakes all threads on both sides: the state in which they wait has ended.
    fn wake_all(&self, mut inner: Locked<'_, RcvbufState>) {
        let told = inner.tell_all();
        drop(inner);
        self.announce(told);
    }

    fn announce(&self, told: impl IntoIterator<Item = Told>) {
        self.inner.outward(|| {
            for Told { wakes, splice } in told {
                wakes.wake();
                if let Some(splice) = splice {
                    splice.queue_outside();
                }
            }
        });
    }
}

impl RcvbufState {
    fn new(hiwat: usize) -> Self {
        Self {
            // A buffer of size zero would never take anything.
            records: RecordBuf::new(hiwat.max(1), usize::MAX),
            reader: Reader::default(),
            eof: false,
            reset: false,
            only_from: None,
            waiters: WaiterSet::new(),
            splices: [None, None],
        }
    }

    fn splice(&self, want: Want) -> Option<&Arc<dyn SpliceTurn>> {
        self.splices[want as usize].as_ref()
    }

    /// Takes the wakers of readers or writers after a change.
    fn tell(&mut self, want: Want) -> Told {
        match self.splice(want) {
            Some(splice) => Told {
                splice: Some(Arc::clone(splice)),
                ..Told::default()
            },
            None => Told {
                wakes: self.waiters.take(want),
                ..Told::default()
            },
        }
    }

    fn tell_all(&mut self) -> [Told; 2] {
        [self.tell(Want::Read), self.tell(Want::Write)]
    }

    /// Whether `sender` may write a message now; not while a splice writes in its place.
    fn admit(&self, sender: Option<&Sender>) -> Result<(), SendRefusal> {
        self.is_open_to(sender)?;
        match self.splice(Want::Write).is_some() || self.records.is_full() {
            true => Err(SendRefusal::Full),
            false => Ok(()),
        }
    }

    fn is_open_to(&self, sender: Option<&Sender>) -> Result<(), SendRefusal> {
        match self.reader {
            // In Linux's order.
            _ if !self.knows(sender) => Err(SendRefusal::Stranger),
            Reader::Gone => Err(SendRefusal::Gone),
            Reader::Shut => Err(SendRefusal::Shut),
            Reader::Open if self.eof => Err(SendRefusal::Shut),
            Reader::Open => Ok(()),
        }
    }

    /// Whether `sender` may write.
    fn knows(&self, sender: Option<&Sender>) -> bool {
        self.only_from
            .is_none_or(|only| sender.is_none_or(|s| s.id == only))
    }

    /// The result of a read that returns no data.
    fn verdict(
        &mut self,
        shape: Shape,
        waiter: Option<&Waker>,
    ) -> Option<Result<Option<ReceivedMessage>, UnixError>> {
        if self.splice(Want::Read).is_some() {
            return Some(Err(self.wait_to_read(waiter)));
        }
        let data = !self.records.is_empty();
        if self.reset && (!data || shape != Shape::Stream) {
            self.reset = false;
            return Some(Err(UnixError::Reset));
        }
        if data {
            return None;
        }
        if self.has_ended() {
            return Some(Ok(None));
        }
        Some(Err(self.wait_to_read(waiter)))
    }

    fn wait_to_read(&mut self, waiter: Option<&Waker>) -> UnixError {
        if let Some(waiter) = waiter {
            self.waiters.add(Want::Read, waiter);
        }
        UnixError::WouldBlock
    }

    fn is_readable(&self) -> bool {
        let is_ready = !self.records.is_empty() || self.has_ended() || self.reset;
        is_ready && self.splice(Want::Read).is_none()
    }

    fn is_writable(&self) -> bool {
        let is_ready = !self.records.is_full() || self.has_ended();
        is_ready && self.splice(Want::Write).is_none()
    }

    /// Nothing more comes.
    fn has_ended(&self) -> bool {
        self.eof || self.reader != Reader::Open
    }
}
