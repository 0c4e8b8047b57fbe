//! Datagrams between sockets of a stack: whole messages, in order, from any socket or from one peer.
//!
//! No datagram is lost: the senders to a full receiver wait.
//!
//! Locks: none.

use std::net::Shutdown;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use mbuf::Chain;

use super::connection::{ready_if, recv};
use super::endpoint::Endpoint;
use super::error::UnixError;
use super::message::{Message, ReceivedMessage};
use super::name::Name;
use super::pcb::{Handle, Role};
use super::state::UnixState;
use crate::config::Credentials;
use crate::park::Wait;

/// A datagram socket. Clones are handles on the same socket; the last one to go closes it and frees its
/// name.
///
/// # Example
/// ```
/// use mbuma::{Config, Stack};
///
/// let stack = Stack::new(Config::from_system())?;
/// let log = stack.unix().datagram_bind(b"log")?;
/// let program = stack.unix().datagram();
/// program.send_to(b"hello", b"log")?;
/// let mut buf = [0; 16];
/// assert_eq!(log.recv(&mut buf)?, 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "SOCK_DGRAM")]
#[derive(Clone)]
pub struct UnixDatagram(pub(super) Handle);

impl UnixDatagram {
    fn endpoint(&self) -> &Endpoint {
        match &self.0.pcb().role {
            Role::Datagram(endpoint) => endpoint,
            _ => unreachable!("a datagram socket is made of nothing else"),
        }
    }

    fn unix(&self) -> &UnixState {
        &self.0.pcb().unix
    }

    /// Makes the socket called `name` the peer: datagrams go to it, and only its datagrams are accepted. Earlier
    /// datagrams stay.
    ///
    /// # Errors
    /// `NotFound`; `WrongType`; `BadName`; `NotPermitted` if that socket has another peer.
    pub fn connect(&self, name: &[u8]) -> Result<(), UnixError> {
        self.endpoint().connect(self.0.pcb(), name)
    }

    /// Copies a datagram to the peer.
    ///
    /// # Errors
    /// `WouldBlock` if the peer has not read enough; `NotConnected`; `Refused`, once, if the peer has gone;
    /// `BrokenPipe` if it reads no more, or this side sends no more; `NotPermitted` if it has another peer
    /// now; `TooBig`; `NoBufs`.
    pub fn send(&self, bytes: &[u8]) -> Result<(), UnixError> {
        self.copy_in(bytes, None, Wait::No)
    }

    /// As [`UnixDatagram::send`], waiting for room.
    ///
    /// # Errors
    /// As there; `TimedOut` when the time is over.
    pub fn send_blocking(&self, bytes: &[u8], timeout: Option<Duration>) -> Result<(), UnixError> {
        self.copy_in(bytes, None, Wait::Yes(timeout))
    }

    /// Copies a datagram to the socket called `name`.
    ///
    /// # Errors
    /// As [`UnixDatagram::send`], and those of [`UnixDatagram::connect`].
    #[doc(alias = "sendto")]
    pub fn send_to(&self, bytes: &[u8], name: &[u8]) -> Result<(), UnixError> {
        self.copy_in(bytes, Some(name), Wait::No)
    }

    /// As [`UnixDatagram::send_to`], waiting for room.
    ///
    /// # Errors
    /// As there; `TimedOut` when the time is over.
    pub fn send_to_blocking(
        &self,
        bytes: &[u8],
        name: &[u8],
        timeout: Option<Duration>,
    ) -> Result<(), UnixError> {
        self.copy_in(bytes, Some(name), Wait::Yes(timeout))
    }

    fn copy_in(&self, bytes: &[u8], to: Option<&[u8]>, wait: Wait) -> Result<(), UnixError> {
        if bytes.len() > self.unix().config.record_max {
            return Err(UnixError::TooBig);
        }
        let data = Chain::from_slice(&self.unix().pool, bytes)?;
        self.give(Message::new(data), to, wait).map_err(|(e, _)| e)
    }

    /// Moves a datagram and its rights to the socket called `to`, or to the peer.
    ///
    /// # Errors
    /// As [`UnixDatagram::send_to`], and `TooManyRights`, `OtherStack`; the message comes back.
    #[doc(alias = "sendmsg")]
    pub fn send_with(
        &self,
        message: Message,
        to: Option<&[u8]>,
    ) -> Result<(), (UnixError, Message)> {
        self.give(message, to, Wait::No)
    }

    /// As [`UnixDatagram::send_with`], waiting for room.
    ///
    /// # Errors
    /// As there; `TimedOut` when the time is over.
    pub fn send_with_blocking(
        &self,
        message: Message,
        to: Option<&[u8]>,
        timeout: Option<Duration>,
    ) -> Result<(), (UnixError, Message)> {
        self.give(message, to, Wait::Yes(timeout))
    }

    fn give(
        &self,
        message: Message,
        to: Option<&[u8]>,
        wait: Wait,
    ) -> Result<(), (UnixError, Message)> {
        self.endpoint().send(self.0.pcb(), message, to, wait)
    }

    /// Copies the next datagram to `buf`, as far as it fits; the rest of it is lost. 0 is an empty one, or
    /// the end that this side made with [`UnixDatagram::shutdown`]. Its rights are dropped.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is there yet.
    pub fn recv(&self, buf: &mut [u8]) -> Result<usize, UnixError> {
        self.copy_out(buf, Wait::No)
    }

    /// As [`UnixDatagram::recv`], waiting for something to come.
    ///
    /// # Errors
    /// `TimedOut` when the time is over.
    pub fn recv_blocking(
        &self,
        buf: &mut [u8],
        timeout: Option<Duration>,
    ) -> Result<usize, UnixError> {
        self.copy_out(buf, Wait::Yes(timeout))
    }

    fn copy_out(&self, buf: &mut [u8], wait: Wait) -> Result<usize, UnixError> {
        let received = recv(&self.endpoint().rx, self.unix(), buf.len(), wait)?;
        let data = received.unwrap_or_default().data;
        data.copy_to(0, &mut buf[..data.len()]);
        Ok(data.len())
    }

    /// Takes the next datagram, cut to `max` bytes, with its sender and the objects that came with it; `None` at
    /// the end that this side made.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is there yet.
    #[doc(alias = "recvmsg")]
    #[doc(alias = "recvfrom")]
    pub fn recv_with(&self, max: usize) -> Result<Option<ReceivedMessage>, UnixError> {
        recv(&self.endpoint().rx, self.unix(), max, Wait::No)
    }

    /// As [`UnixDatagram::recv_with`], waiting for something to come.
    ///
    /// # Errors
    /// `TimedOut` when the time is over.
    pub fn recv_with_blocking(
        &self,
        max: usize,
        timeout: Option<Duration>,
    ) -> Result<Option<ReceivedMessage>, UnixError> {
        recv(&self.endpoint().rx, self.unix(), max, Wait::Yes(timeout))
    }

    /// Ready when a receive returns a datagram or the end; the task is woken then.
    pub fn poll_readable(&self, cx: &Context<'_>) -> Poll<()> {
        ready_if(self.endpoint().rx.is_readable(Some(cx.waker())))
    }

    /// Ready when the peer takes a datagram or a send fails for good. The task is woken when half of the peer's buffer
    /// is free. Always ready without a peer.
    pub fn poll_writable(&self, cx: &Context<'_>) -> Poll<()> {
        let peer = self.endpoint().peer();
        ready_if(peer.is_none_or(|target| target.is_writable(cx.waker())))
    }

    /// Sets the waker for a datagram that arrives at an empty buffer; it is called at once if one is there now. It
    /// stays until replaced. It is not called for room: several threads may send to one socket.
    pub fn set_waker(&self, waker: Option<Waker>) {
        self.endpoint().rx.keep_reader(waker);
    }

    /// Ends sending, or accepts no new datagrams. Its peer gets no notice, but can't send.
    pub fn shutdown(&self, how: Shutdown) {
        let endpoint = self.endpoint();
        if how != Shutdown::Read {
            endpoint.silence();
        }
        if how != Shutdown::Write {
            endpoint.rx.shut_reader();
        }
    }

    /// Its name.
    #[doc(alias = "getsockname")]
    pub fn local_name(&self) -> Option<&Name> {
        self.endpoint().name.as_ref()
    }

    /// The peer's name, if it has a peer and that has one.
    #[doc(alias = "getpeername")]
    pub fn peer_name(&self) -> Option<Name> {
        self.endpoint().peer()?.name
    }

    /// The peer's credentials.
    #[doc(alias = "LOCAL_PEERCRED")]
    #[doc(alias = "SO_PEERCRED")]
    pub fn peer_credentials(&self) -> Option<Credentials> {
        Some(self.endpoint().peer()?.credentials)
    }
}

kern::impl_debug!(UnixDatagram |this| id: this.0.pcb().id, local: this.local_name());
