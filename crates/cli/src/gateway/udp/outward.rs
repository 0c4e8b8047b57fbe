//! Flows of outward ports: clients of the guest's loopback, and servers of the host's.

use std::net::SocketAddr;
use std::os::fd::AsFd;

use mbuf::Chain;

use super::GuestFlows;
use crate::gateway::flow::{FlowEnds, Outlet};
use crate::gateway::shared::Shared;
use crate::gateway::table::Token;
use crate::gateway::{loopback, question};
use crate::sys::socket;

impl GuestFlows {
    /// Opens the flow of a new client of an outward port.
    pub(super) fn open_outward(
        &mut self,
        shared: &mut Shared,
        index: usize,
        client: SocketAddr,
        port: u16,
    ) -> Option<Token> {
        // A socket of the client's version of IP: an answer leaves by the socket that received the query.
        let [remote, _] = loopback::loopbacks(client, port);
        let socket = question::connected(shared, remote);
        let socket = socket.map_err(|e| question::failure(shared, &e)).ok()?;
        let ends = FlowEnds {
            guest: client,
            remote,
        };
        let outlet = Outlet::Loopback {
            socket,
            index,
            client,
        };
        self.add(shared, ends, outlet).ok()
    }

    /// Sends a datagram of the guest's loopback on to the host's.
    pub(super) fn send_outward(
        &mut self,
        shared: &mut Shared,
        token: Option<Token>,
        payload: &Chain,
    ) {
        let now = shared.now();
        let used = token.filter(|token| self.table.used(*token, now).is_some());
        let sent = used.map(|token| self.transmit(shared, token, payload, payload.len()));
        match sent {
            Some(Ok(_)) => {
                shared.counters.datagrams_up += 1;
                shared.counters.datagram_bytes_up += payload.len() as u64;
            }
            Some(Err(_)) | None => shared.counters.datagrams_lost += 1,
        }
    }

    /// Hands the answer of the host's loopback to the client of an outward port.
    pub(super) fn answer_outward(
        &mut self,
        shared: &mut Shared,
        index: usize,
        client: SocketAddr,
        payload: &Chain,
    ) {
        let socket = self.inlet(index).map(|inlet| inlet.socket.as_fd());
        let sent = socket.map(|socket| {
            let segments = payload.segments();
            segments.gather(|pieces| socket::send(socket, pieces, Some(client)))
        });
        match sent {
            Some(Ok(_)) => {
                shared.counters.datagrams_down += 1;
                shared.counters.datagram_bytes_down += payload.len() as u64;
            }
            Some(Err(_)) | None => shared.counters.datagrams_lost += 1,
        }
    }
}
