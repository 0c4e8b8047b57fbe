//! Why a socket does not work, and the number and kind that std has for it.

use std::fmt;
use std::io;

use rustix::io::Errno;

/// Why a connection does not work, or works no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SocketError {
    /// The peer, or a host on the way, said that no socket is there.
    Refused,
    /// There is no way to the peer.
    Unreachable,
    /// The peer ended the connection at once.
    Reset,
    /// The peer stayed silent for too long, or the time that a call may take is over.
    TimedOut,
    /// This side closed it, or the direction.
    Closed,
    /// There is no room, or nothing to read: wait for the waker.
    WouldBlock,
    /// The address is in use, or no port is free.
    AddrInUse,
    /// No interface has this address.
    AddrNotAvailable,
    /// Out of buffers.
    NoBufs,
}

impl SocketError {
    /// The nearest of std's kinds.
    pub const fn kind(self) -> io::ErrorKind {
        match self {
            Self::Refused => io::ErrorKind::ConnectionRefused,
            Self::Unreachable => io::ErrorKind::HostUnreachable,
            Self::Reset => io::ErrorKind::ConnectionReset,
            Self::TimedOut => io::ErrorKind::TimedOut,
            Self::Closed => io::ErrorKind::NotConnected,
            Self::WouldBlock => io::ErrorKind::WouldBlock,
            Self::AddrInUse => io::ErrorKind::AddrInUse,
            Self::AddrNotAvailable => io::ErrorKind::AddrNotAvailable,
            Self::NoBufs => io::ErrorKind::OutOfMemory,
        }
    }
}

impl fmt::Display for SocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "connection refused",
            Self::Unreachable => "no route to the peer",
            Self::Reset => "connection reset by the peer",
            Self::TimedOut => "the peer does not answer in time",
            Self::Closed => "the socket is closed",
            Self::WouldBlock => "not now: wait until the socket is ready",
            Self::AddrInUse => "the address is in use",
            Self::AddrNotAvailable => "no interface has this address",
            Self::NoBufs => "out of network buffers",
        })
    }
}

impl std::error::Error for SocketError {}

impl From<SocketError> for Errno {
    fn from(e: SocketError) -> Self {
        match e {
            SocketError::Refused => Self::CONNREFUSED,
            SocketError::Unreachable => Self::HOSTUNREACH,
            SocketError::Reset => Self::CONNRESET,
            SocketError::TimedOut => Self::TIMEDOUT,
            SocketError::Closed => Self::NOTCONN,
            SocketError::WouldBlock => Self::AGAIN,
            SocketError::AddrInUse => Self::ADDRINUSE,
            SocketError::AddrNotAvailable => Self::ADDRNOTAVAIL,
            SocketError::NoBufs => Self::NOBUFS,
        }
    }
}

/// An error with the number that the kernel's sockets have for it, as programs ask for.
impl From<SocketError> for io::Error {
    fn from(e: SocketError) -> Self {
        Errno::from(e).into()
    }
}
