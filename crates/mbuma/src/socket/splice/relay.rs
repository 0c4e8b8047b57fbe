//! A relay: two connections, each spliced to the other.
//!
//! A direction is not idle while the other one moves bytes: a client that receives for an hour may be silent meanwhile,
//! and then send another request. So both directions share one count of moved bytes, and if one ends as idle, the relay
//! ends. The relay also ends if a direction can't continue because rights came with the next bytes, which the program
//! must read.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use kern::prim::AtomicU64;

use super::link::Link;
use super::{Splice, SpliceEnd, SpliceEndpoint, SpliceError, SpliceOptions, SpliceOutcome};
use crate::park::{Wait, retry};
use crate::socket::TcpStream;

/// Two connections, each of which sends the data that the other receives: the link between the two sides of a proxy.
/// The relay passes ends and resets on. Dropping it closes both connections.
#[derive(Debug)]
pub struct StreamRelay<A, B = A> {
    // Dropped before the connections.
    there: Splice,
    back: Splice,
    ends: (A, B),
}

/// Relays between two connections, inside of the stack. Each is a [`TcpStream`], a
/// [`TlsStream`](crate::socket::TlsStream), a
/// [`UnixStream`](crate::UnixStream) or a [`MaybeTlsStream`](crate::socket::MaybeTlsStream).
///
/// If no byte moves in either direction for `idle`, the relay ends, at the latest after twice that time: one direction
/// by [`SpliceEnd::Idle`], and the other by [`SpliceEnd::Stopped`] unless it has ended before. In the same way it ends
/// if the next bytes of a UNIX-domain socket have rights ([`SpliceEnd::Rights`]): [`StreamRelay::into_ends`] returns
/// the connections, so that the program can read the rights.
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

impl<A, B> StreamRelay<A, B> {
    /// Bytes moved so far: to the other connection, and back.
    pub fn moved(&self) -> [u64; 2] {
        [self.there.moved(), self.back.moved()]
    }

    /// The connections.
    pub fn ends(&self) -> (&A, &B) {
        (&self.ends.0, &self.ends.1)
    }

    /// Stops the relay and returns the connections. The program can read the data that was received and not moved.
    pub fn into_ends(self) -> (A, B) {
        self.there.stop();
        self.back.stop();
        self.ends
    }

    /// Waits for the end of both directions.
    pub fn poll_ended(&self, cx: &mut Context<'_>) -> Poll<[SpliceOutcome; 2]> {
        self.poll(Some(cx.waker()))
    }

    /// Waits for the end of both directions.
    pub async fn wait_async(&self) -> [SpliceOutcome; 2] {
        poll_fn(|cx| self.poll_ended(cx)).await
    }

    /// Waits for the end of both directions; `None` when the time is over.
    pub fn wait_blocking(&self, timeout: Option<Duration>) -> Option<[SpliceOutcome; 2]> {
        retry(Wait::Yes(timeout), |waiter| self.poll(waiter))
    }

    fn poll(&self, waiter: Option<&Waker>) -> Poll<[SpliceOutcome; 2]> {
        let ends_both =
            |outcome: &SpliceOutcome| matches!(outcome.end, SpliceEnd::Idle | SpliceEnd::Rights);
        // Both are polled, so that each has the waker.
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
