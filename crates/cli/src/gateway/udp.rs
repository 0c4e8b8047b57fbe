//! UDP: each pair of a guest's address and a remote one is a flow.
//!
//! ```text
//!   guest:port <-> remote:port       a socket of the host, one for all remote ends of guest:port ([`SharedSockets`])
//!   guest:port <-> 10.0.2.3:53       a connected socket of the host, one a flow: questions to a name server
//!   guest:port <-> client:port       the socket of a published port, one for all its clients
//!   client of the guest's loopback   the socket of an outward port, and a connected socket of the host a client
//! ```
//!
//! Answers have the address to which the guest sent as their source, even if that is mapped to another one. An error of
//! the network about a datagram, which the host's socket keeps, goes to the guest about the last datagram of that flow.
//! Flows end when they were idle for a while; those of queries to a name server end soon after the answer. When there
//! are too many of a kind, the oldest of that kind ends ([`FlowTable`]).
//!
//! [`SharedSockets`]: super::shared_sockets::SharedSockets
//!
//! Invariants: a flow's timer ends with it.
//! Locks: none.
//! Sources: RFC 4787 (mapping independent of the remote end, filtering by address and port), RFC 5452 (a fresh port a
//! question).

use std::io::{self, IoSliceMut};
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
use crate::resolv_conf::DNS_PORT;
use crate::sys::{limits, pktinfo, socket, train_socket};

mod inlet;
mod outward;

pub(super) use inlet::InletTarget;

use inlet::Inlet;

/// Datagrams that one flow, or the guest, has handled in a turn at most.
const TURN_MAX: usize = 64;
/// Tries to send a datagram: the error of one that fails may be about another destination, and be followed by more.
const SEND_TRIES: usize = 4;
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
        socket.set_recv_segmented(true);
        GuestFlows {
            socket,
            wake,
            inlets: Vec::new(),
            table: FlowTable::new(limits::descriptors()),
            names: None,
        }
    }

    /// The guests are several: one that floods costs the others no datagram and no flow, such as a question to a name
    /// server.
    pub(super) fn share_by_guest(&mut self) {
        self.socket.share_recv_buffer();
        self.table.share_by_guest();
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
        let mut handled = 0;
        while handled < TURN_MAX {
            let Ok(mut datagram) = self.socket.recv() else {
                return;
            };
            handled += datagrams(datagram.payload.len(), datagram.segment_size);
            // Each is a question of its own.
            while datagram.dst.port() == DNS_PORT
                && let Ok(Some(first)) = datagram.take_first()
            {
                self.forward_one(shared, first);
            }
            self.forward_one(shared, datagram);
        }
        self.wake.wake();
    }

    /// Sends a datagram, or a train, on.
    fn forward_one(&mut self, shared: &mut Shared, datagram: Datagram) {
        let ends = FlowEnds {
            guest: datagram.src,
            remote: datagram.dst,
        };
        if let Some(answer) = self.local_answer(shared, &datagram) {
            let each = answer.len();
            return self.deliver(shared, ends, answer, each);
        }
        match self.table.between(&ends) {
            Some(token) => _ = self.send(shared, token, datagram),
            None => self.open(shared, ends, datagram),
        }
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
                // No flow stays where none of its datagrams could go.
                Ok(token) if !self.send(shared, token, datagram) => self.remove(shared, token),
                Ok(_) => {}
                Err(_) => shared.counters.datagrams_lost += 1,
            },
            Err(Some(kind)) => self.refuse(shared, &datagram, kind),
            Err(None) => shared.counters.datagrams_lost += 1,
        }
    }

    /// The way to the host address behind the remote end; or the error for the guest, if there is one.
    fn outlet(
        &mut self,
        shared: &mut Shared,
        ends: &FlowEnds,
    ) -> Result<Outlet, Option<IcmpError>> {
        match shared.policy.decide(Proto::Udp, ends.remote) {
            Ok(Destination::Host(peer)) => self.shared_outlet(shared, ends, peer),
            // A QUIC connection: it must stay with its server.
            Ok(Destination::EncryptedResolver) => {
                let now = shared.now();
                let server = shared.encrypted_resolvers.first(now);
                self.shared_outlet(shared, ends, server.ok_or(Some(IcmpError::Port))?)
            }
            Ok(Destination::Resolver) => {
                shared.resolvers.refresh();
                let others = shared.resolvers.len().saturating_sub(1);
                Ok(Outlet::Resolver(Question::begin(shared, others)?))
            }
            Err(denial) => Err(denial.unreach()),
        }
    }

    /// The way to `peer` by the socket of the guest's end.
    fn shared_outlet(
        &mut self,
        shared: &mut Shared,
        ends: &FlowEnds,
        peer: SocketAddr,
    ) -> Result<Outlet, Option<IcmpError>> {
        let held = self.table.shared_sockets.hold(ends, peer, |token| {
            let socket = question::opened(shared, peer)?;
            shared.poller().add(&socket, token, Interest::Read)?;
            Ok(socket)
        });
        let socket = held.map_err(|e| question::failure(shared, &e))?;
        Ok(Outlet::Shared { socket, peer })
    }

    /// Puts a flow into the tables, and a socket of its own into the poller.
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

    /// Sends a datagram of the guest, or a train, on its way. Returns false if there is no way.
    fn send(&mut self, shared: &mut Shared, token: Token, datagram: Datagram) -> bool {
        let now = shared.now();
        let Some(flow) = self.table.used(token, now) else {
            return false;
        };
        if let Outlet::Resolver(question) = &mut flow.outlet {
            question.ask(shared, now, token);
            // The wait for an answer is shorter than the life of the flow.
            self.arm(shared, token);
        }
        let (bytes, each) = (datagram.payload.len(), datagram.segment_size);
        let sent = self.transmit(shared, token, &datagram.payload, each);
        let is_final =
            |e: &io::Error| e.kind() == io::ErrorKind::WouldBlock || policy::unreach(e).is_some();
        if bytes > each && sent.as_ref().is_err_and(|e| !is_final(e)) {
            return self.send_each(shared, token, datagram);
        }
        match sent {
            Ok(_) => {
                shared.counters.datagrams_up += datagrams(bytes, each) as u64;
                shared.counters.datagram_bytes_up += bytes as u64;
                if let Some(flow) = self.table.find(token) {
                    flow.remember(shared.stack.pool(), datagram);
                }
            }
            Err(e) => match policy::unreach(&e) {
                Some(kind) => {
                    self.refuse(shared, &datagram, kind);
                    return false;
                }
                None => shared.counters.datagrams_lost += datagrams(bytes, each) as u64,
            },
        }
        true
    }

    /// Sends the datagrams of a train that the kernel does not cut: they are longer than the path carries whole, or it
    /// is too old. Returns false if there is no way for any.
    fn send_each(&mut self, shared: &mut Shared, token: Token, mut train: Datagram) -> bool {
        let mut any = false;
        loop {
            match train.take_first() {
                Ok(Some(first)) => any |= self.send(shared, token, first),
                Ok(None) => return any | self.send(shared, token, train),
                Err(_) => {
                    shared.counters.datagrams_lost += 1;
                    return any;
                }
            }
        }
    }

    /// Sends a datagram. A socket first reports the errors about earlier ones.
    fn transmit(
        &mut self,
        shared: &mut Shared,
        token: Token,
        payload: &Chain,
        each: usize,
    ) -> io::Result<usize> {
        for _ in 1..SEND_TRIES {
            match self.transmit_once(token, payload, each) {
                Err(e) if e.kind() != io::ErrorKind::WouldBlock => self.take_errors(shared, token),
                sent => return sent,
            }
        }
        self.transmit_once(token, payload, each)
    }

    fn transmit_once(&mut self, token: Token, payload: &Chain, each: usize) -> io::Result<usize> {
        let flow = self.table.find(token).ok_or(io::ErrorKind::NotFound)?;
        let to = match flow.outlet {
            Outlet::Inlet { index, client } => {
                let inlet = self.inlet(index).ok_or(io::ErrorKind::NotFound)?;
                inlet.socket.cut(payload.len(), each)?;
                let send = |pieces: &[_]| pktinfo::send(inlet.socket.as_fd(), pieces, client);
                return payload.segments().gather(send);
            }
            Outlet::Shared { socket, peer } => {
                let shared = self.table.shared_sockets.find(socket);
                let shared = shared.ok_or(io::ErrorKind::NotFound)?;
                shared.socket.cut(payload.len(), each)?;
                Some(peer)
            }
            Outlet::Resolver(_) | Outlet::Loopback { .. } if payload.len() > each => {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            Outlet::Resolver(_) | Outlet::Loopback { .. } => None,
        };
        let socket = self.table.socket(token).ok_or(io::ErrorKind::NotFound)?;
        payload
            .segments()
            .gather(|pieces| socket::send(socket, pieces, to))
    }

    /// Takes the errors that a socket keeps, each about a datagram of one flow.
    fn take_errors(&mut self, shared: &mut Shared, socket: Token) {
        for _ in 0..TURN_MAX {
            let Some(fd) = self.table.socket(socket) else {
                return;
            };
            let Ok((_, error)) = socket::take_error(fd, &mut []) else {
                return;
            };
            if let Some(error) = error
                && let Some(token) = self.table.of_peer(socket, error.dst)
            {
                self.failed(shared, token, policy::icmp_error(&error));
            }
        }
    }

    /// The network says that a flow's datagram did not arrive.
    fn failed(&mut self, shared: &mut Shared, token: Token, kind: Option<IcmpError>) {
        let Some(flow) = self.table.find(token) else {
            return;
        };
        let unanswered = flow.take_unanswered();
        if unanswered.is_empty() {
            return;
        }
        // The kernel knows the path's MTU now.
        let again = matches!(kind, Some(IcmpError::FragNeeded { .. }));
        if let Outlet::Resolver(question) = &mut flow.outlet
            && (again || question.ask_another(shared, token))
        {
            for datagram in unanswered {
                self.send(shared, token, datagram);
            }
        } else if let Some(kind) = kind {
            let refuse = |datagram: &Datagram| self.refuse(shared, datagram, kind);
            unanswered.iter().for_each(refuse);
        }
    }

    fn refuse(&self, shared: &mut Shared, datagram: &Datagram, kind: IcmpError) {
        shared.counters.datagrams_refused += 1;
        self.socket.refuse(datagram, kind);
    }

    /// Hands the datagrams of a socket to the guest.
    pub(super) fn readable(&mut self, shared: &mut Shared, socket: Token) {
        let (mut handled, mut is_first) = (0, true);
        while handled < TURN_MAX {
            let Some(fd) = self.table.socket(socket) else {
                return;
            };
            match receive(shared, |pieces| train_socket::recv_from(fd, pieces)) {
                Ok(Some((payload, (sender, each)))) => {
                    handled += datagrams(payload.len(), each);
                    match self.table.of_peer(socket, sender) {
                        Some(token) => self.answered(shared, token, payload, each),
                        None => shared.counters.datagrams_filtered += 1,
                    }
                }
                Ok(None) => {
                    handled += 1;
                    shared.counters.datagrams_lost += 1;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && !is_first => return,
                // An event without a datagram is that of a kept error, which recv(2) may not report: EMSGSIZE.
                Err(_) => {
                    handled += 1;
                    self.take_errors(shared, socket);
                }
            }
            is_first = false;
        }
    }

    /// A datagram, or a train, came by a flow.
    fn answered(&mut self, shared: &mut Shared, token: Token, payload: Chain, each: usize) {
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
            _ => self.deliver(shared, ends, payload, each),
        }
    }

    fn deliver(&mut self, shared: &mut Shared, ends: FlowEnds, payload: Chain, each: usize) {
        let (bytes, FlowEnds { guest, remote }) = (payload.len(), ends);
        let sent = match bytes > each {
            true => self.socket.send_train(payload, each, remote, guest),
            false => self.socket.send_from(payload, remote, guest),
        };
        match sent {
            Ok(()) => {
                shared.counters.datagrams_down += datagrams(bytes, each) as u64;
                shared.counters.datagram_bytes_down += bytes as u64;
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

/// The number of datagrams in a train of so many bytes, or in one datagram.
fn datagrams(bytes: usize, each: usize) -> usize {
    bytes.div_ceil(each.max(1)).max(1)
}

/// Ends a flow that was taken out of the table, and its timer.
fn end(shared: &mut Shared, flow: Flow) {
    if let Some((_, timer)) = flow.timer {
        shared.context.cancel(timer);
    }
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
    let (n, sender) = row.read(&mut [], DATAGRAM_MAX, recv)?;
    Ok(Some((row.take(n), sender)))
}

#[cfg(test)]
mod tests;
