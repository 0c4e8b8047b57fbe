//! A connection that the guest begins, until the host's side has answered.
//!
//! The guest's SYN stays unanswered meanwhile, so that the guest sees the same as on the host: an accepted connection,
//! a refused one, an unreachable host, or a wait.
//!
//! Invariants: a connection is accepted only after its host socket is connected.
//! Locks: none.

use std::io;
use std::net::SocketAddr;

use mbuma::TcpStream;
use mbuma::socket::{Incoming, Refusal};

use super::host::{Host, Progress};
use super::policy::{self, Destination};
use super::shared::Shared;
use super::table::Token;
use crate::args::Proto;

/// An attempt under way.
pub(super) struct Outgoing {
    incoming: Incoming,
    host: Host,
    peer: SocketAddr,
    /// Resolvers that were not tried yet.
    others: usize,
}

/// The state of the attempt.
pub(super) enum Outcome {
    /// Both sides are connected.
    Joined(TcpStream, Host),
    /// The host's side has not answered.
    Waiting(Outgoing),
    /// The guest got an error, or has given up.
    Over,
}

impl Outgoing {
    /// Begins to connect to the destination of `incoming`. Events of the host socket are for `token`.
    pub(super) fn begin(shared: &mut Shared, incoming: Incoming, token: Token) -> Outcome {
        let asked = incoming.local_addr();
        let (peer, others) = match shared.policy.decide(Proto::Tcp, asked) {
            Ok(Destination::Host(peer)) => (Some(peer), 0),
            Ok(Destination::Resolver | Destination::EncryptedResolver) => {
                let now = shared.now();
                let resolvers = shared.resolvers_at(asked.port());
                (resolvers.first(now), resolvers.len().saturating_sub(1))
            }
            Err(denial) => return refuse(shared, incoming, denial.refusal()),
        };
        match peer {
            Some(peer) => connect(shared, incoming, peer, others, token),
            None => refuse(shared, incoming, Refusal::Reset),
        }
    }

    /// Checks the state. Called when the host socket, or the guest's side, has an event.
    pub(super) fn turn(mut self, shared: &mut Shared, token: Token) -> Outcome {
        if self.incoming.is_gone() {
            return Outcome::Over;
        }
        match self.host.progress(self.peer) {
            Ok(Progress::Waiting) => Outcome::Waiting(self),
            Ok(Progress::Connected) => accept(shared, self.incoming, self.host),
            Err(e) => {
                let Outgoing {
                    incoming,
                    peer,
                    others,
                    ..
                } = self;
                failed(shared, incoming, peer, others, token, &e)
            }
        }
    }

    /// Ends it without an answer to the guest.
    pub(super) fn give_up(self) {
        self.incoming.refuse(Refusal::Ignore);
    }

    /// The guest's side.
    pub(super) fn incoming(&self) -> &Incoming {
        &self.incoming
    }

    /// The host's side, for which events arrive.
    pub(super) fn host_mut(&mut self) -> &mut Host {
        &mut self.host
    }
}

fn connect(
    shared: &mut Shared,
    incoming: Incoming,
    peer: SocketAddr,
    others: usize,
    token: Token,
) -> Outcome {
    let local = shared.policy.local_end_for(peer);
    let begun = Host::connect(peer, local).and_then(|(host, progress)| {
        host.watch(shared.poller(), token)?;
        Ok((host, progress))
    });
    match begun {
        Ok((host, Progress::Connected)) => accept(shared, incoming, host),
        Ok((host, Progress::Waiting)) => Outcome::Waiting(Outgoing {
            incoming,
            host,
            peer,
            others,
        }),
        Err(e) => failed(shared, incoming, peer, others, token, &e),
    }
}

/// The host's side accepted: accepts the guest's connection.
fn accept(shared: &mut Shared, incoming: Incoming, host: Host) -> Outcome {
    match incoming.accept() {
        Ok(stream) => {
            shared.counters.connections_out += 1;
            Outcome::Joined(stream, host)
        }
        // The guest gave up just now.
        Err(_) => {
            host.reset();
            Outcome::Over
        }
    }
}

/// Tries the next resolver, if the peer is one; else refuses the guest's connection.
fn failed(
    shared: &mut Shared,
    incoming: Incoming,
    peer: SocketAddr,
    others: usize,
    token: Token,
    error: &io::Error,
) -> Outcome {
    if policy::is_out_of_descriptors(error) {
        shared.out_of_descriptors();
        // No packet was sent to the host, so there is no answer: the guest's kernel sends its SYN again.
        incoming.refuse(Refusal::Ignore);
        return Outcome::Over;
    }
    if others > 0 {
        let now = shared.now();
        let resolvers = shared.resolvers_at(peer.port());
        resolvers.refused(peer, now);
        let next = resolvers.next_after(peer, now).unwrap_or(peer);
        return connect(shared, incoming, next, others - 1, token);
    }
    let refusal = policy::unreach(error).map_or(Refusal::Reset, Refusal::Unreachable);
    refuse(shared, incoming, refusal)
}

fn refuse(shared: &mut Shared, incoming: Incoming, how: Refusal) -> Outcome {
    shared.counters.connections_refused += 1;
    incoming.refuse(how);
    Outcome::Over
}
