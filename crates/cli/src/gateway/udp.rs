//! UDP: each pair of a guest's address and a remote one is a flow, with a socket for its datagrams.
//!
//! ```text
//!   guest:port <-> remote:port       a connected socket of the host, one a flow
//!   guest:port <-> client:port       the socket of a published port, one for all its clients
//!   client of the guest's loopback   the socket of an outward port, and a connected socket of the host a client
//! ```
//!
//! Answers have the address to which the guest sent as their source, even if that is mapped to another one. A refusal
//! (ICMP port unreachable, which a connected socket reports) goes to the guest about the datagram that caused it. Flows
//! end when they were idle for a while; those of queries to a name server end soon after the answer. When there are too
//! many of a kind, the oldest of that kind ends ([`FlowTable`]).
//!
//! Invariants: a flow's timer ends with it.
//! Locks: none.
//! Sources: RFC 4787 (mapping by address and port), RFC 5452 (a fresh port a question).

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use mbuf::Chain;
use mbuma::runtime::{Interest, TaskWaker};
use mbuma::socket::Datagram;
use mbuma::{IcmpError, UdpSocket};

use super::flow::{Flow, FlowEnds, Outlet};
use super::flow_table::FlowTable;
use super::local_names::LocalNames;
use super::loopback;
use super::policy::{self, Destination};
use super::question::{self, Question};
use super::shared::Shared;
use super::table::{SourceKind, Token};
use crate::ports::PublishedId;
use crate::sys::socket;

/// Datagrams that one flow, or the guest, has handled in a turn at most.
const TURN_MAX: usize = 64;
/// Ports that are tried for a client whose own port can't be used.
const PORTS_TRIED: u16 = 256;
/// The largest UDP datagram: over IPv6, whose length does not count its own header.
const DATAGRAM_MAX: usize = 65_527;

/// The flows, and the sockets of published ports.
pub(super) struct GuestFlows {
    socket: UdpSocket,
    wake: Arc<TaskWaker>,
    /// By the index in their tokens; `None` for a port that is no longer published.
    inlets: Vec<Option<Inlet>>,
    table: FlowTable,
    /// Names that are known here.
    pub(super) names: Option<LocalNames>,
}

/// A published or outward port.
struct Inlet {
    id: PublishedId,
    socket: OwnedFd,
    target: InletTarget,
}

/// The destination of the datagrams of an inlet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InletTarget {
    /// To a server of the guest.
    Guest(SocketAddr),
    /// To this port of the host's loopback: the socket is one of the guest's namespace.
    HostLoopback(u16),
}

impl GuestFlows {
    /// Serves the datagrams that come to `socket`.
    pub(super) fn new(shared: &Shared, socket: UdpSocket) -> GuestFlows {
        let wake = shared.wake_for(Token::only(SourceKind::Datagrams));
        socket.set_waker(wake.waker());
        GuestFlows {
            socket,
            wake,
            inlets: Vec::new(),
            table: FlowTable::new(),
            names: None,
        }
    }

    /// Publishes a port, or opens an outward one, in the slot of a closed one.
    pub(super) fn publish(
        &mut self,
        shared: &Shared,
        (id, socket): (PublishedId, OwnedFd),
        target: InletTarget,
    ) -> io::Result<()> {
        let free = self.inlets.iter().position(Option::is_none);
        let index = free.unwrap_or(self.inlets.len());
        let token = Token::nth(SourceKind::Inlet, index as u32);
        shared.poller().add(&socket, token, Interest::Read)?;
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
    pub(super) fn unpublish(&mut self, shared: &mut Shared, id: PublishedId) {
        for (index, place) in self.inlets.iter_mut().enumerate() {
            if place.take_if(|inlet| inlet.id == id).is_none() {
                continue;
            }
            while let Some(flow) = self.table.remove_oldest_of(index) {
                end(shared, flow);
            }
        }
    }

    fn inlet(&self, index: usize) -> Option<&Inlet> {
        self.inlets.get(index)?.as_ref()
    }

    /// All of them.
    pub(super) fn list(&self) -> impl Iterator<Item = &Flow> {
        self.table.iter()
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Sends the guest's datagrams on.
    pub(super) fn forward(&mut self, shared: &mut Shared) {
        // An error can't be passed on to a client of a published port; it must be read nevertheless.
        while self.socket.take_error().is_some() {}
        for _ in 0..TURN_MAX {
            let Ok(datagram) = self.socket.recv() else {
                return;
            };
            let ends = FlowEnds {
                guest: datagram.src,
                remote: datagram.dst,
            };
            if let Some(answer) = self.local_answer(shared, &datagram) {
                self.deliver(shared, ends, answer);
                continue;
            }
            match self.table.between(&ends) {
                Some(token) => self.send(shared, token, datagram),
                None => self.open(shared, ends, datagram),
            }
        }
        self.wake.wake();
    }

    /// Ends the flows of a guest that is gone.
    pub(super) fn end_guest(&mut self, shared: &mut Shared, addrs: &[IpAddr]) {
        for token in self.table.of_guest(addrs) {
            self.remove(shared, token);
        }
    }

    /// The answer to a question about a name that is known here.
    fn local_answer(&self, shared: &Shared, datagram: &Datagram) -> Option<Chain> {
        let names = self.names.as_ref()?;
        let answer = names.answer(datagram.dst, &datagram.payload)?;
        Chain::from_slice(shared.stack.pool(), &answer).ok()
    }

    /// Opens the flow of a datagram that has none, and sends it.
    fn open(&mut self, shared: &mut Shared, ends: FlowEnds, datagram: Datagram) {
        match self.outlet(shared, ends.remote) {
            Ok(outlet) => match self.add(shared, ends, outlet) {
                Ok(token) => self.send(shared, token, datagram),
                Err(_) => shared.counters.datagrams_lost += 1,
            },
            Err(Some(kind)) => self.refuse(shared, &datagram, kind),
            Err(None) => shared.counters.datagrams_lost += 1,
        }
    }

    /// A new socket to the host address behind `remote`; or the error for the guest, if there is one.
    fn outlet(&self, shared: &mut Shared, remote: SocketAddr) -> Result<Outlet, Option<IcmpError>> {
        match shared.policy.decide(remote) {
            Ok(Destination::Host(peer)) => own(shared, peer),
            // A QUIC connection: it must stay with its server.
            Ok(Destination::EncryptedResolver) => {
                let now = shared.now();
                let server = shared.encrypted_resolvers.first(now);
                own(shared, server.ok_or(Some(IcmpError::Port))?)
            }
            Ok(Destination::Resolver) => {
                shared.resolvers.refresh();
                let others = shared.resolvers.len().saturating_sub(1);
                Ok(Outlet::Resolver(Question::begin(shared, others)?))
            }
            Err(denial) => Err(Some(denial.unreach())),
        }
    }

    /// Puts a flow into the tables, and its socket into the poller.
    fn add(&mut self, shared: &mut Shared, ends: FlowEnds, outlet: Outlet) -> io::Result<Token> {
        if let Some(gone) = self.table.make_room(&ends, &outlet) {
            end(shared, gone);
        }
        let token = self.table.next_token();
        if let Some(socket) = outlet.socket() {
            shared.poller().add(socket, token, Interest::Read)?;
        }
        self.table.insert(Flow::new(ends, outlet, shared.now()));
        self.arm(shared, token);
        shared.counters.flows += 1;
        Ok(token)
    }

    /// Sets the flow's timer, unless it fires early enough.
    fn arm(&mut self, shared: &mut Shared, token: Token) {
        let Some(flow) = self.table.find(token) else {
            return;
        };
        let deadline = flow.deadline();
        match flow.timer {
            Some((at, _)) if at <= deadline => return,
            Some((_, id)) => shared.context.cancel(id),
            None => {}
        }
        flow.timer = Some((deadline, shared.context.schedule(deadline, token)));
    }

    fn remove(&mut self, shared: &mut Shared, token: Token) {
        if let Some(flow) = self.table.remove(token) {
            end(shared, flow);
        }
    }

    /// Sends a datagram of the guest on its way.
    fn send(&mut self, shared: &mut Shared, token: Token, datagram: Datagram) {
        let now = shared.now();
        let Some(flow) = self.table.used(token, now) else {
            return;
        };
        if let Outlet::Resolver(question) = &mut flow.outlet {
            question.ask(shared, now, token);
            // The wait for an answer is shorter than the life of the flow.
            self.arm(shared, token);
        }
        let bytes = datagram.payload.len() as u64;
        let sent = match self.transmit(token, &datagram.payload) {
            // A connected socket first reports the error of the datagram before.
            Err(e) if is_refusal(&e) => {
                self.refused(shared, token);
                self.transmit(token, &datagram.payload)
            }
            sent => sent,
        };
        match sent {
            Ok(_) => {
                shared.counters.datagrams_up += 1;
                shared.counters.datagram_bytes_up += bytes;
                if let Some(flow) = self.table.find(token) {
                    flow.remember(shared.stack.pool(), datagram);
                }
            }
            Err(e) => match policy::unreach(&e) {
                Some(kind) => self.refuse(shared, &datagram, kind),
                None => shared.counters.datagrams_lost += 1,
            },
        }
    }

    fn transmit(&mut self, token: Token, payload: &Chain) -> io::Result<usize> {
        let mut pieces: Vec<IoSlice<'_>> = Vec::new();
        payload.segments().gather(&mut pieces);
        let flow = self.table.find(token).ok_or(io::ErrorKind::NotFound)?;
        match &flow.outlet {
            Outlet::Inlet { index, client } => {
                let inlet = self.inlets.get(*index).and_then(Option::as_ref);
                let inlet = inlet.ok_or(io::ErrorKind::NotFound)?;
                socket::send(inlet.socket.as_fd(), &pieces, Some(*client))
            }
            own => socket::send(own.socket().ok_or(io::ErrorKind::NotFound)?, &pieces, None),
        }
    }

    /// The host behind a flow says that the port is closed.
    fn refused(&mut self, shared: &mut Shared, token: Token) {
        let Some(flow) = self.table.find(token) else {
            return;
        };
        let Some(datagram) = flow.unanswered.take() else {
            return;
        };
        if let Outlet::Resolver(question) = &mut flow.outlet
            && question.ask_another(shared, token)
        {
            return self.send(shared, token, datagram);
        }
        self.refuse(shared, &datagram, IcmpError::Port);
    }

    fn refuse(&self, shared: &mut Shared, datagram: &Datagram, kind: IcmpError) {
        shared.counters.datagrams_refused += 1;
        self.socket.refuse(datagram, kind);
    }

    /// Hands a flow's datagrams to the guest.
    pub(super) fn readable(&mut self, shared: &mut Shared, token: Token) {
        for _ in 0..TURN_MAX {
            let Some(flow) = self.table.find(token) else {
                return;
            };
            let Some(socket) = flow.outlet.socket() else {
                return;
            };
            match receive(shared, |pieces| {
                socket::recv(socket, pieces).map(|n| (n, ()))
            }) {
                Ok(Some((payload, ()))) => {
                    let now = shared.now();
                    let Some(flow) = self.table.used(token, now) else {
                        return;
                    };
                    flow.answered();
                    if let Outlet::Resolver(question) = &flow.outlet {
                        shared.resolvers.answered(question.resolver, now);
                    }
                    let ends = flow.ends;
                    match flow.outlet {
                        Outlet::Loopback { index, client, .. } => {
                            self.answer_outward(shared, index, client, &payload);
                        }
                        _ => self.deliver(shared, ends, payload),
                    }
                }
                Ok(None) => shared.counters.datagrams_lost += 1,
                Err(e) if is_refusal(&e) => self.refused(shared, token),
                // No datagram, or an error that is not about one datagram.
                Err(_) => return,
            }
        }
    }

    /// Hands the datagrams of a published port to the guest.
    pub(super) fn inlet_readable(&mut self, shared: &mut Shared, index: usize) {
        for _ in 0..TURN_MAX {
            let Some(inlet) = self.inlet(index) else {
                return;
            };
            let socket = inlet.socket.as_fd();
            match receive(shared, |pieces| socket::recv_from(socket, pieces)) {
                Ok(Some((payload, client))) => self.serve_client(shared, index, client, payload),
                Ok(None) => shared.counters.datagrams_lost += 1,
                Err(_) => return,
            }
        }
    }

    fn serve_client(
        &mut self,
        shared: &mut Shared,
        index: usize,
        client: SocketAddr,
        payload: Chain,
    ) {
        let known = self.table.of_client(index, client);
        let token = match self.inlet(index).map(|inlet| inlet.target) {
            Some(InletTarget::HostLoopback(port)) => {
                let token = known.or_else(|| self.open_outward(shared, index, client, port));
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
                self.deliver(shared, ends, payload);
            }
            None => shared.counters.datagrams_lost += 1,
        }
    }

    /// Opens the flow of a new client.
    fn open_inward(
        &mut self,
        shared: &mut Shared,
        index: usize,
        client: SocketAddr,
        guest: SocketAddr,
    ) -> Option<Token> {
        let own = shared.policy.shown_address(client, guest.ip());
        let ports = (0..PORTS_TRIED).map(|n| client.port().wrapping_add(n));
        let shown = ports
            .filter(|port| *port != 0)
            .map(|port| at_port(own, port));
        let ends = shown
            .map(|remote| FlowEnds { guest, remote })
            .find(|ends| self.table.between(ends).is_none())?;
        self.add(shared, ends, Outlet::Inlet { index, client }).ok()
    }

    /// Opens the flow of a new client of an outward port.
    fn open_outward(
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
    fn send_outward(&mut self, shared: &mut Shared, token: Option<Token>, payload: &Chain) {
        let now = shared.now();
        let used = token.filter(|token| self.table.used(*token, now).is_some());
        let sent = used.map(|token| match self.transmit(token, payload) {
            // A connected socket first reports the error of the datagram before.
            Err(e) if is_refusal(&e) => self.transmit(token, payload),
            sent => sent,
        });
        match sent {
            Some(Ok(_)) => {
                shared.counters.datagrams_up += 1;
                shared.counters.datagram_bytes_up += payload.len() as u64;
            }
            Some(Err(_)) | None => shared.counters.datagrams_lost += 1,
        }
    }

    /// Hands the answer of the host's loopback to the client of an outward port.
    fn answer_outward(
        &mut self,
        shared: &mut Shared,
        index: usize,
        client: SocketAddr,
        payload: &Chain,
    ) {
        let mut pieces: Vec<IoSlice<'_>> = Vec::new();
        payload.segments().gather(&mut pieces);
        let socket = self.inlet(index).map(|inlet| inlet.socket.as_fd());
        let sent = socket.map(|socket| socket::send(socket, &pieces, Some(client)));
        match sent {
            Some(Ok(_)) => {
                shared.counters.datagrams_down += 1;
                shared.counters.datagram_bytes_down += payload.len() as u64;
            }
            Some(Err(_)) | None => shared.counters.datagrams_lost += 1,
        }
    }

    fn deliver(&mut self, shared: &mut Shared, ends: FlowEnds, payload: Chain) {
        let bytes = payload.len() as u64;
        match self.socket.send(payload, ends.remote, ends.guest) {
            Ok(()) => {
                shared.counters.datagrams_down += 1;
                shared.counters.datagram_bytes_down += bytes;
            }
            Err(_) => shared.counters.datagrams_lost += 1,
        }
    }

    /// A flow's timer came.
    pub(super) fn timer(&mut self, shared: &mut Shared, token: Token) {
        let now = shared.now();
        let Some(flow) = self.table.find(token) else {
            return;
        };
        flow.timer = None;
        if flow.deadline() <= now {
            match &mut flow.outlet {
                Outlet::Resolver(question) if question.asked.is_some() => {
                    question.give_up(shared);
                }
                _ => return self.remove(shared, token),
            }
        }
        self.arm(shared, token);
    }

    /// Ends all of them.
    pub(super) fn close(&mut self) {
        self.table.clear();
    }
}

/// A socket to `peer` for one flow.
fn own(shared: &mut Shared, peer: SocketAddr) -> Result<Outlet, Option<IcmpError>> {
    let socket = question::connected(shared, peer).map_err(|e| question::failure(shared, &e))?;
    Ok(Outlet::Own(socket))
}

/// Ends a flow that was taken out of the table, and its timer.
fn end(shared: &mut Shared, flow: Flow) {
    if let Some((_, timer)) = flow.timer {
        shared.context.cancel(timer);
    }
}

/// The same address with another port.
fn at_port(mut addr: SocketAddr, port: u16) -> SocketAddr {
    addr.set_port(port);
    addr
}

/// Whether the error is a peer's "port unreachable".
fn is_refusal(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

/// Receives one datagram into clusters; `None` if there were no clusters, and the datagram is lost.
fn receive<S>(
    shared: &mut Shared,
    recv: impl FnOnce(&mut [IoSliceMut<'_>]) -> io::Result<(usize, S)>,
) -> io::Result<Option<(Chain, S)>> {
    let Ok(row) = shared.scatter() else {
        // Left in the socket it would be reported for ever.
        recv(&mut [IoSliceMut::new(&mut [0])])?;
        return Ok(None);
    };
    let mut pieces = Vec::with_capacity(8);
    row.io_slices(DATAGRAM_MAX, &mut pieces);
    let (n, sender) = recv(&mut pieces)?;
    drop(pieces);
    Ok(Some((row.take(n), sender)))
}

#[cfg(test)]
mod tests;
