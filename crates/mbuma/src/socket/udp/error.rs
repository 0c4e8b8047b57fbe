//! The ways in which an operation on a UDP socket can fail.
//!
//! Sources: none.

use std::fmt;
use std::io;

use rustix::io::Errno;

use crate::drops::DropReason;
use crate::ip::IcmpError;
use crate::udp::UdpError;

/// The error of binding a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BindError {
    /// Another socket has this address and port.
    AddrInUse,
    /// No interface of this stack has this address.
    AddrNotAvailable,
    /// Every port of the dynamic range is taken.
    NoFreePort,
    /// There is no such interface.
    NoInterface,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AddrInUse => "another socket has this address and port",
            Self::AddrNotAvailable => "no interface of this stack has this address",
            Self::NoFreePort => "no free port is left",
            Self::NoInterface => "there is no such interface",
        })
    }
}

impl std::error::Error for BindError {}

impl From<BindError> for io::Error {
    fn from(e: BindError) -> Self {
        let errno = match e {
            BindError::AddrInUse | BindError::NoFreePort => Errno::ADDRINUSE,
            BindError::AddrNotAvailable => Errno::ADDRNOTAVAIL,
            BindError::NoInterface => Errno::NODEV,
        };
        errno.into()
    }
}

/// The error of receiving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecvError {
    /// No datagram is there now: wait.
    WouldBlock,
    /// No datagram came within the timeout.
    TimedOut,
    /// An ICMP error came for a sent datagram.
    Icmp(UdpError),
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WouldBlock => f.write_str("no datagram is there: wait until one comes"),
            Self::TimedOut => f.write_str("no datagram came in time"),
            Self::Icmp(e) => write!(f, "a datagram to {} did not arrive: {:?}", e.dst, e.kind),
        }
    }
}

impl std::error::Error for RecvError {}

impl From<RecvError> for io::Error {
    fn from(e: RecvError) -> Self {
        let errno = match e {
            RecvError::WouldBlock => Errno::AGAIN,
            RecvError::TimedOut => Errno::TIMEDOUT,
            RecvError::Icmp(e) => match e.kind {
                IcmpError::Port => Errno::CONNREFUSED,
                IcmpError::Net => Errno::NETUNREACH,
                IcmpError::AdminProhibited | IcmpError::SourcePolicy | IcmpError::RejectRoute => {
                    Errno::ACCESS
                }
                _ => Errno::HOSTUNREACH,
            },
        };
        errno.into()
    }
}

/// The error of sending a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// The socket may not send from this address.
    BadSource,
    /// The destination is no address and port.
    BadDestination,
    /// It does not fit an IP packet; or it must not be fragmented, and does not fit the link.
    TooBig,
    /// There is no route to the destination.
    NoRoute,
    /// No buffers, or a full queue: try again later.
    NoBufs,
}

impl From<DropReason> for SendError {
    fn from(reason: DropReason) -> Self {
        match reason {
            DropReason::IpTooBig => Self::TooBig,
            DropReason::IpNoRoute => Self::NoRoute,
            _ => Self::NoBufs,
        }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadSource => "the socket may not send from this address",
            Self::BadDestination => "the destination is not an address and a port",
            Self::TooBig => "the datagram is too big",
            Self::NoRoute => "there is no route to the destination",
            Self::NoBufs => "out of network buffers",
        })
    }
}

impl std::error::Error for SendError {}

impl From<SendError> for io::Error {
    fn from(e: SendError) -> Self {
        let errno = match e {
            SendError::BadSource => Errno::ADDRNOTAVAIL,
            SendError::BadDestination => Errno::INVAL,
            SendError::TooBig => Errno::MSGSIZE,
            SendError::NoRoute => Errno::NETUNREACH,
            SendError::NoBufs => Errno::NOBUFS,
        };
        errno.into()
    }
}
