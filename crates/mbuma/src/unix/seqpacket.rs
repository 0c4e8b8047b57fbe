//! Sequenced packets: a connection whose messages keep their boundaries, as its users see it.
//!
//! Called by: programs. Calls: `connection.rs`. Locks: none.

use std::fmt;
use std::net::Shutdown;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mbuf::Chain;

use super::connection::Connection;
use super::credentials::Credentials;
use super::error::UnixError;
use super::message::{Message, Received};
use super::name::Name;
use super::pcb::{Handle, Role};
use super::state::UnixState;
use crate::socket::park::Wait;

/// One side of a connection of records, each of which is received whole and by itself. Clones are handles
/// on the same socket; the last one to go closes it.
///
/// # Example
/// ```
/// use mbuma::unix::Message;
/// use mbuma::{Config, Stack};
///
/// let stack = Stack::new(Config::from_system())?;
/// let (left, right) = stack.unix().seqpacket_pair();
/// // A connection goes to the other side, with a word about it.
/// let (ours, theirs) = stack.unix().pair();
/// let word = mbuf::Chain::from_slice(stack.pool(), b"yours")?;
/// left.send_with(Message::new(word).with(theirs)).map_err(|(e, _)| e)?;
///
/// let received = right.recv_with(64)?.expect("the other side is open");
/// assert_eq!(received.data.to_vec(), b"yours");
/// assert_eq!(received.rights.len(), 1);
/// drop(received);
/// assert_eq!(ours.recv(&mut [0; 8])?, 0); // its peer was dropped with the message
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "SOCK_SEQPACKET")]
#[derive(Clone)]
pub struct UnixSeqpacket(pub(super) Handle);

impl UnixSeqpacket {
    fn connection(&self) -> &Connection {
        match &self.0.pcb().role {
            Role::Seqpacket(connection) => connection,
            _ => unreachable!("sequenced packets are made of nothing else"),
        }
    }

    fn unix(&self) -> &UnixState {
        &self.0.pcb().unix
    }

    /// Copies a record to the peer.
    ///
    /// # Errors
    /// `WouldBlock` if the peer has not read enough; `BrokenPipe`; `Reset`, once; `TooBig`; `NoBufs`.
    pub fn send(&self, bytes: &[u8]) -> Result<(), UnixError> {
        self.copy_in(bytes, Wait::No)
    }

    /// As [`UnixSeqpacket::send`], waiting for room.
    ///
    /// # Errors
    /// `WouldBlock` when the time is over; `BrokenPipe`; `Reset`, once; `TooBig`; `NoBufs`.
    pub fn send_blocking(&self, bytes: &[u8], timeout: Option<Duration>) -> Result<(), UnixError> {
        self.copy_in(bytes, Wait::Yes(timeout))
    }

    fn copy_in(&self, bytes: &[u8], wait: Wait) -> Result<(), UnixError> {
        if bytes.len() > self.unix().config.record_max {
            return Err(UnixError::TooBig);
        }
        let data = Chain::from_slice(&self.unix().pool, bytes)?;
        self.give(Message::new(data), wait).map_err(|(e, _)| e)
    }

    /// Moves a record to the peer, and what goes with it.
    ///
    /// # Errors
    /// The message comes back with `WouldBlock`, `BrokenPipe`, `Reset` (once), `TooBig`,
    /// `TooManyRights` or `OtherStack`.
    #[doc(alias = "sendmsg")]
    pub fn send_with(&self, message: Message) -> Result<(), (UnixError, Message)> {
        self.give(message, Wait::No)
    }

    /// As [`UnixSeqpacket::send_with`], waiting for room.
    ///
    /// # Errors
    /// The message comes back with `WouldBlock` when the time is over, `BrokenPipe`, `Reset` (once), `TooBig`,
    /// `TooManyRights` or `OtherStack`.
    pub fn send_with_blocking(
        &self,
        message: Message,
        timeout: Option<Duration>,
    ) -> Result<(), (UnixError, Message)> {
        self.give(message, Wait::Yes(timeout))
    }

    fn give(&self, message: Message, wait: Wait) -> Result<(), (UnixError, Message)> {
        if message.data.len() > self.unix().config.record_max {
            return Err((UnixError::TooBig, message));
        }
        let sent = self.connection().send(self.unix(), message, wait);
        sent.map_err(|(e, message)| {
            // The peer's end leaves both behind; the reset is the news.
            let reset = e == UnixError::BrokenPipe && self.connection().take_reset();
            (if reset { UnixError::Reset } else { e }, message)
        })
    }

    /// Copies the next record to `buf`, as far as it fits; the rest of it is lost. 0 is the end, or an
    /// empty record: [`UnixSeqpacket::recv_with`] tells them apart. What came with it is dropped.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is there yet; `Reset`, once, before what is there.
    pub fn recv(&self, buf: &mut [u8]) -> Result<usize, UnixError> {
        self.copy_out(buf, Wait::No)
    }

    /// As [`UnixSeqpacket::recv`], waiting for something to come.
    ///
    /// # Errors
    /// `WouldBlock` when the time is over; `Reset`, once, before what is there.
    pub fn recv_blocking(
        &self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<usize, UnixError> {
        self.copy_out(buf, Wait::Yes(timeout))
    }

    fn copy_out(&self, buf: &mut [u8], wait: Wait) -> Result<usize, UnixError> {
        let received = self.connection().recv(self.unix(), buf.len(), wait)?;
        let data = received.unwrap_or_default().data;
        data.copy_to(0, &mut buf[..data.len()]);
        Ok(data.len())
    }

    /// Takes the next record, cut to `max` bytes, and what came with it; `None` at the end.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is there yet; `Reset`, once, before what is there.
    #[doc(alias = "recvmsg")]
    pub fn recv_with(&self, max: usize) -> Result<Option<Received>, UnixError> {
        self.connection().recv(self.unix(), max, Wait::No)
    }

    /// As [`UnixSeqpacket::recv_with`], waiting for something to come.
    ///
    /// # Errors
    /// `WouldBlock` when the time is over; `Reset`, once, before what is there.
    pub fn recv_with_blocking(
        &self,
        max: usize,
        timeout: Option<Duration>,
    ) -> Result<Option<Received>, UnixError> {
        let wait = Wait::Yes(timeout);
        self.connection().recv(self.unix(), max, wait)
    }

    /// Ready when a receive gives a record, the end, or an error; the task is woken then.
    pub fn poll_readable(&self, cx: &Context<'_>) -> Poll<()> {
        self.connection().poll_readable(cx)
    }

    /// Ready when a send is taken or fails for good; the task is woken then: when half of the peer's
    /// buffer is free.
    pub fn poll_writable(&self, cx: &Context<'_>) -> Poll<()> {
        self.connection().poll_writable(cx)
    }

    /// Whom to call when a record comes and none was waiting, when half of the peer's buffer is free
    /// again, and when a direction ends; at once, if there is something to read now. Stays until replaced.
    pub fn set_waker(&self, waker: Option<Waker>) {
        self.connection().set_waker(waker);
    }

    /// Ends a direction, or both. The peer reads what was sent, then the end; it can't send where this
    /// side reads no more.
    pub fn shutdown(&self, how: Shutdown) {
        self.connection().shutdown(how);
    }

    /// Its name: that of the listener that accepted it.
    #[doc(alias = "getsockname")]
    pub fn local_name(&self) -> Option<&Name> {
        self.connection().local.as_ref()
    }

    /// The peer's name: that of the listener, if this side connected to it.
    #[doc(alias = "getpeername")]
    pub fn peer_name(&self) -> Option<&Name> {
        self.connection().peer.as_ref()
    }

    /// Who the peer was when it connected, or when it began to listen.
    #[doc(alias = "LOCAL_PEERCRED")]
    #[doc(alias = "SO_PEERCRED")]
    pub fn peer_credentials(&self) -> Credentials {
        self.connection().peer_credentials
    }
}

impl fmt::Debug for UnixSeqpacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnixSeqpacket")
            .field("id", &self.0.pcb().id)
            .field("local", &self.local_name())
            .field("peer", &self.peer_name())
            .finish()
    }
}
