//! Takes received data: as mbufs, or copied.
//!
//! Locks: the connection's.

use std::time::Duration;

use mbuf::Chain;

use super::rules::{is_source, take_unspliced, wait_for};
use super::{TcpStream, urgent};
use crate::error::SocketError;
use crate::tcp::pcb::Tcb;
use crate::tcp::visit;
use crate::waiters::{WaitBy, Want};

/// Bytes at most that are copied out of the receive buffer while the connection is locked: copying so many takes no
/// longer than moving mbufs.
pub(super) const COPIED_LOCKED: usize = 512;

impl TcpStream {
    /// Takes up to `max` bytes from the receive buffer, moving their mbufs. An empty chain is the
    /// peer's end of file.
    ///
    /// # Errors
    /// [`SocketError::WouldBlock`] if nothing is there yet; the error that ended the connection.
    pub fn recv_chain(&self, max: usize) -> Result<Chain, SocketError> {
        self.take(max, None, |t| take_unspliced(t, max))
    }

    /// As [`TcpStream::recv_chain`], waiting for something to come.
    ///
    /// # Errors
    /// As there; [`SocketError::TimedOut`] when the time is over.
    pub fn recv_chain_blocking(
        &self,
        max: usize,
        timeout: Option<Duration>,
    ) -> Result<Chain, SocketError> {
        self.blocking(Want::Read, timeout, |waiting| {
            self.take(max, waiting, |t| take_unspliced(t, max))
        })
    }

    /// Takes up to `wanted` bytes from the receive buffer by `f`.
    #[inline]
    pub(super) fn take<R>(
        &self,
        wanted: usize,
        waiting: Option<WaitBy<'_>>,
        f: impl FnOnce(&mut Tcb) -> Result<R, SocketError>,
    ) -> Result<R, SocketError> {
        self.look_first(waiting)?;
        let mut t = visit::begin_outside(self.stack.giant(), &self.pcb);
        let taken = match waiting.is_some() && t.is_too_little(wanted) {
            true => Err(SocketError::WouldBlock),
            false => f(&mut t),
        };
        let taken = taken.inspect_err(|e| wait_for(&mut t, Want::Read, *e, waiting))?;
        let tell = t.should_reopen();
        drop(t);
        if tell {
            self.stack.enter(|batch| visit::schedule(batch, &self.pcb));
        }
        Ok(taken)
    }

    /// A call that does not wait checks before it takes the lock, so that a program that polls an empty buffer does not
    /// delay the thread that fills it.
    #[inline]
    fn look_first(&self, waiting: Option<WaitBy<'_>>) -> Result<(), SocketError> {
        match waiting.is_some() || self.pcb.is_readable() {
            true => Ok(()),
            false => Err(SocketError::WouldBlock),
        }
    }

    /// Copies received data: a small amount at once, because moving its mbufs would take longer; more after the
    /// connection is unlocked.
    pub(in crate::socket) fn read_to(
        &self,
        buf: &mut [u8],
        waiting: Option<WaitBy<'_>>,
    ) -> Result<usize, SocketError> {
        let mut moved = Chain::new();
        let n = self.take(buf.len(), waiting, |t| {
            let n = urgent::limit(t, buf.len()).min(t.recv.buf.ready());
            if is_source(t) || !(1..=COPIED_LOCKED).contains(&n) {
                moved = take_unspliced(t, buf.len())?;
                return Ok(moved.len());
            }
            let received = &mut t.recv.buf;
            received.copy_to(0, buf.get_mut(..n).unwrap_or_default());
            received.trim_front(n);
            urgent::was_read(t);
            Ok(n)
        })?;
        if !moved.is_empty() {
            moved.copy_to(0, buf.get_mut(..moved.len()).unwrap_or_default());
        }
        Ok(n)
    }

    /// Copies received bytes to `buf`; 0 is the peer's end of file.
    ///
    /// # Errors
    /// As [`TcpStream::recv_chain`].
    pub fn recv(&self, buf: &mut [u8]) -> Result<usize, SocketError> {
        self.read_to(buf, None)
    }

    /// As [`TcpStream::recv`], waiting for something to come.
    ///
    /// # Errors
    /// As [`TcpStream::recv_chain_blocking`].
    pub fn recv_blocking(
        &self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<usize, SocketError> {
        self.blocking(Want::Read, timeout, |waiting| self.read_to(buf, waiting))
    }

    /// Copies received bytes to `buf`, and leaves them in the receive buffer. A small amount is copied while the
    /// connection is locked; a larger one is shared, and copied afterwards.
    ///
    /// # Errors
    /// As [`TcpStream::recv_chain`].
    #[doc(alias = "MSG_PEEK")]
    pub fn peek(&self, buf: &mut [u8]) -> Result<usize, SocketError> {
        self.look_first(None)?;
        let mut t = visit::begin_outside(self.stack.giant(), &self.pcb);
        if t.recv.buf.is_empty() || is_source(&t) {
            return take_unspliced(&mut t, 0).map(|end| end.len());
        }
        let n = urgent::limit(&t, buf.len()).min(t.recv.buf.ready());
        let buf = buf.get_mut(..n).unwrap_or_default();
        if n > COPIED_LOCKED
            && let Ok(shared) = t.recv.buf.share(0, n)
        {
            drop(t);
            shared.copy_to(0, buf);
        } else {
            t.recv.buf.copy_to(0, buf);
        }
        Ok(n)
    }
}
