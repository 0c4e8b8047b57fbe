//! Options of one connection beyond the stack's defaults.
//!
//! Most connections set no option, so all options are in one box, which is made when one is set.
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

use super::options::offer_none;
use super::record_ends::RecordEnds;
use super::recv_state::{self, FixedBuffers};
use super::state::State;
use super::tcb::Tcb;
use crate::config::{EcnMode, TcpConfig};

/// The longest time for which data waits for a full segment: Linux's bound.
pub(crate) const CORK_MAX: Duration = Duration::from_millis(200);

/// The smallest segment that a program may ask for: less is not taken from a peer either (FreeBSD's bound).
pub(crate) const SEGMENT_MIN: u32 = 216;

/// The options of one connection. The default is the stack's own behaviour.
///
/// A listener hands its options on to the connections that it makes, from the answer to the SYN on
/// ([`TcpListener::set_options`](crate::TcpListener::set_options)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpSocketOptions {
    /// The user timeout (RFC 5482): the connection is given up after so long without progress, that is without an
    /// acknowledgement of waiting data or an opening of the peer's window. An idle connection with keepalives is given
    /// up when the peer was silent for so long. It replaces the number of retransmissions only if it is shorter. RFC
    /// 5482's option is not sent.
    #[doc(alias = "TCP_USER_TIMEOUT")]
    pub user_timeout: Option<Duration>,
    /// The timeout of an attempt to connect.
    #[doc(alias = "TCP_KEEPINIT")]
    pub connect_timeout: Option<Duration>,
    /// Retransmissions of the SYN before the attempt is given up, in the place of the stack's
    /// [`syn_retransmits_max`](crate::TcpConfig::syn_retransmits_max).
    #[doc(alias = "TCP_SYNCNT")]
    pub syn_retransmits_max: Option<u8>,
    /// The limit of unsent bytes in the send buffer. A write takes as many bytes as the windows let out at once and so
    /// many more that the limit is reached; then it takes none. So a program's data is recent when it leaves. Calls
    /// that wait go on, and the waker is called, when half of the limit is unsent. Only the buffer bounds files,
    /// claims, urgent data, splices, TLS and the length of a moved chain. At least 1: with a limit of 0 no byte could
    /// ever be written.
    #[doc(alias = "TCP_NOTSENT_LOWAT")]
    pub unsent_max: Option<usize>,
    /// Payload and option bytes of a segment at most. Set before the handshake it applies to both directions, later
    /// only to ours. At least 216.
    #[doc(alias = "TCP_MAXSEG")]
    pub segment_max: Option<u32>,
    /// Segments carry no TCP options, so that the peer assumes an MSS of 536 bytes, or 1220 over IPv6 (RFC 9293 3.7.1),
    /// and the connection has no SACK, no timestamps and no scaled windows. It is agreed on in the handshake, so it
    /// must be set before.
    #[doc(alias = "TCP_NOOPT")]
    pub no_options: bool,
    /// The upper six bits of the IP header's traffic class (RFC 2474). The lower two are ECN's.
    #[doc(alias = "IP_TOS")]
    pub traffic_class: u8,
    /// TTL or hop limit of sent packets. Default: the stack's.
    #[doc(alias = "IP_TTL")]
    pub ttl: Option<std::num::NonZeroU8>,
    /// A segment that is not full waits for more data, for 200 ms at most.
    #[doc(alias = "TCP_CORK")]
    #[doc(alias = "TCP_NOPUSH")]
    pub cork: bool,
    /// Explicit congestion notification (RFC 3168, RFC 9768), in the place of the stack's
    /// [`ecn`](crate::TcpConfig::ecn). It is agreed on in the handshake, so it must be set before.
    pub ecn: Option<EcnMode>,
    /// Time between two keepalives, in the place of the stack's
    /// [`keepalive_interval`](crate::TcpConfig::keepalive_interval).
    #[doc(alias = "TCP_KEEPINTVL")]
    pub keepalive_interval: Option<Duration>,
    /// Keepalives without an answer after which the connection is given up, in the place of the stack's
    /// [`keepalive_probes`](crate::TcpConfig::keepalive_probes).
    #[doc(alias = "TCP_KEEPCNT")]
    pub keepalive_probes: Option<u8>,
    /// The largest rate of data in bytes per second, also for near peers and without the stack's
    /// [pacing](crate::TcpConfig::pacing).
    #[doc(alias = "SO_MAX_PACING_RATE")]
    pub pacing_max: Option<u64>,
    /// Data is acknowledged at once, without the delays of RFC 1122 4.2.3.2, until the option is taken back.
    #[doc(alias = "TCP_QUICKACK")]
    pub quick_ack: bool,
    /// How long the connection may go on once its program has dropped it. The drop never waits.
    ///
    /// | | after the drop |
    /// |---|---|
    /// | `None` | the content of the send buffer and the FIN are delivered, as long as the peer takes half of the rest every nine minutes |
    /// | less than nine minutes | the same, but what the peer has not acknowledged by then is dropped, and the peer gets a reset |
    /// | zero | the peer gets a reset at once, and the send buffer is dropped, as by [`abort`](crate::TcpStream::abort) |
    ///
    /// A drop with received data that was not read resets the connection in any case (RFC 2525 2.17).
    ///
    /// ```
    /// use std::time::Duration;
    /// use mbuma::{Config, SocketError, Stack, TcpSocketOptions};
    ///
    /// let stack = Stack::new(Config::from_system())?;
    /// let listener = stack.tcp_listen("127.0.0.1:80", 128)?;
    /// let client = stack.tcp_connect_blocking("127.0.0.1:80", None)?;
    /// let server = listener.accept()?;
    /// client.set_options(&TcpSocketOptions { linger: Some(Duration::ZERO), ..client.options() });
    /// drop(client);
    /// assert_eq!(server.error(), Some(SocketError::Reset));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "SO_LINGER")]
    #[doc(alias = "set_linger")]
    #[doc(alias = "set_zero_linger")]
    pub linger: Option<Duration>,
    /// How long the connection waits for the peer's FIN once its program has closed it, in the place of the stack's
    /// [`fin_wait_2_timeout`](crate::TcpConfig::fin_wait_2_timeout).
    #[doc(alias = "TCP_LINGER2")]
    pub fin_wait_2_timeout: Option<Duration>,
    /// Bytes of the send buffer, at most a GiB, in the place of the stack's
    /// [`send_buffer`](crate::TcpConfig::send_buffer). Such a buffer does not grow.
    #[doc(alias = "SO_SNDBUF")]
    #[doc(alias = "set_send_buffer_size")]
    pub send_buffer: Option<usize>,
    /// Bytes of the receive buffer, at most a GiB, in the place of the stack's
    /// [`recv_buffer`](crate::TcpConfig::recv_buffer). Such a buffer does not grow, and no announced window is larger.
    /// Set before the handshake, it bounds the first window too, and chooses the scale of windows (RFC 7323 2.2): a
    /// much larger one that is set later is not announced in full.
    #[doc(alias = "SO_RCVBUF")]
    #[doc(alias = "set_recv_buffer_size")]
    pub recv_buffer: Option<usize>,
    /// The low-water mark for readers (waiting calls, polling tasks and wakers): so many bytes must be there, or as
    /// many as the call asks for, if these are fewer. The end, an error and a half full receive buffer are also enough.
    /// A call that does not wait takes the bytes that are there, and readers of TLS wait for a record. Default: 1.
    #[doc(alias = "SO_RCVLOWAT")]
    pub recv_low_water: Option<usize>,
    /// The low-water mark for writers: so much room, in bytes, must be in the send buffer; at most, all of the buffer
    /// must be free.
    /// Default: one byte for a call that waits, and half of the buffer for the waker of a writer that found it full.
    #[doc(alias = "SO_SNDLOWAT")]
    pub send_low_water: Option<usize>,
    /// The timeout of calls that wait for data and give no timeout of their own; they end with
    /// [`TimedOut`](crate::SocketError::TimedOut). On a listener: of calls that wait for a connection.
    #[doc(alias = "SO_RCVTIMEO")]
    #[doc(alias = "set_read_timeout")]
    pub recv_timeout: Option<Duration>,
    /// The timeout of calls that wait for room, or for the connection to be established, and give no timeout of their
    /// own.
    #[doc(alias = "SO_SNDTIMEO")]
    #[doc(alias = "set_write_timeout")]
    pub send_timeout: Option<Duration>,
    /// On a listener: a connection is accepted only when its client has sent data, or was silent for so long.
    /// [`half_open_max`](crate::TcpConfig::half_open_max) bounds half-open and such waiting connections together; at
    /// the bound, none waits.
    #[doc(alias = "TCP_DEFER_ACCEPT")]
    #[doc(alias = "accf_data")]
    pub accept_delay: Option<Duration>,
}

impl TcpSocketOptions {
    /// How long an orphan stays in FIN-WAIT-2.
    pub(crate) fn orphan_timeout(&self, config: &TcpConfig) -> Duration {
        self.fin_wait_2_timeout.unwrap_or(config.fin_wait_2_timeout)
    }

    /// The segment size to announce before the handshake, at most `mss`.
    pub(crate) fn segment_len(&self, mss: u32) -> u32 {
        let most = self.segment_max.map(|most| most.max(SEGMENT_MIN));
        most.map_or(mss, |most| most.min(mss))
    }

    /// The limit of unsent bytes.
    pub(crate) fn unsent_limit(&self) -> Option<usize> {
        self.unsent_max.map(|max| max.max(1))
    }

    /// The traffic class of sent packets, and their TTL or 0.
    pub(crate) fn ip_fields(&self) -> (u8, u8) {
        let ttl = self.ttl.map_or(0, std::num::NonZeroU8::get);
        (self.traffic_class & !0b11, ttl)
    }
}

/// The options, and the state that the connection keeps for them.
#[derive(Debug, Clone, Default)]
pub(crate) struct UserOptions {
    pub(crate) asked: TcpSocketOptions,
    /// Since when something waits without progress.
    waiting_since: Option<Time>,
    /// The last write announced that more follows as soon as there is room.
    pub(crate) more_follows: bool,
    /// The limit of unsent bytes was reached, and after the last turn to send more than half of it was still unsent.
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

    /// After a turn to send; `unsent`: so many bytes wait. True when waiting writers are to be woken.
    pub(crate) fn note_unsent(&mut self, unsent: usize) -> bool {
        let was_over = self.is_over;
        self.is_over = self.asked.unsent_limit().is_some_and(|max| match was_over {
            // A writer that was woken by each acknowledgement would write a segment at a time.
            true => unsent > max / 2,
            false => unsent >= max,
        });
        was_over && !self.is_over
    }

    /// The time at which the connection is given up, unless there is progress.
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

    /// Whether data is acknowledged at once.
    pub(crate) fn acks_at_once(&self) -> bool {
        self.asked.quick_ack
    }

    /// Whether a segment that is not full is held back.
    pub(crate) fn holds_back(&self) -> bool {
        self.asked.cork || self.more_follows
    }
}

impl Tcb {
    /// Sets the options of the program or the listener before the handshake.
    pub(crate) fn begin_with(&mut self, config: &TcpConfig, asked: &TcpSocketOptions) {
        self.conn.begin_with(config, asked);
        self.recv.wscale = recv_state::scale(config, Some(asked));
        self.set_buffers(asked.send_buffer, asked.recv_buffer);
        if asked.no_options {
            offer_none(self);
        }
    }

    /// Sets the sizes of buffers, which do not grow from now on.
    pub(crate) fn set_buffers(&mut self, send: Option<usize>, receive: Option<usize>) {
        if let Some(bytes) = send {
            self.send.buf.set_hiwat(bytes);
            self.recv.fixed |= FixedBuffers::SEND;
        }
        if let Some(bytes) = receive {
            self.recv.set_size(bytes);
            self.recv.tuner = None;
            self.recv.fixed |= FixedBuffers::RECEIVE;
        }
    }

    /// Whether a reader goes on waiting for `wanted` bytes though there may be some: its program asks for more at once.
    pub(crate) fn is_too_little(&self, wanted: usize) -> bool {
        let low_water = (self.conn.options.as_ref()).and_then(|o| o.asked.recv_low_water);
        // Readers of TLS wait for records.
        let Some(least) = low_water.filter(|_| self.conn.tls().is_none()) else {
            return false;
        };
        let buf = &self.recv.buf;
        // A full buffer would close the window, and no more data would come.
        let is_half_full = buf.space() < buf.hiwat() / 2;
        buf.ready() < least.min(wanted) && !is_half_full && self.read_end().is_none()
    }

    /// Whether a writer of `wanted` bytes goes on waiting though a write would take some. The low-water mark is about
    /// room in the buffer, because the limit of unsent bytes may be smaller.
    pub(crate) fn is_too_little_room(&self, wanted: usize) -> bool {
        let Some(options) = &self.conn.options else {
            return false;
        };
        let (space, hiwat) = (self.send.buf.space(), self.send.buf.hiwat());
        let least = options
            .asked
            .send_low_water
            .map_or(0, |least| least.min(hiwat));
        options.is_over || space < least.min(wanted)
    }

    /// Whether a waiting writer is woken for the present room; `was_full`: there was none before. Beyond the limit of
    /// unsent bytes the turn to send wakes it.
    pub(crate) fn is_worth_a_write(&self, was_full: bool) -> bool {
        let (space, hiwat) = (self.send.buf.space(), self.send.buf.hiwat());
        let options = self.conn.options.as_ref();
        if options.is_some_and(|o| o.is_over) {
            return false;
        }
        match options.and_then(|o| o.asked.send_low_water) {
            Some(least) => space >= least.min(hiwat),
            None => was_full || space >= hiwat / 2,
        }
    }

    /// Sets whether more data follows the last write at once: then a segment that is not full waits for it.
    pub(crate) fn set_more_follows(&mut self, more: bool) {
        match (&mut self.conn.options, more) {
            (Some(options), _) => options.more_follows = more,
            (none, true) => none.get_or_insert_default().more_follows = true,
            (None, false) => {}
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn writers_are_woken_once_half_of_the_limit_is_unsent() {
        // Breaks when a writer is woken for each segment that leaves, or sleeps on though nothing is unsent.
        for max in [1, 2, 4000] {
            let mut options = UserOptions::default();
            options.asked.unsent_max = Some(max);
            assert!(!options.note_unsent(max - 1) && !options.is_over);
            assert!(!options.note_unsent(max) && options.is_over);
            assert!(!options.note_unsent(max / 2 + 1) && options.is_over);
            assert!(options.note_unsent(max / 2) && !options.is_over);
            assert!(!options.note_unsent(max / 2));
        }
        let mut options = UserOptions {
            is_over: true,
            ..UserOptions::default()
        };
        assert!(options.note_unsent(9), "the program took the limit back");
    }

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
        options.asked.connect_timeout = Some(secs(30));
        assert_eq!(options.deadline(State::SynSent), Some(at(210)));
    }
}
