//! A relay: two connections, each spliced to the other.
//!
//! A direction is not idle while the other one moves: a client that receives for an hour says nothing meanwhile, and then asks
//! for more. So the directions count together what they move, and one that ends as idle ends the relay.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use kern::prim::AtomicU64;

use super::link::Link;
use super::{Splice, SpliceEnd, SpliceEndpoint, SpliceError, SpliceOptions, SpliceOutcome};
use crate::park::{Wait, retry};
use crate::socket::{TcpStream, TlsStream};

/// A connection of a relay.
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
pub struct TcpRelay {
    // Dropped before the connections.
    there: Splice,
    back: Splice,
    _ends: [RelayEnd; 2],
}

impl TcpStream {
    /// Relays between this connection and `other`: see [`RelayEnd::relay`].
    ///
    /// # Errors
    /// See [`SpliceError`]; both connections are closed.
    pub fn relay(self, other: TcpStream, idle: Option<Duration>) -> Result<TcpRelay, SpliceError> {
        RelayEnd::Tcp(self).relay(RelayEnd::Tcp(other), idle)
    }
}

impl RelayEnd {
    fn endpoint(&self) -> SpliceEndpoint<'_> {
        match self {
            Self::Tcp(tcp) => tcp.into(),
            Self::Tls(tls) => tls.into(),
        }
    }

    /// Relays between this connection and `other`, inside of the stack.
    ///
    /// If nothing moves in either direction for `idle`, and at most for twice as long, the relay ends: one direction
    /// by [`SpliceEnd::Idle`], and the other by [`SpliceEnd::Stopped`] unless it has ended before.
    ///
    /// # Errors
    /// See [`SpliceError`]; both connections are closed.
    pub fn relay(self, other: Self, idle: Option<Duration>) -> Result<TcpRelay, SpliceError> {
        let options = SpliceOptions {
            idle,
            pass_end: true,
            ..SpliceOptions::default()
        };
        let relayed = Arc::new(AtomicU64::new(0));
        let begin = |from: &Self, to: &Self| {
            let relayed = Some(Arc::clone(&relayed));
            let (from, to) = (from.endpoint().0.side()?, to.endpoint().0.side()?);
            Link::start(from, to, options, relayed).map(|link| Splice { link })
        };
        Ok(TcpRelay {
            there: begin(&self, &other)?,
            back: begin(&other, &self)?,
            _ends: [self, other],
        })
    }
}

impl TcpRelay {
    /// Bytes moved so far: to the other connection, and back.
    pub fn moved(&self) -> [u64; 2] {
        [self.there.moved(), self.back.moved()]
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
        let is_idle = |outcome: &SpliceOutcome| outcome.end == SpliceEnd::Idle;
        // Both are asked, so that each knows the waker.
        match (self.there.link.poll(waiter), self.back.link.poll(waiter)) {
            (Poll::Ready(there), Poll::Ready(back)) => Poll::Ready([there, back]),
            (Poll::Ready(there), Poll::Pending) if is_idle(&there) => {
                Poll::Ready([there, self.back.stop()])
            }
            (Poll::Pending, Poll::Ready(back)) if is_idle(&back) => {
                Poll::Ready([self.there.stop(), back])
            }
            _ => Poll::Pending,
        }
    }
}
