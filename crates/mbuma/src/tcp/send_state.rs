//! The send half of a control block: sequence space, buffer, the data in flight, and its limits.
//!
//! Source: RFC 9293 section 3.3.1.

use kern::Time;
use wire::SeqNum;

use super::cc::{self, Cc, Window};
use super::path_mtu::MtuSearch;
use super::rack::Reordering;
use super::rate::DeliveryRate;
use super::recovery::Recovery;
use super::rtt::Rtt;
use super::send_clocks::{SendClocks, SendLimit, SendTimes};
use super::sent::SentMap;
use super::tlp::TailProbe;
use crate::config::{NagleForm, TcpConfig};
use crate::sockbuf::StreamBuf;

/// The maximum segment size of a peer that announces none (RFC 9293 3.7.1).
pub(crate) const MSS_DEFAULT: u32 = 536;
/// The MSS of a link of 1,500 bytes without options: such segments are not cut for a small window.
const MSS_ETHERNET: u32 = 1460;

/// The send sequence space: `una <= nxt`; `buf_seq` is that of the first byte in the send buffer.
#[derive(Debug)]
pub(crate) struct SendState {
    pub(crate) iss: SeqNum,
    pub(crate) una: SeqNum,
    /// The number after everything that was ever sent: a retransmission does not move it.
    #[doc(alias = "snd_max")]
    pub(crate) nxt: SeqNum,
    pub(crate) buf_seq: SeqNum,
    pub(crate) wnd: u32,
    /// The largest window the peer ever offered, for sender-side silly window avoidance.
    pub(crate) wnd_max: u32,
    /// Sequence and acknowledgement of the segment that last moved the window.
    pub(crate) wl1: SeqNum,
    pub(crate) wl2: SeqNum,
    pub(crate) wscale: u8,
    /// Bytes of data in a segment, after the options that each segment carries (RFC 5681 2, SMSS).
    #[doc(alias = "t_maxseg")]
    pub(crate) mss: u32,
    /// The path MTU that ICMP errors reported, while it is valid.
    pub(crate) path: Option<Box<PathMtu>>,
    /// A full-sized segment has arrived, so the path carries it.
    pub(crate) mss_passes: bool,
    /// The time of the last transmission.
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
    clocks: SendClocks,
    /// Beside the clocks and not in them, where it would take four bytes.
    limit: SendLimit,
    pub(crate) retransmits: u8,
    pub(crate) nodelay: bool,
    pub(crate) nagle: NagleForm,
    /// The end of the last segment that was not full, for [`NagleForm::Minshall`].
    #[doc(alias = "snd_sml")]
    pub(crate) small_end: SeqNum,
    /// The user will send no more.
    pub(crate) fin_queued: bool,
}

/// A report that segments are too large, although one of that size has arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DoubtedReport {
    /// The data that it quotes begins here.
    pub(crate) seq: SeqNum,
    pub(crate) mtu: u16,
}

/// A path whose MTU is smaller than the interface's, or is reported to be.
#[derive(Debug, Clone)]
pub(crate) struct PathMtu {
    /// Payload bytes a segment on the interface's MTU.
    pub(crate) interface_mss: u32,
    /// The time at which the interface's MTU is tried again.
    pub(crate) until: Time,
    /// Its MTU is below the smallest one for segments: routers may fragment them.
    pub(crate) may_fragment: bool,
    /// No router reported it: full-sized segments were not acknowledged.
    pub(crate) suspected: bool,
    /// The search for the largest segment that passes.
    pub(crate) search: MtuSearch,
    /// An ICMP error that has not taken effect yet.
    pub(crate) doubted: Option<DoubtedReport>,
}

impl PathMtu {
    /// A path of which only these sizes are known.
    pub(crate) fn new(interface_mss: u32, until: Time) -> Self {
        Self {
            interface_mss,
            until,
            may_fragment: false,
            suspected: false,
            search: MtuSearch::default(),
            doubted: None,
        }
    }

    /// The program wants no larger segments: larger ones are not tried later either.
    pub(crate) fn limit(&mut self, mss: u32) {
        if self.interface_mss > mss {
            (self.interface_mss, self.search) = (mss, MtuSearch::default());
        }
    }

    /// Whether it does not restrict segments of `mss` bytes any more.
    pub(crate) fn is_idle(&self, mss: u32) -> bool {
        self.interface_mss <= mss && !self.may_fragment && !self.suspected && !self.search.is_on()
    }
}

impl SendState {
    pub(super) fn new(config: &TcpConfig, iss: SeqNum, mss: u32, now: Time) -> Self {
        Self {
            iss,
            una: iss,
            nxt: iss,
            buf_seq: iss + 1,
            wnd: 0,
            wnd_max: 0,
            wl1: SeqNum(0),
            wl2: SeqNum(0),
            wscale: 0,
            mss,
            path: None,
            mss_passes: false,
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
            clocks: SendClocks::default(),
            limit: SendLimit::default(),
            retransmits: 0,
            nodelay: false,
            nagle: config.nagle,
            small_end: iss,
            fin_queued: false,
        }
    }

    /// Bytes from SND.NXT on that the peer's window takes: the usable window (RFC 9293 3.8.6.2.1).
    pub(crate) fn usable_window(&self) -> u32 {
        let right = self.una + self.wnd;
        match right.after(self.nxt) {
            true => right.since(self.nxt),
            false => 0,
        }
    }

    /// Whether a segment in flight makes one that is not full wait (RFC 1122 4.2.3.4).
    pub(crate) fn is_nagled(&self) -> bool {
        match self.nagle {
            NagleForm::AnySegment => self.una != self.nxt,
            // The second condition is for an end that lies half a sequence space back.
            NagleForm::Minshall => {
                self.small_end.after(self.una) && self.small_end.at_or_before(self.nxt)
            }
        }
    }

    /// Bytes of the `len` that would be next which one segment carries: where segments may be larger than Ethernet's,
    /// half of the largest window that the peer has announced at most (RFC 9293 3.8.6.2.1), unless that is tiny. A
    /// segment that fills the whole window is the only one, and a peer delays the acknowledgement of a single one.
    #[doc(alias = "tcp_bound_to_half_wnd")]
    #[inline]
    pub(crate) fn segment_max(&self, len: u32) -> u32 {
        let half = self.wnd_max / 2;
        match half >= self.mss || self.mss <= MSS_ETHERNET || half < MSS_DEFAULT / 2 {
            true => len,
            false => len.min(half),
        }
    }

    /// Notes that a segment with `len` bytes of new data up to `end` is sent.
    pub(crate) fn note_small(&mut self, end: SeqNum, len: u32) {
        let full = self.segment_max(self.mss);
        if self.nagle == NagleForm::Minshall && !len.is_multiple_of(full) {
            self.small_end = end;
        }
    }

    /// Bytes of new data that both windows let out now.
    #[inline(always)] // each turn to send calls it, and has most of its terms
    pub(crate) fn sendable(&self) -> u32 {
        let allowed = self.cwnd().saturating_add(self.limited_transmit());
        (self.usable_window()).min(allowed.saturating_sub(self.sent.in_flight()))
    }

    /// The end of a turn to send; `unsent`: there is data that was not sent. The window may grow only if it held data
    /// back. Data that waits for the peer's window tells as little of the path as data that a program has not written.
    pub(crate) fn note_use(&mut self, unsent: bool, now: Time) {
        let in_flight = self.sent.in_flight();
        let usable = self.usable_window();
        let waiting = unsent && usable >= self.mss;
        self.rate.after_output(in_flight, &self.window, waiting);
        let limit = match unsent {
            // The handshake is no data, and has no window.
            _ if self.una == self.iss => SendLimit::Idle,
            true => self.limit_of_unsent(usable),
            false if self.una == self.nxt => SendLimit::Idle,
            false if self.buf.space() == 0 && usable >= self.mss && self.cwnd_takes_more() => {
                SendLimit::SendBuffer
            }
            false => SendLimit::Path,
        };
        self.limited_by(limit, now);
    }

    /// `limit` holds from now on.
    #[inline(always)] // each turn to send calls it, mostly without a change
    pub(crate) fn limited_by(&mut self, limit: SendLimit, now: Time) {
        if self.limit != limit {
            self.clocks
                .end(std::mem::replace(&mut self.limit, limit), now);
        }
    }

    /// The times for which it had data, and what limited it.
    pub(crate) fn times(&self, now: Time) -> SendTimes {
        self.clocks.times(self.limit, now)
    }

    /// What holds back data that waits, where the peer's window takes `usable` bytes.
    fn limit_of_unsent(&self, usable: u32) -> SendLimit {
        let end = self.buf_seq + self.buf.ready() as u32;
        let waits = match end.after(self.nxt) {
            true => end.since(self.nxt),
            false => 0,
        };
        match usable < waits.min(self.mss) && self.cwnd_takes_more() {
            true => SendLimit::PeerWindow,
            false => SendLimit::Path,
        }
    }

    fn cwnd_takes_more(&self) -> bool {
        self.sent.in_flight().saturating_add(self.mss) <= self.cwnd()
    }

    /// Whether acknowledged data can have led to this congestion window: it grows only while it is used (RFC 7661), and
    /// the peer's window bounds its use. BBR's window follows its model of the path, and an embedder's algorithm is not
    /// checked.
    pub(super) fn is_window_bounded(&self, config: &TcpConfig) -> bool {
        let initial = cc::initial_window(self.window.mss, config.initial_window);
        let used = self
            .wnd_max
            .saturating_mul(4)
            .saturating_add(4 * self.window.mss);
        let own = matches!(self.cc, Cc::Custom(_) | Cc::Bbr(_));
        own || (self.window.cwnd > 0 && self.window.cwnd <= initial.max(used))
    }
}
