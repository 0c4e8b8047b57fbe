//! The reading side: whole records out of the receive buffer, opened under the connection's lock by the reader.
//!
//! Bytes of a record that is not whole are taken out of the receive buffer as they come, so a buffer that is smaller
//! than a record does not stop the stream: a connection holds one record more than its buffer at most.

use std::task::{Context, Poll};
use std::time::Duration;

use mbuf::{Chain, MbufPool};

use super::{TlsStream, close_send, flush, is_source, session, wait_for};
use crate::error::SocketError;
use crate::sockbuf::Flushed;
use crate::socket::attempt::{blocking, polled};
use crate::socket::tcp_stream::{take_head, take_received};
use crate::tcp::pcb::Tcb;
use crate::tls::{StreamEnd, TlsError};
use crate::waiters::{WaitBy, Want};

impl TlsStream {
    /// Takes up to `max` bytes of content. An empty chain is the peer's close_notify.
    ///
    /// # Errors
    /// [`SocketError::WouldBlock`] if nothing is there yet; [`TlsError::Truncated`] at a FIN without close_notify; why
    /// the connection ended, if it did. Nothing comes behind an error.
    pub fn recv_chain(&self, max: usize) -> Result<Chain, TlsError> {
        self.take(max, None)
    }

    /// As [`TlsStream::recv_chain`], waiting for something to come.
    ///
    /// # Errors
    /// As there; [`SocketError::TimedOut`] when the time is over.
    pub fn recv_chain_blocking(
        &self,
        max: usize,
        timeout: Option<Duration>,
    ) -> Result<Chain, TlsError> {
        let timeout = || timeout.or_else(|| self.tcp.call_timeout(Want::Read));
        let stack = Some(&*self.tcp.stack);
        blocking(stack, timeout, |waiting| self.take(max, waiting))
    }

    /// As [`TlsStream::recv_chain`], for a task, which is woken when something comes.
    ///
    /// # Errors
    /// As there, except [`SocketError::WouldBlock`].
    pub fn poll_read_chain(
        &self,
        cx: &mut Context<'_>,
        max: usize,
    ) -> Poll<Result<Chain, TlsError>> {
        polled(Some(&self.tcp.stack), cx, |waiting| self.take(max, waiting))
    }

    /// Copies content to `buf`; 0 is the peer's close_notify.
    ///
    /// # Errors
    /// As [`TlsStream::recv_chain`].
    pub fn recv(&self, buf: &mut [u8]) -> Result<usize, TlsError> {
        Ok(copied(&self.recv_chain(buf.len())?, buf))
    }

    /// As [`TlsStream::recv`], waiting for something to come.
    ///
    /// # Errors
    /// As [`TlsStream::recv_chain_blocking`].
    pub fn recv_blocking(
        &self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<usize, TlsError> {
        Ok(copied(&self.recv_chain_blocking(buf.len(), timeout)?, buf))
    }

    fn take(&self, max: usize, waiting: Option<WaitBy<'_>>) -> Result<Chain, TlsError> {
        let pool = self.tcp.pool();
        let (taken, after) = self.tcp.peek_at(|t| {
            let taken = match is_source(t) {
                true => Err(SocketError::WouldBlock.into()),
                false => content(pool, t, max),
            };
            if let Err(TlsError::Socket(e)) = taken {
                wait_for(t, Want::Read, e, waiting);
            }
            (taken, after_read(t))
        });
        drop(after.unread);
        if after.tell {
            self.tcp.schedule();
        }
        taken
    }
}

/// Work that a read leaves.
pub(in crate::socket) struct AfterRead {
    /// The connection has something to send.
    pub(in crate::socket) tell: bool,
    /// Bytes that are not delivered: to be dropped without the connection's lock.
    pub(in crate::socket) unread: Option<Flushed>,
}

/// Sends what records that were read have asked for; after an error nothing more is received.
pub(in crate::socket) fn after_read(t: &mut Tcb) -> AfterRead {
    let end = t.conn.tls().and_then(|tls| tls.end());
    let said = flush(t);
    let mut unread = None;
    if let Some(StreamEnd::Failed(e)) = end
        && e != TlsError::Truncated
        && !t.recv.read_closed
    {
        // Nothing is delivered behind it, so the rest need not come.
        t.recv.read_closed = true;
        unread = Some(t.recv.buf.flush());
        close_send(t, None);
    }
    let tell = said || unread.is_some() || t.should_reopen();
    AfterRead { tell, unread }
}

fn copied(data: &Chain, buf: &mut [u8]) -> usize {
    let n = data.len().min(buf.len());
    data.copy_to(0, buf.get_mut(..n).unwrap_or_default());
    n
}

/// The next bytes of content.
pub(in crate::socket) fn content(
    pool: &MbufPool,
    t: &mut Tcb,
    max: usize,
) -> Result<Chain, TlsError> {
    loop {
        let tls = session(t)?;
        if let Some(data) = tls.take_data(max)? {
            return Ok(data);
        }
        match tls.end() {
            Some(StreamEnd::Clean) => return Ok(Chain::new()),
            Some(StreamEnd::Failed(e)) => return Err(e),
            None => {}
        }
        // A header that is there is read where it lies.
        if !tls.is_amid()
            && let Some(head) = take_head(t)
        {
            session(t)?.push_head(pool, head)?;
            continue;
        }
        let tls = session(t)?;
        let wanted = tls.bytes_wanted();
        if wanted == 0 {
            // The record is whole, and has waited for a buffer; more may have come behind it, or the peer's FIN.
            tls.push(pool, Chain::new())?;
            continue;
        }
        match take_received(t, wanted) {
            // This side reads no more: the peer may go on.
            Ok(bytes) if bytes.is_empty() && t.recv.read_closed => return Ok(bytes),
            Ok(bytes) if bytes.is_empty() => session(t)?.stream_cut(),
            Ok(bytes) => session(t)?.push(pool, bytes)?,
            Err(e) => return Err(e.into()),
        }
    }
}
