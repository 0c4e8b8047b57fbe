//! The ways in which an operation on a UDP socket can fail.
//!
//! Sources: none.

use std::io;

use rustix::io::Errno;

use crate::drops::DropReason;
use crate::ip::IcmpError;
use crate::sockbuf::{Ancillary, RecvSide};
use crate::udp::UdpError;

/// The error of binding or connecting a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// Another socket has this address and port.
    #[error("another socket has this address and port")]
    AddrInUse,
    /// No interface of this stack has this address.
    #[error("no interface of this stack has this address")]
    AddrNotAvailable,
    /// The text is no address and port. The stack looks up no names.
    #[error("not an address and a port such as 192.0.2.1:53 (names are not looked up)")]
    NotAnAddress,
    /// Every port of the dynamic range is taken.
    #[error("no free port is left")]
    NoFreePort,
    /// There is no such interface.
    #[error("there is no such interface")]
    NoInterface,
    /// There is no route to the peer of a socket that is to be connected.
    #[error("there is no route to the peer")]
    NoRoute,
}

impl From<BindError> for io::Error {
    fn from(e: BindError) -> Self {
        let errno = match e {
            BindError::AddrInUse | BindError::NoFreePort => Errno::ADDRINUSE,
            BindError::AddrNotAvailable => Errno::ADDRNOTAVAIL,
            BindError::NotAnAddress => return Self::new(io::ErrorKind::InvalidInput, e),
            BindError::NoInterface => Errno::NODEV,
            BindError::NoRoute => Errno::NETUNREACH,
        };
        errno.into()
    }
}

/// The error of receiving.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecvError {
    /// No datagram is there now: wait.
    #[error("no datagram is there: wait until one comes")]
    WouldBlock,
    /// No datagram came within the timeout.
    #[error("no datagram came in time")]
    TimedOut,
    /// The interface of a socket for all its datagrams, pings or ICMPv6 messages was detached: none can come.
    #[error("the socket's interface was detached")]
    NoInterface,
    /// The runtime that drove the stack has ended: no datagram can come.
    #[error("no thread drives the stack: its runtime has ended")]
    NotDriven,
    /// An ICMP error came for a sent datagram.
    #[error("a datagram to {} did not arrive: {:?}", .0.dst, .0.kind)]
    Icmp(UdpError),
}

impl RecvError {
    /// The error of a queue that was found empty.
    pub(in crate::socket) fn of_empty<M: Ancillary>(queue: &RecvSide<M>) -> Self {
        match queue.is_cut_off() {
            true => Self::NoInterface,
            false => Self::WouldBlock,
        }
    }
}

impl From<RecvError> for io::Error {
    fn from(e: RecvError) -> Self {
        let errno = match e {
            RecvError::WouldBlock => Errno::AGAIN,
            RecvError::TimedOut => Errno::TIMEDOUT,
            RecvError::NoInterface => Errno::NODEV,
            RecvError::NotDriven => return Self::new(io::ErrorKind::NetworkDown, e),
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The socket may not send from this address.
    #[error("the socket may not send from this address")]
    BadSource,
    /// The destination is no address and port.
    #[error("the destination is not an address and a port")]
    BadDestination,
    /// The socket has no peer to send to.
    #[error("the socket has no peer: connect it, or name the destination")]
    NotConnected,
    /// It does not fit an IP packet; or it must not be fragmented, and does not fit the link.
    #[error("the datagram is too big")]
    TooBig,
    /// There is no route to the destination.
    #[error("there is no route to the destination")]
    NoRoute,
    /// No buffers, or a full queue: try again later.
    #[error("out of network buffers")]
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

impl From<SendError> for io::Error {
    fn from(e: SendError) -> Self {
        let errno = match e {
            SendError::BadSource => Errno::ADDRNOTAVAIL,
            SendError::BadDestination => Errno::INVAL,
            SendError::NotConnected => Errno::DESTADDRREQ,
            SendError::TooBig => Errno::MSGSIZE,
            SendError::NoRoute => Errno::NETUNREACH,
            SendError::NoBufs => Errno::NOBUFS,
        };
        errno.into()
    }
}
