//! One TCP connection between guest and host: the guest's half in the stack, the host's half in a socket, and bytes
//! from each to the other.
//!
//! ```text
//!   guest ==> TAP ==> receive buffer --recv_chain--> pending --sendmsg--> host socket      up
//!   guest <== TAP <== send buffer <--send_chain-- clusters <--recvmsg-- host socket     down
//! ```
//!
//! Mbufs move; only the kernel copies bytes, once at each of its borders. Up, more is taken from the receive buffer
//! only when `pending` is empty, so that the window towards the guest follows the speed of the host. Down, the socket
//! is read only when the send buffer has room, so that the window of the host's socket follows the speed of the guest.
//!
//! | a half is | until | then |
//! |---|---|---|
//! | `Open` | its source says end of file | all that came before was passed on; the end is too |
//! | `Over` | the other half is over as well | the relay is done |
//!
//! An error is passed on as a reset, in both directions.
//!
//! Locks: none.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use kern::Time;
use mbuf::Chain;
use mbuma::runtime::{Poller, Readiness, TaskLoad, TaskWaker};
use mbuma::{SocketError, State, TcpStream};

use super::allowance::{Allowance, SendBacklog};
use super::client_quota::ClientSlot;
use super::host::{Host, Moved, READ_MAX};
use super::notice;
use super::publish::Client;
use super::retry::{NO_BUFS_WAIT, RetryTimer};
use super::shared::Shared;
use super::table::Token;
use crate::stall_relief::DirectionProgress;

/// Bytes that go up in a turn at most, before others have theirs: one segment. Measured beside four
/// times as much: a stream moves as much, eight of them more, and a small request among them waits half
/// as long.
const UP_MAX: usize = 64 << 10;
/// Bytes that go down in a turn at most. Each read becomes one packet, so a turn with several would gain nothing, and a
/// connection with little data waits for one packet of each connection with much data.
const DOWN_MAX: usize = READ_MAX;
/// The time for which the guest may be silent before it is probed: the one that has vanished answers no probe, or by a
/// reset (RFC 1122 section 4.2.3.6: at least two hours).
const GUEST_IDLE: Duration = Duration::from_secs(2 * 60 * 60);
/// The same once the guest has sent its FIN. Its kernel forgets a socket that its program closed after
/// `net.ipv4.tcp_fin_timeout`, one minute, whatever the other end does, and answers a probe by a reset.
const GUEST_FIN_IDLE: Duration = Duration::from_secs(60);

/// The time for which the host may take nothing once the guest has sent its FIN; the stack bounds its own orphans like
/// this (RFC 6429). Without a bound, each host that stops to read keeps a descriptor and buffers for ever.
const HOST_STALL_MAX: Duration = Duration::from_secs(9 * 60);

/// A connection between guest and host.
pub(super) struct Relay {
    stream: TcpStream,
    host: Host,
    /// The addresses to try if the peer of `stream` refuses, the next one last; until the guest has accepted.
    others: Vec<SocketAddr>,
    /// All addresses at which the server is looked for.
    places: ServerPlaces,
    /// Its place in the quota, if it is that of a published port's client: held until the connection ends.
    slot: Option<ClientSlot>,
    /// Taken from the guest, not yet taken by the host.
    pending: Chain,
    up: Half,
    down: Half,
    /// The guest has sent its FIN, and [`HOST_STALL_MAX`] is set.
    guest_ended: bool,
    /// The token of its timers.
    token: Token,
    /// Its load on its worker.
    load: TaskLoad,
    /// The allowance that its buffers have.
    allowance: Allowance,
    /// For clusters, when there are none.
    retry: RetryTimer,
    /// When the host last took something, or this worker's first turn of the connection was.
    sent_at: Option<Time>,
    /// Of the data for the guest.
    guest_progress: DirectionProgress,
}

/// The addresses at which a published port's server is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerPlaces {
    /// At one address.
    One,
    /// At each address of the guest, its 127.0.0.1 among them.
    All,
}

/// One direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    /// Bytes flow, or may come.
    Open,
    /// The end was passed on.
    Over,
}

/// The result of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Turn {
    /// Nothing to do until an event.
    Wait,
    /// There is more to do: another turn, after the others.
    Again,
    /// The connection has ended.
    Done,
}

/// The data of a guest that has ended: is it delivered?
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Remainder {
    /// All of it was delivered.
    Nothing,
    /// More may arrive from the guest, or not.
    Unknown,
    /// The host has not taken all of it; more may arrive from the guest.
    Part,
    /// All of it has arrived, with its end, and the host has not taken all.
    Whole,
}

/// Why a connection ended before both of its ends.
enum Broken {
    /// On the guest's side.
    Guest(SocketError),
    /// On the host's side.
    Host,
}

impl Relay {
    /// Joins the two halves. Both wake `token`.
    pub(super) fn new(stream: TcpStream, host: Host, token: Token) -> Relay {
        prepare(&stream);
        Relay {
            stream,
            host,
            others: Vec::new(),
            places: ServerPlaces::One,
            slot: None,
            pending: Chain::new(),
            up: Half::Open,
            down: Half::Open,
            guest_ended: false,
            token,
            load: TaskLoad::default(),
            allowance: Allowance::FULL,
            retry: RetryTimer::default(),
            sent_at: None,
            guest_progress: DirectionProgress::begin(Time::ZERO),
        }
    }

    /// The same, for a client of a published port.
    pub(super) fn of_client(client: Client, token: Token) -> Relay {
        Relay {
            places: match client.others.is_empty() {
                true => ServerPlaces::One,
                false => ServerPlaces::All,
            },
            others: client.others,
            slot: Some(client.slot),
            ..Relay::new(client.stream, client.host, token)
        }
    }

    /// From now on the stream wakes `wake`.
    pub(super) fn set_waker(&self, wake: &Arc<TaskWaker>) {
        self.stream.set_waker(Some(wake.waker()));
    }

    /// Leaves its worker: nothing wakes the worker for it any more, except wakeups that are under way.
    pub(super) fn leave(&self, poller: &Poller) -> io::Result<()> {
        self.host.unwatch(poller)
    }

    /// Joins another worker, where its token is `token` and `wake` wakes it: it needs a turn.
    pub(super) fn arrive(
        &mut self,
        poller: &Poller,
        token: Token,
        wake: &Arc<TaskWaker>,
    ) -> io::Result<()> {
        self.token = token;
        self.retry = RetryTimer::default();
        self.set_waker(wake);
        self.stream.keep_to_this_cpu();
        self.host.watch(poller, token)
    }

    /// Remembers the readiness of an event of the host socket. True if that calls for a turn.
    pub(super) fn note(&mut self, readiness: Readiness) {
        self.host.note(readiness);
        if readiness.failed() && self.down == Half::Over {
            // No read will find the error, so a check of the socket must.
            self.host_failed();
        }
    }

    /// The host's half failed after its end of file.
    fn host_failed(&mut self) {
        if self.host.take_error().is_some() {
            self.stream.abort();
        }
    }

    /// Moves bytes both ways.
    pub(super) fn turn(&mut self, shared: &mut Shared, now: Time) -> Turn {
        self.fit(shared.allowance(now));
        let (before, up) = (shared.counters.moved(), shared.counters.bytes_up);
        let stepped = self.step(shared);
        let moved = shared.counters.moved() - before;
        if self.sent_at.is_none() || shared.counters.bytes_up != up {
            self.sent_at = Some(now);
        }
        shared.context.record_task(&mut self.load, now, moved);
        match stepped {
            Ok(turn) => turn,
            Err(Broken::Guest(SocketError::Refused)) => self.refused(shared, now),
            // A machine without a DHCPv6 client has not taken its IPv6 address.
            Err(Broken::Guest(SocketError::Unreachable)) if !self.others.is_empty() => {
                self.refused(shared, now)
            }
            Err(_) => Turn::Done,
        }
    }

    /// The guest has no server at this address.
    fn refused(&mut self, shared: &mut Shared, now: Time) -> Turn {
        if self.try_next(shared).is_ok() {
            return Turn::Wait;
        }
        // A guest may also end its own connection while that is half open.
        if self.slot.is_some() {
            self.note_refusal(shared, now);
        }
        Turn::Done
    }

    /// Tries the next address of the server, if there is one.
    fn try_next(&mut self, shared: &Shared) -> Result<(), SocketError> {
        let server = self.others.pop().ok_or(SocketError::Refused)?;
        let shown = self.stream.local_addr();
        let shown = shared.policy.shown_address(shown, server.ip());
        let stream = shared.stack.tcp_connect(shown, server)?;
        prepare(&stream);
        self.stream = stream;
        self.allowance = Allowance::FULL;
        let wake = shared.wake_for(self.token);
        self.set_waker(&wake);
        // The answer may have come before the waker was set.
        wake.wake();
        Ok(())
    }

    /// The guest refused a client of a published port.
    fn note_refusal(&self, shared: &mut Shared, now: Time) {
        shared.counters.connections_refused += 1;
        let (port, server) = (self.host.local_port(), self.stream.peer_addr());
        let tried = self.places;
        shared.notices.say(now, notice::Subject::NoServer, || {
            let inside = server.port();
            let why = match tried {
                ServerPlaces::All => {
                    format!("no server on port {inside}, at its addresses or at 127.0.0.1")
                }
                ServerPlaces::One => format!(
                    "no server at {server}. A server that listens on the guest's 127.0.0.1 alone is not reached \
                     here: have it listen on 0.0.0.0"
                ),
            };
            format!("published port {port}: a client was reset, because the guest has {why}")
        });
    }

    /// Sets the sizes of its buffers to its present allowance.
    fn fit(&mut self, allowance: Allowance) {
        if self.allowance != allowance {
            self.allowance = allowance;
            let (send, receive) = (allowance.send_buffer(), allowance.recv_buffer());
            self.stream.set_buffers(send, receive);
        }
    }

    fn step(&mut self, shared: &mut Shared) -> Result<Turn, Broken> {
        let state = self.stream.state_or_error().map_err(Broken::Guest)?;
        if !self.others.is_empty() {
            if state == State::SynSent {
                // The client's bytes stay in its socket while there are other addresses to try.
                return Ok(Turn::Wait);
            }
            self.others = Vec::new();
        }
        if has_ended(state) && !std::mem::replace(&mut self.guest_ended, true) {
            self.host.give_up_after(HOST_STALL_MAX);
        }
        let up = self.move_up(shared)?;
        let down = self.move_down(shared)?;
        Ok(match (self.up, self.down) {
            (Half::Over, Half::Over) => Turn::Done,
            _ if up == Turn::Again || down == Turn::Again => Turn::Again,
            _ => Turn::Wait,
        })
    }

    /// From the guest to the host.
    fn move_up(&mut self, shared: &mut Shared) -> Result<Turn, Broken> {
        let mut left = UP_MAX;
        while self.up == Half::Open && self.host.may_write() {
            if self.pending.is_empty() && !self.take_from_guest()? {
                return Ok(Turn::Wait);
            }
            if self.up == Half::Over {
                break;
            }
            if left == 0 {
                return Ok(Turn::Again);
            }
            match self.host.write(&self.pending, left) {
                Ok(Moved::Some(n) | Moved::Last(n)) => {
                    self.pending.trim_front(n);
                    shared.counters.bytes_up += n as u64;
                    left = left.saturating_sub(n);
                }
                Ok(Moved::Nothing | Moved::Final(_) | Moved::End) => {}
                Err(_) => return Err(Broken::Host),
            }
        }
        Ok(Turn::Wait)
    }

    /// Fills `pending`, or passes the guest's end of file on. Returns false if neither has arrived.
    fn take_from_guest(&mut self) -> Result<bool, Broken> {
        match self.stream.recv_chain(UP_MAX) {
            Ok(chain) if chain.is_empty() => {
                self.host.shutdown_write();
                self.stream.set_keepalive(Some(GUEST_FIN_IDLE));
                self.up = Half::Over;
                Ok(true)
            }
            Ok(chain) => {
                self.pending = chain;
                Ok(true)
            }
            Err(SocketError::WouldBlock) => Ok(false),
            Err(e) => Err(Broken::Guest(e)),
        }
    }

    /// From the host to the guest.
    fn move_down(&mut self, shared: &mut Shared) -> Result<Turn, Broken> {
        let mut left = DOWN_MAX;
        while self.down == Half::Open && self.host.may_read() {
            let room = self.stream.send_room();
            let read_max = self.allowance.read_max(&SendBacklog {
                room: room.bytes,
                buffered: room.buffered,
                window: room.window,
                packet: room.packet,
            });
            if read_max == 0 {
                return Ok(Turn::Wait);
            }
            if left == 0 {
                return Ok(Turn::Again);
            }
            // The last clusters are for packets of the guest, which free others.
            let row = match self.allowance.is_none() {
                true => None,
                false => shared.scatter().ok(),
            };
            let Some(row) = row else {
                self.retry.set(shared, self.token, NO_BUFS_WAIT);
                return Ok(Turn::Wait);
            };
            match self.host.read(row, room.whole_segments().min(read_max)) {
                Ok(Moved::Some(chain) | Moved::Last(chain)) => {
                    shared.counters.bytes_down += chain.len() as u64;
                    left = left.saturating_sub(chain.len());
                    let sent = self.stream.send_chain(chain);
                    sent.map_err(|(e, _lost)| Broken::Guest(e))?;
                }
                // One packet to the guest, and one acknowledgement of it, for the answer of a short connection and its
                // end.
                Ok(Moved::Final(chain)) => {
                    shared.counters.bytes_down += chain.len() as u64;
                    let sent = self.stream.send_last_chain(chain);
                    sent.map_err(|(e, _lost)| Broken::Guest(e))?;
                    self.down = Half::Over;
                }
                Ok(Moved::End) => {
                    self.stream.shutdown(std::net::Shutdown::Write);
                    self.down = Half::Over;
                }
                Ok(Moved::Nothing) => {}
                Err(_) => return Err(Broken::Host),
            }
        }
        Ok(Turn::Wait)
    }

    /// A worker with less load, if it should migrate.
    pub(super) fn rebalance_target(&self, shared: &Shared, now: Time) -> Option<usize> {
        shared.context.rebalance_target(&self.load, now)
    }

    /// It migrates to worker `to`.
    pub(super) fn hand_over(&mut self, shared: &Shared, to: usize, now: Time) {
        shared.context.hand_over(&mut self.load, to, now);
    }

    /// The time since which a side has taken none of the data that waits for it; `None` if none waits.
    pub(super) fn stalled_since(&mut self, now: Time) -> Option<Time> {
        let waits = !self.pending.is_empty() && !self.host.may_write();
        let host = self.sent_at.filter(|_| waits);
        let (taken, waiting) = (self.stream.delivered(), self.stream.send_room().buffered);
        let guest = self.guest_progress.look(taken, waiting as u64, now);
        host.into_iter().chain(guest).min()
    }

    /// The guest's address.
    pub(super) fn guest_addr(&self) -> IpAddr {
        self.stream.peer_addr().ip()
    }

    /// Whether the guest still has data to send.
    pub(super) fn remainder(&self) -> Remainder {
        match (self.up, self.stream.state()) {
            (Half::Over, _) => Remainder::Nothing,
            (Half::Open, state) if has_ended(state) => Remainder::Whole,
            (Half::Open, _) if self.pending.is_empty() => Remainder::Unknown,
            (Half::Open, _) => Remainder::Part,
        }
    }

    /// Ends it: by a close if both ends have ended, else by a reset.
    pub(super) fn close(self) {
        if (self.up, self.down) != (Half::Over, Half::Over) {
            self.stream.abort();
        }
        // A reset would also discard data that the host's kernel has still to deliver, so a guest that has sent all its
        // data gets none.
        if self.up == Half::Open {
            self.host.reset();
        }
    }
}

/// Whether the guest's end has arrived.
fn has_ended(state: State) -> bool {
    use State::{CloseWait, Closed, Closing, LastAck, TimeWait};
    matches!(state, CloseWait | Closing | LastAck | TimeWait | Closed)
}

/// Sets the options of the guest's half.
fn prepare(stream: &TcpStream) {
    stream.set_nodelay(true);
    stream.set_keepalive(Some(GUEST_IDLE));
}

#[cfg(test)]
mod tests;
