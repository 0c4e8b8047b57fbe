//! The transmission control block: every field of a connection that a step reads or writes.
//!
//! Locks: all of it is under the connection's (CONN). Source: RFC 9293 section 3.3.1.

use std::num::NonZeroU32;
use std::task::Waker;
use std::time::Duration;

use kern::Time;
use wire::SeqNum;

use super::accept::Place;
use super::challenge_acks::ChallengeAcks;
use super::due::Due;
use super::ecn::Ecn;
use super::recv_state::RecvState;
use super::send_state::SendState;
use super::sent::SentMap;
use super::spliced::AttachedLayers;
use super::state::State;
use super::timers::fields::{TcpTimer, Timers};
use super::timestamps::TimestampClock;
use super::urgent::Urgent;
use super::user_options::{TcpSocketOptions, UserOptions};
use crate::config::TcpConfig;
use crate::error::SocketError;
use crate::route::RouteCache;
use crate::sockbuf::charge;
use crate::tls::TlsSession;
use crate::waiters::{WaiterSet, Want};

/// The transmission control block.
#[doc(alias = "tcpcb")]
#[derive(Debug)]
pub(crate) struct Tcb {
    pub(crate) conn: ConnState,
    pub(crate) send: SendState,
    pub(crate) recv: RecvState,
    /// The ends of urgent data in both directions, while there is some.
    pub(crate) urgent: Option<Box<Urgent>>,
    pub(crate) timers: Timers,
    /// The work of its next turn.
    pub(crate) due: Due,
    /// The kept route to the peer, until the connection is closed, so that it names no detached interface.
    pub(crate) route: RouteCache,
}

/// The connection itself: its state, its user, its peer's life.
#[derive(Debug)]
pub(crate) struct ConnState {
    pub(crate) state: State,
    pub(crate) heard_at: Time,
    /// Idle time before the first keepalive in ms, if the user asked for keepalives; an orphan has none, and its number
    /// among the [orphans](super::orphans) here, if it is one of those with something to acknowledge.
    keepalive_or_number: Option<NonZeroU32>,
    /// Probes of a closed window, or keepalives, since the peer was last heard.
    pub(crate) probes_unanswered: u8,
    pub(crate) challenge_acks: ChallengeAcks,
    pub(crate) ts: TimestampClock,
    /// Both ends support SACK. During the handshake: we offer it.
    pub(crate) sack_on: bool,
    pub(crate) ecn: Ecn,
    /// The user has dropped its handle: see [`ConnState::become_orphan`].
    pub(crate) orphan: bool,
    pub(crate) error: Option<SocketError>,
    /// An ICMP error that may be transient, since the peer last acknowledged something.
    pub(crate) soft_error: Option<SocketError>,
    pub(crate) waiters: WaiterSet,
    /// The program's options beyond the stack's defaults.
    pub(crate) options: Option<Box<UserOptions>>,
    /// The splices of which it is a side, and TLS.
    pub(crate) attached: Option<Box<AttachedLayers>>,
    /// The place in a queue for the connection once it is established.
    pub(crate) accept: Option<Place>,
    /// The connection in TIME-WAIT in whose place this one was opened, until it is established.
    pub(crate) predecessor: Option<Box<Predecessor>>,
}

/// The part that is kept of a connection in TIME-WAIT that a SYN has ended early: it comes back if that SYN turns out
/// to be an old duplicate (RFC 9293 3.6.1, RFC 1122 4.2.2.13).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Predecessor {
    pub(crate) snd_max: SeqNum,
    pub(crate) rcv_nxt: SeqNum,
    pub(crate) ts: TimestampClock,
    /// When its TIME-WAIT ends.
    pub(crate) until: Time,
}

impl ConnState {
    fn new(config: &TcpConfig, state: State, now: Time) -> Self {
        Self {
            state,
            heard_at: now,
            keepalive_or_number: None,
            probes_unanswered: 0,
            challenge_acks: ChallengeAcks::new(now),
            ts: TimestampClock::new(config.timestamps),
            sack_on: config.sack,
            ecn: Ecn::new(config.ecn, state == State::SynSent),
            orphan: false,
            error: None,
            soft_error: None,
            waiters: WaiterSet::new(),
            options: None,
            attached: None,
            accept: None,
            predecessor: None,
        }
    }
}

impl ConnState {
    /// Whether a program, or a splice in its place, waits for something of what has changed.
    pub(crate) fn is_watched(&self, due: Due) -> bool {
        let waits = |side, want| due.contains(side) && self.waiters.has(want);
        due.intersects(Due::WAKE)
            && (waits(Due::WAKE_READER, Want::Read)
                || waits(Due::WAKE_WRITER, Want::Write)
                || self.attached.as_ref().is_some_and(|a| a.is_spliced()))
    }

    /// Sets the kept wakers. The previous ones come back, to be dropped when the lock is released.
    #[must_use = "their drops are their owners' code, which runs without a lock"]
    pub(crate) fn set_wakers(
        &mut self,
        read: Option<Waker>,
        write: Option<Waker>,
    ) -> [Option<Waker>; 2] {
        [
            self.waiters.keep(Want::Read, read),
            self.waiters.keep(Want::Write, write),
        ]
    }

    /// Whether the program wants segments without TCP options.
    pub(crate) fn has_no_options(&self) -> bool {
        self.options.as_ref().is_some_and(|o| o.asked.no_options)
    }

    /// Sets the options of the program or the listener before the handshake: see [`Tcb::begin_with`].
    pub(super) fn begin_with(&mut self, config: &TcpConfig, asked: &TcpSocketOptions) {
        let active = self.state == State::SynSent;
        self.ecn = Ecn::new(asked.ecn.unwrap_or(config.ecn), active);
        self.options = Some(Box::new(UserOptions::new(*asked)));
    }

    /// The program's options.
    pub(crate) fn asked(&self) -> TcpSocketOptions {
        self.options
            .as_ref()
            .map_or_else(Default::default, |o| o.asked)
    }

    /// How long a client may be silent before the listener's program gets the connection.
    pub(crate) fn accept_delay(&self) -> Option<Duration> {
        self.options.as_ref().and_then(|o| o.asked.accept_delay)
    }

    /// The codec of a connection that speaks TLS.
    pub(crate) fn tls(&self) -> Option<&TlsSession> {
        self.attached.as_deref()?.tls.as_deref()
    }

    pub(crate) fn tls_mut(&mut self) -> Option<&mut TlsSession> {
        self.attached.as_deref_mut()?.tls.as_deref_mut()
    }

    /// Idle time before the first keepalive, if the user asked for keepalives.
    pub(crate) fn keepalive(&self) -> Option<Duration> {
        let ms = self.keepalive_or_number.filter(|_| !self.orphan)?;
        Some(Duration::from_millis(u64::from(ms.get())))
    }

    /// In whole milliseconds, at least one.
    pub(crate) fn set_keepalive(&mut self, idle: Option<Duration>) {
        let ms = |idle: Duration| u32::try_from(idle.as_millis()).unwrap_or(u32::MAX);
        self.keepalive_or_number =
            idle.map(|idle| NonZeroU32::new(ms(idle)).unwrap_or(NonZeroU32::MIN));
    }

    /// The user drops its handle.
    pub(crate) fn become_orphan(&mut self) {
        (self.orphan, self.keepalive_or_number) = (true, None);
    }

    /// The number of an orphan.
    pub(super) fn orphan_number(&self) -> Option<NonZeroU32> {
        self.keepalive_or_number.filter(|_| self.orphan)
    }

    /// Sets that, and returns the former one.
    pub(super) fn set_orphan_number(&mut self, number: Option<NonZeroU32>) -> Option<NonZeroU32> {
        let former = self.orphan_number();
        if self.orphan {
            self.keepalive_or_number = number;
        }
        former
    }
}

impl Tcb {
    pub(crate) fn new(config: &TcpConfig, state: State, iss: SeqNum, mss: u32, now: Time) -> Self {
        Self {
            conn: ConnState::new(config, state, now),
            send: SendState::new(config, iss, mss, now),
            recv: RecvState::new(config, mss, now),
            urgent: None,
            timers: Timers::default(),
            due: Due::empty(),
            route: RouteCache::default(),
        }
    }

    /// Bytes sent and not acknowledged, SYN and FIN included.
    pub(crate) fn flight(&self) -> u32 {
        self.send.nxt.since(self.send.una)
    }

    /// Whether anything waits to be sent or acknowledged.
    pub(crate) fn waits(&self) -> bool {
        self.flight() > 0 || self.write_seq().after(self.send.nxt)
    }

    /// Bytes that the send buffer takes now. With a limit of unsent bytes: as many as leave at once, and so many more
    /// that the limit is reached; then none.
    pub(crate) fn send_room(&self) -> usize {
        let space = self.send.buf.space();
        let options = self.conn.options.as_ref();
        let Some(max) = options.and_then(|o| o.asked.unsent_limit()) else {
            return space;
        };
        match max.saturating_sub(self.unsent()) {
            0 => 0,
            more => space.min(more.saturating_add(self.leaves_at_once())),
        }
    }

    /// Bytes of new data that leave at once when they are written: all that the windows let out after the repairs, but
    /// none while the pacing timer runs.
    fn leaves_at_once(&self) -> usize {
        match self.timers.is_set(TcpTimer::Pace) {
            true => 0,
            false => (self.send.sendable() as usize).saturating_sub(self.send.sent.lost() as usize),
        }
    }

    /// Bytes in the send buffer that were not sent yet.
    pub(crate) fn unsent(&self) -> usize {
        match self.write_seq().after(self.send.nxt) {
            true => self.write_seq().since(self.send.nxt) as usize,
            false => 0,
        }
    }

    /// The sequence number after the last byte in the send buffer: where our FIN goes.
    pub(crate) fn write_seq(&self) -> SeqNum {
        self.send.buf_seq + self.send.buf.claimed() as u32
    }

    /// The sequence number after the last byte that may be sent now. Later bytes are claimed and not ready.
    pub(crate) fn ready_seq(&self) -> SeqNum {
        self.send.buf_seq + self.send.buf.ready() as u32
    }

    /// Whether data that is ready was not sent yet, or must be sent again.
    pub(crate) fn has_unsent(&self) -> bool {
        self.ready_seq().after(self.send.nxt) || self.send.sent.lost() > 0
    }

    /// The sequence number of a segment without data: after everything that was sent, but not beyond the peer's window,
    /// which a probe of a closed window may exceed. Beyond its window the peer would ignore the segment and its
    /// acknowledgement.
    pub(crate) fn acceptable_seq(&self) -> SeqNum {
        self.send.nxt.min(self.send.una + self.send.wnd)
    }

    /// Whether our FIN was sent at least once.
    pub(crate) fn fin_sent(&self) -> bool {
        self.send.fin_queued && self.send.nxt.after(self.write_seq())
    }

    /// Whether our FIN is acknowledged.
    pub(crate) fn fin_acked(&self) -> bool {
        self.fin_sent() && self.send.una.after(self.write_seq())
    }

    /// Bytes that the peer may send from RCV.NXT on, as announced.
    pub(crate) fn rcv_wnd(&self) -> u32 {
        if self.recv.adv.after(self.recv.nxt) {
            self.recv.adv.since(self.recv.nxt)
        } else {
            0
        }
    }

    /// The largest window that the header's field can announce.
    fn rcv_wnd_max(&self) -> usize {
        let shift = match self.recv.wscale_on {
            true => self.recv.wscale,
            false => 0,
        };
        65_535 << shift
    }

    /// The window of an empty buffer, which may be larger than any window.
    pub(crate) fn rcv_whole(&self) -> usize {
        self.recv.buf.hiwat().min(self.rcv_wnd_max())
    }

    /// The window that could be announced now.
    pub(crate) fn rcv_space(&self) -> u32 {
        let reserved = charge(0, self.recv.reass.pinned());
        let space = self.recv.buf.space().saturating_sub(reserved);
        space.min(self.rcv_wnd_max()) as u32
    }

    /// Whether a reader has made so much room that the peer, whose window may have been nearly closed, must hear of it.
    pub(crate) fn should_reopen(&self) -> bool {
        self.rcv_space().saturating_sub(self.rcv_wnd()) as usize >= self.rcv_whole() / 4
    }

    /// How far the announced right edge could move, in units of the window scale.
    pub(crate) fn rcv_growth(&self) -> u32 {
        let edge = self.recv.nxt + (self.rcv_space() >> self.recv.wscale << self.recv.wscale);
        if edge.after(self.recv.adv) {
            edge.since(self.recv.adv)
        } else {
            0
        }
    }

    /// Whether a read would return something: data, the end or an error.
    #[inline]
    pub(crate) fn is_readable(&self) -> bool {
        !self.recv.buf.is_empty() || self.read_end().is_some()
    }

    /// The result of a read of an empty buffer, if it does not wait: an error, or the end of file.
    pub(crate) fn read_end(&self) -> Option<Result<(), SocketError>> {
        match (self.conn.error, self.conn.state) {
            (Some(e), _) => Some(Err(e)),
            (None, _) if self.recv.read_closed => Some(Ok(())),
            (None, State::SynSent | State::SynReceived | State::SynHeld) => None,
            // The FIN was taken, and so was all before it.
            (None, state) => (!state.receives_data()).then_some(Ok(())),
        }
    }

    /// Both directions changed: the user is woken once, at the batch's end.
    pub(crate) fn notify(&mut self) {
        self.due |= Due::WAKE;
    }

    /// Closes the connection: no more is sent or received.
    ///
    /// The connection's turn removes it from the table, so the caller must end its visit with a turn.
    pub(crate) fn close(&mut self, error: Option<SocketError>) {
        self.conn.state = State::Closed;
        self.conn.error = self.conn.error.or(error);
        // Another thread may sleep in a call on the connection.
        self.notify();
        self.timers.stop_all();
        drop(self.send.buf.flush());
        self.recv.reass.clear();
        self.route.clear();
        if self.conn.orphan {
            drop(self.recv.buf.flush());
        }
        if let Some(place) = self.conn.accept.take() {
            place.give_up();
        }
        self.conn.predecessor = None;
        self.urgent = None;
        self.recv.policy.dup_acks_owed = 0;
        self.send.sent = SentMap::default();
        self.send.recovery.forced = false;
        self.due -= Due::SEGMENT;
    }

    /// Whether the send and receive variables agree with each other.
    pub(crate) fn is_valid(&self) -> bool {
        if self.conn.state == State::Closed {
            return self.timers.earliest().is_none() && self.send.buf.is_empty();
        }
        let end = self.write_seq() + u32::from(self.send.fin_queued);
        self.send.sent.covers(self.send.una, self.send.nxt) && self.send.nxt.at_or_before(end)
    }
}
