//! The rights of a message: sockets, and objects that the sender gives away with its bytes.
//!
//! In flight, a socket is held by the buffer in which it waits and not by a handle, and [`flight`](super::flight) has
//! that buffer. So the collector finds a socket that can't be received any more. An object is opaque: a handle of a
//! UNIX-domain socket *inside* of an object holds that socket open like any handle, even if the object waits in that
//! very socket. Pass sockets as sockets.
//!
//! Locks: taking a socket out of flight takes the flight's; to put one in, the caller holds it. Source: SCM_RIGHTS of
//! unix(4) and unix(7).

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::datagram::UnixDatagram;
use super::error::UnixError;
use super::flight::{Flight, Graph};
use super::listener::{UnixListener, UnixSeqpacketListener};
use super::pcb::{Handle, Role, Unpcb};
use super::seqpacket::UnixSeqpacket;
use super::state::UnixState;
use super::stream::UnixStream;
use crate::socket::{TcpListener, TcpStream, UdpSocket};

/// Sockets and objects of one message at most, as in Linux.
#[doc(alias = "SCM_MAX_FD")]
pub const RIGHTS_MAX: usize = 253;

/// A socket or object that goes with a message (SCM_RIGHTS of unix(7)).
#[doc(alias = "SCM_RIGHTS")]
#[non_exhaustive]
pub enum Passed {
    /// A stream.
    Stream(UnixStream),
    /// A socket of sequenced packets.
    Seqpacket(UnixSeqpacket),
    /// A datagram socket.
    Datagram(UnixDatagram),
    /// A listener.
    Listener(UnixListener),
    /// A listener of sequenced packets.
    SeqpacketListener(UnixSeqpacketListener),
    /// A TCP connection.
    Tcp(TcpStream),
    /// A TCP listener.
    TcpListener(TcpListener),
    /// A UDP socket.
    Udp(UdpSocket),
    /// Any other object. It is dropped if it is not received.
    Object(Box<dyn Any + Send>),
}

impl Passed {
    /// The handle, if it is one of a UNIX-domain socket.
    fn handle(&self) -> Option<&Handle> {
        match self {
            Self::Stream(s) => Some(&s.0),
            Self::Seqpacket(s) => Some(&s.0),
            Self::Datagram(s) => Some(&s.0),
            Self::Listener(s) => Some(&s.0),
            Self::SeqpacketListener(s) => Some(&s.0),
            Self::Tcp(_) | Self::TcpListener(_) | Self::Udp(_) | Self::Object(_) => None,
        }
    }

    /// Whether it can be part of a cycle.
    pub(super) fn is_unix(&self) -> bool {
        self.handle().is_some()
    }
}

/// Whether these rights may go with one message of a socket of `unix`.
pub(super) fn check(unix: &UnixState, rights: &[Passed]) -> Result<(), UnixError> {
    if rights.len() > RIGHTS_MAX {
        return Err(UnixError::TooManyRights);
    }
    let mut handles = rights.iter().filter_map(Passed::handle);
    match handles.all(|handle| std::ptr::eq(&*handle.pcb().unix, unix)) {
        true => Ok(()),
        false => Err(UnixError::OtherStack),
    }
}

macro_rules! passed_from {
    ($($socket:ty => $kind:ident),* $(,)?) => {
        $(impl From<$socket> for Passed {
            fn from(socket: $socket) -> Self {
                Self::$kind(socket)
            }
        })*
    };
}

passed_from! {
    UnixStream => Stream,
    UnixSeqpacket => Seqpacket,
    UnixDatagram => Datagram,
    UnixListener => Listener,
    UnixSeqpacketListener => SeqpacketListener,
    TcpStream => Tcp,
    TcpListener => TcpListener,
    UdpSocket => Udp,
    Box<dyn Any + Send> => Object,
}

impl fmt::Debug for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stream(_) => "Stream",
            Self::Seqpacket(_) => "Seqpacket",
            Self::Datagram(_) => "Datagram",
            Self::Listener(_) => "Listener",
            Self::SeqpacketListener(_) => "SeqpacketListener",
            Self::Tcp(_) => "Tcp",
            Self::TcpListener(_) => "TcpListener",
            Self::Udp(_) => "Udp",
            Self::Object(_) => "Object",
        })
    }
}

/// A right that waits in a buffer. A socket is counted as in flight, not as a handle.
pub(super) enum Cargo {
    Socket(Arc<Unpcb>),
    Other(Passed),
}

impl Cargo {
    /// Turns a right into cargo. The caller must drop a returned handle once its socket is in flight.
    fn pack(passed: Passed) -> (Self, Option<Handle>) {
        let Some(handle) = passed.handle().cloned() else {
            return (Self::Other(passed), None);
        };
        (Self::Socket(Arc::clone(handle.pcb())), Some(handle))
    }

    /// The socket, if it is one that can be part of a cycle.
    pub(super) fn socket(&self) -> Option<&Arc<Unpcb>> {
        match self {
            Self::Socket(pcb) => Some(pcb),
            Self::Other(_) => None,
        }
    }

    /// Turns cargo into a right for its receiver.
    fn unpack(self) -> Passed {
        let pcb = match self {
            Self::Other(passed) => return passed,
            Self::Socket(pcb) => pcb,
        };
        let handle = Handle::new(&pcb);
        match &pcb.role {
            Role::Stream(_) => Passed::Stream(UnixStream(handle)),
            Role::Seqpacket(_) => Passed::Seqpacket(UnixSeqpacket(handle)),
            Role::Datagram(_) => Passed::Datagram(UnixDatagram(handle)),
            Role::Listener(_) => Passed::Listener(UnixListener(handle)),
            Role::SeqpacketListener(_) => Passed::SeqpacketListener(UnixSeqpacketListener(handle)),
        }
    }
}

impl fmt::Debug for Cargo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(pcb) => write!(f, "Socket({})", pcb.id),
            Self::Other(passed) => passed.fmt(f),
        }
    }
}

/// Turns the rights of a message into cargo and puts its sockets in flight. Their handles come back, so that each
/// socket always has a handle or is in flight.
pub(super) fn pack(
    rights: Vec<Passed>,
    carrier: u64,
    graph: Option<&mut Graph>,
) -> (Vec<Cargo>, Vec<Handle>) {
    let (cargo, handles): (Vec<_>, Vec<_>) = rights.into_iter().map(Cargo::pack).unzip();
    let sockets = cargo.iter().filter_map(Cargo::socket);
    if let Some(graph) = graph {
        sockets.for_each(|pcb| graph.load(pcb, carrier));
    }
    (cargo, handles.into_iter().flatten().collect())
}

/// Turns cargo into rights: takes its sockets out of flight, and makes a handle for each. The caller has a handle of
/// the carrier, so a socket from its buffer does not count as dead before it has its handle.
pub(super) fn unpack(cargo: Vec<Cargo>, carrier: u64, flight: &Flight) -> Vec<Passed> {
    if cargo.is_empty() {
        return Vec::new();
    }
    let mut graph = flight.lock();
    let land = |thing: Cargo| {
        if let Some(pcb) = thing.socket() {
            graph.unload(pcb, carrier);
        }
        thing.unpack()
    };
    cargo.into_iter().map(land).collect()
}
