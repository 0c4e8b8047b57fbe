//! Splicing: data that one connection receives is sent on another, inside of the stack.
//!
//! ```text
//!            source                                          sink
//!   peer --> [receive buffer] --- chains, by reference ---> [send buffer] --> peer
//!                  |                  a turn                     |
//!          data, FIN, error  ---->   of [Link]   <----   room, FIN sent, error
//! ```
//!
//! Each side is a TCP connection or a stream of a UNIX-domain socket ([`side`]): the sink of the latter is the receive buffer of
//! its peer.
//!
//! A connection that is a side of a splice tells the splice in the place of its program what comes, so no program is woken
//! for a segment: only at the end ([`SpliceEnd`]). The splice gets a turn at the end of the batch that brought the news, and
//! moves what the sink has room for. A full sink keeps the data in the source's receive buffer, so the source's window
//! closes: backpressure reaches the sender.
//!
//! | the turn moves | when |
//! |---|---|
//! | all that was received | the sink has room for it |
//! | what the sink has room for | half of its buffer is free |
//! | nothing | else; room for half makes the next turn |
//!
//! A connection with TLS ([`TlsStream`]) is a side as others are: its records are opened where they leave the source, and content
//! is framed where it enters the sink, so a splice with TLS at one side terminates it. The stack handles all other records, key
//! changes too.
//!
//! Between two stacks of one process a turn is no part of either's batch: it runs as a waker does, without locks.
//!
//! Invariants: one turn of a splice runs at a time; a byte is counted before the sink can send it, and after
//! [`Splice::stop`] none moves. Locks: the splice's (SPLICE) over a turn, and inside of it one connection's (CONN, or UNIX_RCV) at a time.
//! Sources: SO_SPLICE of OpenBSD (seed 000) and FreeBSD.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use self::link::Link;
use self::side::Spliceable;
use super::SocketError;
use super::tcp_stream::TcpStream;
use super::tls_stream::TlsStream;
use crate::park::{Wait, retry};
use crate::tls::TlsError;

mod link;
mod relay;
pub(crate) mod side;
mod tcp_side;

pub use relay::{RelayEnd, StreamRelay, relay};
pub(super) use tcp_side::{TcpSide, side_dropped};

/// How a splice works, and when it ends by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[doc(alias = "sosplice")]
pub struct SpliceOptions {
    /// Bytes to move at most.
    pub max: Option<u64>,
    /// The longest time in which nothing moves.
    pub idle: Option<Duration>,
    /// The source's end of file, or its reset, is passed on to the sink. Else the program may send more on the sink.
    pub pass_end: bool,
}

/// Why a splice has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpliceEnd {
    /// The source's peer sends no more, and all that it sent was moved.
    Eof,
    /// As many bytes were moved as [`SpliceOptions::max`] allows.
    Max,
    /// Nothing was moved for [`SpliceOptions::idle`].
    Idle,
    /// The program stopped it, or dropped a side.
    Stopped,
    /// The next bytes of the source, a UNIX-domain socket, came with rights, which no splice moves: the program reads them.
    Rights,
    /// The source failed.
    Source(SocketError),
    /// The source's TLS failed, or its stream was cut off.
    SourceTls(TlsError),
    /// The sink failed, or its program has shut it down. Data that was moved and not sent is lost.
    Sink(SocketError),
    /// The sink's TLS takes nothing more.
    SinkTls(TlsError),
}

impl SpliceEnd {
    fn of_source(e: TlsError) -> Self {
        match e {
            TlsError::Socket(e) => Self::Source(e),
            e => Self::SourceTls(e),
        }
    }

    fn of_sink(e: TlsError) -> Self {
        match e {
            TlsError::Socket(e) => Self::Sink(e),
            e => Self::SinkTls(e),
        }
    }
}

/// A connection that becomes a side of a splice: a [`TcpStream`], a [`TlsStream`] or a [`UnixStream`](crate::UnixStream).
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
pub struct SpliceOutcome {
    /// Bytes that were moved to the sink's send buffer.
    pub bytes: u64,
    /// Why it ended.
    pub end: SpliceEnd,
}

/// Why two connections can't be spliced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpliceError {
    /// The source is the source of a splice already, or the sink the sink of one.
    Busy,
    /// Data that the source receives would come back to it, and go round for ever.
    Loop,
    /// The connections belong to two stacks, one of which runs under Giant.
    Giant,
    /// The stack of a UNIX-domain socket has no handle left, so nothing would give the splice its turns.
    StackGone,
}

impl fmt::Display for SpliceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy => "the connection is spliced in this direction already",
            Self::Loop => "the splice would close a loop",
            Self::StackGone => "the stack of the socket is gone",
            Self::Giant => "a splice between two stacks needs stacks without Giant",
        })
    }
}

impl std::error::Error for SpliceError {}

/// A splice. Dropping it stops the splice.
#[must_use = "dropping it stops the splice"]
pub struct Splice {
    link: Arc<Link>,
}

/// Sends on `to` what `from` receives, until something ends it ([`SpliceEnd`]). Each is a [`TcpStream`], a [`TlsStream`] or a
/// [`UnixStream`](crate::UnixStream).
///
/// Meanwhile `from` has nothing to read for a program and `to` takes nothing from one
/// ([`SocketError::WouldBlock`]); their wakers are called when the splice has ended. The other direction of each is as
/// before, and may be spliced too. Urgent data moves as ordinary data. Rights that come with bytes of a UNIX-domain socket do not move: they
/// end the splice ([`SpliceEnd::Rights`]).
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

    /// Ends it. When this returns nothing moves any more; data that was received and not moved is there to be read.
    #[doc(alias = "sounsplice")]
    pub fn stop(&self) -> SpliceOutcome {
        self.link.stop()
    }

    /// Waits for its end.
    pub fn poll_ended(&self, cx: &mut Context<'_>) -> Poll<SpliceOutcome> {
        self.link.poll(Some(cx.waker()))
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

impl fmt::Debug for Splice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moved = self.moved();
        let mut out = f.debug_struct("Splice");
        out.field("moved", &moved).field("outcome", &self.outcome());
        out.finish()
    }
}
