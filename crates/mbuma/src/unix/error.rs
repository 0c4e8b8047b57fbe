//! Why an operation on a UNIX-domain socket does not work.
//!
//! Source: POSIX.1-2024, connect(), send(), recv().

use std::fmt;
use std::io;

/// The error of an operation on a UNIX-domain socket. Each operation lists its errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnixError {
    /// No socket has this name.
    #[doc(alias = "ENOENT")]
    NotFound,
    /// The name is empty or longer than [`NAME_MAX`](super::NAME_MAX) bytes.
    #[doc(alias = "ENAMETOOLONG")]
    BadName,
    /// Another socket has this name.
    #[doc(alias = "EADDRINUSE")]
    AddrInUse,
    /// The socket with this name is of another type.
    #[doc(alias = "EPROTOTYPE")]
    WrongType,
    /// The destination socket has gone.
    #[doc(alias = "ECONNREFUSED")]
    Refused,
    /// The peer closed without having read everything.
    #[doc(alias = "ECONNRESET")]
    Reset,
    /// No program will read the data: the peer has gone or reads no more, or this side has ended its sending.
    #[doc(alias = "EPIPE")]
    BrokenPipe,
    /// The datagram socket has no peer.
    #[doc(alias = "ENOTCONN")]
    NotConnected,
    /// The datagram socket takes messages of its own peer only.
    #[doc(alias = "EPERM")]
    NotPermitted,
    /// There is no room, no data, or no connection to accept: wait.
    #[doc(alias = "EAGAIN")]
    WouldBlock,
    /// The timeout of the call is over.
    #[doc(alias = "ETIMEDOUT")]
    TimedOut,
    /// The message is larger than [`UnixConfig::record_max`](super::UnixConfig::record_max).
    #[doc(alias = "EMSGSIZE")]
    TooBig,
    /// One message has more than [`RIGHTS_MAX`](super::RIGHTS_MAX) sockets and objects.
    #[doc(alias = "ETOOMANYREFS")]
    TooManyRights,
    /// A UNIX-domain socket of another stack can't go with it: neither stack would find a cycle through both.
    OtherStack,
    /// A message with sockets or objects on a stream needs at least one byte.
    #[doc(alias = "EINVAL")]
    NoData,
    /// Out of buffers.
    #[doc(alias = "ENOBUFS")]
    NoBufs,
}

impl UnixError {
    /// The nearest of std's kinds.
    pub const fn kind(self) -> io::ErrorKind {
        match self {
            Self::NotFound => io::ErrorKind::NotFound,
            Self::BadName
            | Self::WrongType
            | Self::TooBig
            | Self::TooManyRights
            | Self::OtherStack
            | Self::NoData => io::ErrorKind::InvalidInput,
            Self::AddrInUse => io::ErrorKind::AddrInUse,
            Self::Refused => io::ErrorKind::ConnectionRefused,
            Self::Reset => io::ErrorKind::ConnectionReset,
            Self::BrokenPipe => io::ErrorKind::BrokenPipe,
            Self::NotConnected => io::ErrorKind::NotConnected,
            Self::NotPermitted => io::ErrorKind::PermissionDenied,
            Self::WouldBlock => io::ErrorKind::WouldBlock,
            Self::TimedOut => io::ErrorKind::TimedOut,
            Self::NoBufs => io::ErrorKind::OutOfMemory,
        }
    }
}

impl fmt::Display for UnixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "no socket has this name",
            Self::BadName => "the name is empty or too long",
            Self::AddrInUse => "another socket has this name",
            Self::WrongType => "the socket with this name is of another type",
            Self::Refused => "the socket has gone",
            Self::Reset => "the peer closed before it had read all data",
            Self::BrokenPipe => "the peer reads no more data",
            Self::NotConnected => "the socket has no peer",
            Self::NotPermitted => "the socket takes messages of its own peer only",
            Self::WouldBlock => "not now: wait until the socket is ready",
            Self::TimedOut => "the socket was not ready in time",
            Self::TooBig => "the message is too large",
            Self::TooManyRights => "too many rights with one message",
            Self::OtherStack => "a socket of another stack can't go with a message",
            Self::NoData => "rights need at least one byte of data",
            Self::NoBufs => "out of network buffers",
        })
    }
}

impl std::error::Error for UnixError {}

impl From<UnixError> for io::Error {
    fn from(e: UnixError) -> Self {
        Self::new(e.kind(), e)
    }
}

impl From<mbuf::NoBufs> for UnixError {
    fn from(_: mbuf::NoBufs) -> Self {
        Self::NoBufs
    }
}
