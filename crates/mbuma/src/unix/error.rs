//! Why an operation on a UNIX-domain socket does not work.
//!
//! Source: POSIX.1-2024, connect(), send(), recv().

use std::io;

use crate::error::into_error;

/// The error of an operation on a UNIX-domain socket (POSIX.1-2024). Each operation lists its errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum UnixError {
    /// No socket has this name.
    #[doc(alias = "ENOENT")]
    #[error("no socket has this name")]
    NotFound,
    /// The name is empty or longer than [`NAME_MAX`](super::NAME_MAX) bytes.
    #[doc(alias = "ENAMETOOLONG")]
    #[error("the name is empty or too long")]
    BadName,
    /// Another socket has this name.
    #[doc(alias = "EADDRINUSE")]
    #[error("another socket has this name")]
    AddrInUse,
    /// The socket with this name is of another type.
    #[doc(alias = "EPROTOTYPE")]
    #[error("the socket with this name is of another type")]
    WrongType,
    /// The destination socket has gone.
    #[doc(alias = "ECONNREFUSED")]
    #[error("the socket has gone")]
    Refused,
    /// The peer closed without having read everything.
    #[doc(alias = "ECONNRESET")]
    #[error("the peer closed before it had read all data")]
    Reset,
    /// No program will read the data: the peer has gone or reads no more, or this side has ended its sending.
    #[doc(alias = "EPIPE")]
    #[error("the peer reads no more data")]
    BrokenPipe,
    /// The datagram socket has no peer.
    #[doc(alias = "ENOTCONN")]
    #[error("the socket has no peer")]
    NotConnected,
    /// The datagram socket takes messages of its own peer only.
    #[doc(alias = "EPERM")]
    #[error("the socket takes messages of its own peer only")]
    NotPermitted,
    /// There is no room, no data, or no connection to accept: wait.
    #[doc(alias = "EAGAIN")]
    #[error("not now: wait until the socket is ready")]
    WouldBlock,
    /// The timeout of the call is over.
    #[doc(alias = "ETIMEDOUT")]
    #[error("the socket was not ready in time")]
    TimedOut,
    /// The message is larger than [`UnixConfig::record_max`](super::UnixConfig::record_max).
    #[doc(alias = "EMSGSIZE")]
    #[error("the message is too large")]
    TooBig,
    /// One message has more than [`RIGHTS_MAX`](super::RIGHTS_MAX) sockets and objects.
    #[doc(alias = "ETOOMANYREFS")]
    #[error("too many rights with one message")]
    TooManyRights,
    /// A UNIX-domain socket of another stack can't go with it: neither stack would find a cycle through both.
    #[error("a socket of another stack can't go with a message")]
    OtherStack,
    /// A message with sockets or objects on a stream needs at least one byte.
    #[doc(alias = "EINVAL")]
    #[error("rights need at least one byte of data")]
    NoData,
    /// Out of buffers.
    #[doc(alias = "ENOBUFS")]
    #[error("out of network buffers")]
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

impl From<UnixError> for io::Error {
    fn from(e: UnixError) -> Self {
        Self::new(e.kind(), e)
    }
}

into_error!(UnixError);

impl From<mbuf::NoBufs> for UnixError {
    fn from(_: mbuf::NoBufs) -> Self {
        Self::NoBufs
    }
}
