//! The host's sockets for the guest's datagrams: one for each end (address and port) of the guest, whatever the
//! destination, so that all leave by one port (RFC 4787 section 4.1).
//!
//! They are not connected. The first datagram gives a socket its port, each one follows the host's routes of its
//! moment, and the errors of the network name the destination. Any host may send to that port: what comes counts only
//! if it comes from where a flow leads; but a flood of other datagrams may fill the socket's buffer, and cost this end
//! answers.
//!
//! Invariants: a socket is open as long as a flow holds it.
//! Locks: none.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;

use super::flow::{FlowEnds, at_port};
use super::table::{SourceKind, Table, Token};
use crate::sys::train_socket::TrainSocket;

/// The sockets.
pub(super) struct SharedSockets {
    sockets: Table<SharedSocket>,
    by_key: HashMap<SharedKey, Token>,
}

/// What the flows of a socket have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SharedKey {
    guest: SocketAddr,
    /// The remote address, without its port, and the host's address that it stands for. An address that stands for
    /// another has a socket of its own, so that an answer tells by which of two such addresses the guest asked.
    mapped: Option<(SocketAddr, IpAddr)>,
}

/// A socket.
pub(super) struct SharedSocket {
    key: SharedKey,
    pub(super) socket: TrainSocket,
    flows: usize,
}

impl SharedSockets {
    /// None yet.
    pub(super) fn new() -> SharedSockets {
        SharedSockets {
            sockets: Table::new(SourceKind::SharedSocket),
            by_key: HashMap::new(),
        }
    }

    /// The socket for a flow between these ends, whose datagrams go to `peer`. If `open` makes it, its events are for
    /// the token. The flow holds it until [`SharedSockets::release`].
    pub(super) fn hold(
        &mut self,
        ends: &FlowEnds,
        peer: SocketAddr,
        open: impl FnOnce(Token) -> io::Result<OwnedFd>,
    ) -> io::Result<Token> {
        let mapped = (ends.remote != peer).then(|| (at_port(ends.remote, 0), peer.ip()));
        let guest = ends.guest;
        let key = SharedKey { guest, mapped };
        if let Some(token) = self.by_key.get(&key).copied()
            && let Some(end) = self.sockets.find(token)
        {
            end.flows += 1;
            return Ok(token);
        }
        let socket = TrainSocket::new(open(self.sockets.next_token())?);
        socket.receive_trains();
        let flows = 1;
        let token = self.sockets.insert(SharedSocket { key, socket, flows });
        self.by_key.insert(key, token);
        Ok(token)
    }

    /// A flow ends. The last one of a socket closes it.
    pub(super) fn release(&mut self, token: Token) {
        if let Some(end) = self.sockets.find(token) {
            end.flows -= 1;
            if end.flows == 0 {
                self.by_key.remove(&end.key);
                self.sockets.remove(token);
            }
        }
    }

    /// The socket that `token` names, if it names one.
    pub(super) fn find(&mut self, token: Token) -> Option<&SharedSocket> {
        self.sockets.find(token).map(|end| &*end)
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.sockets.len()
    }
}

impl SharedSocket {
    /// The ends of the flow that leads from here to `peer`, if there is one.
    pub(super) fn ends(&self, peer: SocketAddr) -> FlowEnds {
        let SharedKey { guest, mapped } = self.key;
        let remote = mapped.map_or(peer, |(remote, _)| at_port(remote, peer.port()));
        FlowEnds { guest, remote }
    }
}
