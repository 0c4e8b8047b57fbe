//! Published ports: sockets of the host that lead into the guest.
//!
//! The monitor binds them, because the gateway process gives up the right to low ports, and with Landlock to those of
//! TCP; it hands them over at the start, and later by messages.
//!
//! Invariants: a port in use is an error before COMMAND starts. Locks: none.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use serde::{Deserialize, Serialize};

use crate::args::{OutwardRequest, Proto, Publish, PublishRequest};
use crate::sys::pktinfo;
use crate::sys::socket::{self, InterfaceName, Kind};

/// Identifies a published port while mbuma runs. The first number is 1; none is used again.
pub(crate) type PublishedId = u32;

/// The description of a published port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PortSpec {
    pub(crate) id: PublishedId,
    pub(crate) publish: Publish,
}

/// A published port, with its socket.
#[derive(Debug)]
pub(crate) struct PublishedPort {
    pub(crate) spec: PortSpec,
    /// Bound, without blocking; a TCP one listens.
    pub(crate) socket: OwnedFd,
}

/// The description of a port of the guest's loopback that leads to the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OutwardSpec {
    pub(crate) id: PublishedId,
    pub(crate) port: OutwardRequest,
}

/// The same, with its sockets, which are those of the guest's namespace.
#[derive(Debug)]
pub(crate) struct OutwardPort {
    pub(crate) spec: OutwardSpec,
    /// One for each version of IP: bound, without blocking; a TCP one listens.
    pub(crate) sockets: Vec<OwnedFd>,
}

/// A change of ports while a guest is served.
#[derive(Debug)]
pub(crate) enum PortChange {
    /// One more: the sockets of one number.
    Add(Vec<PublishedPort>),
    /// One more outward port.
    AddOutward(OutwardPort),
    /// This one no more.
    Remove(PublishedId),
}

/// Binds the sockets of a port: one, or one for each family.
///
/// # Errors
/// The error, with the address that could not be bound. A host without IPv6 is no error if both families are requested.
pub(crate) fn bind_all(
    request: &PublishRequest,
) -> Result<Vec<(Publish, OwnedFd)>, (Publish, io::Error)> {
    let socket = bind(&request.publish).map_err(|e| (request.publish, e))?;
    let mut sockets = vec![(request.publish, socket)];
    if let Some(twin) = request.twin() {
        match bind(&twin) {
            Ok(socket) => sockets.push((twin, socket)),
            Err(e) if is_family_missing(&e) => {}
            Err(e) => return Err((twin, e)),
        }
    }
    Ok(sockets)
}

/// Binds the socket of a published port: one of IPv6 for IPv6 alone, so that another may have the port of IPv4.
fn bind(publish: &Publish) -> io::Result<OwnedFd> {
    match publish.proto {
        Proto::Tcp => bind_tcp(publish.host, publish.interface),
        Proto::Udp => {
            let fd = socket::bound(Kind::Udp, publish.host, publish.interface)?;
            if publish.host.ip().is_unspecified() {
                pktinfo::tell_local_address(fd.as_fd(), publish.host)?;
            }
            Ok(fd)
        }
    }
}

/// Binds the socket of a published TCP port, which listens.
pub(crate) fn bind_tcp(at: SocketAddr, interface: Option<InterfaceName>) -> io::Result<OwnedFd> {
    let fd = socket::bound(Kind::Tcp, at, interface)?;
    // The longest queue that the system allows: beyond it, SYNs of clients are dropped.
    socket::listen_max(fd.as_fd())?;
    socket::keep_alive(fd.as_fd())?;
    Ok(fd)
}

/// Whether an address can't be bound because the host has no IPv6, in its kernel or switched on.
fn is_family_missing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL)
    )
}
