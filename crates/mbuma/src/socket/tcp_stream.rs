//! A TCP connection as its user sees it.
//!
//! Data is handed over as chains: [`TcpStream::recv_chain`] moves mbufs out of the receive buffer,
//! [`TcpStream::send_chain`] moves them into the send buffer. Nothing is copied unless the caller
//! wants slices ([`TcpStream::recv`], [`TcpStream::send`]).

use std::fmt;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use mbuf::{Chain, ClusterSize, MbufPool, Mixed};

use super::SocketError;
use super::send_file::{FileRoom, FileSink, SendFileError};
use super::splice::{self, TcpSide};
use crate::park::retry_within;
use crate::sockbuf::BYTES_MAX;
use crate::state::StackState;
use crate::tcp::pcb::{Inpcb, Tcb};
use crate::tcp::visit;
use crate::tcp::{State, TcpInfo};
use crate::tcp::{output, reset, urgent};
use crate::waiters::{WaitBy, Want};

mod claim;
mod options;
mod readiness;
mod rules;
mod send_room;
mod urgent_data;

pub use claim::SendClaim;
pub(super) use claim::fail;
pub(super) use rules::{
    close_send, is_source, may_send, may_write, take_head, take_received, wait_for,
};
pub use send_room::SendRoom;

use rules::{room, room_worth_a_write, take_unspliced};

/// Bytes at most that are copied out of the receive buffer while the connection is locked: copying so many takes no
/// longer than moving mbufs.
const COPIED_LOCKED: usize = 512;

/// A connection. Dropping it closes it: data in the send buffer is still delivered.
pub struct TcpStream {
    stack: Arc<StackState>,
    pcb: Arc<Inpcb>,
}

/// What follows the sent bytes, according to the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behind {
    /// It does not say.
    Nothing,
    /// More of the same message.
    More,
    /// Another record.
    RecordEnd,
}

impl TcpStream {
    pub(crate) fn from_pcb(stack: Arc<StackState>, pcb: Arc<Inpcb>) -> Self {
        Self { stack, pcb }
    }

    /// The part of it that a splice keeps.
    pub(in crate::socket) fn side(&self) -> TcpSide {
        TcpSide {
            stack: Arc::clone(&self.stack),
            pcb: Arc::clone(&self.pcb),
        }
    }

    /// The pool of its buffers.
    pub(super) fn pool(&self) -> &MbufPool {
        &self.stack.pool
    }

    /// Our end.
    pub fn local_addr(&self) -> SocketAddr {
        self.pcb.ends().local()
    }

    /// The other end.
    pub fn peer_addr(&self) -> SocketAddr {
        self.pcb.ends().peer()
    }

    /// The connection's state now.
    pub fn state(&self) -> State {
        self.pcb.lock(self.stack.giant()).conn.state
    }

    /// Figures about the connection.
    pub fn info(&self) -> TcpInfo {
        let t = self.pcb.lock(self.stack.giant());
        TcpInfo::of(&t, &self.stack.tcp.config)
    }

    /// The error that ended the connection, if one did.
    pub fn error(&self) -> Option<SocketError> {
        self.pcb.lock(self.stack.giant()).conn.error
    }

    /// Copies as much of `bytes` into the send buffer as it takes, and says that more follows: a segment that is not full
    /// waits for the next call of [`send`](Self::send), for 200 ms at most.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[doc(alias = "MSG_MORE")]
    pub fn send_more(&self, bytes: &[u8]) -> Result<usize, SocketError> {
        self.copy_in(bytes, Behind::More, None)
    }

    /// Copies as much of `bytes` into the send buffer as it takes. If it takes all, a record ends there: no segment has
    /// bytes of two records, and the last segment of a record has PSH.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[doc(alias = "MSG_EOR")]
    pub fn send_record(&self, bytes: &[u8]) -> Result<usize, SocketError> {
        self.copy_in(bytes, Behind::RecordEnd, None)
    }

    /// Runs `f` on the connection, then gives it a turn to send: at once, since nothing else comes in this batch, and
    /// the connection is locked already.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Tcb) -> R) -> R {
        self.stack.enter(|batch| {
            let mut t = visit::begin(&self.pcb);
            let result = f(&mut t);
            visit::end(batch, &self.pcb, t);
            result
        })
    }

    /// The timeout of calls that give none.
    pub(super) fn call_timeout(&self, want: Want) -> Option<Duration> {
        let asked = self.options();
        match want {
            Want::Read => asked.recv_timeout,
            Want::Write => asked.send_timeout,
        }
    }

    /// Calls `f` until it returns something other than [`SocketError::WouldBlock`]; [`SocketError::TimedOut`] when the
    /// time is over.
    fn blocking<T>(
        &self,
        want: Want,
        timeout: Option<Duration>,
        mut attempt: impl FnMut(Option<WaitBy<'_>>) -> Result<T, SocketError>,
    ) -> Result<T, SocketError> {
        let timeout = || timeout.or_else(|| self.call_timeout(want));
        let result = retry_within(timeout, |waiter| match attempt(waiter.map(WaitBy::Once)) {
            Err(SocketError::WouldBlock) => Poll::Pending,
            other => Poll::Ready(other),
        });
        result.unwrap_or(Err(SocketError::TimedOut))
    }

    /// Runs `f` on the connection; that causes nothing to send.
    pub(super) fn peek_at<R>(&self, f: impl FnOnce(&mut Tcb) -> R) -> R {
        f(&mut visit::begin_outside(self.stack.giant(), &self.pcb))
    }

    /// Gives the connection a turn to send.
    pub(super) fn schedule(&self) {
        self.stack.enter(|batch| visit::schedule(batch, &self.pcb));
    }

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
    fn take<R>(
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
    pub(super) fn read_to(
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
        moved.copy_to(0, buf.get_mut(..moved.len()).unwrap_or_default());
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

    /// Bytes that the send buffer takes now; 0 once nothing more may be sent.
    pub fn send_space(&self) -> usize {
        room(&self.pcb.lock(self.stack.giant())).unwrap_or(0)
    }

    /// The same, with the size of one packet: a relay that reads in these units sends no small packet after each large
    /// one.
    pub fn send_room(&self) -> SendRoom {
        let t = self.pcb.lock(self.stack.giant());
        SendRoom {
            bytes: room(&t).unwrap_or(0),
            mss: t.send.mss as usize,
            packet: output::large_payload_max(&t) as usize,
        }
    }

    /// Moves all of `data` into the send buffer. The caller checks [`TcpStream::send_space`] first, and may exceed it
    /// by less than one chain.
    ///
    /// # Errors
    /// The chain comes back with [`SocketError::WouldBlock`] if the buffer is full, with [`SocketError::NoBufs`] if it
    /// has a GiB or more, or with the error that ended the connection.
    pub fn send_chain(&self, data: Chain) -> Result<(), (SocketError, Chain)> {
        if data.len() >= BYTES_MAX {
            return Err((SocketError::NoBufs, data));
        }
        self.with(|t| match room(t) {
            Ok(_) => {
                t.send.buf.append(&self.stack.pool, data);
                Ok(())
            }
            Err(e) => Err((e, data)),
        })
    }

    /// Copies as much of `bytes` into the send buffer as it takes; returns how much.
    ///
    /// # Errors
    /// [`SocketError::WouldBlock`] if it takes nothing now; the error that ended the connection.
    pub fn send(&self, bytes: &[u8]) -> Result<usize, SocketError> {
        self.give(bytes, None)
    }

    /// Copies all of `bytes` into the send buffer, waiting for room; each wait may take `timeout`. Returns the number
    /// of bytes taken: all of them, unless an error came in between.
    ///
    /// # Errors
    /// If none were taken: [`SocketError::TimedOut`] when the time is over, or the error that ended the connection.
    pub fn send_blocking(
        &self,
        bytes: &[u8],
        timeout: Option<Duration>,
    ) -> Result<usize, SocketError> {
        send_all(bytes, |rest| {
            self.blocking(Want::Write, timeout, |waiting| self.give(rest, waiting))
        })
    }

    pub(super) fn give(
        &self,
        bytes: &[u8],
        waiting: Option<WaitBy<'_>>,
    ) -> Result<usize, SocketError> {
        self.copy_in(bytes, Behind::Nothing, waiting)
    }

    fn copy_in(
        &self,
        bytes: &[u8],
        behind: Behind,
        waiting: Option<WaitBy<'_>>,
    ) -> Result<usize, SocketError> {
        let pool = &self.stack.pool;
        self.with(|t| {
            let room = match waiting {
                Some(_) => room_worth_a_write(t, bytes.len()),
                None => room(t),
            };
            let room = room.inspect_err(|e| wait_for(t, Want::Write, *e, waiting))?;
            let fits = bytes.get(..room.min(bytes.len())).unwrap_or_default();
            if behind != Behind::Nothing {
                t.conn.options.get_or_insert_default();
            }
            if let Some(options) = &mut t.conn.options {
                options.more_follows = behind == Behind::More;
            }
            t.send
                .buf
                .extend_from_slice(pool, fits)
                .map_err(|_| SocketError::NoBufs)?;
            let end = t.write_seq();
            if let Some(options) = &mut t.conn.options
                && behind == Behind::RecordEnd
                && fits.len() == bytes.len()
            {
                options.records.add(end);
            }
            Ok(fits.len())
        })
    }

    /// Waits until the connection is established.
    ///
    /// # Errors
    /// The error of the attempt; [`SocketError::TimedOut`] when the time is over.
    #[doc(alias = "connect")]
    pub fn connected_blocking(&self, timeout: Option<Duration>) -> Result<(), SocketError> {
        self.blocking(Want::Write, timeout, |waiting| self.established(waiting))
    }

    fn established(&self, waiting: Option<WaitBy<'_>>) -> Result<(), SocketError> {
        let mut t = visit::begin_outside(self.stack.giant(), &self.pcb);
        let verdict = match t.conn.state {
            State::SynSent | State::SynReceived | State::SynHeld => Err(SocketError::WouldBlock),
            State::Closed => Err(t.conn.error.unwrap_or(SocketError::Closed)),
            _ => Ok(()),
        };
        verdict.inspect_err(|e| wait_for(&mut t, Want::Write, *e, waiting))
    }

    /// Ends one direction or both.
    ///
    /// | | |
    /// |---|---|
    /// | `Write` | The stack sends a FIN after the content of the send buffer. |
    /// | `Read` | The stack drops received data, now and later. The peer gets no notice, and may go on sending. A read returns the end of file. |
    #[doc(alias = "SHUT_WR")]
    #[doc(alias = "SHUT_RD")]
    #[doc(alias = "SS_CANTRCVMORE")]
    pub fn shutdown(&self, how: Shutdown) {
        let unread = self.with(|t| {
            let mut unread = None;
            if how != Shutdown::Write {
                t.recv.read_closed = true;
                unread = Some(t.recv.buf.flush());
                urgent::read_closed(t);
                t.notify();
            }
            if how != Shutdown::Read {
                close_send(t, None);
            }
            unread
        });
        drop(unread);
    }

    /// Ends the connection at once: the peer gets a reset, buffers are dropped.
    #[doc(alias = "SO_LINGER")]
    pub fn abort(&self) {
        self.stack.enter(|batch| abort(batch, &self.pcb));
    }
}

impl FileSink for TcpStream {
    fn pool(&self) -> &MbufPool {
        TcpStream::pool(self)
    }

    fn timeout(&self) -> Option<Duration> {
        self.call_timeout(Want::Write)
    }

    fn fail(&self) {
        fail(&self.side());
    }

    fn room(&self, wanted: usize, waiting: Option<WaitBy<'_>>) -> Result<FileRoom, SendFileError> {
        let bytes = self.peek_at(|t| {
            may_write(t).inspect_err(|e| wait_for(t, Want::Write, *e, waiting))?;
            let bytes = t.send.buf.space();
            // A writer is woken when half of the buffer is free.
            match bytes < wanted.min(t.send.buf.hiwat() / 2).max(1) {
                true => {
                    wait_for(t, Want::Write, SocketError::WouldBlock, waiting);
                    Err(SocketError::WouldBlock)
                }
                false => Ok(bytes),
            }
        })?;
        Ok(FileRoom {
            bytes,
            piece: ClusterSize::K16.bytes(),
        })
    }

    fn put(&self, pieces: Vec<Chain<Mixed>>, more: bool) -> Result<(), SendFileError> {
        self.with(|t| {
            may_write(t)?;
            t.set_more_follows(more);
            for piece in pieces {
                t.send.buf.append_mixed(&self.stack.pool, piece);
            }
            Ok(())
        })
    }
}

/// Resets a connection, from any state.
pub(crate) fn abort(batch: &mut crate::batch::Batch<'_>, pcb: &Arc<Inpcb>) {
    let mut t = visit::begin(pcb);
    let tell = !matches!(
        t.conn.state,
        State::Closed | State::SynSent | State::TimeWait
    );
    let (seq, ack) = (t.acceptable_seq(), t.recv.nxt);
    t.conn.orphan = true;
    t.close(Some(SocketError::Closed));
    visit::end_later(batch, pcb, t);
    if tell {
        reset::send(batch, pcb.ends(), seq, ack);
    }
}

/// Sends `bytes` by calls of `send`, and returns the number of bytes taken.
///
/// # Errors
/// That of the first call, if it took none.
pub(super) fn send_all<E>(
    bytes: &[u8],
    mut send: impl FnMut(&[u8]) -> Result<usize, E>,
) -> Result<usize, E> {
    let mut sent = 0;
    while let Some(rest) = bytes.get(sent..).filter(|rest| !rest.is_empty()) {
        match send(rest) {
            Ok(n) => sent += n,
            Err(e) if sent == 0 => return Err(e),
            Err(_) => break,
        }
    }
    Ok(sent)
}

impl Drop for TcpStream {
    fn drop(&mut self) {
        splice::side_dropped(&self.side());
        let wakers = self.stack.enter(|batch| {
            let mut t = visit::begin(&self.pcb);
            let timeout = t.conn.asked().orphan_timeout(&self.stack.config.tcp);
            let deadline = batch.now + timeout;
            let wakers = t.conn.waiters.clear();
            if !t.recv.buf.is_empty() && t.conn.state != State::Closed {
                // Otherwise the peer would believe that we have read the data (RFC 2525 2.17).
                drop(t);
                abort(batch, &self.pcb);
            } else {
                t.conn.orphan = true;
                drop(t.recv.buf.flush());
                close_send(&mut t, Some(deadline));
                visit::end_later(batch, &self.pcb, t);
            }
            wakers
        });
        drop(wakers);
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpStream")
            .field("local", &self.local_addr())
            .field("peer", &self.peer_addr())
            .field("state", &self.state())
            .finish()
    }
}

#[cfg(test)]
mod tests;
