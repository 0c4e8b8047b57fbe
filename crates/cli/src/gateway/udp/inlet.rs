//! Published and outward ports: one socket for all clients of a port.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use mbuf::Chain;
use mbuma::runtime::Interest;

use super::{GuestFlows, TURN_MAX, datagrams, receive};
use crate::gateway::flow::{FlowEnds, Outlet, at_port};
use crate::gateway::shared::Shared;
use crate::gateway::table::{SourceKind, Token};
use crate::ports::PublishedId;
use crate::sys::pktinfo::{self, DatagramClient};
use crate::sys::train_socket::TrainSocket;

/// Ports that are tried for a client whose own port can't be used.
const PORTS_TRIED: u16 = 256;

/// A published or outward port.
pub(super) struct Inlet {
    pub(super) id: PublishedId,
    pub(super) socket: TrainSocket,
    pub(super) target: InletTarget,
}

/// The destination of the datagrams of an inlet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gateway) enum InletTarget {
    /// To a server of the guest.
    Guest(SocketAddr),
    /// To this port of the host's loopback: the socket is one of the guest's namespace.
    HostLoopback(u16),
}

impl GuestFlows {
    /// Publishes a port, or opens an outward one, in the slot of a closed one.
    pub(in crate::gateway) fn publish(
        &mut self,
        shared: &Shared,
        (id, socket): (PublishedId, OwnedFd),
        target: InletTarget,
    ) -> io::Result<()> {
        let free = self.inlets.iter().position(Option::is_none);
        let index = free.unwrap_or(self.inlets.len());
        let token = Token::nth(SourceKind::Inlet, index as u32);
        shared.poller().add(&socket, token, Interest::Read)?;
        let socket = TrainSocket::new(socket);
        if let InletTarget::Guest(_) = target {
            socket.receive_trains();
        }
        let inlet = Some(Inlet { id, socket, target });
        match self.inlets.get_mut(index) {
            Some(place) => *place = inlet,
            None => {
                self.inlets.push(inlet);
                self.table.add_port();
            }
        }
        Ok(())
    }

    /// Stops publishing a port, if it is a UDP port, and ends its flows.
    pub(in crate::gateway) fn unpublish(&mut self, shared: &mut Shared, id: PublishedId) {
        let inlets = self.inlets.iter_mut().enumerate();
        let closed = inlets.filter_map(|(index, place)| {
            let is_closed = place.take_if(|inlet| inlet.id == id).is_some();
            is_closed.then_some(index)
        });
        let flows: Vec<Token> = closed.flat_map(|index| self.table.of_port(index)).collect();
        flows
            .into_iter()
            .for_each(|token| self.remove(shared, token));
    }

    pub(super) fn inlet(&self, index: usize) -> Option<&Inlet> {
        self.inlets.get(index)?.as_ref()
    }

    /// Hands the datagrams of a published port to the guest.
    pub(in crate::gateway) fn inlet_readable(&mut self, shared: &mut Shared, index: usize) {
        let mut handled = 0;
        while handled < TURN_MAX {
            let Some(inlet) = self.inlet(index) else {
                return;
            };
            let socket = inlet.socket.as_fd();
            match receive(shared, |pieces| pktinfo::recv_from(socket, pieces)) {
                Ok(Some((payload, (client, each)))) => {
                    handled += datagrams(payload.len(), each);
                    self.serve_client(shared, (index, client), payload, each);
                }
                Ok(None) => {
                    handled += 1;
                    shared.counters.datagrams_lost += 1;
                }
                Err(_) => return,
            }
        }
    }

    fn serve_client(
        &mut self,
        shared: &mut Shared,
        (index, client): (usize, DatagramClient),
        payload: Chain,
        each: usize,
    ) {
        let known = self.table.of_client(index, client);
        let token = match self.inlet(index).map(|inlet| inlet.target) {
            Some(InletTarget::HostLoopback(port)) => {
                let token = known.or_else(|| self.open_outward(shared, index, client.addr, port));
                return self.send_outward(shared, token, &payload);
            }
            Some(InletTarget::Guest(guest)) => {
                known.or_else(|| self.open_inward(shared, index, client, guest))
            }
            None => None,
        };
        match token.and_then(|token| self.table.used(token, shared.now())) {
            Some(flow) => {
                let ends = flow.ends;
                self.deliver(shared, ends, payload, each);
            }
            None => shared.counters.datagrams_lost += 1,
        }
    }

    /// Opens the flow of a new client.
    fn open_inward(
        &mut self,
        shared: &mut Shared,
        index: usize,
        client: DatagramClient,
        guest: SocketAddr,
    ) -> Option<Token> {
        let own = shared.policy.shown_address(client.addr, guest.ip());
        let ports = (0..PORTS_TRIED).map(|n| client.addr.port().wrapping_add(n));
        let shown = ports
            .filter(|port| *port != 0)
            .map(|port| at_port(own, port));
        let ends = shown
            .map(|remote| FlowEnds { guest, remote })
            .find(|ends| self.table.between(ends).is_none())?;
        self.add(shared, ends, Outlet::Inlet { index, client }).ok()
    }
}
