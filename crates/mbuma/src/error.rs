//! Errors of sockets, with std's number and kind for each, and errors of setting up a stack.

use std::io;
use std::net::IpAddr;

use rustix::io::Errno;
use uma::ZoneError;

/// The error of a socket or a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// The peer, or a router on the path, reported that no socket is there.
    #[error("connection refused")]
    Refused,
    /// The peer is unreachable.
    #[error("no route to the peer")]
    Unreachable,
    /// A filter on the path forbids the connection (RFC 1812 5.2.7.1, RFC 4443 3.1).
    #[error("a filter on the path forbids the connection")]
    Prohibited,
    /// The peer reset the connection.
    #[error("connection reset by the peer")]
    Reset,
    /// The peer stayed silent for too long, or the time that a call may take is over.
    #[error("the peer does not answer in time")]
    TimedOut,
    /// This side has closed the connection, or this direction of it.
    #[error("the socket is closed")]
    Closed,
    /// There is no room, or nothing to read: the caller must wait for the waker.
    #[error("not now: wait until the socket is ready")]
    WouldBlock,
    /// The address is in use, or no port is free.
    #[error("the address is in use")]
    AddrInUse,
    /// The stack has as many connections as it may have ([`TcpConfig::connections_max`](crate::TcpConfig)).
    #[error(
        "the stack may have no more connections: end some, or raise connections_max of its TcpConfig"
    )]
    TooManyConnections,
    /// No interface has this address.
    #[error("no interface has this address")]
    AddrNotAvailable,
    /// The text is no address and port. The stack looks up no names.
    #[error("not an address and a port such as 192.0.2.1:80 (names are not looked up)")]
    NotAnAddress,
    /// Out of buffers.
    #[error("out of network buffers")]
    NoBufs,
    /// The runtime that drove the stack has ended: what the call would wait for can't come.
    #[error("no thread drives the stack: its runtime has ended")]
    NotDriven,
    /// Data to be sent could not be read or sealed. The connection has ended, because its peer would wait for that
    /// data.
    #[error("what was to be sent could not be read")]
    Io,
}

impl SocketError {
    /// The nearest of std's kinds.
    pub fn kind(self) -> io::ErrorKind {
        match self {
            // The errors that std has no kind for.
            Self::NoBufs | Self::TooManyConnections => io::ErrorKind::OutOfMemory,
            Self::Io => io::ErrorKind::Other,
            known => Errno::from(known).kind(),
        }
    }
}

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
            SocketError::NotAnAddress => Self::INVAL,
            // As on BSD.
            SocketError::NoBufs | SocketError::TooManyConnections => Self::NOBUFS,
            SocketError::NotDriven => Self::NETDOWN,
            SocketError::Io => Self::IO,
        }
    }
}

/// An error with the errno that the kernel's sockets use for it, because programs compare it. Those that a kernel's
/// socket can't have keep their text.
impl From<SocketError> for io::Error {
    fn from(e: SocketError) -> Self {
        match e {
            SocketError::NotAnAddress => Self::new(io::ErrorKind::InvalidInput, e),
            SocketError::NotDriven => Self::new(io::ErrorKind::NetworkDown, e),
            e => Errno::from(e).into(),
        }
    }
}

/// The error of setting up a stack or opening a socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not an address, or not an address and a port. The stack looks up no names.
    #[error(
        "{0:?} is no address with a length, as 192.0.2.1/24, or a port, as 192.0.2.1:80 (names are not looked up)"
    )]
    Address(String),
    /// A device could not be opened.
    #[error("{name}: {source}{}", remedy(.source))]
    Device {
        /// Its name.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// The router is in none of the interface's networks.
    #[error(
        "{0} is in no network of the interface: give the interface an address in the network of its router"
    )]
    Gateway(IpAddr),
    /// The device's MTU, in bytes, is too small for IPv4 (RFC 791 section 3.2), or for the interface's IPv6 addresses
    /// (RFC 8200 section 5).
    #[error("an MTU of {0} bytes is too small: IPv4 needs 68, and IPv6 needs 1280")]
    Mtu(u16),
    /// Another interface of the stack has the name.
    #[error("the stack has an interface with the name {0:?}: give this one another name")]
    NameInUse(String),
    /// The stack was not made by a runtime, so no thread would take in the frames of its devices.
    #[error(
        "no thread drives the stack: make it with Runtime::stack, or attach the device and poll it"
    )]
    NoRuntime,
    /// The buffers' address space could not be reserved.
    #[error("no address space for buffers: {0}")]
    Memory(#[from] ZoneError),
    /// A socket does not work.
    #[error("{0}")]
    Socket(#[from] SocketError),
    /// The system refused something else.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// So that `?` works where a function returns [`io::Result`].
impl From<Error> for io::Error {
    fn from(e: Error) -> Self {
        let kind = match e {
            Error::Socket(e) => return e.into(),
            Error::Io(e) => return e,
            Error::Device { ref source, .. } => source.kind(),
            Error::Address(_) | Error::Gateway(_) | Error::Mtu(_) => io::ErrorKind::InvalidInput,
            Error::NameInUse(_) => io::ErrorKind::AlreadyExists,
            Error::NoRuntime => io::ErrorKind::Unsupported,
            Error::Memory(_) => io::ErrorKind::OutOfMemory,
        };
        Self::new(kind, e)
    }
}

/// The errors of single operations are errors of this crate, so that `?` works where a function returns [`Result`].
macro_rules! into_error {
    ($($error:ty),+ $(,)?) => {$(
        impl From<$error> for $crate::error::Error {
            fn from(e: $error) -> Self {
                Self::Io(e.into())
            }
        }
    )+};
}
pub(crate) use into_error;

/// The result of setting up.
pub type Result<T> = std::result::Result<T, Error>;

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
