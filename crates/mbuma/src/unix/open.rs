//! Makes sockets: in pairs, with a name, connected to a name.
//!
//! Locks: theirs, one after the other.
//! Source: POSIX.1-2024 socketpair(), bind(), listen(), connect().

use std::sync::Arc;
use std::time::Duration;

use super::connection::{PairSide, UnixConnection};
use super::datagram::UnixDatagram;
use super::endpoint::{self, Endpoint};
use super::error::UnixError;
use super::listener::{Listening, UnixListener, UnixSeqpacketListener};
use super::name::Name;
use super::pcb::{Handle, Role, Unpcb};
use super::rcvbuf::{Rcvbuf, Shape};
use super::seqpacket::UnixSeqpacket;
use super::state::{UnixState, UnixStats};
use super::stream::UnixStream;
use crate::config::Credentials;
use crate::park::Wait;
use crate::stack::Stack;

/// Makes UNIX-domain sockets of one stack, for one user (POSIX.1-2024). Cheap to make and to clone.
#[derive(Clone)]
pub struct Unix {
    state: Arc<UnixState>,
    credentials: Credentials,
}

impl Stack {
    /// This stack's UNIX-domain sockets. They belong to [`UnixConfig::credentials`](super::UnixConfig::credentials).
    pub fn unix(&self) -> Unix {
        Unix::new(&self.0.unix)
    }
}

impl Unix {
    pub(super) fn new(state: &Arc<UnixState>) -> Self {
        Self {
            state: Arc::clone(state),
            credentials: state.config.credentials,
        }
    }

    /// Makes sockets with other credentials; the embedder knows those of its programs.
    #[must_use]
    pub fn acting_as(mut self, credentials: Credentials) -> Self {
        self.credentials = credentials;
        self
    }

    /// Figures.
    pub fn stats(&self) -> UnixStats {
        self.state.stats()
    }

    /// Two streams, connected to each other.
    #[doc(alias = "socketpair")]
    pub fn pair(&self) -> (UnixStream, UnixStream) {
        let (a, b) = self.connected(Shape::Stream);
        (UnixStream(a), UnixStream(b))
    }

    /// Two sockets of sequenced packets, connected to each other.
    #[doc(alias = "socketpair")]
    pub fn seqpacket_pair(&self) -> (UnixSeqpacket, UnixSeqpacket) {
        let (a, b) = self.connected(Shape::Records);
        (UnixSeqpacket(a), UnixSeqpacket(b))
    }

    /// Two datagram sockets, connected to each other.
    #[doc(alias = "socketpair")]
    pub fn datagram_pair(&self) -> (UnixDatagram, UnixDatagram) {
        let (a, b) = (self.endpoint(None), self.endpoint(None));
        endpoint::join(&a, &b);
        (UnixDatagram(Handle::new(&a)), UnixDatagram(Handle::new(&b)))
    }

    fn connected(&self, shape: Shape) -> (Handle, Handle) {
        let [a, b] = [(); 2].map(|()| PairSide {
            id: self.state.next_id(),
            name: None,
            credentials: self.credentials,
            accepted: true,
        });
        let (a, b) = self.connect_sides(shape, a, b);
        (Handle::new(&a), Handle::new(&b))
    }

    fn connect_sides(&self, shape: Shape, a: PairSide, b: PairSide) -> (Arc<Unpcb>, Arc<Unpcb>) {
        let role = match shape {
            Shape::Stream => Role::Stream,
            Shape::Records | Shape::Datagrams => Role::Seqpacket,
        };
        let ((a_id, a_user), (b_id, b_user)) = ((a.id, a.credentials), (b.id, b.credentials));
        let (of_a, of_b) = UnixConnection::pair(&self.state, shape, a, b);
        let a = Unpcb::new(&self.state, a_id, a_user, role(of_a));
        let b = Unpcb::new(&self.state, b_id, b_user, role(of_b));
        (a, b)
    }

    /// Listens for streams to `name`, with at most `backlog` connections that were not accepted yet.
    ///
    /// # Errors
    /// `AddrInUse` if another socket, of any type, has the name; `BadName`.
    #[doc(alias = "bind")]
    pub fn listen(&self, name: &[u8], backlog: usize) -> Result<UnixListener, UnixError> {
        let listening = |name| Role::Listener(self.listening(name, backlog));
        self.bind(name, listening).map(UnixListener)
    }

    /// Listens for connections of sequenced packets to `name`. Otherwise as [`Unix::listen`].
    ///
    /// # Errors
    /// As [`Unix::listen`].
    #[doc(alias = "bind")]
    pub fn seqpacket_listen(
        &self,
        name: &[u8],
        backlog: usize,
    ) -> Result<UnixSeqpacketListener, UnixError> {
        let listening = |name| Role::SeqpacketListener(self.listening(name, backlog));
        self.bind(name, listening).map(UnixSeqpacketListener)
    }

    /// A datagram socket called `name`.
    ///
    /// # Errors
    /// As [`Unix::listen`].
    #[doc(alias = "bind")]
    pub fn datagram_bind(&self, name: &[u8]) -> Result<UnixDatagram, UnixError> {
        let name = Name::new(name)?;
        let pcb = self.endpoint(Some(name.clone()));
        self.bind_pcb(&name, &pcb).map(UnixDatagram)
    }

    /// A datagram socket without a name: it sends, and can't be sent to.
    pub fn datagram(&self) -> UnixDatagram {
        UnixDatagram(Handle::new(&self.endpoint(None)))
    }

    fn endpoint(&self, name: Option<Name>) -> Arc<Unpcb> {
        let id = self.state.next_id();
        let UnixState { giant, config, .. } = &*self.state;
        let rx = Rcvbuf::new(giant, id, Shape::Datagrams, config.recv_buffer);
        let role = Role::Datagram(Endpoint::new(giant, rx, name));
        Unpcb::new(&self.state, id, self.credentials, role)
    }

    fn listening(&self, name: Name, backlog: usize) -> Listening {
        Listening::new(&self.state.giant, name, backlog)
    }

    fn bind(&self, name: &[u8], role: impl FnOnce(Name) -> Role) -> Result<Handle, UnixError> {
        let name = Name::new(name)?;
        let id = self.state.next_id();
        let pcb = Unpcb::new(&self.state, id, self.credentials, role(name.clone()));
        self.bind_pcb(&name, &pcb)
    }

    fn bind_pcb(&self, name: &Name, pcb: &Arc<Unpcb>) -> Result<Handle, UnixError> {
        // The handle first: a thread that finds the name must find an open socket.
        let handle = Handle::new(pcb);
        if !self.state.names.bind(name, pcb) {
            return Err(UnixError::AddrInUse);
        }
        Ok(handle)
    }

    /// Connects a stream to the listener called `name`.
    ///
    /// # Errors
    /// `NotFound` if no socket has the name; `WrongType` if a socket of another type has; `Refused` if the
    /// listener goes at this moment; `WouldBlock` if its backlog is full; `BadName`.
    pub fn connect(&self, name: &[u8]) -> Result<UnixStream, UnixError> {
        self.connect_shape(name, Shape::Stream, Wait::No)
            .map(UnixStream)
    }

    /// As [`Unix::connect`], waiting for a place in the backlog.
    ///
    /// # Errors
    /// As there; `TimedOut` when the time is over.
    pub fn connect_blocking(
        &self,
        name: &[u8],
        timeout: Option<Duration>,
    ) -> Result<UnixStream, UnixError> {
        self.connect_shape(name, Shape::Stream, Wait::Yes(timeout))
            .map(UnixStream)
    }

    /// Connects a socket of sequenced packets to the listener called `name`.
    ///
    /// # Errors
    /// As [`Unix::connect`].
    pub fn seqpacket_connect(&self, name: &[u8]) -> Result<UnixSeqpacket, UnixError> {
        self.connect_shape(name, Shape::Records, Wait::No)
            .map(UnixSeqpacket)
    }

    /// As [`Unix::seqpacket_connect`], waiting for a place in the backlog.
    ///
    /// # Errors
    /// As there; `TimedOut` when the time is over.
    pub fn seqpacket_connect_blocking(
        &self,
        name: &[u8],
        timeout: Option<Duration>,
    ) -> Result<UnixSeqpacket, UnixError> {
        self.connect_shape(name, Shape::Records, Wait::Yes(timeout))
            .map(UnixSeqpacket)
    }

    #[doc(alias = "unp_connect")]
    fn connect_shape(&self, name: &[u8], shape: Shape, wait: Wait) -> Result<Handle, UnixError> {
        let listener = self.state.names.find(name)?;
        let listening = match (&listener.role, shape) {
            (Role::Listener(listening), Shape::Stream)
            | (Role::SeqpacketListener(listening), Shape::Records) => listening,
            _ => return Err(UnixError::WrongType),
        };
        let ours = PairSide {
            id: self.state.next_id(),
            name: None,
            credentials: self.credentials,
            accepted: true,
        };
        let theirs = PairSide {
            id: self.state.next_id(),
            name: Some(listening.name.clone()),
            credentials: listener.credentials,
            accepted: false,
        };
        let (ours, theirs) = self.connect_sides(shape, ours, theirs);
        let handle = Handle::new(&ours);
        listening.enqueue(&listener, &theirs, wait)?;
        Ok(handle)
    }
}

kern::impl_debug!(Unix |this| credentials: this.credentials);
