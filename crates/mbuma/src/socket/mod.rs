//! Sockets: the objects that a program holds. Any thread may use a handle.
//!
//! Only methods called `.._blocking` block: they sleep until they can proceed or their time is over. Another thread
//! must drive the stack.
//!
//! There are four ways to wait, which may be used on one socket at a time; sockets of pings and ICMPv6 have the last
//! one only:
//!
//! | | waits | woken |
//! |---|---|---|
//! | `.._blocking` | the calling thread | beside all others |
//! | `.._async` | a future | beside all others |
//! | `poll_..` | a task | the task that polled this direction last |
//! | `set_waker`, `set_wakers` | an event loop | until the waker is replaced |
//!
//! Each is for one direction: data, an end or an error wakes readers; room, an established connection, an end or an
//! error wakes writers. Wakers are called with no lock held. `set_waker(None)` takes the waker away. Sockets of
//! datagrams, pings and ICMPv6 call a new waker at once if something is waiting; the others call it for later changes
//! only.

mod attempt;
mod echo;
mod endpoint;
mod futures;
mod icmp6;
mod maybe_tls_stream;
#[cfg(all(test, shuttle))]
#[path = "../models/socket.rs"]
mod models;
pub(crate) mod send_file;
pub(crate) mod splice;
pub(crate) mod std_io;
mod tcp_connect;
mod tcp_listener;
mod tcp_stream;
#[cfg(all(test, not(shuttle)))]
mod test_pair;
mod tls_stream;
#[cfg(feature = "tokio")]
pub(crate) mod tokio_io;
mod udp;

pub use echo::{Echo, EchoSocket};
pub use endpoint::IntoEndpoint;
pub use icmp6::{Icmp6Datagram, Icmp6Socket};
pub use maybe_tls_stream::MaybeTlsStream;
pub use send_file::{SealedFile, SendFile, SendFileError};
pub use splice::{
    Splice, SpliceEnd, SpliceEndpoint, SpliceError, SpliceOptions, SpliceOutcome, StreamRelay,
    relay, splice,
};
pub use std_io::{AcceptIter, TcpReadHalf, TcpWriteHalf};
pub use tcp_listener::{Incoming, Interceptor, Refusal, TcpListener};
pub use tcp_stream::{SendClaim, SendRoom, TcpStream};
#[cfg(feature = "tls")]
pub use tls_stream::{HandshakeError, TlsHandshake};
pub use tls_stream::{TlsAbout, TlsStream};
pub use udp::{
    BindError, Datagram, GroupError, IntoPayload, RecvError, SendError, UdpError, UdpSocket,
};

pub use crate::error::SocketError;
use crate::error::into_error;
pub use crate::tcp::{EcnBytes, RecoveryPhase, TcpInfo};

into_error!(
    BindError,
    RecvError,
    SendError,
    GroupError,
    SendFileError,
    SpliceError
);
#[cfg(feature = "tls")]
into_error!(HandshakeError);
