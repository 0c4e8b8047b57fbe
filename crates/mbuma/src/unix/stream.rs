//! Streams of bytes between two sockets of a stack, as their users see them.
//!
//! Data is handed over as chains: [`UnixStream::send_chain`] moves mbufs to the peer, and
//! [`UnixStream::recv_chain`] takes them out; nothing is copied. [`UnixStream::send`] copies once in,
//! [`UnixStream::recv`] once out.
//!
//! Locks: none.

use std::net::Shutdown;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use mbuf::Chain;

use super::connected::connected;
use super::connection::UnixConnection;
use super::error::UnixError;
use super::message::{Message, ReceivedMessage};
use super::name::Name;
use super::pcb::{Handle, Role};
use super::state::UnixState;
use crate::config::Credentials;
use crate::park::Wait;

mod io_traits;
mod send_file;
mod splice;

/// Bytes that [`UnixStream::send`] copies at a time, so that the peer may begin before all are copied.
const CHUNK: usize = 64 << 10;

/// One side of a stream. Clones are handles on the same socket; the drop of the last one closes it. The peer can still
/// read the data that was sent to it. Data that this side has not read is lost, and the peer then gets
/// [`UnixError::Reset`].
///
/// # Example
/// ```
/// use mbuma::{Config, Stack};
///
/// let stack = Stack::new(Config::from_system())?;
/// let (left, right) = stack.unix().pair();
/// let peer = std::thread::spawn(move || {
///     let mut buf = [0; 16];
///     let n = right.recv_blocking(&mut buf, None)?;
///     right.send_blocking(&buf[..n], None)
/// });
/// left.send(b"ping")?;
/// let mut buf = [0; 16];
/// assert_eq!(left.recv_blocking(&mut buf, None)?, 4);
/// assert_eq!(peer.join().unwrap()?, 4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct UnixStream(pub(super) Handle);

impl UnixStream {
    /// Copies bytes to the peer; returns how many: all, or 64 KiB if there are more.
    ///
    /// # Errors
    /// `WouldBlock` if the peer has not read enough; `BrokenPipe`; `NoBufs`.
    pub fn send(&self, bytes: &[u8]) -> Result<usize, UnixError> {
        self.send_some(bytes, Wait::No)
    }

    /// Copies all bytes to the peer, waiting for room; each wait may take `timeout`. Returns the number of bytes sent:
    /// all of them, unless an error came in between.
    ///
    /// # Errors
    /// If none were sent: `TimedOut` when the time is over, `BrokenPipe` or `NoBufs`.
    pub fn send_blocking(
        &self,
        bytes: &[u8],
        timeout: Option<Duration>,
    ) -> Result<usize, UnixError> {
        let mut sent = 0;
        for chunk in bytes.chunks(CHUNK) {
            match self.send_some(chunk, Wait::Yes(timeout)) {
                Ok(n) => sent += n,
                Err(e) if sent == 0 => return Err(e),
                Err(_) => break,
            }
        }
        Ok(sent)
    }

    /// As [`UnixStream::send`], for a task, which is woken when half of the peer's buffer is free.
    ///
    /// # Errors
    /// As there, except `WouldBlock`.
    pub fn poll_write(&self, cx: &Context<'_>, bytes: &[u8]) -> Poll<Result<usize, UnixError>> {
        loop {
            match self.send(bytes) {
                Err(UnixError::WouldBlock) => ready!(self.poll_writable(cx)),
                sent => return Poll::Ready(sent),
            }
        }
    }

    fn send_some(&self, bytes: &[u8], wait: Wait) -> Result<usize, UnixError> {
        if bytes.is_empty() {
            return Ok(0);
        }
        // A check is cheap compared with a useless copy.
        if bytes.len() > 2048 && wait == Wait::No && !self.connection().is_writable() {
            return Err(UnixError::WouldBlock);
        }
        let bytes = &bytes[..bytes.len().min(CHUNK)];
        let data = Chain::from_slice(&self.unix().pool, bytes)?;
        let sent = self
            .connection()
            .send(self.unix(), Message::new(data), wait);
        sent.map(|()| bytes.len()).map_err(|(e, _)| e)
    }

    /// Moves all of `data` to the peer, or nothing. A buffer with any room takes it.
    ///
    /// # Errors
    /// The chain comes back with `WouldBlock` or `BrokenPipe`.
    pub fn send_chain(&self, data: Chain) -> Result<(), (UnixError, Chain)> {
        self.give_chain(data, Wait::No)
    }

    /// As [`UnixStream::send_chain`], waiting for room.
    ///
    /// # Errors
    /// The chain comes back with `TimedOut` when the time is over, or `BrokenPipe`.
    pub fn send_chain_blocking(
        &self,
        data: Chain,
        timeout: Option<Duration>,
    ) -> Result<(), (UnixError, Chain)> {
        self.give_chain(data, Wait::Yes(timeout))
    }

    fn give_chain(&self, data: Chain, wait: Wait) -> Result<(), (UnixError, Chain)> {
        self.give(Message::new(data), wait)
            .map_err(|(e, message)| (e, message.data))
    }

    fn give(&self, message: Message, wait: Wait) -> Result<(), (UnixError, Message)> {
        match (message.data.is_empty(), message.rights.is_empty()) {
            (true, true) => Ok(()),
            (true, false) => Err((UnixError::NoData, message)),
            (false, _) => self.connection().send(self.unix(), message, wait),
        }
    }

    /// Takes up to `max` received bytes, moving their mbufs. An empty chain is the end. Their rights
    /// are dropped.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is there yet; `Reset`, once; `NoBufs`.
    pub fn recv_chain(&self, max: usize) -> Result<Chain, UnixError> {
        let received = self.recv_with(max)?;
        Ok(received.unwrap_or_default().data)
    }

    /// As [`UnixStream::recv_chain`], for a task, which is woken when something comes.
    ///
    /// # Errors
    /// As there, except `WouldBlock`.
    pub fn poll_read_chain(&self, cx: &Context<'_>, max: usize) -> Poll<Result<Chain, UnixError>> {
        loop {
            match self.recv_chain(max) {
                Err(UnixError::WouldBlock) => ready!(self.poll_readable(cx)),
                received => return Poll::Ready(received),
            }
        }
    }

    /// As [`UnixStream::recv_chain`], waiting for something to come.
    ///
    /// # Errors
    /// `TimedOut` when the time is over; `Reset`, once; `NoBufs`.
    pub fn recv_chain_blocking(
        &self,
        max: usize,
        timeout: Option<Duration>,
    ) -> Result<Chain, UnixError> {
        let received = self.recv_with_blocking(max, timeout)?;
        Ok(received.unwrap_or_default().data)
    }
}

connected!(UnixStream, Stream);
