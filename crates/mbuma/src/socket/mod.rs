//! Sockets: what a program holds. Handles are used from any thread.
//!
//! Nothing blocks but methods called `.._blocking`: they sleep until they can proceed, or the
//! time is over. Another thread must drive the stack.
//!
//! A socket has one waker that stays set until it is replaced. It is called, with no lock held, whenever
//! something changed that its user may care about: data, room, an end, an error.

mod echo;
#[cfg(all(test, shuttle))]
mod schedules;
mod splice;
mod std_io;
mod tcp_connect;
mod tcp_listener;
mod tcp_stream;
mod udp;

pub use echo::{Echo, EchoSocket};
pub use splice::{Splice, SpliceEnd, SpliceError, SpliceOptions, SpliceOutcome, TcpRelay, splice};
pub use std_io::{AcceptIter, TcpReadHalf, TcpWriteHalf};
pub use tcp_listener::{Incoming, Interceptor, Refusal, TcpListener};
pub use tcp_stream::{SendRoom, TcpStream};
pub use udp::{BindError, Datagram, SendError, UdpError, UdpSocket};

pub use crate::error::SocketError;
pub use crate::tcp::TcpInfo;
