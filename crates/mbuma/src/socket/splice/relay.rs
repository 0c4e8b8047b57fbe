//! A relay: two connections, each spliced to the other.

use std::task::{Context, Poll};
use std::time::Duration;

use super::{Splice, SpliceError, SpliceOptions, SpliceOutcome, splice};
use crate::socket::TcpStream;

/// Two connections, each of which sends what the other receives: what is between the two sides of a proxy. Ends and resets
/// are passed on. Dropping it closes both.
#[derive(Debug)]
pub struct TcpRelay {
    // Dropped before the connections.
    there: Splice,
    back: Splice,
    _ends: [TcpStream; 2],
}

impl TcpStream {
    /// Relays between this connection and `other`, inside of the stack.
    ///
    /// A direction in which nothing moves for `idle` ends; the other goes on.
    ///
    /// # Errors
    /// See [`SpliceError`]; both connections are closed.
    pub fn relay(self, other: TcpStream, idle: Option<Duration>) -> Result<TcpRelay, SpliceError> {
        let options = SpliceOptions {
            idle,
            pass_end: true,
            ..SpliceOptions::default()
        };
        Ok(TcpRelay {
            there: splice(&self, &other, options)?,
            back: splice(&other, &self, options)?,
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
        // Both are asked, so that each knows the waker.
        match (self.there.poll_ended(cx), self.back.poll_ended(cx)) {
            (Poll::Ready(there), Poll::Ready(back)) => Poll::Ready([there, back]),
            _ => Poll::Pending,
        }
    }

    /// Waits for the end of both directions, each for `timeout` at most; `None` when the time is over.
    pub fn wait_blocking(&self, timeout: Option<Duration>) -> Option<[SpliceOutcome; 2]> {
        let there = self.there.wait_blocking(timeout)?;
        Some([there, self.back.wait_blocking(timeout)?])
    }
}
