//! Questions of a network's guests over TCP: those about guests' names are answered here, others by a name server.
//!
//! ```text
//!   guest --- questions ---> [`LocalNames`] knows? -- yes --> answer ---.
//!                                 '-- no --> connection to a resolver --+--> guest
//! ```
//!
//! Answers may leave in another order than the questions came. The connection to the resolver begins with the first
//! question for it; its end is that of the guest's connection too. Encrypted questions (port 853) can't be read: they
//! all go to a resolver, which does not know the guests.
//!
//! Invariants: at most [`CONNECTIONS_MAX`], each with bounded bytes in each direction. Beyond that, the guest that has
//! most of them loses the one that has been silent longest. Locks: none.
//! Sources: RFC 1035 section 4.2.2, RFC 7766 sections 6 and 8.

use std::collections::HashMap;
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use kern::{CalloutId, Time};
use mbuf::Chain;
use mbuma::runtime::{Readiness, TaskWaker};
use mbuma::{SocketError, TcpListener, TcpStream};

use super::host::{Host, Moved, Progress};
use super::local_names::LocalNames;
use super::policy;
use super::question::ANSWER_WAIT;
use super::shared::Shared;
use super::table::{SourceKind, Table, Token};
use crate::errors::Error;
use crate::guest::GuestEnd;
use crate::resolv_conf::DNS_PORT;

/// Connections at once.
const CONNECTIONS_MAX: usize = 128;
/// Connections that wait to be taken at most.
const BACKLOG: usize = 128;
/// Connections that are taken, or reads of one, in a turn at most.
const TURN_MAX: usize = 16;
/// The time without a whole message after which a connection ends.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// Bytes that wait to be sent, from which on no more messages are read that add to them.
const ROOM: usize = 16 << 10;
/// Bytes that are read at once.
const READ: usize = 4096;
/// The shortest message: a header.
const MESSAGE_MIN: usize = 12;

/// All of them.
pub(super) struct NameConnections {
    listeners: Vec<TcpListener>,
    wake: Arc<TaskWaker>,
    table: Table<NameConnection>,
}

/// One of a guest.
struct NameConnection {
    stream: TcpStream,
    wake: Arc<TaskWaker>,
    /// Received: a part of a message, or messages for whose answers there is no room yet.
    asked: Vec<u8>,
    /// To be sent to the guest.
    answers: Vec<u8>,
    /// No more questions come.
    at_end: bool,
    server: ServerState,
    /// The time of the last whole message.
    used: Time,
    timer: CalloutId,
}

/// The connection to a resolver.
enum ServerState {
    None,
    Open(Box<ServerConnection>),
    /// It has ended, and so does the guest's connection when the answers have gone.
    Over,
}

struct ServerConnection {
    host: Host,
    peer: SocketAddr,
    /// Resolvers that were not tried yet.
    others: usize,
    is_connected: bool,
    told_end: bool,
    begun: Time,
    /// To be sent to it.
    questions: Vec<u8>,
    /// Questions without an answer.
    waiting: usize,
    /// Received, and not a whole message yet.
    said: Vec<u8>,
}

/// Why a connection ends.
#[derive(Debug, PartialEq, Eq)]
enum NameEnd {
    /// All is said.
    Done,
    /// It is reset.
    Failed,
}

impl NameConnections {
    /// Listens at the addresses for names of a network with such guests.
    ///
    /// # Errors
    /// The port is in use.
    pub(super) fn listen(shared: &Shared, guests: &GuestEnd) -> Result<NameConnections, Error> {
        let wake = shared.wake_for(Token::only(SourceKind::NameListener));
        let v4 = guests.v4.map(|v4| IpAddr::from(v4.dns));
        let v6 = guests.v6.and_then(|v6| v6.dns).map(IpAddr::from);
        let listen = |addr| {
            let listener = shared
                .stack
                .tcp_listen(SocketAddr::new(addr, DNS_PORT), BACKLOG)?;
            listener.set_waker(Some(wake.waker()));
            Ok(listener)
        };
        let listeners = v4.into_iter().chain(v6).map(listen);
        let listeners = listeners.collect::<Result<_, SocketError>>();
        Ok(NameConnections {
            listeners: listeners.map_err(|e| Error::stack("listening for questions", e))?,
            wake,
            table: Table::new(SourceKind::NameConnection),
        })
    }

    /// Takes new connections.
    pub(super) fn accept(&mut self, shared: &mut Shared) {
        for _ in 0..TURN_MAX {
            let Some(stream) = self.next() else { return };
            self.make_room(shared);
            let token = self.table.next_token();
            let wake = shared.wake_for(token);
            stream.set_nodelay(true);
            stream.set_buffers(ROOM, ROOM);
            stream.set_waker(Some(wake.waker()));
            self.table.insert(NameConnection {
                stream,
                wake: Arc::clone(&wake),
                asked: Vec::new(),
                answers: Vec::new(),
                at_end: false,
                server: ServerState::None,
                used: shared.now(),
                timer: shared.after(ANSWER_WAIT, token),
            });
            // An event may have come before the waker was set.
            wake.wake();
        }
        self.wake.wake();
    }

    /// A connection that waits, of each listener in turn.
    fn next(&mut self) -> Option<TcpStream> {
        (0..self.listeners.len()).find_map(|_| {
            self.listeners.rotate_left(1);
            self.listeners[0].accept().ok()
        })
    }

    /// Ends one if there are too many.
    fn make_room(&mut self, shared: &mut Shared) {
        if self.table.len() < CONNECTIONS_MAX {
            return;
        }
        let mut of_guest = HashMap::new();
        for (_, one) in self.table.iter() {
            *of_guest.entry(one.guest()).or_insert(0) += 1;
        }
        let all = self.table.iter().map(|(token, one)| {
            let count: usize = of_guest.get(&one.guest()).copied().unwrap_or(0);
            (std::cmp::Reverse(count), one.used, token)
        });
        let first = all.min_by_key(|(count, used, _)| (*count, *used));
        if let Some((_, _, token)) = first {
            self.remove(shared, token, NameEnd::Failed);
        }
    }

    /// The host's socket has an event.
    pub(super) fn note(&mut self, token: Token, readiness: Readiness) {
        if let Some(one) = self.table.find(token)
            && let ServerState::Open(server) = &mut one.server
        {
            server.host.note(readiness);
            one.wake.wake();
        }
    }

    /// Goes on with one.
    pub(super) fn turn(&mut self, shared: &mut Shared, names: &LocalNames, token: Token) {
        if let Some(one) = self.table.find(token)
            && let Err(end) = one.turn(shared, names, token)
        {
            self.remove(shared, token, end);
        }
    }

    /// One may have been idle for too long, or its resolver silent.
    pub(super) fn timer(&mut self, shared: &mut Shared, token: Token) {
        let now = shared.now();
        let Some(one) = self.table.find(token) else {
            return;
        };
        if now - one.used >= IDLE_MAX {
            return self.remove(shared, token, NameEnd::Done);
        }
        one.timer = shared.after(ANSWER_WAIT, token);
        if let ServerState::Open(server) = &mut one.server
            && !server.is_connected
            && server.others > 0
            && now - server.begun >= ANSWER_WAIT
        {
            match server.again(shared, token) {
                Ok(next) => one.server = next,
                Err(end) => return self.remove(shared, token, end),
            }
            one.wake.wake();
        }
    }

    /// Ends those of a guest that is gone.
    pub(super) fn end_guest(&mut self, shared: &mut Shared, addrs: &[IpAddr]) {
        let its = self
            .table
            .iter()
            .filter(|(_, one)| addrs.contains(&one.guest()));
        let its: Vec<Token> = its.map(|(token, _)| token).collect();
        for token in its {
            self.remove(shared, token, NameEnd::Failed);
        }
    }

    fn remove(&mut self, shared: &mut Shared, token: Token, end: NameEnd) {
        if let Some(one) = self.table.remove(token) {
            shared.context.cancel(one.timer);
            match end {
                NameEnd::Done => one.stream.shutdown(Shutdown::Write),
                NameEnd::Failed => one.stream.abort(),
            }
        }
    }

    /// Ends all.
    pub(super) fn close(&mut self) {
        self.listeners.clear();
        self.table.drain().for_each(|one| one.stream.abort());
    }
}

impl NameConnection {
    fn guest(&self) -> IpAddr {
        self.stream.peer_addr().ip()
    }

    /// Goes on as far as it goes without waiting, and without keeping others waiting.
    fn turn(
        &mut self,
        shared: &mut Shared,
        names: &LocalNames,
        token: Token,
    ) -> Result<(), NameEnd> {
        for _ in 0..TURN_MAX {
            self.ask(shared, names, token)?;
            self.hear(shared, token)?;
            self.flush()?;
            if !self.receive()? && !self.has_more()? {
                return self.end_of_turn();
            }
        }
        self.wake.wake();
        Ok(())
    }

    /// Takes the questions that are whole, as long as there is room.
    fn ask(
        &mut self,
        shared: &mut Shared,
        names: &LocalNames,
        token: Token,
    ) -> Result<(), NameEnd> {
        let mut asked = std::mem::take(&mut self.asked);
        let mut rest = &*asked;
        while self.has_room()
            && let Some((message, after)) = first(rest)?
        {
            self.used = shared.now();
            match names.answer_to(message) {
                Some(answer) => append(&mut self.answers, &answer),
                None => self.pass_on(shared, message, token)?,
            }
            rest = after;
        }
        let used = asked.len() - rest.len();
        asked.drain(..used);
        self.asked = asked;
        Ok(())
    }

    /// Whether one more question may be answered, and one more be passed on.
    fn has_room(&self) -> bool {
        let waiting = match &self.server {
            ServerState::None => 0,
            ServerState::Open(server) => server.questions.len(),
            ServerState::Over => return false,
        };
        self.answers.len().max(waiting) < ROOM
    }

    /// Passes a question on to a resolver.
    fn pass_on(
        &mut self,
        shared: &mut Shared,
        question: &[u8],
        token: Token,
    ) -> Result<(), NameEnd> {
        if let ServerState::None = self.server {
            let now = shared.now();
            let peer = shared.resolvers.first(now);
            let others = shared.resolvers.len().saturating_sub(1);
            self.server = ServerConnection::begin(shared, peer, others, (Vec::new(), 0), token)?;
        }
        if let ServerState::Open(server) = &mut self.server {
            append(&mut server.questions, question);
            server.waiting += 1;
        }
        Ok(())
    }

    /// Sends to the resolver, and takes its answers, as long as there is room for them.
    fn hear(&mut self, shared: &mut Shared, token: Token) -> Result<(), NameEnd> {
        let ServerState::Open(server) = &mut self.server else {
            return Ok(());
        };
        if !server.is_connected {
            match server.host.progress(server.peer) {
                Ok(Progress::Waiting) => return Ok(()),
                Ok(Progress::Connected) => server.connected(shared),
                Err(_) => {
                    self.server = server.again(shared, token)?;
                    self.wake.wake();
                    return Ok(());
                }
            }
        }
        server.send(shared, self.at_end && first(&self.asked)?.is_none())?;
        while self.answers.len() < ROOM && server.host.may_read() {
            let is_over = server.receive(shared)?;
            let mut rest = &*server.said;
            while let Some((message, after)) = first(rest)? {
                self.used = shared.now();
                server.waiting = server.waiting.saturating_sub(1);
                append(&mut self.answers, message);
                rest = after;
            }
            let used = server.said.len() - rest.len();
            server.said.drain(..used);
            if is_over {
                // One that was only idle may be replaced.
                self.server = match server.waiting {
                    0 => ServerState::None,
                    _ => ServerState::Over,
                };
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends answers to the guest.
    fn flush(&mut self) -> Result<(), NameEnd> {
        while !self.answers.is_empty() {
            match self.stream.send(&self.answers) {
                Ok(n) => drop(self.answers.drain(..n)),
                Err(SocketError::WouldBlock) => return Ok(()),
                // Without buffers too: the client asks again.
                Err(_) => return Err(NameEnd::Failed),
            }
        }
        Ok(())
    }

    /// Reads more, unless a whole question waits for room; whether there was any.
    fn receive(&mut self) -> Result<bool, NameEnd> {
        if self.at_end || !self.has_room() || first(&self.asked)?.is_some() {
            return Ok(false);
        }
        let mut bytes = [0; READ];
        match self.stream.recv(&mut bytes) {
            Ok(0) => self.at_end = true,
            Ok(n) => self.asked.extend(bytes.iter().take(n)),
            Err(SocketError::WouldBlock) => return Ok(false),
            Err(_) => return Err(NameEnd::Failed),
        }
        Ok(true)
    }

    /// Whether there is room again for a message that came earlier.
    fn has_more(&self) -> Result<bool, NameEnd> {
        let may_hear = match &self.server {
            ServerState::Open(server) => server.is_connected && server.host.may_read(),
            ServerState::None | ServerState::Over => false,
        };
        let room = self.answers.len() < ROOM;
        Ok(room && may_hear || self.has_room() && first(&self.asked)?.is_some())
    }

    /// Whether all is said.
    fn end_of_turn(&self) -> Result<(), NameEnd> {
        let is_over = match self.server {
            // A part of a question stays without an answer.
            ServerState::None => self.at_end && first(&self.asked)?.is_none(),
            ServerState::Open(_) => false,
            ServerState::Over => true,
        };
        match is_over && self.answers.is_empty() {
            true => Err(NameEnd::Done),
            false => Ok(()),
        }
    }
}

impl ServerConnection {
    /// Begins to connect to `peer`, or to the next resolvers if that fails at once.
    fn begin(
        shared: &mut Shared,
        mut peer: Option<SocketAddr>,
        others: usize,
        (questions, waiting): (Vec<u8>, usize),
        token: Token,
    ) -> Result<ServerState, NameEnd> {
        for others in (0..=others).rev() {
            let addr = peer.ok_or(NameEnd::Failed)?;
            let local = shared.policy.local_end_for(addr);
            let begun = Host::connect(addr, local).and_then(|(host, _)| {
                host.watch(shared.poller(), token)?;
                Ok(host)
            });
            match begun {
                Ok(host) => {
                    return Ok(ServerState::Open(Box::new(ServerConnection {
                        host,
                        peer: addr,
                        others,
                        is_connected: false,
                        told_end: false,
                        begun: shared.now(),
                        questions,
                        waiting,
                        said: Vec::new(),
                    })));
                }
                Err(e) if policy::is_out_of_descriptors(&e) => {
                    shared.out_of_descriptors();
                    return Err(NameEnd::Failed);
                }
                Err(_) => peer = next_after(shared, addr),
            }
        }
        Err(NameEnd::Failed)
    }

    /// It refused, or is silent: the same questions go to the next one.
    fn again(&mut self, shared: &mut Shared, token: Token) -> Result<ServerState, NameEnd> {
        let next = next_after(shared, self.peer).filter(|_| self.others > 0);
        let asked = (std::mem::take(&mut self.questions), self.waiting);
        Self::begin(shared, next, self.others.saturating_sub(1), asked, token)
    }

    fn connected(&mut self, shared: &mut Shared) {
        self.is_connected = true;
        shared.counters.connections_out += 1;
    }

    /// Sends questions; `is_all`: no more will come.
    fn send(&mut self, shared: &mut Shared, is_all: bool) -> Result<(), NameEnd> {
        while !self.questions.is_empty() && self.host.may_write() {
            let chain = Chain::from_slice(shared.stack.pool(), &self.questions);
            let chain = chain.map_err(|_| NameEnd::Failed)?;
            match self.host.write(&chain, chain.len()) {
                Ok(Moved::Some(n) | Moved::Last(n)) => {
                    shared.counters.bytes_up += n as u64;
                    self.questions.drain(..n);
                }
                Ok(_) => {}
                Err(_) => return Err(NameEnd::Failed),
            }
        }
        if is_all && self.questions.is_empty() && !self.told_end {
            self.told_end = true;
            self.host.shutdown_write();
        }
        Ok(())
    }

    /// Reads; whether that was all.
    fn receive(&mut self, shared: &mut Shared) -> Result<bool, NameEnd> {
        let row = shared.scatter().map_err(|_| NameEnd::Failed)?;
        let (chain, is_over) = match self.host.read(row, ROOM) {
            Ok(Moved::Some(chain) | Moved::Last(chain)) => (chain, false),
            Ok(Moved::Final(chain)) => (chain, true),
            Ok(Moved::Nothing) => return Ok(false),
            Ok(Moved::End) => return Ok(true),
            Err(_) => return Err(NameEnd::Failed),
        };
        shared.counters.bytes_down += chain.len() as u64;
        self.said.extend(chain.to_vec());
        Ok(is_over)
    }
}

/// The resolver after one that refused.
fn next_after(shared: &mut Shared, addr: SocketAddr) -> Option<SocketAddr> {
    let now = shared.now();
    shared.resolvers.refused(addr, now);
    shared.resolvers.next_after(addr, now)
}

/// A message, and the bytes behind it.
type Split<'a> = Option<(&'a [u8], &'a [u8])>;

/// The first message of a stream, and the bytes behind it; none if it is not whole.
///
/// # Errors
/// Its length is that of no message.
fn first(bytes: &[u8]) -> Result<Split<'_>, NameEnd> {
    let Some((len, rest)) = bytes.split_first_chunk() else {
        return Ok(None);
    };
    match usize::from(u16::from_be_bytes(*len)) {
        0..MESSAGE_MIN => Err(NameEnd::Failed),
        len => Ok(rest.split_at_checked(len)),
    }
}

/// Appends a message behind its length. None is longer than a length can say: questions and answers came behind one,
/// and those of [`LocalNames`] are short.
fn append(to: &mut Vec<u8>, message: &[u8]) {
    to.extend((message.len() as u16).to_be_bytes());
    to.extend(message);
}

#[cfg(test)]
mod tests;
