//! Pings: each goes on to the host that it asks for, and the answer goes back to the guest. Nothing is
//! answered in another's name.
//!
//! Invariants: a ping waits for [`ANSWER_WAIT`] at most; no ping is sent whose answer could not be told from another's.
//! Locks: none.
//! Sources: RFC 792, RFC 4443.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use mbuf::Chain;
use mbuma::IcmpError;
use mbuma::runtime::{Interest, TaskWaker};
use mbuma::socket::{Echo, EchoSocket};

use super::notice;
use super::pending_pings::PendingPings;
use super::ping::PingSocket;
use super::policy;
use super::shared::Shared;
use super::table::{SourceKind, Token};
use crate::sys::socket::Family;

/// How long the gateway waits for an answer.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// Pings, answers or errors that are handled in a turn at most.
const TURN_MAX: usize = 64;

/// The pings.
pub(super) struct Pings {
    socket: EchoSocket,
    wake: Arc<TaskWaker>,
    /// By version of IP.
    v4: Outside,
    v6: Outside,
    pending: PendingPings,
}

/// The way to the host's network.
enum Outside {
    /// There is one, and the guest has sent no ping yet: packets of a raw socket wake no worker.
    Unwatched(PingSocket),
    /// There is one.
    Open(PingSocket),
    /// This process may not ping.
    Denied,
}

impl Pings {
    /// Serves the pings that come to `socket`; `by_guest`: there are several guests.
    pub(super) fn new(shared: &Shared, socket: EchoSocket, by_guest: bool) -> Pings {
        let wake = shared.wake_for(Token::only(SourceKind::Echoes));
        socket.set_waker(Some(wake.waker()));
        Pings {
            socket,
            wake,
            v4: Outside::open(Family::V4),
            v6: Outside::open(Family::V6),
            pending: PendingPings::new(by_guest),
        }
    }

    /// Sends the guest's pings on.
    pub(super) fn forward(&mut self, shared: &mut Shared) {
        for _ in 0..TURN_MAX {
            let Ok(echo) = self.socket.recv() else {
                return;
            };
            shared.counters.pings += 1;
            let seq = self.pending.free_seq();
            match self.send(shared, &echo, seq) {
                Ok(host) => {
                    let token = Token::nth(SourceKind::Ping, u32::from(seq));
                    let timer = shared.after(ANSWER_WAIT, token);
                    let pool = shared.stack.pool();
                    if let Some(gone) = self.pending.insert(pool, seq, (echo, host), timer) {
                        shared.context.cancel(gone);
                    }
                }
                Err(Some(kind)) => self.refuse(shared, &echo, kind),
                // It is counted, or stays without an answer on request.
                Err(None) => {}
            }
        }
        self.wake.wake();
    }

    /// Sends a ping on. Returns the host that it went to; or the error for the guest, if there is one.
    fn send(
        &mut self,
        shared: &mut Shared,
        echo: &Echo,
        seq: u16,
    ) -> Result<IpAddr, Option<IcmpError>> {
        let decided = shared.policy.decide_ping(echo.dst);
        let dst = decided.map_err(|denial| denial.unreach())?;
        // We are a hop on the way.
        let ttl = echo.ttl.saturating_sub(1);
        if ttl == 0 {
            return Err(Some(IcmpError::TimeExceeded));
        }
        let family = match dst {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        };
        let Some(host) = self.outside(family).watched(shared, family) else {
            note_denied(shared);
            return Err(Some(IcmpError::AdminProhibited));
        };
        match host.send(dst, seq, ttl, &echo.payload) {
            // An error that was kept for an earlier ping shows here first; it is read in its turn.
            Err(e) if policy::unreach(&e).is_some() => host
                .send(dst, seq, ttl, &echo.payload)
                .map_err(|e| policy::unreach(&e).or(Some(IcmpError::Host)))?,
            // A full queue loses pings, as networks do: those for absent neighbours wait in the socket's.
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                shared.counters.pings_lost += 1;
                return Err(None);
            }
            _ => {}
        }
        Ok(dst)
    }

    fn outside(&mut self, family: Family) -> &mut Outside {
        match family {
            Family::V4 => &mut self.v4,
            Family::V6 => &mut self.v6,
        }
    }

    /// Forgets a ping, and its timer.
    fn take(&mut self, shared: &mut Shared, seq: u16) -> Option<Echo> {
        let (echo, timer) = self.pending.remove(seq)?;
        shared.context.cancel(timer);
        Some(echo)
    }

    fn refuse(&self, shared: &mut Shared, echo: &Echo, kind: IcmpError) {
        shared.counters.pings_refused += 1;
        self.socket.refuse(echo, kind);
    }

    /// Hands the answers to the guest.
    pub(super) fn readable(&mut self, shared: &mut Shared, token: Token) {
        let family = family_of(token);
        for _ in 0..TURN_MAX {
            let Outside::Open(host) = self.outside(family) else {
                return;
            };
            match host.recv() {
                Ok(Some(answer)) => {
                    let (from, seq) = (answer.from, answer.seq);
                    let payload = Chain::from_slice(shared.stack.pool(), answer.payload);
                    self.answer(shared, from, seq, payload.unwrap_or_default());
                }
                Ok(None) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // The error is told once; the queue of errors names its ping.
                Err(_) => {}
            }
        }
        self.take_errors(shared, family);
    }

    fn answer(&mut self, shared: &mut Shared, from: IpAddr, seq: u16, payload: Chain) {
        // An answer from another host leaves the ping waiting: that host may have guessed the number.
        let asked = self.pending.host(seq) == Some(from);
        if asked && let Some(echo) = self.take(shared, seq) {
            shared.counters.pings_answered += 1;
            self.socket.reply(&echo, payload);
        }
    }

    fn take_errors(&mut self, shared: &mut Shared, family: Family) {
        for _ in 0..TURN_MAX {
            let Outside::Open(host) = self.outside(family) else {
                return;
            };
            match host.take_error() {
                Ok(Some((seq, error))) => {
                    let echo = self.take(shared, seq);
                    if let Some((echo, kind)) = echo.zip(policy::icmp_error(&error)) {
                        self.refuse(shared, &echo, kind);
                    }
                }
                Ok(None) => {}
                Err(_) => return,
            }
        }
    }

    /// A ping has waited long enough: its sender gets no answer.
    pub(super) fn timer(&mut self, token: Token) {
        if let Ok(seq) = u16::try_from(token.index()) {
            self.pending.remove(seq);
        }
    }

    /// Forgets all of them.
    pub(super) fn close(&mut self) {
        self.pending.clear();
        (self.v4, self.v6) = (Outside::Denied, Outside::Denied);
    }
}

impl Outside {
    /// Opens the socket while this process has the right to, which it gives up before the first ping.
    fn open(family: Family) -> Outside {
        // Two gateways of one host tell their pings apart by it.
        let id = std::process::id() as u16;
        PingSocket::open(family, id).map_or(Outside::Denied, Outside::Unwatched)
    }

    /// The socket, watched from now on; none if this process may have none.
    fn watched(&mut self, shared: &Shared, family: Family) -> Option<&mut PingSocket> {
        if let Outside::Unwatched(socket) = self {
            let watched = shared
                .poller()
                .add(socket, token_of(family), Interest::Read);
            *self = match (watched, std::mem::replace(self, Outside::Denied)) {
                (Ok(()), Outside::Unwatched(socket)) => Outside::Open(socket),
                _ => Outside::Denied,
            };
        }
        match self {
            Outside::Open(socket) => Some(socket),
            Outside::Unwatched(_) | Outside::Denied => None,
        }
    }
}

/// Says why pings are refused.
fn note_denied(shared: &mut Shared) {
    let now = shared.now();
    shared.notices.say(now, notice::Subject::NoPings, || {
        "pings are refused: none of this user's groups is in net.ipv4.ping_group_range of the host (as root, \
         `sysctl -w net.ipv4.ping_group_range='0 2147483647'` admits all)"
            .to_owned()
    });
}

/// The token of the socket of a family.
fn token_of(family: Family) -> Token {
    Token::nth(SourceKind::PingSocket, (family == Family::V6).into())
}

fn family_of(token: Token) -> Family {
    match token.index() {
        0 => Family::V4,
        _ => Family::V6,
    }
}

#[cfg(test)]
mod tests;
