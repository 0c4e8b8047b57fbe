//! Splicing: data that one connection receives is sent on another, inside of the stack.
//!
//! ```text
//!            source                                          sink
//!   peer --> [receive buffer] --- chains, by reference ---> [send buffer] --> peer
//!                  |                  a turn                     |
//!          data, FIN, error  ---->   of [Link]   <----   room, FIN sent, error
//! ```
//!
//! Each side is a TCP connection or a stream of a UNIX-domain socket ([`side`]): the sink of the latter is the receive
//! buffer of its peer.
//!
//! A connection that is a side of a splice reports changes to the splice instead of its program, so no program is woken
//! for a segment, but only at the end ([`SpliceEnd`]). The splice gets a turn at the end of the batch with the change,
//! and moves as many bytes as the sink has room for. If the sink is full, the data stays in the source's receive
//! buffer, so the source's window closes: backpressure reaches the sender.
//!
//! | the turn moves | when |
//! |---|---|
//! | all received bytes | the sink has room for them |
//! | as many bytes as the sink has room for | half of its buffer is free |
//! | nothing | otherwise; the next turn comes when half of the buffer is free |
//!
//! A connection with TLS ([`TlsStream`]) can also be a side: the splice opens records as they leave the source, and
//! frames content as it enters the sink, so a splice with TLS at one side terminates it. The stack handles all other
//! records, key changes too.
//!
//! A turn between two stacks of one process belongs to no batch: it runs as a waker does, after the batch, with no lock
//! held.
//!
//! Invariants: one turn of a splice runs at a time; a byte is counted before the sink can send it; after
//! [`Splice::stop`] no byte moves. Locks: the splice's (SPLICE) during a turn, and inside of it one connection's (CONN,
//! or UNIX_RCV) at a time. Sources: SO_SPLICE of OpenBSD (seed 000) and FreeBSD.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use self::link::Link;
use self::side::Spliceable;
use super::tcp_stream::TcpStream;
use super::tls_stream::TlsStream;
use crate::park::{Wait, retry};
use crate::tls::TlsError;

mod link;
#[cfg(all(test, shuttle))]
#[path = "../models/splice.rs"]
mod models;
mod relay;
pub(crate) mod side;
mod tcp_side;

pub use relay::{StreamRelay, relay};
pub(super) use tcp_side::{TcpSide, side_dropped};

/// The options of a splice, among them its limits (SO_SPLICE, seed 000).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[doc(alias = "sosplice")]
pub struct SpliceOptions {
    /// Bytes to move at most.
    pub max: Option<u64>,
    /// The splice ends when no byte has moved for this time.
    pub idle: Option<Duration>,
    /// Passes the source's end of file or reset on to the sink. If false, the program may send more on the sink.
    pub pass_end: bool,
}

/// Why a splice has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpliceEnd {
    /// The source's peer has ended its direction, and all its bytes were moved.
    Eof,
    /// [`SpliceOptions::max`] bytes were moved.
    Max,
    /// No byte was moved for [`SpliceOptions::idle`].
    Idle,
    /// The program stopped it, or dropped a side.
    Stopped,
    /// The next bytes of the source, a UNIX-domain socket, have rights, which no splice moves: the program must read
    /// them.
    Rights,
    /// The source failed, or its TLS, or the stream of that was truncated; or no thread drives its stack any more
    /// ([`NotDriven`](crate::SocketError::NotDriven)).
    Source(TlsError),
    /// The sink failed, its program has shut it down, its TLS takes nothing more, or no thread drives its stack any
    /// more. Data that was moved and not sent is lost.
    Sink(TlsError),
}

/// A connection that becomes a side of a splice: a [`TcpStream`], a [`TlsStream`] or a
/// [`UnixStream`](crate::UnixStream).
#[derive(Debug, Clone, Copy)]
pub struct SpliceEndpoint<'a>(pub(crate) &'a dyn Spliceable);

impl<'a> From<&'a TcpStream> for SpliceEndpoint<'a> {
    fn from(tcp: &'a TcpStream) -> Self {
        Self(tcp)
    }
}

impl<'a> From<&'a TlsStream> for SpliceEndpoint<'a> {
    fn from(tls: &'a TlsStream) -> Self {
        Self(tls.tcp())
    }
}

/// The outcome of a splice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpliceOutcome {
    /// Bytes that were moved to the sink's send buffer.
    pub bytes: u64,
    /// Why it ended.
    pub end: SpliceEnd,
}

/// The error of splicing two connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpliceError {
    /// The source is already the source of a splice, or the sink is already the sink of one.
    #[error("the connection is spliced in this direction already")]
    Busy,
    /// Data that the source receives would come back to it through splices of its stack, and circulate for ever. A loop
    /// that leads through another stack is not seen.
    #[error("the splice would close a loop")]
    Loop,
    /// The connections belong to two stacks, and one of these runs under Giant.
    #[error("a splice between two stacks needs stacks without Giant")]
    Giant,
    /// The stack of a UNIX-domain socket has no handle left, so it would give the splice no turns.
    #[error("the stack of the socket is gone")]
    StackGone,
}

impl From<SpliceError> for io::Error {
    fn from(e: SpliceError) -> Self {
        let kind = match e {
            SpliceError::Busy => io::ErrorKind::ResourceBusy,
            SpliceError::Loop => io::ErrorKind::InvalidInput,
            SpliceError::Giant => io::ErrorKind::Unsupported,
            SpliceError::StackGone => io::ErrorKind::NotConnected,
        };
        Self::new(kind, e)
    }
}

/// A splice (SO_SPLICE, seed 000). Dropping it stops the splice.
#[doc(alias = "somove")]
#[must_use = "dropping it stops the splice"]
pub struct Splice {
    link: Arc<Link>,
}

/// Moves received data from `from` to `to`, until the splice ends ([`SpliceEnd`]). Each side is a [`TcpStream`], a
/// [`TlsStream`] or a [`UnixStream`](crate::UnixStream).
///
/// Meanwhile reads of `from` and writes to `to` by the program return
/// [`WouldBlock`](crate::SocketError::WouldBlock); their wakers are called when the splice has ended. The other
/// direction of each connection is not affected, and may be spliced too.
/// Urgent data moves as ordinary data. Rights that come with bytes of a UNIX-domain socket do not move: they end the
/// splice ([`SpliceEnd::Rights`]).
///
/// # Errors
/// See [`SpliceError`].
#[doc(alias = "SO_SPLICE")]
pub fn splice<'a, 'b>(
    from: impl Into<SpliceEndpoint<'a>>,
    to: impl Into<SpliceEndpoint<'b>>,
    options: SpliceOptions,
) -> Result<Splice, SpliceError> {
    let (from, to) = (from.into().0.side()?, to.into().0.side()?);
    let link = Link::start(from, to, options, None)?;
    Ok(Splice { link })
}

impl Splice {
    /// Bytes moved so far.
    pub fn moved(&self) -> u64 {
        self.link.moved()
    }

    /// Its outcome, once it has ended.
    pub fn outcome(&self) -> Option<SpliceOutcome> {
        self.link.outcome()
    }

    /// Ends the splice. When this returns, no byte moves any more; the program can read the data that was received and
    /// not moved.
    #[doc(alias = "sounsplice")]
    pub fn stop(&self) -> SpliceOutcome {
        self.link.stop()
    }

    /// Waits for its end.
    pub fn poll_ended(&self, cx: &mut Context<'_>) -> Poll<SpliceOutcome> {
        self.link.poll(Some(cx.waker()))
    }

    /// Waits for its end.
    pub async fn wait_async(&self) -> SpliceOutcome {
        poll_fn(|cx| self.poll_ended(cx)).await
    }

    /// Waits for its end; `None` when the time is over.
    pub fn wait_blocking(&self, timeout: Option<Duration>) -> Option<SpliceOutcome> {
        retry(Wait::Yes(timeout), |waiter| self.link.poll(waiter))
    }
}

impl Drop for Splice {
    fn drop(&mut self) {
        self.link.stop();
    }
}

kern::impl_debug!(Splice |this| moved: this.moved(), outcome: this.outcome());
