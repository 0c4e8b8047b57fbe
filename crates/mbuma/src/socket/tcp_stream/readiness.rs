//! How a connection reports that a direction is ready: to a polling task, and by kept wakers.
//!
//! Readiness is the buffer's state, read under the connection's lock, so it is never stale. A call that is not ready
//! registers its waker under the same lock. The methods depend on no runtime: they only need a [`Context`].
//!
//! Source: the contract of `AsyncRead` and `AsyncWrite` in tokio and futures: one task a direction, the last one wins.

use std::task::{Context, Poll, Waker};

use mbuf::Chain;

use super::TcpStream;
use super::rules::{room_worth_a_write, take_unspliced, wait_for};
use crate::error::SocketError;
use crate::socket::attempt::polled;
use crate::tcp::visit;
use crate::waiters::{PollingTask, WaitBy, Want};

/// # Polling
/// Each of these calls is for one task a direction: if two tasks poll the same direction, the one that polled last is
/// woken. Threads in blocking calls and kept wakers are woken in addition. A reading task is never woken by a change
/// for writers, and the reverse.
impl TcpStream {
    /// Ready when a read would not wait: there is data, the end of file or an error.
    #[doc(alias = "EPOLLIN")]
    pub fn poll_readable(&self, cx: &mut Context<'_>) -> Poll<()> {
        let task = PollingTask::new(cx);
        self.ready(Want::Read, WaitBy::Polled(&task))
    }

    /// Ready when a write would not wait: there is room, or an error. A connection that is not established yet has room
    /// too: see [`TcpStream::poll_connected`].
    #[doc(alias = "EPOLLOUT")]
    pub fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<()> {
        let task = PollingTask::new(cx);
        self.ready(Want::Write, WaitBy::Polled(&task))
    }

    /// Ready when the connection is established or has failed. The task counts as one that waits to write.
    ///
    /// # Errors
    /// The error of the attempt.
    pub fn poll_connected(&self, cx: &mut Context<'_>) -> Poll<Result<(), SocketError>> {
        polled(Some(&self.stack), cx, |waiting| self.established(waiting))
    }

    /// Copies received bytes to `buf`; 0 is the peer's end of file.
    ///
    /// # Errors
    /// As [`TcpStream::recv`], except [`SocketError::WouldBlock`].
    pub fn poll_read(
        &self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<Result<usize, SocketError>> {
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        polled(Some(&self.stack), cx, |waiting| self.read_to(buf, waiting))
    }

    /// Takes up to `max` bytes from the receive buffer, moving their mbufs. An empty chain is the peer's end of file.
    ///
    /// # Errors
    /// As [`TcpStream::recv_chain`], except [`SocketError::WouldBlock`].
    pub fn poll_read_chain(
        &self,
        cx: &mut Context<'_>,
        max: usize,
    ) -> Poll<Result<Chain, SocketError>> {
        polled(Some(&self.stack), cx, |waiting| {
            self.take(max, waiting, |t| take_unspliced(t, max))
        })
    }

    /// Copies as much of `bytes` into the send buffer as it takes; returns how much.
    ///
    /// # Errors
    /// As [`TcpStream::send`], except [`SocketError::WouldBlock`].
    pub fn poll_write(
        &self,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize, SocketError>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        polled(Some(&self.stack), cx, |waiting| self.give(bytes, waiting))
    }

    /// Moves as much of the front of `data` into the send buffer as it takes; returns how much.
    ///
    /// # Errors
    /// As [`TcpStream::send_chain`], except [`SocketError::WouldBlock`]. The rest stays in `data`.
    pub fn poll_write_chain(
        &self,
        cx: &mut Context<'_>,
        data: &mut Chain,
    ) -> Poll<Result<usize, SocketError>> {
        if data.is_empty() {
            return Poll::Ready(Ok(0));
        }
        polled(Some(&self.stack), cx, |waiting| {
            self.give_chain(data, waiting)
        })
    }

    fn give_chain(
        &self,
        data: &mut Chain,
        waiting: Option<WaitBy<'_>>,
    ) -> Result<usize, SocketError> {
        self.with(|t| {
            let wanted = data.len();
            let room = room_worth_a_write(t, wanted)
                .inspect_err(|e| wait_for(t, Want::Write, *e, waiting))?;
            let front = data.take_front(room).map_err(|_| SocketError::NoBufs)?;
            let taken = front.len();
            t.send.buf.append(&self.stack.pool, front);
            Ok(taken)
        })
    }

    /// Sets the wakers that stay until they are replaced: `read` is called when there is data, the end or an error;
    /// `write` when there is room, and when the connection is established or ends. A waker that serves both directions
    /// is called once if both change. Check the socket after setting them: they are called for later changes only.
    pub fn set_wakers(&self, read: Option<Waker>, write: Option<Waker>) {
        let mut t = visit::begin_outside(self.stack.giant(), &self.pcb);
        let old = t.conn.set_wakers(read, write);
        drop(t);
        drop(old);
    }

    /// Sets one waker for changes of both directions.
    pub fn set_waker(&self, waker: Option<Waker>) {
        self.set_wakers(waker.clone(), waker);
    }

    fn ready(&self, want: Want, waiting: WaitBy<'_>) -> Poll<()> {
        let mut t = visit::begin_outside(self.stack.giant(), &self.pcb);
        let ready = match want {
            Want::Read => t.is_readable() && !t.is_too_little(usize::MAX) && !super::is_source(&t),
            Want::Write => room_worth_a_write(&t, usize::MAX) != Err(SocketError::WouldBlock),
        };
        if ready {
            return Poll::Ready(());
        }
        t.conn.waiters.register(want, waiting);
        Poll::Pending
    }
}
