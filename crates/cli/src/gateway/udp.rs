//! UDP: each pair of a guest's address and a remote one is a flow, with a socket for its datagrams.
//!
//! ```text
//!   guest:port <-> remote:port       a connected socket of the host, one a flow, and one port for all of guest:port
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
//! Sources: RFC 4787 (mapping independent of the remote end, filtering by address and port), RFC 5452 (a fresh port a
//! question).

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;

use mbuf::Chain;
use mbuma::runtime::{Interest, TaskWaker};
use mbuma::socket::Datagram;
use mbuma::{IcmpError, UdpSocket};

use super::flow::{Flow, FlowEnds, Outlet};
use super::flow_table::FlowTable;
use super::local_names::LocalNames;
use super::policy::{self, Destination};
use super::question::{self, Question};
use super::shared::Shared;
use super::table::{SourceKind, Token};
use crate::args::Proto;
use crate::sys::{limits, pktinfo, socket};

mod inlet;
mod outward;

pub(super) use inlet::InletTarget;

use inlet::Inlet;

/// Datagrams that one flow, or the guest, has handled in a turn at most.
const TURN_MAX: usize = 64;
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

impl GuestFlows {
    /// Serves the datagrams that come to `socket`.
    pub(super) fn new(shared: &Shared, socket: UdpSocket) -> GuestFlows {
        let wake = shared.wake_for(Token::only(SourceKind::Datagrams));
        socket.set_waker(Some(wake.waker()));
        GuestFlows {
            socket,
            wake,
            inlets: Vec::new(),
            table: FlowTable::new(limits::descriptors()),
            names: None,
        }
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
        match self.outlet(shared, &ends) {
            Ok(outlet) => match self.add(shared, ends, outlet) {
                Ok(token) => self.send(shared, token, datagram),
                Err(_) => shared.counters.datagrams_lost += 1,
            },
            Err(Some(kind)) => self.refuse(shared, &datagram, kind),
            Err(None) => shared.counters.datagrams_lost += 1,
        }
    }

    /// A new socket to the host address behind the remote end; or the error for the guest, if there is one.
    fn outlet(&self, shared: &mut Shared, ends: &FlowEnds) -> Result<Outlet, Option<IcmpError>> {
        let port = self.table.host_port(ends.guest);
        match shared.policy.decide(Proto::Udp, ends.remote) {
            Ok(Destination::Host(peer)) => own(shared, peer, port),
            // A QUIC connection: it must stay with its server.
            Ok(Destination::EncryptedResolver) => {
                let now = shared.now();
                let server = shared.encrypted_resolvers.first(now);
                own(shared, server.ok_or(Some(IcmpError::Port))?, port)
            }
            Ok(Destination::Resolver) => {
                shared.resolvers.refresh();
                let others = shared.resolvers.len().saturating_sub(1);
                Ok(Outlet::Resolver(Question::begin(shared, others)?))
            }
            Err(denial) => Err(denial.unreach()),
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
        if self
            .table
            .find(token)
            .is_some_and(|flow| flow.asks_for_its_route(now))
        {
            self.follow_route(shared, token);
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

    /// Gives a flow another socket if the host would send from another address now, as after a change of its default
    /// route: a connected socket keeps its address. Where the address is the same, another socket would lose answers
    /// that are under way.
    fn follow_route(&mut self, shared: &mut Shared, token: Token) {
        let Some(flow) = self.table.find(token) else {
            return;
        };
        let Outlet::Own {
            socket: kept, port, ..
        } = &mut flow.outlet
        else {
            return;
        };
        // A flow to a name server stays with that server.
        let Ok(Destination::Host(peer)) = shared.policy.decide(Proto::Udp, flow.ends.remote) else {
            return;
        };
        let Ok(other) = question::connected(shared, peer) else {
            return;
        };
        if socket::local_ip(kept.as_fd()).ok() == socket::local_ip(other.as_fd()).ok() {
            return;
        }
        let fresh = question::connected_from(shared, peer, *port).unwrap_or(other);
        let watched = shared.poller().add(fresh.as_fd(), token, Interest::Read);
        if watched.is_ok() {
            *kept = fresh;
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
                pktinfo::send(inlet.socket.as_fd(), &pieces, *client)
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
            let peer = match flow.outlet {
                Outlet::Own { peer, .. } => Some(peer),
                _ => None,
            };
            match receive(shared, |pieces| socket::recv_from(socket, pieces)) {
                Ok(Some((_, sender))) if peer.is_some_and(|peer| !is_same(peer, sender)) => {}
                Ok(Some((payload, _))) => {
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

/// A socket to `peer` for one flow: from `port` if its end of the guest has one, unless another program took it.
fn own(
    shared: &mut Shared,
    peer: SocketAddr,
    port: Option<u16>,
) -> Result<Outlet, Option<IcmpError>> {
    let from = port.and_then(|port| question::connected_from(shared, peer, port).ok());
    let socket = match from {
        Some(socket) => Ok(socket),
        None => question::connected(shared, peer),
    };
    let opened = socket.and_then(|socket| {
        let port = socket::share_port(socket.as_fd())?;
        Ok(Outlet::Own { socket, port, peer })
    });
    opened.map_err(|e| question::failure(shared, &e))
}

/// Whether these are one address and port: the kernel may add a scope.
fn is_same(a: SocketAddr, b: SocketAddr) -> bool {
    (a.ip(), a.port()) == (b.ip(), b.port())
}

/// Ends a flow that was taken out of the table, and its timer.
fn end(shared: &mut Shared, flow: Flow) {
    if let Some((_, timer)) = flow.timer {
        shared.context.cancel(timer);
    }
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
