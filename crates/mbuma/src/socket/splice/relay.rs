//! A relay: two connections, each spliced to the other.
//!
//! A direction is not idle while the other one moves: a client that receives for an hour says nothing meanwhile, and then asks
//! for more. So the directions count together what they move, and one that ends as idle ends the relay. So does one that can't
//! go on although nothing has ended: rights that came with bytes are the program's to read.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use kern::prim::AtomicU64;

use super::link::Link;
use super::{Splice, SpliceEnd, SpliceEndpoint, SpliceError, SpliceOptions, SpliceOutcome};
use crate::park::{Wait, retry};
use crate::socket::{TcpStream, TlsStream};

/// A connection of a relay that may have TLS.
#[derive(Debug)]
pub enum RelayEnd {
    /// Its bytes go as they come.
    Tcp(TcpStream),
    /// Its records are opened and sealed on the way.
    Tls(TlsStream),
}

/// Two connections, each of which sends the data that the other receives: the link between the two sides of a proxy. Ends and resets
/// are passed on. Dropping it closes both.
#[derive(Debug)]
pub struct StreamRelay<A, B = A> {
    // Dropped before the connections.
    there: Splice,
    back: Splice,
    ends: (A, B),
}

/// Relays between two connections, inside of the stack. Each is a [`TcpStream`], a [`TlsStream`], a
/// [`UnixStream`](crate::UnixStream) or a [`RelayEnd`].
///
/// If nothing moves in either direction for `idle`, and at most for twice as long, the relay ends: one direction
/// by [`SpliceEnd::Idle`], and the other by [`SpliceEnd::Stopped`] unless it has ended before. In the same way rights in
/// front of the next bytes of a UNIX-domain socket end it ([`SpliceEnd::Rights`]): [`StreamRelay::into_ends`] gives the
/// connections back, to read them.
///
/// # Errors
/// See [`SpliceError`]; both connections are closed.
pub fn relay<A, B>(
    one: A,
    other: B,
    idle: Option<Duration>,
) -> Result<StreamRelay<A, B>, SpliceError>
where
    for<'a> SpliceEndpoint<'a>: From<&'a A> + From<&'a B>,
{
    let options = SpliceOptions {
        idle,
        pass_end: true,
        ..SpliceOptions::default()
    };
    let relayed = Arc::new(AtomicU64::new(0));
    let begin = |from: SpliceEndpoint<'_>, to: SpliceEndpoint<'_>| {
        let relayed = Some(Arc::clone(&relayed));
        let link = Link::start(from.0.side()?, to.0.side()?, options, relayed);
        link.map(|link| Splice { link })
    };
    Ok(StreamRelay {
        there: begin((&one).into(), (&other).into())?,
        back: begin((&other).into(), (&one).into())?,
        ends: (one, other),
    })
}

impl TcpStream {
    /// Relays between this connection and `other`: see [`relay`].
    ///
    /// # Errors
    /// See [`SpliceError`]; both connections are closed.
    pub fn relay(
        self,
        other: Self,
        idle: Option<Duration>,
    ) -> Result<StreamRelay<Self>, SpliceError> {
        relay(self, other, idle)
    }
}

impl RelayEnd {
    /// Relays between this connection and `other`: see [`relay`].
    ///
    /// # Errors
    /// See [`SpliceError`]; both connections are closed.
    pub fn relay(
        self,
        other: Self,
        idle: Option<Duration>,
    ) -> Result<StreamRelay<Self>, SpliceError> {
        relay(self, other, idle)
    }
}

impl<'a> From<&'a RelayEnd> for SpliceEndpoint<'a> {
    fn from(end: &'a RelayEnd) -> Self {
        match end {
            RelayEnd::Tcp(tcp) => tcp.into(),
            RelayEnd::Tls(tls) => tls.into(),
        }
    }
}

impl<A, B> StreamRelay<A, B> {
    /// Bytes moved so far: to the other connection, and back.
    pub fn moved(&self) -> [u64; 2] {
        [self.there.moved(), self.back.moved()]
    }

    /// Stops it, and gives the connections back. Data that was received and not moved is there to be read.
    pub fn into_ends(self) -> (A, B) {
        self.there.stop();
        self.back.stop();
        self.ends
    }

    /// Waits for the end of both directions.
    pub fn poll_ended(&self, cx: &mut Context<'_>) -> Poll<[SpliceOutcome; 2]> {
        self.poll(Some(cx.waker()))
    }

    /// Waits for the end of both directions; `None` when the time is over.
    pub fn wait_blocking(&self, timeout: Option<Duration>) -> Option<[SpliceOutcome; 2]> {
        retry(Wait::Yes(timeout), |waiter| self.poll(waiter))
    }

    fn poll(&self, waiter: Option<&Waker>) -> Poll<[SpliceOutcome; 2]> {
        let ends_both =
            |outcome: &SpliceOutcome| matches!(outcome.end, SpliceEnd::Idle | SpliceEnd::Rights);
        // Both are asked, so that each knows the waker.
        match (self.there.link.poll(waiter), self.back.link.poll(waiter)) {
            (Poll::Ready(there), Poll::Ready(back)) => Poll::Ready([there, back]),
            (Poll::Ready(there), Poll::Pending) if ends_both(&there) => {
                Poll::Ready([there, self.back.stop()])
            }
            (Poll::Pending, Poll::Ready(back)) if ends_both(&back) => {
                Poll::Ready([self.there.stop(), back])
            }
            _ => Poll::Pending,
        }
    }
}
