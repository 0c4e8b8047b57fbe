//! A worker's TCP connections between guest and host, and their turns.
//!
//! Invariants: each connection is in the table from its first event to its last, and its waker and its
//! host socket carry its token. One that moves to another worker lies in that worker's inbox meanwhile.
//! Locks: none but those of inboxes.

use std::net::IpAddr;
use std::sync::Arc;

use kern::Time;
use mbuma::runtime::{Inbox, Readiness, TaskWaker, WorkerPool};
use mbuma::socket::{Incoming, Interceptor};

use super::loopback::OutwardClient;
use super::outgoing::{Outcome, Outgoing};
use super::outward::OutwardConnection;
use super::publish::{Accepted, Listener};
use super::relay::{Relay, Remainder, Turn};
use super::shared::Shared;
use super::table::{SourceKind, Table, Token};
use super::waiting::{WaitingList, WaitingPlace};
use crate::stall_relief;

#[cfg(test)]
mod tests;

/// New connections that are begun in a turn at most, before those there are have theirs.
const BEGIN_MAX: usize = 64;
/// Attempts that wait for a host have at most one part in so many of the descriptors, so that a program that asks
/// silent hosts leaves some to others, and to questions for name servers.
pub(super) const WAITING_SHARE: usize = 4;

/// The connections.
pub(super) struct Connections {
    table: Table<Connection>,
    /// Those that the guest began and that no host has answered.
    waiting: WaitingList<Token>,
    /// All workers take from it, each when its own queue brought something.
    interceptor: Arc<Interceptor>,
    /// There are connections to intercept.
    wake: Arc<TaskWaker>,
    /// Connections on their way to each worker.
    inboxes: Arc<[Inbox<Relay>]>,
}

/// One of them.
struct Connection {
    wake: Arc<TaskWaker>,
    stage: ConnectionStage,
}

/// How far it is.
enum ConnectionStage {
    /// The guest waits for the host's side.
    Outgoing(Outgoing, WaitingPlace),
    /// Both sides are there.
    Relay(Relay),
    /// Between the guest's loopback and the host's.
    Outward(OutwardConnection),
    /// In the middle of a turn.
    Turning,
}

impl Connections {
    /// An inbox for each worker of `pool`.
    pub(super) fn inboxes(pool: &WorkerPool) -> Arc<[Inbox<Relay>]> {
        let inbox = |worker| Inbox::new(pool.ready(worker), Token::only(SourceKind::Inbox));
        (0..pool.len()).map(inbox).collect()
    }

    /// Takes the connections of `interceptor` when [`Connections::intercept_wake`] is called; `waiting` bounds those
    /// that no host has answered.
    pub(super) fn new(
        shared: &Shared,
        interceptor: &Arc<Interceptor>,
        inboxes: &Arc<[Inbox<Relay>]>,
        waiting: WaitingList<Token>,
    ) -> Connections {
        Connections {
            waiting,
            inboxes: Arc::clone(inboxes),
            table: Table::new(SourceKind::Connection),
            interceptor: Arc::clone(interceptor),
            wake: shared.wake_for(Token::only(SourceKind::Interceptor)),
        }
    }

    /// The waker for connections to intercept.
    pub(super) fn intercept_wake(&self) -> Arc<TaskWaker> {
        Arc::clone(&self.wake)
    }

    /// Begins the connections that the guest asked for since the last call.
    pub(super) fn intercept(&mut self, shared: &mut Shared) {
        for _ in 0..BEGIN_MAX {
            let Some(incoming) = self.interceptor.next() else {
                return;
            };
            self.begin(shared, incoming);
        }
        self.wake.wake();
    }

    fn begin(&mut self, shared: &mut Shared, incoming: Incoming) {
        if let Some(gone) = self.waiting.in_the_way() {
            shared.counters.connections_refused += 1;
            self.remove(gone);
        }
        let guest = incoming.peer_addr().ip();
        let token = self.table.next_token();
        match Outgoing::begin(shared, incoming, token) {
            Outcome::Joined(stream, host) => {
                self.add_relay(shared, Relay::new(stream, host, token));
            }
            Outcome::Waiting(outgoing) => {
                let wake = shared.wake_for(token);
                outgoing.incoming().set_waker(Some(wake.waker()));
                // It may have given up before there was a waker to tell.
                wake.wake();
                let place = self.waiting.add(guest, token);
                let stage = ConnectionStage::Outgoing(outgoing, place);
                self.table.insert(Connection { wake, stage });
            }
            Outcome::Over => {}
        }
    }

    /// Begins the connections of a published port's clients.
    pub(super) fn accept(&mut self, shared: &mut Shared, listener: &Listener) {
        for _ in 0..BEGIN_MAX {
            let client = match listener.accept(shared) {
                Accepted::Client(client) => client,
                Accepted::Outward(client) => {
                    self.add_outward(shared, client);
                    continue;
                }
                Accepted::Lost => continue,
                Accepted::None => return,
            };
            let token = self.table.next_token();
            if client.host.watch(shared.poller(), token).is_ok() {
                self.add_relay(shared, Relay::of_client(client, token));
            }
        }
        listener.wake();
    }

    /// Adds a connection between two loopbacks.
    fn add_outward(&mut self, shared: &Shared, client: OutwardClient) {
        let token = self.table.next_token();
        if client.watch(shared.poller(), token).is_ok() {
            let wake = shared.wake_for(token);
            let connection = OutwardConnection::new(client, token, shared.now());
            let stage = ConnectionStage::Outward(connection);
            self.table.insert(Connection { wake, stage });
        }
    }

    /// Adds a connection whose host socket is watched already under the next token.
    fn add_relay(&mut self, shared: &Shared, relay: Relay) {
        let wake = shared.wake_for(self.table.next_token());
        relay.set_waker(&wake);
        wake.wake();
        let stage = ConnectionStage::Relay(relay);
        self.table.insert(Connection { wake, stage });
    }

    /// An event of a host socket.
    pub(super) fn note(&mut self, token: Token, readiness: Readiness) {
        let Some(connection) = self.table.find(token) else {
            return;
        };
        match &mut connection.stage {
            ConnectionStage::Outgoing(outgoing, _) => outgoing.host_mut().note(readiness),
            ConnectionStage::Relay(relay) => relay.note(readiness),
            ConnectionStage::Outward(outward) => outward.note(readiness),
            ConnectionStage::Turning => {}
        }
        connection.wake.wake();
    }

    /// Gives the connection another turn: a timer of its came.
    pub(super) fn wake(&mut self, token: Token) {
        if let Some(connection) = self.table.find(token) {
            connection.wake.wake();
        }
    }

    /// The connection's turn.
    pub(super) fn turn(&mut self, shared: &mut Shared, token: Token) {
        let now = shared.now();
        let Some(connection) = self.table.find(token) else {
            return;
        };
        match &mut connection.stage {
            ConnectionStage::Relay(relay) => match relay.turn(shared, now) {
                Turn::Done => self.remove(token),
                turn => {
                    if turn == Turn::Again {
                        connection.wake.wake();
                    }
                    let to = relay.rebalance_target(shared, now);
                    if let Some(to) = to.filter(|_| relay.leave(shared.poller()).is_ok()) {
                        self.migrate(shared, token, to, now);
                    }
                }
            },
            ConnectionStage::Outward(outward) => match outward.turn(shared, now) {
                Turn::Done => self.remove(token),
                Turn::Again => connection.wake.wake(),
                Turn::Wait => {}
            },
            ConnectionStage::Outgoing(..) => self.turn_outgoing(shared, token),
            ConnectionStage::Turning => {}
        }
    }

    /// Gives the connection, which this worker's poller does not watch any more, to worker `to`.
    fn migrate(&mut self, shared: &mut Shared, token: Token, to: usize, now: Time) {
        let connection = self.table.remove(token);
        if let Some(ConnectionStage::Relay(mut relay)) = connection.map(|c| c.stage) {
            shared.counters.connections_moved += 1;
            relay.hand_over(shared, to, now);
            self.inboxes[to].put(relay);
        }
    }

    /// Takes in the connections that other workers gave to this one.
    pub(super) fn take_in(&mut self, shared: &Shared) {
        for mut relay in self.inboxes[shared.context.index()].take_all() {
            let token = self.table.next_token();
            let wake = shared.wake_for(token);
            if relay.arrive(shared.poller(), token, &wake).is_err() {
                // No event of its host socket would come any more.
                relay.close();
                continue;
            }
            wake.wake();
            let stage = ConnectionStage::Relay(relay);
            self.table.insert(Connection { wake, stage });
        }
    }

    fn turn_outgoing(&mut self, shared: &mut Shared, token: Token) {
        let Some(connection) = self.table.find(token) else {
            return;
        };
        let stage = std::mem::replace(&mut connection.stage, ConnectionStage::Turning);
        let ConnectionStage::Outgoing(outgoing, place) = stage else {
            connection.stage = stage;
            return;
        };
        let outcome = outgoing.turn(shared, token);
        if !matches!(outcome, Outcome::Waiting(_)) {
            self.waiting.remove(&place);
        }
        connection.stage = match outcome {
            Outcome::Joined(stream, host) => {
                // The waker that the incoming connection had is the stream's.
                connection.wake.wake();
                ConnectionStage::Relay(Relay::new(stream, host, token))
            }
            Outcome::Waiting(outgoing) => ConnectionStage::Outgoing(outgoing, place),
            Outcome::Over => return self.remove(token),
        };
    }

    /// Resets connections of which a side has taken nothing for long: see [`stall_relief`]. Says how many.
    pub(super) fn reset_stalled(&mut self, now: Time) -> usize {
        let all: Vec<Token> = self.table.iter().map(|(token, _)| token).collect();
        let stalled = all.into_iter().filter_map(|token| {
            let since = match &mut self.table.find(token)?.stage {
                ConnectionStage::Relay(relay) => relay.stalled_since(now)?,
                ConnectionStage::Outward(outward) => outward.stalled_since()?,
                ConnectionStage::Outgoing(..) | ConnectionStage::Turning => return None,
            };
            Some((since, token))
        });
        let victims: Vec<Token> = stall_relief::victims(stalled.collect(), now).collect();
        victims.iter().for_each(|token| self.remove(*token));
        victims.len()
    }

    /// Whether data of this guest is on its way to the host.
    pub(super) fn has_data_of(&self, addrs: &[IpAddr]) -> bool {
        let mut its = self
            .relays()
            .filter(|relay| addrs.contains(&relay.guest_addr()));
        its.any(|relay| relay.remainder() > Remainder::Unknown)
    }

    /// Resets the connections of a guest that is gone.
    pub(super) fn end_guest(&mut self, addrs: &[IpAddr]) {
        let its = self.table.iter().filter_map(|(token, c)| match &c.stage {
            ConnectionStage::Relay(relay) => addrs.contains(&relay.guest_addr()).then_some(token),
            // It ends when the guest's kernel is not there to answer; guests of a network have no outward ports.
            ConnectionStage::Outgoing(..)
            | ConnectionStage::Outward(_)
            | ConnectionStage::Turning => None,
        });
        let its: Vec<Token> = its.collect();
        its.into_iter().for_each(|token| self.remove(token));
    }

    fn remove(&mut self, token: Token) {
        let Some(connection) = self.table.remove(token) else {
            return;
        };
        if let ConnectionStage::Outgoing(_, place) = &connection.stage {
            self.waiting.remove(place);
        }
        connection.close();
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether the guest has still data to send on any of them.
    pub(super) fn remainder(&self) -> Remainder {
        let outward = self.table.iter().filter_map(|(_, c)| match &c.stage {
            ConnectionStage::Outward(outward) => Some(outward.remainder()),
            _ => None,
        });
        let all = self.relays().map(Relay::remainder).chain(outward);
        all.max().unwrap_or(Remainder::Nothing)
    }

    fn relays(&self) -> impl Iterator<Item = &Relay> {
        self.table.iter().filter_map(|(_, c)| match &c.stage {
            ConnectionStage::Relay(relay) => Some(relay),
            ConnectionStage::Outgoing(..)
            | ConnectionStage::Outward(_)
            | ConnectionStage::Turning => None,
        })
    }

    /// Ends all of them, those on their way to this worker too.
    pub(super) fn close(&mut self, shared: &Shared) {
        self.waiting.clear();
        self.table.drain().for_each(Connection::close);
        let given = self.inboxes[shared.context.index()].take_all();
        given.into_iter().for_each(Relay::close);
    }
}

impl Connection {
    fn close(self) {
        match self.stage {
            ConnectionStage::Relay(relay) => relay.close(),
            ConnectionStage::Outward(outward) => outward.close(),
            // The guest's kernel asks again.
            ConnectionStage::Outgoing(outgoing, _) => outgoing.give_up(),
            ConnectionStage::Turning => {}
        }
    }
}
