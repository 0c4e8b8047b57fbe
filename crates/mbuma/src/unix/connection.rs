//! One side of a connection, of bytes or of records: two receive buffers, its own and its peer's.
//!
//! A side refers to the other's buffers and not to its socket. So a send locks only the receiving buffer, and closing
//! both sides at once needs no order.
//!
//! Locks: none of its own.
//! Source: POSIX.1-2024 shutdown(); unix(7).

use std::net::Shutdown;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use kern::prim::{AtomicBool, Ordering};

use super::error::UnixError;
use super::message::{Message, ReceivedMessage};
use super::name::Name;
use super::rcvbuf::{Rcvbuf, SendRefusal, Shape, Unread};
use super::rights;
use super::state::UnixState;
use crate::config::Credentials;
use crate::park::{Wait, retry};
use crate::waiters::{WaitBy, Want};

/// One side of a connection.
pub(super) struct UnixConnection {
    rx: Arc<Rcvbuf>,
    tx: Arc<Rcvbuf>,
    pub(super) local: Option<Name>,
    pub(super) peer: Option<Name>,
    pub(super) peer_credentials: Credentials,
    /// A program has accepted it. A connection that ends in an accept queue ends with a reset.
    accepted: AtomicBool,
}

/// The description of one side when a connection is made.
pub(super) struct PairSide {
    pub(super) id: u64,
    pub(super) name: Option<Name>,
    pub(super) credentials: Credentials,
    pub(super) accepted: bool,
}

impl UnixConnection {
    /// Both sides of a new connection.
    #[doc(alias = "unp_connect2")]
    pub(super) fn pair(unix: &UnixState, shape: Shape, a: PairSide, b: PairSide) -> (Self, Self) {
        let hiwat = unix.config.recv_buffer;
        let buffer = |id| Arc::new(Rcvbuf::new(&unix.giant, id, shape, hiwat));
        let (of_a, of_b) = (buffer(a.id), buffer(b.id));
        let side = |rx: &Arc<Rcvbuf>, tx: &Arc<Rcvbuf>, own: &PairSide, other: &PairSide| Self {
            rx: Arc::clone(rx),
            tx: Arc::clone(tx),
            local: own.name.clone(),
            peer: other.name.clone(),
            peer_credentials: other.credentials,
            accepted: AtomicBool::new(own.accepted),
        };
        (side(&of_a, &of_b, &a, &b), side(&of_b, &of_a, &b, &a))
    }

    /// A program has accepted it.
    pub(super) fn mark_accepted(&self) {
        // Release, for the thread that closes it, which comes after all uses in any case.
        self.accepted.store(true, Ordering::Release);
    }

    /// Gives a message to the peer, whole.
    pub(super) fn send(
        &self,
        unix: &UnixState,
        message: Message,
        wait: Wait,
    ) -> Result<(), (UnixError, Message)> {
        if let Err(e) = rights::check(unix, &message.rights) {
            return Err((e, message));
        }
        let mut unsent = Some(message);
        let pushed = retry(wait, |waiter| {
            let message = unsent.take().unwrap_or_default();
            match self
                .tx
                .push(&unix.pool, &unix.flight, message, None, waiter)
            {
                Err((SendRefusal::Full, message)) => {
                    unsent = Some(message);
                    Poll::Pending
                }
                other => Poll::Ready(other),
            }
        });
        match pushed {
            Some(Ok(())) => Ok(()),
            Some(Err((_, message))) => Err((UnixError::BrokenPipe, message)),
            None => Err((not_ready(wait), unsent.unwrap_or_default())),
        }
    }

    /// Takes received data, up to `max` bytes; `None` at the end.
    pub(super) fn recv(
        &self,
        unix: &UnixState,
        max: usize,
        wait: Wait,
    ) -> Result<Option<ReceivedMessage>, UnixError> {
        recv(&self.rx, unix, max, wait)
    }

    /// Whether a send would not wait: the peer's buffer has room, or the send would fail.
    pub(super) fn is_writable(&self) -> bool {
        self.tx.is_writable(None)
    }

    /// The bytes that the peer's buffer has room for: see [`Rcvbuf::room`].
    pub(super) fn room(
        &self,
        wanted: usize,
        waiting: Option<WaitBy<'_>>,
    ) -> Result<usize, UnixError> {
        self.tx
            .room(wanted, waiting)
            .map_err(|refusal| match refusal {
                SendRefusal::Full => UnixError::WouldBlock,
                _ => UnixError::BrokenPipe,
            })
    }

    /// Ends this side's sending because promised data is missing: the peer gets an error after the data.
    pub(super) fn fail(&self) {
        self.tx.shut_writer(true);
    }

    /// The pending reset.
    pub(super) fn take_reset(&self) -> bool {
        self.rx.take_reset()
    }

    pub(super) fn poll_readable(&self, cx: &Context<'_>) -> Poll<()> {
        ready_if(self.rx.is_readable(Some(cx.waker())))
    }

    pub(super) fn poll_writable(&self, cx: &Context<'_>) -> Poll<()> {
        ready_if(self.tx.is_writable(Some(cx.waker())))
    }

    /// Sets the waker for data, an end and room. It is called at once if there is data.
    pub(super) fn set_waker(&self, waker: Option<Waker>) {
        self.tx.keep_writer(waker.clone());
        self.rx.keep_reader(waker);
    }

    /// Ends reading, writing, or both on this side, and wakes the peer.
    #[doc(alias = "unp_shutdown")]
    pub(super) fn shutdown(&self, how: Shutdown) {
        if how != Shutdown::Write {
            self.rx.shut_reader();
        }
        if how != Shutdown::Read {
            self.tx.shut_writer(false);
        }
    }

    /// The buffer that this side reads from, and the one that it writes to.
    pub(super) fn buffers(&self) -> (&Arc<Rcvbuf>, &Arc<Rcvbuf>) {
        (&self.rx, &self.tx)
    }

    /// Stops the splices that use this side. With no lock held.
    pub(super) fn stop_splices(&self) {
        let splices = [self.rx.splice(Want::Read), self.tx.splice(Want::Write)];
        for splice in splices.into_iter().flatten() {
            splice.side_dropped();
        }
    }

    /// This side goes.
    #[doc(alias = "unp_disconnect")]
    pub(super) fn close(&self) -> Unread {
        let unread = self.rx.close_reader();
        let reset = !unread.is_empty() || !self.accepted.load(Ordering::Acquire);
        self.tx.keep_writer(None);
        self.tx.shut_writer(reset);
        unread
    }
}

/// Takes data from `rx`.
pub(super) fn recv(
    rx: &Rcvbuf,
    unix: &UnixState,
    max: usize,
    wait: Wait,
) -> Result<Option<ReceivedMessage>, UnixError> {
    let popped = retry(wait, |waiter| match rx.pop(&unix.flight, max, waiter) {
        Err(UnixError::WouldBlock) => Poll::Pending,
        other => Poll::Ready(other),
    });
    popped.unwrap_or(Err(not_ready(wait)))
}

/// The error of a call that is not ready.
pub(super) fn not_ready(wait: Wait) -> UnixError {
    match wait {
        Wait::No => UnixError::WouldBlock,
        Wait::Yes(_) => UnixError::TimedOut,
    }
}

pub(super) fn ready_if(ready: bool) -> Poll<()> {
    if ready {
        Poll::Ready(())
    } else {
        Poll::Pending
    }
}
