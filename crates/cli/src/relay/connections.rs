//! The relayed connections: each begins, is spliced both ways, and ends; the stack moves the bytes.
//!
//! ```text
//!   client --SYN--> listener --> Begins: the server is asked --established--> Spliced: two splices
//!                           |       `-- refused: the client is reset    |       |-- both ended: dropped
//!                           |                                           |       `-- idle: both are reset
//!                           |                                           `-> Greets: the TLS handshake with the server,
//!                           |                                               if it speaks TLS; then Spliced
//!                           `-> Shakes: the TLS handshake, if clients speak TLS; then Begins
//!                                  `-- refused: Lingers until the client closes
//! ```
//!
//! A handshake has a [bound](handshake_list) of time, in which a client that was refused by an alert must also close.
//! Of those with clients, [a part](MemoryLimit::handshakes) of the connections may be in it: beyond that, a new one
//! ends the oldest. mbuma connects to the server only when the client's handshake is done. Where both sides speak TLS,
//! the server must agree to the protocol that the client got (ALPN).
//!
//! One thread begins and ends connections. It sleeps until a waker of the stack names one; while bytes move, nothing
//! wakes it. A client's bytes wait in its receive buffer until the server has answered. If buffers run short, those end
//! whose client or server takes nothing ([`stall_relief`]).
//!
//! Invariants: at most `max` connections are in the table; others wait in the listeners' queues.
//! Locks: the channel of the wakers, the standard library's: never held over a call.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use kern::Time;
use mbuma::socket::{HandshakeError, MaybeTlsStream, SocketError, TlsHandshake};
use mbuma::{Stack, State, TcpListener, TcpSocketOptions, TcpStream};
use rustls::ServerConfig;

use crate::channel::{Channel, ChannelMessage};
use crate::errors::Error;
#[cfg(doc)]
use crate::memory_limit::MemoryLimit;
use crate::say;
use crate::stall_relief::{self, StallRelief};
use crate::sys::fd;
use crate::tls::{self, ClientTls};
use handshake_list::HandshakeList;
use nudge::Nudge;
use progress::RelayProgress;
use state::{RelayState, linger, protocol_of, still_going};

mod handshake_list;
mod nudge;
mod progress;
mod state;
#[cfg(test)]
mod tests;

/// The listeners' number; connections have the others.
const LISTENER: u64 = 0;
/// The interval at which the thread checks whether it must end.
const LOOK: Duration = Duration::from_millis(200);

/// The time after which there may be buffers again.
const NO_BUFS_WAIT: Duration = Duration::from_millis(10);

/// The time in which the server must answer.
const CONNECT_MAX_TIME: Duration = Duration::from_secs(10);

/// The shortest time between two lines about failures.
const SAY_EVERY: Duration = Duration::from_secs(10);

/// TLS of a relay.
#[derive(Default)]
pub(super) struct RelayTls {
    /// Clients speak it.
    pub(super) to_clients: Option<Arc<ServerConfig>>,
    /// Handshakes with clients at once, at most.
    pub(super) handshakes_max: usize,
    /// The server speaks it.
    pub(super) to_server: Option<ClientTls>,
}

/// All of them.
pub(super) struct RelayedConnections {
    stack: Stack,
    listeners: Vec<TcpListener>,
    to: SocketAddr,
    idle: Option<Duration>,
    max: usize,
    tls: RelayTls,
    next: u64,
    table: HashMap<u64, Relayed>,
    /// Those in a handshake with the client, or lingering after it.
    shaking: HandshakeList,
    /// Those in a handshake with the server.
    greeting: HandshakeList,
    /// Those whose part of a handshake found no buffers, and the time for the next attempt: the peer waits for it.
    without_buffers: Vec<Arc<Nudge>>,
    retry_at: Time,
    stall_relief: StallRelief,
    /// The time of the last line about a failure.
    said: Option<Instant>,
    news: (Sender<u64>, Receiver<u64>),
}

/// One of them.
struct Relayed {
    waker: Arc<Nudge>,
    state: RelayState,
    progress: RelayProgress,
}

impl RelayedConnections {
    /// Relays clients of `listeners` to `to`, `max` at once.
    pub(super) fn new(
        stack: &Stack,
        listeners: Vec<TcpListener>,
        to: SocketAddr,
        idle: Option<Duration>,
        max: usize,
        tls: RelayTls,
    ) -> RelayedConnections {
        RelayedConnections {
            stack: stack.clone(),
            listeners,
            to,
            idle,
            max,
            tls,
            next: LISTENER + 1,
            table: HashMap::new(),
            shaking: HandshakeList::new(RelayState::is_with_client),
            greeting: HandshakeList::new(RelayState::is_with_server),
            without_buffers: Vec::new(),
            retry_at: Time::ZERO,
            stall_relief: StallRelief::default(),
            said: None,
            news: mpsc::channel(),
        }
    }

    /// Begins and ends connections until the other process says stop, or ends. Then those that are left are reset:
    /// both sides must know that bytes are missing. `taps` are the interfaces, by name.
    ///
    /// # Errors
    /// An interface was deleted.
    pub(super) fn run(
        &mut self,
        monitor: &Channel,
        taps: &[(String, OwnedFd)],
    ) -> Result<(), Error> {
        let ended = self.serve(monitor, taps);
        self.abort_all();
        ended
    }

    fn abort_all(&mut self) {
        self.table
            .drain()
            .for_each(|(_, relayed)| relayed.state.abort());
    }

    fn serve(&mut self, monitor: &Channel, taps: &[(String, OwnedFd)]) -> Result<(), Error> {
        let listens = Nudge::new(LISTENER, &self.news.0);
        for listener in &self.listeners {
            listener.set_waker(Some(Waker::from(Arc::clone(&listens))));
        }
        self.accept();
        let mut look_at = Instant::now() + LOOK;
        loop {
            let wait = match self.without_buffers.is_empty() {
                true => LOOK,
                false => NO_BUFS_WAIT,
            };
            match self.news.1.recv_timeout(wait) {
                Ok(LISTENER) => {
                    listens.take();
                    self.accept();
                }
                Ok(number) => self.look_at(number),
                Err(RecvTimeoutError::Timeout) => {}
                // This thread has a sender, so the channel is open.
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            self.retry(self.stack.now());
            let now = Instant::now();
            if self.shaking.end_late(now, &mut self.table)
                | self.greeting.end_late(now, &mut self.table)
                | self.relieve_stalls(self.stack.now())
            {
                self.accept();
            }
            if now >= look_at {
                look_at = now + LOOK;
                if stops(monitor).map_err(Error::io("hearing the monitor"))? {
                    return Ok(());
                }
                taps.iter().try_for_each(check)?;
            }
        }
    }

    /// Accepts clients, up to the limit.
    fn accept(&mut self) {
        while self.table.len() < self.max
            && let Some(client) = self.next_client()
        {
            self.begin(client);
        }
    }

    /// One that waits, of each listener in turn: the clients of one may not keep out those of the other.
    fn next_client(&mut self) -> Option<TcpStream> {
        (0..self.listeners.len()).find_map(|_| {
            self.listeners.rotate_left(1);
            self.listeners[0].accept().ok()
        })
    }

    fn begin(&mut self, client: TcpStream) {
        let number = self.next;
        self.next += 1;
        let waker = Nudge::new(number, &self.news.0);
        client.set_nodelay(true);
        client.set_waker(Some(Waker::from(Arc::clone(&waker))));
        let state = match self.tls.to_clients.clone() {
            None => self.ask_server(MaybeTlsStream::Tcp(client), &waker),
            Some(config) => self.shake_hands(client, number, config),
        };
        if let Some(state) = state {
            let relayed = Relayed {
                waker: Arc::clone(&waker),
                state,
                progress: RelayProgress::begin(self.stack.now()),
            };
            self.table.insert(number, relayed);
            // An event may have come before the waker was set.
            waker.wake();
        }
    }

    /// Begins a handshake; if there are too many the oldest ends.
    fn shake_hands(
        &mut self,
        client: TcpStream,
        number: u64,
        config: Arc<ServerConfig>,
    ) -> Option<RelayState> {
        if self.shaking.is_full(self.tls.handshakes_max, &self.table) {
            self.shaking.end_oldest(&mut self.table);
        }
        let handshake = TlsHandshake::server(client, config).ok()?;
        self.shaking.begin(number);
        Some(RelayState::Shakes(Box::new(handshake)))
    }

    /// Connects to the server for a client.
    fn ask_server(&mut self, client: MaybeTlsStream, waker: &Arc<Nudge>) -> Option<RelayState> {
        let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
        let options = TcpSocketOptions {
            connect_timeout: Some(CONNECT_MAX_TIME),
            ..TcpSocketOptions::default()
        };
        let server = match self.stack.tcp_connect_with(any, self.to, &options) {
            Ok(server) => server,
            // There is no route to the server, or no port left.
            Err(e) => {
                self.complain(&e.to_string());
                client.abort();
                return None;
            }
        };
        server.set_nodelay(true);
        server.set_waker(Some(Waker::from(Arc::clone(waker))));
        Some(RelayState::Begins { client, server })
    }

    /// A handshake found no buffers: there is another attempt soon.
    fn retry_later(&mut self, waker: &Arc<Nudge>) {
        if self.without_buffers.is_empty() {
            self.retry_at = self.stack.now() + NO_BUFS_WAIT;
        }
        self.without_buffers.push(Arc::clone(waker));
    }

    /// Tries again where buffers were missing, if it is time.
    fn retry(&mut self, now: Time) {
        if self.retry_at <= now {
            self.without_buffers.drain(..).for_each(Nudge::wake);
        }
    }

    /// Continues a handshake; once it is done, connects to the server.
    fn go_on(
        &mut self,
        mut handshake: Box<TlsHandshake>,
        waker: &Arc<Nudge>,
    ) -> Option<RelayState> {
        match handshake.advance() {
            Ok(true) => {
                let state = self.ask_server(MaybeTlsStream::Tls(handshake.finish().ok()?), waker);
                // The server may have answered already.
                Arc::clone(waker).wake();
                state
            }
            Ok(false) => Some(RelayState::Shakes(handshake)),
            Err(HandshakeError::Socket(SocketError::NoBufs)) => {
                self.retry_later(waker);
                Some(RelayState::Shakes(handshake))
            }
            Err(HandshakeError::Tls(_)) => {
                // It was told why.
                handshake.tcp().shutdown(Shutdown::Write);
                linger(handshake, waker)
            }
            Err(_) => None,
        }
    }

    /// Continues a connection that began, once the server has answered. Returns `None` once either end has ended.
    fn begins(
        &mut self,
        client: MaybeTlsStream,
        server: TcpStream,
        number: u64,
        waker: &Arc<Nudge>,
    ) -> Option<RelayState> {
        let error = server.error();
        if let Some(e) = error {
            self.complain(&e.to_string());
        }
        if client.error().is_some() || error.is_some() {
            client.abort();
            server.abort();
            return None;
        }
        match server.state() {
            State::SynSent | State::SynReceived => Some(RelayState::Begins { client, server }),
            State::Closed => {
                client.abort();
                None
            }
            _ => match &self.tls.to_server {
                None => self.splice(client, MaybeTlsStream::Tcp(server)),
                Some(tls) => {
                    let config = match protocol_of(&client) {
                        Some(protocol) => tls.asks_for(protocol),
                        None => tls.asks_for_all(),
                    };
                    let Ok(handshake) = TlsHandshake::client(server, config, tls.name()) else {
                        client.abort();
                        return None;
                    };
                    self.begin_greeting(number);
                    self.greet(client, Box::new(handshake), waker)
                }
            },
        }
    }

    /// A handshake with the server begins. Each connection may be in one, so the list is not full, but cleaned.
    fn begin_greeting(&mut self, number: u64) {
        self.greeting.is_full(2 * self.max, &self.table);
        self.greeting.begin(number);
    }

    /// A handshake with the server goes on; once it is done, data moves.
    fn greet(
        &mut self,
        client: MaybeTlsStream,
        mut server: Box<TlsHandshake>,
        waker: &Arc<Nudge>,
    ) -> Option<RelayState> {
        if client.error().is_some() {
            server.tcp().abort();
            return None;
        }
        match server.advance() {
            Ok(true) => match server.finish() {
                Ok(server) => {
                    let agreed = server.about().alpn.as_deref();
                    if protocol_of(&client).is_none_or(|of_client| of_client == agreed) {
                        return self.splice(client, MaybeTlsStream::Tls(server));
                    }
                    self.complain("it does not speak the protocol that the client got (ALPN)");
                }
                Err(e) => self.complain(&tls::reason(&e)),
            },
            Ok(false) => return Some(RelayState::Greets { client, server }),
            Err(HandshakeError::Socket(SocketError::NoBufs)) => {
                self.retry_later(waker);
                return Some(RelayState::Greets { client, server });
            }
            Err(e) => {
                self.complain(&tls::reason(&e));
                // It was told why.
                server.tcp().shutdown(Shutdown::Write);
            }
        }
        client.abort();
        None
    }

    fn splice(&self, client: MaybeTlsStream, server: MaybeTlsStream) -> Option<RelayState> {
        client
            .relay(server, self.idle)
            .ok()
            .map(RelayState::Spliced)
    }

    /// Resets connections of which a side takes nothing, if buffers are short: see [`stall_relief`]. True if there were
    /// any.
    fn relieve_stalls(&mut self, now: Time) -> bool {
        let pool = self.stack.pool();
        if !self.stall_relief.is_due(now, || pool.headroom()) {
            return false;
        }
        let stalled = self.table.iter_mut().filter_map(|(number, relayed)| {
            let RelayState::Spliced(relay) = &relayed.state else {
                return None;
            };
            let since = relayed.progress.stalled_since(relay, now)?;
            Some((since, *number))
        });
        let victims: Vec<u64> = stall_relief::victims(stalled.collect(), now).collect();
        for number in &victims {
            if let Some(relayed) = self.table.remove(number) {
                relayed.state.abort();
            }
        }
        let count = victims.len();
        if count > 0 {
            self.say_seldom(&format!(
                "buffers are short: connections reset because a side took nothing for 10 s: {count}"
            ));
        }
        count > 0
    }

    /// Reports a server that is not trusted, refuses or is unreachable.
    fn complain(&mut self, why: &str) {
        self.say_seldom(&format!("the server at {}: {why}", self.to));
    }

    fn say_seldom(&mut self, text: &str) {
        let now = Instant::now();
        if self.said.is_none_or(|said| now - said >= SAY_EVERY) {
            self.said = Some(now);
            say(text);
        }
    }

    /// Checks the state of a connection.
    fn look_at(&mut self, number: u64) {
        let Some(relayed) = self.table.remove(&number) else {
            return;
        };
        let waker = &relayed.waker;
        waker.take();
        let next = match relayed.state {
            RelayState::Shakes(handshake) => self.go_on(handshake, waker),
            RelayState::Lingers(handshake) => linger(handshake, waker),
            RelayState::Begins { client, server } => self.begins(client, server, number, waker),
            RelayState::Greets { client, server } => self.greet(client, server, waker),
            spliced @ RelayState::Spliced(_) => Some(spliced),
        };
        match next.and_then(|state| still_going(state, waker)) {
            Some(state) => {
                self.table.insert(number, Relayed { state, ..relayed });
            }
            // There is room for a waiting client.
            None => self.accept(),
        }
    }
}

/// # Errors
/// The interface was deleted.
fn check((name, tap): &(String, OwnedFd)) -> Result<(), Error> {
    match fd::has_failed(tap) {
        Ok(true) => {
            let gone = io::Error::other("it was deleted");
            Err(Error::io(&format!("relaying by the interface {name}"))(
                gone,
            ))
        }
        // It is looked at again soon.
        Ok(false) | Err(_) => Ok(()),
    }
}

/// Whether the other process says stop, or has ended.
fn stops(monitor: &Channel) -> io::Result<bool> {
    while fd::is_ready(monitor.as_fd())? {
        if let Some((ChannelMessage::Stop, _)) | None = monitor.recv()? {
            return Ok(true);
        }
    }
    Ok(false)
}
