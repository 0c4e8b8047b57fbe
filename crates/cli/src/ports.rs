//! Published ports: sockets of the host that lead into the guest.
//!
//! The monitor binds them, because the gateway process gives up the right to; it hands them over at the start, and later by
//! messages.
//!
//! Called by: monitor, channel, gateway. Calls: sys::socket.
//! Invariants: a port in use is an error before COMMAND starts, and not a surprise.
//! Locks: none.

use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};

use serde::{Deserialize, Serialize};

use crate::args::{Proto, Publish};
use crate::sys::socket;

/// What tells one published port from others while mbuma runs. The first is 1; none is used again.
pub(crate) type PublishedId = u32;

/// What is known of a published port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PortSpec {
    pub(crate) id: PublishedId,
    pub(crate) publish: Publish,
    /// Where the server is, if not at the guest's address.
    pub(crate) guest_addr: Option<Ipv4Addr>,
}

/// A published port, with its socket.
#[derive(Debug)]
pub(crate) struct PublishedPort {
    pub(crate) spec: PortSpec,
    /// Bound, without blocking; a TCP one listens.
    pub(crate) socket: OwnedFd,
}

/// What changes while a guest is served.
#[derive(Debug)]
pub(crate) enum PortChange {
    /// One more.
    Add(PublishedPort),
    /// This one no more.
    Remove(PublishedId),
}

/// Binds the socket of a published port.
pub(crate) fn bind(publish: &Publish) -> io::Result<OwnedFd> {
    match publish.proto {
        Proto::Tcp => {
            let listener = TcpListener::bind(publish.host)?;
            // The standard library asks for 128, and the kernel drops the SYNs of further clients.
            socket::listen_max(listener.as_fd())?;
            listener.set_nonblocking(true)?;
            Ok(listener.into())
        }
        Proto::Udp => {
            let socket = UdpSocket::bind(publish.host)?;
            socket.set_nonblocking(true)?;
            Ok(socket.into())
        }
    }
}
