//! A connection: what identifies it, and all of its state under one lock.
//!
//! [`Inpcb`] never changes but for its lock's inside. [`Tcb`] is RFC 9293's transmission control
//! block: every field that a step reads or writes.
//!
//! Locks: `tcb` (CONN). Holding it, one may take accept queues, routes, neighbours, interface queues,
//! the timer wheel and zones; never the connection table or another connection.

use std::net::SocketAddrV4;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use kern::prim::{AtomicBool, AtomicU32, Mutex, Ordering};
use kern::{Cpu, LockClass, Time, order};
use wire::SeqNum;

use super::accept::Place;
use super::ack_policy::AckPolicy;
use super::cc::{Cc, Window};
use super::ecn::Ecn;
use super::rack::Reordering;
use super::rate::DeliveryRate;
use super::reass::Reassembly;
use super::recovery::Recovery;
use super::recv_tuner::RecvTuner;
use super::rtt::Rtt;
use super::sent::SentMap;
use super::timer::Timers;
use super::timestamps::TimestampClock;
use super::tlp::TailProbe;
use super::urgent::Urgent;
use crate::config::TcpConfig;
use crate::error::SocketError;
use crate::netisr;
use crate::route::RouteCache;
use crate::sockbuf::{StreamBuf, charge};
use crate::waiters::Wakers;

static CONN: LockClass = LockClass::new("connection", order::CONN);

/// The maximum segment size of a peer that does not say (RFC 9293 3.7.1).
pub(crate) const MSS_DEFAULT: u32 = 536;

/// The two ends of a connection, as seen from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) local: SocketAddrV4,
    pub(crate) peer: SocketAddrV4,
}

impl Key {
    /// The key as bytes, for keyed hashes.
    pub(crate) fn to_bytes(self) -> [u8; 12] {
        // Put together in registers: small stores would have to reach the cache before a hash could load words.
        let end = |at: SocketAddrV4| u128::from(at.ip().to_bits()) << 16 | u128::from(at.port());
        let both = end(self.local) << 48 | end(self.peer);
        let mut out = [0; 12];
        out.copy_from_slice(&(both << 32).to_be_bytes()[..12]);
        out
    }
}

/// A connection's state (RFC 9293 3.3.2). LISTEN is a type of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum State {
    /// No connection: the last state of each.
    #[default]
    Closed,
    /// A SYN came for an address that an interceptor decides about; nothing was answered yet.
    /// *Operations:* `Incoming::accept` leads to SYN-RECEIVED, `refuse` to CLOSED.
    /// *Caveats:* segments are ignored meanwhile; the peer retransmits its SYN.
    SynHeld,
    /// We sent a SYN.
    SynSent,
    /// We answered a SYN.
    SynReceived,
    /// Data flows.
    Established,
    /// We closed; the peer has not acknowledged that.
    FinWait1,
    /// We closed, and the peer knows.
    FinWait2,
    /// The peer closed.
    CloseWait,
    /// Both closed at once; ours is not acknowledged.
    Closing,
    /// The peer closed, then we did; ours is not acknowledged.
    LastAck,
    /// Both closed. Old segments may still come.
    TimeWait,
}

impl State {
    /// Whether data of ours may be sent or sent again.
    pub(crate) fn sends_data(self) -> bool {
        use State::*;
        matches!(self, Established | CloseWait | FinWait1 | Closing | LastAck)
    }

    /// Whether the peer may still send data.
    pub(crate) fn receives_data(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }

    /// Whether the handshake is behind us.
    pub(crate) fn is_synchronized(self) -> bool {
        !matches!(
            self,
            Self::Closed | Self::SynHeld | Self::SynSent | Self::SynReceived
        )
    }
}

/// A connection in the table.
#[doc(alias = "inpcb")]
#[derive(Debug)]
pub(crate) struct Inpcb {
    pub(crate) key: Key,
    /// The hash of its flow, for what is sent. Relaxed: a segment that leaves by the queue of a moment ago is one
    /// more that the peer may have to put in order.
    flow: AtomicU32,
    pub(crate) tcb: Mutex<Tcb>,
    touched: AtomicBool,
}

impl Inpcb {
    pub(crate) fn new(key: Key, flow: u32, tcb: Tcb) -> Arc<Self> {
        let tcb = Mutex::new(&CONN, tcb);
        Arc::new(Self {
            key,
            flow: AtomicU32::new(flow),
            tcb,
            touched: AtomicBool::new(false),
        })
    }

    /// The hash of its flow.
    pub(crate) fn flow(&self) -> u32 {
        self.flow.load(Ordering::Relaxed)
    }

    /// From now on what it sends leaves by the queue of `cpu`, of an interface that has as many.
    pub(crate) fn keep_to(&self, queues: usize, cpu: Cpu) {
        self.flow
            .store(netisr::keep(self.flow(), queues, cpu), Ordering::Relaxed);
    }

    /// Sets the mark that the connection wants a turn to send; true if it was set.
    ///
    /// A read-modify-write, like its counterpart: if this finds the mark set, the turn that will
    /// clear it comes later and sees everything done before (AcqRel on both sides).
    pub(crate) fn mark_touched(&self) -> bool {
        self.touched.swap(true, Ordering::AcqRel)
    }

    /// Clears the mark; what happens from now on needs a new turn.
    pub(crate) fn clear_touched(&self) {
        self.touched.swap(false, Ordering::AcqRel);
    }
}

/// The transmission control block.
#[doc(alias = "tcpcb")]
#[derive(Debug)]
pub(crate) struct Tcb {
    pub(crate) conn: ConnState,
    pub(crate) send: SendState,
    pub(crate) recv: RecvState,
    /// Where urgent data ends, in either direction, while there is some.
    pub(crate) urgent: Option<Box<Urgent>>,
    pub(crate) timers: Timers,
    /// The way to the peer, until the connection is closed: so it names no interface that is gone.
    pub(crate) route: RouteCache,
}

/// The connection itself: its state, its user, its peer's life.
#[derive(Debug)]
pub(crate) struct ConnState {
    pub(crate) state: State,
    pub(crate) heard_at: Time,
    /// Idle time before probing in ms, where the user asked for keepalives.
    keepalive_ms: Option<NonZeroU32>,
    /// Probes of a closed window, or keepalives, since the peer was last heard.
    pub(crate) probes_unanswered: u8,
    /// Challenge acknowledgements, and since when they count: in milliseconds of the stack's clock, modulo 2^32.
    pub(crate) challenge_acks: (u32, u8),
    pub(crate) ts: TimestampClock,
    /// Both ends understand SACK. Until the handshake is over: it is offered.
    pub(crate) sack_on: bool,
    pub(crate) ecn: Ecn,
    /// The user wants nothing more: it closed its handle.
    pub(crate) orphan: bool,
    pub(crate) error: Option<SocketError>,
    /// What an ICMP error said that may be transient, since the peer last acknowledged something.
    pub(crate) soft_error: Option<SocketError>,
    pub(crate) wakers: Wakers,
    /// The user is to be woken at the next turn.
    pub(crate) wake_user: bool,
    /// The connection has just come into TIME-WAIT.
    pub(crate) entered_time_wait: bool,
    /// Where the connection goes once it is established.
    pub(crate) accept: Option<Place>,
    /// The connection in TIME-WAIT in whose place this one was opened, until it is established.
    pub(crate) predecessor: Option<Box<Predecessor>>,
}

/// The send sequence space: `una <= nxt`; `base` is the first byte of the send buffer.
#[derive(Debug)]
pub(crate) struct SendState {
    pub(crate) iss: SeqNum,
    pub(crate) una: SeqNum,
    /// Behind all that was ever sent: what is sent again does not move it.
    #[doc(alias = "snd_max")]
    pub(crate) nxt: SeqNum,
    pub(crate) base: SeqNum,
    pub(crate) wnd: u32,
    /// The largest window the peer ever offered, for sender-side silly window avoidance.
    pub(crate) wnd_max: u32,
    /// Sequence and acknowledgement of the segment that last moved the window.
    pub(crate) wl1: SeqNum,
    pub(crate) wl2: SeqNum,
    pub(crate) wscale: u8,
    /// Bytes of data a segment, behind the options that each segment carries (RFC 5681 2, SMSS).
    #[doc(alias = "t_maxseg")]
    pub(crate) mss: u32,
    /// What ICMP errors said of the path, while it is believed.
    pub(crate) path: Option<Box<PathMtu>>,
    pub(crate) dup_acks: u8,
    /// When something was last sent.
    pub(crate) sent_at: Time,
    pub(crate) buf: StreamBuf,
    pub(crate) rtt: Rtt,
    pub(crate) sent: SentMap,
    pub(crate) reordering: Reordering,
    pub(crate) probe: TailProbe,
    pub(crate) recovery: Recovery,
    pub(crate) rate: DeliveryRate,
    pub(crate) window: Window,
    pub(crate) cc: Cc,
    pub(crate) retransmits: u8,
    pub(crate) persist_shift: u8,
    /// Send a tail loss probe at the next turn.
    pub(crate) tail_probe: bool,
    /// Send a byte (or an old one) into a closed window at the next turn.
    pub(crate) probe_now: bool,
    pub(crate) nodelay: bool,
    /// The user will send nothing more.
    pub(crate) fin_queued: bool,
}

/// The receive sequence space.
#[derive(Debug)]
pub(crate) struct RecvState {
    pub(crate) irs: SeqNum,
    pub(crate) nxt: SeqNum,
    /// The right edge of the window as announced; it never moves back.
    pub(crate) adv: SeqNum,
    pub(crate) wscale: u8,
    /// Our window scaling was offered or agreed on.
    pub(crate) wscale_on: bool,
    /// The maximum segment size that we announce: what our own link takes, whatever the peer's does.
    pub(crate) mss: u32,
    /// What RCV.NXT was when we last acknowledged.
    pub(crate) last_ack_sent: SeqNum,
    /// Where the peer's FIN is, once it was seen.
    pub(crate) fin: Option<SeqNum>,
    pub(crate) buf: StreamBuf,
    pub(crate) reass: Reassembly,
    pub(crate) ack_now: bool,
    /// Segments that came before their turn and were not answered yet, one by one.
    pub(crate) dup_acks_owed: u8,
    pub(crate) policy: AckPolicy,
    /// What the user reads, once a far peer has sent something.
    pub(crate) tuner: Option<Box<RecvTuner>>,
    /// The user has said how large the buffer is to be.
    pub(crate) fixed: bool,
    /// The user will read nothing more: what comes is acknowledged and dropped.
    #[doc(alias = "SS_CANTRCVMORE")]
    pub(crate) read_closed: bool,
}

/// A path whose MTU is smaller than the interface's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PathMtu {
    /// Payload bytes a segment on the interface's MTU.
    pub(crate) interface_mss: u32,
    /// When the interface's MTU is tried again.
    pub(crate) until: Time,
    /// Its MTU is below what segments are made for: routers may fragment them.
    pub(crate) may_fragment: bool,
}

/// What is kept of a connection in TIME-WAIT that a SYN has ended early: it comes back if that SYN turns out to be an old
/// duplicate (RFC 9293 3.6.1, RFC 1122 4.2.2.13).
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
            keepalive_ms: None,
            probes_unanswered: 0,
            challenge_acks: (now.as_millis() as u32, 0),
            ts: TimestampClock::new(config.timestamps),
            sack_on: config.sack,
            ecn: Ecn::new(config.ecn, state == State::SynSent),
            orphan: false,
            error: None,
            soft_error: None,
            wakers: Wakers::new(),
            wake_user: false,
            entered_time_wait: false,
            accept: None,
            predecessor: None,
        }
    }
}

impl ConnState {
    /// Idle time before probing, where the user asked for keepalives.
    pub(crate) fn keepalive(&self) -> Option<Duration> {
        let ms = self.keepalive_ms?;
        Some(Duration::from_millis(u64::from(ms.get())))
    }

    /// In whole milliseconds, at least one.
    pub(crate) fn set_keepalive(&mut self, idle: Option<Duration>) {
        let ms = |idle: Duration| u32::try_from(idle.as_millis()).unwrap_or(u32::MAX);
        self.keepalive_ms = idle.map(|idle| NonZeroU32::new(ms(idle)).unwrap_or(NonZeroU32::MIN));
    }
}

impl SendState {
    fn new(config: &TcpConfig, iss: SeqNum, mss: u32, now: Time) -> Self {
        Self {
            iss,
            una: iss,
            nxt: iss,
            base: iss + 1,
            wnd: 0,
            wnd_max: 0,
            wl1: SeqNum(0),
            wl2: SeqNum(0),
            wscale: 0,
            mss,
            path: None,
            dup_acks: 0,
            sent_at: now,
            buf: StreamBuf::new(config.send_buffer),
            rtt: Rtt::new(),
            sent: SentMap::default(),
            reordering: Reordering::default(),
            probe: TailProbe::default(),
            recovery: Recovery::new(iss),
            rate: DeliveryRate::default(),
            window: Window::new(mss, config.initial_window),
            cc: Cc::new(config.congestion),
            retransmits: 0,
            persist_shift: 0,
            tail_probe: false,
            probe_now: false,
            nodelay: false,
            fin_queued: false,
        }
    }
}

impl RecvState {
    fn new(config: &TcpConfig, mss: u32, now: Time) -> Self {
        Self {
            irs: SeqNum(0),
            nxt: SeqNum(0),
            adv: SeqNum(0),
            wscale: window_scale(config.recv_buffer.max(config.recv_buffer_max)),
            wscale_on: true,
            mss,
            last_ack_sent: SeqNum(0),
            fin: None,
            buf: StreamBuf::new(config.recv_buffer),
            reass: Reassembly::default(),
            ack_now: false,
            dup_acks_owed: 0,
            policy: AckPolicy::new(now),
            tuner: None,
            fixed: false,
            read_closed: false,
        }
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
            route: RouteCache::default(),
        }
    }

    /// Bytes sent and not acknowledged, SYN and FIN included.
    pub(crate) fn flight(&self) -> u32 {
        self.send.nxt.since(self.send.una)
    }

    /// The sequence number after the last byte in the send buffer: where our FIN goes.
    pub(crate) fn data_end(&self) -> SeqNum {
        self.send.base + self.send.buf.claimed() as u32
    }

    /// The sequence number of a segment that takes none: behind all that was sent, unless the peer's
    /// window ends before that (a probe of a closed window lies beyond it). There the peer would not
    /// look at it, not even at its acknowledgement.
    pub(crate) fn acceptable_seq(&self) -> SeqNum {
        self.send.nxt.min(self.send.una + self.send.wnd)
    }

    /// Whether our FIN was sent at least once.
    pub(crate) fn fin_sent(&self) -> bool {
        self.send.fin_queued && self.send.nxt.after(self.data_end())
    }

    /// Whether our FIN is acknowledged.
    pub(crate) fn fin_acked(&self) -> bool {
        self.fin_sent() && self.send.una.after(self.data_end())
    }

    /// Bytes that the peer may send from RCV.NXT on, as announced.
    pub(crate) fn rcv_wnd(&self) -> u32 {
        if self.recv.adv.after(self.recv.nxt) {
            self.recv.adv.since(self.recv.nxt)
        } else {
            0
        }
    }

    /// The window that could be announced now.
    pub(crate) fn rcv_space(&self) -> u32 {
        let reserved = charge(0, self.recv.reass.pinned());
        let max = 65_535usize
            << if self.recv.wscale_on {
                self.recv.wscale
            } else {
                0
            };
        self.recv.buf.space().saturating_sub(reserved).min(max) as u32
    }

    /// How far the announced window's right edge could move: in steps that its scale can say.
    pub(crate) fn rcv_growth(&self) -> u32 {
        let edge = self.recv.nxt + (self.rcv_space() >> self.recv.wscale << self.recv.wscale);
        if edge.after(self.recv.adv) {
            edge.since(self.recv.adv)
        } else {
            0
        }
    }

    /// Something changed that the user may care about: it is woken once, at the batch's end.
    pub(crate) fn notify(&mut self) {
        self.conn.wake_user = true;
    }

    /// The end: nothing is sent or received any more.
    ///
    /// The batch's turn for the connection takes it out of the table, so the caller must touch it.
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
        self.recv.ack_now = false;
        self.recv.dup_acks_owed = 0;
        self.send.sent = SentMap::default();
        self.send.recovery.forced = false;
        self.send.tail_probe = false;
        self.send.probe_now = false;
    }

    /// Whether the send and receive variables agree with each other.
    pub(crate) fn is_valid(&self) -> bool {
        if self.conn.state == State::Closed {
            return self.timers.earliest().is_none() && self.send.buf.is_empty();
        }
        let end = self.data_end() + u32::from(self.send.fin_queued);
        self.send.sent.covers(self.send.una, self.send.nxt) && self.send.nxt.at_or_before(end)
    }
}

/// The smallest shift that lets 16 bits announce `buffer` bytes (RFC 7323 2.3: at most 14).
fn window_scale(buffer: usize) -> u8 {
    (0..14)
        .find(|&shift| buffer >> shift <= 65_535)
        .unwrap_or(14)
}
