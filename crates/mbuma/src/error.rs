//! Errors of sockets, with std's number and kind for each, and errors of setting up a stack.

use std::fmt;
use std::io;
use std::net::Ipv4Addr;

use rustix::io::Errno;
use uma::ZoneError;

/// The error of a socket or a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SocketError {
    /// The peer, or a router on the path, reported that no socket is there.
    Refused,
    /// The peer is unreachable.
    Unreachable,
    /// A filter on the path forbids the connection (RFC 1812 5.2.7.1, RFC 4443 3.1).
    Prohibited,
    /// The peer reset the connection.
    Reset,
    /// The peer stayed silent for too long, or the time that a call may take is over.
    TimedOut,
    /// This side has closed the connection, or this direction of it.
    Closed,
    /// There is no room, or nothing to read: the caller must wait for the waker.
    WouldBlock,
    /// The address is in use, or no port is free.
    AddrInUse,
    /// No interface has this address.
    AddrNotAvailable,
    /// Out of buffers.
    NoBufs,
    /// Data to be sent could not be read or sealed. The connection has ended, because its peer would wait for that
    /// data.
    Io,
}

impl SocketError {
    /// The nearest of std's kinds.
    pub const fn kind(self) -> io::ErrorKind {
        match self {
            Self::Refused => io::ErrorKind::ConnectionRefused,
            Self::Unreachable | Self::Prohibited => io::ErrorKind::HostUnreachable,
            Self::Reset => io::ErrorKind::ConnectionReset,
            Self::TimedOut => io::ErrorKind::TimedOut,
            Self::Closed => io::ErrorKind::NotConnected,
            Self::WouldBlock => io::ErrorKind::WouldBlock,
            Self::AddrInUse => io::ErrorKind::AddrInUse,
            Self::AddrNotAvailable => io::ErrorKind::AddrNotAvailable,
            Self::NoBufs => io::ErrorKind::OutOfMemory,
            Self::Io => io::ErrorKind::Other,
        }
    }
}

impl fmt::Display for SocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "connection refused",
            Self::Unreachable => "no route to the peer",
            Self::Prohibited => "a filter on the path forbids the connection",
            Self::Reset => "connection reset by the peer",
            Self::TimedOut => "the peer does not answer in time",
            Self::Closed => "the socket is closed",
            Self::WouldBlock => "not now: wait until the socket is ready",
            Self::AddrInUse => "the address is in use",
            Self::AddrNotAvailable => "no interface has this address",
            Self::NoBufs => "out of network buffers",
            Self::Io => "what was to be sent could not be read",
        })
    }
}

impl std::error::Error for SocketError {}

impl From<SocketError> for Errno {
    fn from(e: SocketError) -> Self {
        match e {
            SocketError::Refused => Self::CONNREFUSED,
            // As on Linux.
            SocketError::Unreachable | SocketError::Prohibited => Self::HOSTUNREACH,
            SocketError::Reset => Self::CONNRESET,
            SocketError::TimedOut => Self::TIMEDOUT,
            SocketError::Closed => Self::NOTCONN,
            SocketError::WouldBlock => Self::AGAIN,
            SocketError::AddrInUse => Self::ADDRINUSE,
            SocketError::AddrNotAvailable => Self::ADDRNOTAVAIL,
            SocketError::NoBufs => Self::NOBUFS,
            SocketError::Io => Self::IO,
        }
    }
}

/// An error with the errno that the kernel's sockets use for it, because programs compare it.
impl From<SocketError> for io::Error {
    fn from(e: SocketError) -> Self {
        Errno::from(e).into()
    }
}

/// The error of setting up a stack or opening a socket.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Not an address, or not an address and a port. The stack looks up no names.
    Address(String),
    /// A device could not be opened.
    Device {
        /// Its name.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// The router is in none of the interface's networks.
    Gateway(Ipv4Addr),
    /// The device's MTU, in bytes, is too small for IPv4 (RFC 791 section 3.2), or for the interface's IPv6 addresses (RFC 8200
    /// section 5).
    Mtu(u16),
    /// The stack was not made by a runtime, so no thread would take in the frames of its devices.
    NoRuntime,
    /// The buffers' address space could not be reserved.
    Memory(ZoneError),
    /// A socket does not work.
    Socket(SocketError),
    /// The system refused something else.
    Io(io::Error),
}

/// The result of setting up.
pub type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(text) => write!(
                f,
                "{text:?} is not an address such as 192.0.2.1/24 or 192.0.2.1:80 (names are not looked up)"
            ),
            Self::Device { name, source } => write!(f, "{name}: {source}{}", remedy(source)),
            Self::Gateway(addr) => write!(
                f,
                "{addr} is in no network of the interface: give the interface an address in the network of its router"
            ),
            Self::Mtu(mtu) => write!(
                f,
                "an MTU of {mtu} bytes is too small: IPv4 needs 68, and IPv6 needs 1280"
            ),
            Self::NoRuntime => f.write_str(
                "no thread drives the stack: make it with Runtime::stack, or attach the device and poll it",
            ),
            Self::Memory(e) => write!(f, "no address space for buffers: {e}"),
            Self::Socket(e) => e.fmt(f),
            Self::Io(e) => e.fmt(f),
        }
    }
}

/// A remedy for a device that can't be opened.
fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => {
            ": making a device takes CAP_NET_ADMIN; root can make it for a user \
             (ip tuntap add dev NAME mode tap user USER), \
             or run the program in a namespace of its own (unshare --user --map-root-user --net)"
        }
        io::ErrorKind::NotFound => {
            ": /dev/net/tun is missing: load the module tun, or give the container that device"
        }
        io::ErrorKind::ResourceBusy => ": another program has the device open",
        io::ErrorKind::InvalidInput => {
            ": the name must have 1 to 15 bytes, and the device must be a TAP"
        }
        _ => "",
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Device { source, .. } | Self::Io(source) => Some(source),
            Self::Memory(source) => Some(source),
            Self::Socket(source) => Some(source),
            Self::Address(_) | Self::Gateway(_) | Self::Mtu(_) | Self::NoRuntime => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

impl From<SocketError> for Error {
    fn from(e: SocketError) -> Self {
        Self::Socket(e)
    }
}

impl From<ZoneError> for Error {
    fn from(e: ZoneError) -> Self {
        Self::Memory(e)
    }
}
