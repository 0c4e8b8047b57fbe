//! UNIX-domain sockets of a stack: between the threads of the program that embeds it.
//!
//! ```text
//!            a.unix().connect(b"name")                      listener.accept()
//!                  |                                              |
//!             UnixStream                                      UnixStream
//!                  |  send_chain: mbufs move                      ^  recv_chain
//!             [connection] --tx--> [rcvbuf] of the peer --rx--> [connection]
//!                                   |  sockets and objects go with the bytes
//!                                   +--> [flight]: which of them can still be received
//! ```
//!
//! Three types, as POSIX has them: streams ([`UnixStream`]), datagrams ([`UnixDatagram`]), sequenced packets
//! ([`UnixSeqpacket`]). They are made in pairs, or find each other by a [`Name`], which means something
//! within one stack only. A message may carry sockets and objects ([`Passed`]); a socket that can't be received any
//! more is closed, cycles too. A connection knows the credentials of its other end ([`Credentials`]).
//!
//! There are three ways to wait, and only the first blocks: methods called `.._blocking` sleep, with a
//! timeout if wanted; `poll_..` wakes a task once; `set_waker` keeps one waker. All of them may be used on one
//! socket at a time, from any number of threads.
//!
//! # Locks
//! | lock | rank | protects | taken with |
//! |---|---:|---|---|
//! | names | 460 | which socket has which name | nothing |
//! | peer | 470 | the peer of a datagram socket | nothing |
//! | flight | 480 | which sockets are in whose buffers | nothing |
//! | receive buffer, accept queue | 490 | the data or connections of one socket | the flight's, where a socket goes in |
//!
//! Never two receive buffers. Giant is outside of each where it is over the stack (`lock.rs`). Wakers, objects, and
//! owners of lent memory are called and dropped with none of these held.
//!
//! Read in this order: `rcvbuf.rs` (the data), `connection.rs`, `stream.rs`; `endpoint.rs`, `datagram.rs`;
//! `open.rs`, `name.rs`, `listener.rs` (how sockets find each other); `rights.rs`, `flight.rs`, `pcb.rs`,
//! `close.rs` (the life of sockets).
//!
//! Sources: unix(4), unix(7), POSIX.1-2024; seed 002, whose measurements are of these.

mod close;
mod connected;
mod connection;
mod datagram;
mod endpoint;
mod error;
mod flight;
mod listener;
mod lock;
mod message;
#[cfg(all(test, shuttle))]
#[path = "../models/unix.rs"]
mod models;
mod name;
mod open;
mod pcb;
mod rcvbuf;
mod rights;
mod seqpacket;
mod state;
mod stream;

pub use self::datagram::UnixDatagram;
pub use self::error::UnixError;
pub use self::listener::{UnixListener, UnixSeqpacketListener};
pub use self::message::{Message, ReceivedMessage, Sender};
pub use self::name::{NAME_MAX, Name};
pub use self::open::Unix;
pub use self::rights::{Passed, RIGHTS_MAX};
pub use self::seqpacket::UnixSeqpacket;
pub(crate) use self::state::UnixState;
pub use self::state::UnixStats;
pub use self::stream::UnixStream;
pub use crate::config::{Credentials, UnixConfig};
