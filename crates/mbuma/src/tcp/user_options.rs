//! Options of one connection beyond the stack's defaults.
//!
//! Most connections ask for nothing, so all of it is in one box, which is there once something was asked for.
//!
//! ```text
//!   progress (new data acknowledged, a window opened, or data begins to wait)
//!      |<------------------ user timeout ------------------>|  the connection is given up
//! ```
//!
//! Invariant: `waiting_since` is set only while data, a SYN or a FIN waits to be sent or acknowledged.
//!
//! Locks: none; part of the connection. Sources: RFC 5482 (user timeout), RFC 1122 4.2.3.5 and 4.2.4.2.

use std::time::Duration;

use kern::Time;

use super::record_ends::RecordEnds;
use super::state::State;
use super::tcb::Tcb;
use crate::config::{EcnMode, TcpConfig};

/// How long data that is held back to fill a segment waits at most: Linux's bound.
pub(crate) const CORK_MAX: Duration = Duration::from_millis(200);

/// The smallest segment that a program may ask for: less is not taken from a peer either (FreeBSD's bound).
pub(crate) const SEGMENT_MIN: u32 = 216;

/// The options of one connection. The default is the stack's own behaviour.
///
/// A listener hands its options on to the connections that it makes, from the answer to the SYN on
/// ([`TcpListener::set_options`](crate::TcpListener::set_options)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpSocketOptions {
    /// The connection is given up when data was not acknowledged, or the peer's window was closed, for so long without any
    /// progress (RFC 5482); and an idle one that sends keepalives when the peer has been silent for so long. It takes the
    /// place of the number of retransmissions only where it is shorter. RFC 5482's option is not sent.
    #[doc(alias = "TCP_USER_TIMEOUT")]
    pub user_timeout: Option<Duration>,
    /// An attempt to connect is given up after so long.
    #[doc(alias = "TCP_KEEPINIT")]
    pub connect_timeout: Option<Duration>,
    /// Retransmissions of the SYN before the attempt is given up, in the place of the stack's
    /// [`syn_retransmits_max`](crate::TcpConfig::syn_retransmits_max).
    #[doc(alias = "TCP_SYNCNT")]
    pub syn_retransmits_max: Option<u8>,
    /// The send buffer takes no more once so many bytes in it were not sent yet. So what a program writes is not old when
    /// it leaves. The waker is called when there are fewer.
    #[doc(alias = "TCP_NOTSENT_LOWAT")]
    pub unsent_max: Option<usize>,
    /// Payload and option bytes of a segment at most, in both directions if it is set before the handshake, else in ours.
    /// At least 216.
    #[doc(alias = "TCP_MAXSEG")]
    pub segment_max: Option<u32>,
    /// The upper six bits of the IP header's traffic class (RFC 2474). The lower two are ECN's.
    #[doc(alias = "IP_TOS")]
    pub traffic_class: u8,
    /// Time to live of what is sent, in hops. Default: the stack's.
    #[doc(alias = "IP_TTL")]
    pub ttl: Option<std::num::NonZeroU8>,
    /// A segment that is not full waits for more data, for 200 ms at most.
    #[doc(alias = "TCP_CORK")]
    #[doc(alias = "TCP_NOPUSH")]
    pub cork: bool,
    /// Explicit congestion notification (RFC 3168, RFC 9768), in the place of the stack's [`ecn`](crate::TcpConfig::ecn). It is agreed
    /// on in the handshake, so it must be set before.
    pub ecn: Option<EcnMode>,
    /// Time between two keepalives, in the place of the stack's
    /// [`keepalive_interval`](crate::TcpConfig::keepalive_interval).
    #[doc(alias = "TCP_KEEPINTVL")]
    pub keepalive_interval: Option<Duration>,
    /// Keepalives without an answer after which the connection is given up, in the place of the stack's
    /// [`keepalive_probes`](crate::TcpConfig::keepalive_probes).
    #[doc(alias = "TCP_KEEPCNT")]
    pub keepalive_probes: Option<u8>,
    /// Data leaves at this rate at most, in bytes per second, however near the peer is and whether the stack
    /// [paces](crate::TcpConfig::pacing) or not.
    #[doc(alias = "SO_MAX_PACING_RATE")]
    pub pacing_max: Option<u64>,
    /// How long the connection waits for the peer's FIN once its program has closed it, in the place of the stack's
    /// [`fin_wait_2_timeout`](crate::TcpConfig::fin_wait_2_timeout).
    #[doc(alias = "TCP_LINGER2")]
    pub fin_wait_2_timeout: Option<Duration>,
    /// Calls that wait for data, tasks that poll for it, and wakers of readers: so many bytes must be there, or as many as the
    /// call asks for, if these are fewer. The end, an error and a receive buffer that is half full are enough too. A call that
    /// does not wait takes what is there, and readers of TLS wait for a record. Default: 1.
    #[doc(alias = "SO_RCVLOWAT")]
    pub recv_low_water: Option<usize>,
    /// The same for room in the send buffer; at most, all of the buffer must be free. Default: one byte for a call that waits,
    /// and half of the buffer for the waker of a writer that found it full.
    #[doc(alias = "SO_SNDLOWAT")]
    pub send_low_water: Option<usize>,
    /// A call that waits for data ends after so long with [`TimedOut`](crate::SocketError::TimedOut), if it gives no timeout of
    /// its own. So does a listener's call that waits for a connection.
    #[doc(alias = "SO_RCVTIMEO")]
    pub recv_timeout: Option<Duration>,
    /// The same for a call that waits for room, or for the connection to be established.
    #[doc(alias = "SO_SNDTIMEO")]
    pub send_timeout: Option<Duration>,
    /// Of a listener: a connection is accepted only when its client has sent something, or has been silent for so long. While
    /// as many are half open or wait so as [`half_open_max`](crate::TcpConfig::half_open_max) says, none waits.
    #[doc(alias = "TCP_DEFER_ACCEPT")]
    #[doc(alias = "accf_data")]
    pub accept_delay: Option<Duration>,
}

impl TcpSocketOptions {
    /// How long an orphan stays in FIN-WAIT-2.
    pub(crate) fn orphan_timeout(&self, config: &TcpConfig) -> Duration {
        self.fin_wait_2_timeout.unwrap_or(config.fin_wait_2_timeout)
    }

    /// The size of a segment that takes `mss` bytes at most, as it is announced before the handshake.
    pub(crate) fn segment_len(&self, mss: u32) -> u32 {
        let most = self.segment_max.map(|most| most.max(SEGMENT_MIN));
        most.map_or(mss, |most| most.min(mss))
    }

    /// The traffic class, and the time to live or 0, of what is sent.
    pub(crate) fn ip_fields(&self) -> (u8, u8) {
        let ttl = self.ttl.map_or(0, std::num::NonZeroU8::get);
        (self.traffic_class & !0b11, ttl)
    }
}

/// The same, and what the connection keeps for it.
#[derive(Debug, Clone, Default)]
pub(crate) struct UserOptions {
    pub(crate) asked: TcpSocketOptions,
    /// Since when something waits without progress.
    waiting_since: Option<Time>,
    /// The last write announced that more follows as soon as there is room.
    pub(crate) more_follows: bool,
    /// As much was unsent as may be, after the last turn to send.
    pub(crate) is_over: bool,
    /// Where the program's records end.
    pub(crate) records: RecordEnds,
}

impl UserOptions {
    pub(crate) fn new(asked: TcpSocketOptions) -> Self {
        Self {
            asked,
            ..Self::default()
        }
    }

    /// There was progress; `waits`: and still something waits.
    pub(crate) fn on_progress(&mut self, waits: bool, now: Time) {
        self.waiting_since = waits.then_some(now);
    }

    /// After a turn to send.
    pub(crate) fn note_waiting(&mut self, waits: bool, now: Time) {
        if waits != self.waiting_since.is_some() {
            self.waiting_since = waits.then_some(now);
        }
    }

    /// When the connection is to be given up, unless there is progress.
    pub(crate) fn deadline(&self, state: State) -> Option<Time> {
        let timeout = match state {
            State::SynSent | State::SynReceived => {
                let both = [self.asked.connect_timeout, self.asked.user_timeout];
                both.into_iter().flatten().min()
            }
            _ => self.asked.user_timeout,
        };
        Some(self.waiting_since? + timeout?)
    }

    /// Whether a segment that is not full is held back.
    pub(crate) fn holds_back(&self) -> bool {
        self.asked.cork || self.more_follows
    }
}

impl Tcb {
    /// Whether a reader goes on waiting for `wanted` bytes though there may be some: its program asks for more at once.
    pub(crate) fn is_too_little(&self, wanted: usize) -> bool {
        let low_water = (self.conn.options.as_ref()).and_then(|o| o.asked.recv_low_water);
        // Readers of TLS wait for records.
        let Some(least) = low_water.filter(|_| self.conn.tls().is_none()) else {
            return false;
        };
        let buf = &self.recv.buf;
        // A buffer that fills up would close the window, and no more would come.
        let is_half_full = buf.space() < buf.hiwat() / 2;
        buf.ready() < least.min(wanted) && !is_half_full && self.read_end().is_none()
    }

    /// Whether a writer of `wanted` bytes goes on waiting though the send buffer has `room`.
    pub(crate) fn is_too_little_room(&self, room: usize, wanted: usize) -> bool {
        let low_water = (self.conn.options.as_ref()).and_then(|o| o.asked.send_low_water);
        low_water.is_some_and(|least| room < least.min(wanted).min(self.send.buf.hiwat()))
    }

    /// Whether a writer that waits is told of the room that there is now; `was_full`: there was none before.
    pub(crate) fn is_worth_a_write(&self, was_full: bool) -> bool {
        let (space, hiwat) = (self.send.buf.space(), self.send.buf.hiwat());
        match (self.conn.options.as_ref()).and_then(|o| o.asked.send_low_water) {
            Some(least) => space >= least.min(hiwat),
            None => was_full || space >= hiwat / 2,
        }
    }

    /// Says whether more data follows at once what was just written: then a segment that is not full waits for it.
    pub(crate) fn set_more_follows(&mut self, more: bool) {
        match (&mut self.conn.options, more) {
            (Some(options), _) => options.more_follows = more,
            (none, true) => none.get_or_insert_default().more_follows = true,
            (None, false) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deadline_counts_from_the_last_progress() {
        // RFC 5482 3: breaks when time without anything to wait for counts, or progress does not begin it anew.
        let (secs, at) = (Duration::from_secs, Time::from_secs);
        let mut options = UserOptions::default();
        options.asked.user_timeout = Some(secs(10));
        assert_eq!(options.deadline(State::Established), None);
        options.note_waiting(true, at(100));
        options.note_waiting(true, at(105));
        assert_eq!(options.deadline(State::Established), Some(at(110)));
        options.on_progress(true, at(107));
        assert_eq!(options.deadline(State::Established), Some(at(117)));
        options.on_progress(false, at(108));
        assert_eq!(options.deadline(State::Established), None);
        options.note_waiting(true, at(200));
        options.asked.connect_timeout = Some(secs(3));
        assert_eq!(options.deadline(State::Established), Some(at(210)));
        assert_eq!(options.deadline(State::SynSent), Some(at(203)));
    }
}
