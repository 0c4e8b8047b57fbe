//! A UNIX-domain socket at which the peers of a device connect, one after the other.
//!
//! If the process has no descriptor left for a peer, the peer waits, and the listener is removed from the set, so that
//! the set is not readable all the time. The device tries again at its [deadline](super::Device::next_deadline).
//!
//! Invariants: nothing blocks.
//! Locks: none.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;

use kern::{AtomicDeadline, Clock, Time};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The time after which the device tries again to accept a peer for which there was no descriptor.
pub(super) const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// Peers that are accepted in one turn, so that peers that connect without end do not hold the thread. The set is
/// readable again for the others.
const PEERS_MAX: usize = 16;
/// The listener's number in its device's set.
pub(super) const LISTENER: u64 = 0;

/// Where peers connect.
#[derive(Debug)]
pub(super) struct PeerListener {
    socket: UnixListener,
    clock: Arc<dyn Clock>,
    /// The time to try again; until then the listener is not in the set, because a peer waits for a descriptor. Set in
    /// [`Device::receive`](super::Device::receive), after which the stack asks for the deadline.
    again: AtomicDeadline,
    /// Woken for each peer that is refused.
    refusal: OnceLock<Waker>,
}

impl PeerListener {
    /// Takes a socket over, and adds it to `set`, the epoll set of its device. `clock` is that of the stack.
    ///
    /// # Errors
    /// epoll_ctl(2)'s.
    pub(super) fn new(
        socket: UnixListener,
        clock: Arc<dyn Clock>,
        set: BorrowedFd<'_>,
    ) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let listener = Self {
            socket,
            clock,
            again: AtomicDeadline::new(),
            refusal: OnceLock::new(),
        };
        listener.watch(set)?;
        Ok(listener)
    }

    fn watch(&self, set: BorrowedFd<'_>) -> io::Result<()> {
        let data = EventData::new_u64(LISTENER);
        Ok(epoll::add(set, self.socket.as_fd(), data, EventFlags::IN)?)
    }

    /// Accepts the peers that wait, and passes each to `take`.
    pub(super) fn accept(&self, set: BorrowedFd<'_>, mut take: impl FnMut(UnixStream)) {
        if !self.is_due() {
            return;
        }
        for _ in 0..PEERS_MAX {
            match self.socket.accept() {
                Ok((peer, _)) => take(peer),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if is_of_one_peer(&e) => {}
                Err(_) => return self.pause(set),
            }
        }
        if self.resume() && self.watch(set).is_err() {
            self.pause(set);
        }
    }

    /// Sets the waker for peers that are refused; the first one stays.
    pub(super) fn set_refusal_waker(&self, waker: Waker) {
        let _ = self.refusal.set(waker);
    }

    /// A peer was refused, because there is another. The caller holds no lock.
    pub(super) fn tell_refusal(&self) {
        if let Some(waker) = self.refusal.get() {
            waker.wake_by_ref();
        }
    }

    /// The time to try again.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.again.get()
    }

    /// Whether accept may be tried now.
    fn is_due(&self) -> bool {
        self.deadline().is_none_or(|at| at <= self.clock.now())
    }

    /// No peer can be accepted now: removes the listener from the set for a while.
    fn pause(&self, set: BorrowedFd<'_>) {
        // It fails if the listener is not in the set.
        let _ = epoll::delete(set, self.socket.as_fd());
        self.again.set(Some(self.clock.now() + ACCEPT_AGAIN));
    }

    /// Ends a pause. Returns true if there was one.
    fn resume(&self) -> bool {
        self.again.get().is_some() && self.again.take().is_some()
    }
}

/// Whether an error of accept(2) concerns the first peer only, and not the next.
fn is_of_one_peer(e: &io::Error) -> bool {
    let kinds = [io::ErrorKind::Interrupted, io::ErrorKind::ConnectionAborted];
    kinds.contains(&e.kind())
}

/// Whether the other end of a connection is closed, though its end was not read yet.
pub(super) fn has_ended(peer: &UnixStream) -> bool {
    let mut fds = [PollFd::new(peer, PollFlags::empty())];
    let polled = poll(&mut fds, Some(&Timespec::default()));
    polled.is_ok() && fds[0].revents().contains(PollFlags::HUP)
}
