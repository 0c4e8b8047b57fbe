//! Congestion control: how many bytes a connection may have in the network.
//!
//! Loss recovery decides *what* to send again, and an [`Algorithm`] decides *how much* may be in flight. An algorithm
//! sees samples and events, never sequence numbers:
//!
//! ```text
//!   acknowledgement   RateSample        on_ack           grows cwnd
//!   loss, ECN, RTO    CongestionEvent   on_congestion    sets ssthresh and cwnd, saves what it replaces
//!   end of recovery                     on_recovered     cwnd = ssthresh
//!   was no loss                         on_undo          restores what on_congestion replaced
//! ```
//!
//! A connection holds one algorithm by value (`Cc`). `Cc::Custom` is an algorithm of an embedder, in a box.
//!
//! Invariants: windows are bytes; arithmetic saturates; an acknowledgement never lowers `cwnd`.
//!
//! Locks: none; the connection's lock protects its algorithm.
//!
//! Sources: RFC 5681, 5033, 6928; the shape is that of FreeBSD's `cc_algo` with Linux's rate sample.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use kern::Time;

mod bbr;
mod choice;
mod cubic;
mod hystart;
mod reno;

pub use bbr::Bbr;
pub use choice::{CongestionControl, UnknownCongestionControl};
pub use cubic::Cubic;
pub use reno::Reno;

/// The variables that an algorithm controls. All fields are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Window {
    /// The congestion window: bytes that may be in flight (RFC 5681 2).
    #[doc(alias = "snd_cwnd")]
    pub cwnd: u32,
    /// The slow start threshold: slow start ends where `cwnd` reaches it. `u32::MAX` before the first congestion event.
    #[doc(alias = "snd_ssthresh")]
    pub ssthresh: u32,
    /// Payload bytes of a full-sized segment.
    #[doc(alias = "SMSS")]
    pub mss: u32,
}

impl Window {
    /// The window of a new connection; `segments` is the configured initial window.
    pub fn new(mss: u32, segments: u32) -> Self {
        Self {
            cwnd: initial_window(mss, segments),
            ssthresh: u32::MAX,
            mss,
        }
    }

    /// Whether the window still grows by slow start.
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Grows `cwnd`, as far as TCP can announce a window.
    pub fn grow(&mut self, bytes: u32) {
        self.cwnd = self.cwnd.saturating_add(bytes).min(CWND_MAX.max(self.cwnd));
    }

    /// Sets `mss`. Fewer bytes in a segment make the windows smaller: they keep their number of segments, because
    /// queues count packets. More bytes leave them as they are.
    pub fn set_mss(&mut self, mss: u32) {
        let scale = |bytes: u32| match bytes {
            u32::MAX => bytes,
            _ => (u64::from(bytes) * u64::from(mss) / u64::from(self.mss.max(1))) as u32,
        };
        if mss < self.mss {
            (self.cwnd, self.ssthresh) = (scale(self.cwnd), scale(self.ssthresh));
        }
        self.mss = mss;
        self.cwnd = self.cwnd.max(mss);
        self.ssthresh = self.ssthresh.max(self.floor());
    }

    /// The smallest window that congestion may leave: two segments (RFC 5681 equation 4).
    pub fn floor(&self) -> u32 {
        self.mss.saturating_mul(2)
    }
}

/// The largest window that TCP can announce (RFC 7323 2.3): no larger one can be used.
const CWND_MAX: u32 = 65_535 << 14;

/// The initial window in bytes: so many segments, but not more than two if they are larger than an Ethernet's
/// (RFC 6928 2: min (10*MSS, max (2*MSS, 14600))).
pub(crate) fn initial_window(mss: u32, segments: u32) -> u32 {
    const ETHERNET_MSS: u32 = 1460;
    // A connection with a window of 0 would never send.
    let segments = segments.max(1);
    let bound = mss
        .saturating_mul(2)
        .max(segments.saturating_mul(ETHERNET_MSS));
    mss.saturating_mul(segments).min(bound)
}

/// The measurements of one acknowledgement. Spans of time are nanoseconds, amounts are bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RateSample {
    /// When the acknowledgement arrived.
    pub now: Time,
    /// Bytes delivered in `interval`: together they are the delivery rate. 0 if there is no sample.
    pub delivered: u64,
    /// The time in which `delivered` bytes were delivered.
    pub interval: u64,
    /// The round trip that this acknowledgement measured, if it did: never of data that was sent more than once.
    pub rtt: Option<u64>,
    /// The smallest round trip of the last minutes; 0 before the first sample.
    pub min_rtt: u64,
    /// The smoothed round trip (RFC 6298); 0 before the first sample.
    pub srtt: u64,
    /// Bytes that arrived, by the first acknowledgement of them: a cumulative one, or a SACK block. SYN and FIN do not
    /// count.
    pub acked: u32,
    /// Of these, those that SACK blocks cover.
    pub sacked: u32,
    /// Bytes that were newly found lost.
    pub lost: u32,
    /// Bytes that newly arrived marked with congestion experienced.
    pub ce: u32,
    /// Bytes in flight when the data was sent that arrived and was sent last, itself included; 0 if none arrived.
    pub sent_flight: u32,
    /// Bytes in flight before this acknowledgement.
    pub prior_flight: u32,
    /// Bytes in flight after it.
    pub flight: u32,
    /// The sender had nothing to send while the sample was taken: the rate may be below what the path carries.
    pub app_limited: bool,
    /// The congestion window, not the sender or the peer's window, held data back. A window grows only then, because a
    /// window that was not filled is not validated (RFC 7661).
    pub cwnd_limited: bool,
    /// The first acknowledgement of a round trip: of data that was sent after the round before began.
    pub round_start: bool,
}

/// Why a window must shrink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// Segments were lost.
    Loss,
    /// The peer echoed congestion experienced (RFC 3168).
    Ecn,
    /// The retransmission timer expired (RFC 6298).
    Timeout,
}

/// One congestion event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CongestionEvent {
    /// The kind of event.
    pub why: Why,
    /// When.
    pub now: Time,
    /// Bytes sent and not cumulatively acknowledged when it was noticed, less what limited transmit sent beyond the
    /// window (RFC 5681's FlightSize).
    pub flight: u32,
    /// The timer expired again for data that it had sent again: `ssthresh` must stay (RFC 5681 3.1).
    pub again: bool,
    /// The recovery from an earlier event has not ended: [`on_undo`](Algorithm::on_undo) restores the state before that
    /// one.
    pub continues: bool,
}

impl CongestionEvent {
    /// An event that begins a recovery.
    pub(crate) fn new(why: Why, now: Time, flight: u32) -> Self {
        Self {
            why,
            now,
            flight,
            again: false,
            continues: false,
        }
    }
}

/// A congestion-control algorithm. Its state is the connection's: an implementation should allocate nothing.
///
/// The caller holds the connection's lock. Methods must be quick, and must not call into the stack.
pub trait Algorithm: fmt::Debug + Send {
    /// The name that users choose it by.
    fn name(&self) -> &'static str;

    /// The phase that the algorithm is in, if it has any with a name.
    fn phase(&self) -> Option<&'static str> {
        None
    }

    /// An acknowledgement arrived. Called outside of fast recovery; always if [`own_recovery`](Self::own_recovery).
    /// It must not lower `cwnd`, unless the algorithm has its own recovery.
    fn on_ack(&mut self, w: &mut Window, s: &RateSample);

    /// The network is congested: sets `ssthresh` and `cwnd`, and saves what [`on_undo`](Self::on_undo) needs. Called
    /// once for a window of data, and once more if meanwhile the retransmission timer expires or a repair is lost (RFC
    /// 5681 4.3).
    fn on_congestion(&mut self, w: &mut Window, event: &CongestionEvent);

    /// All that was in flight when the event was noticed is acknowledged. Not called if the event was undone; after a
    /// timeout only if [`own_recovery`](Self::own_recovery).
    fn on_recovered(&mut self, w: &mut Window) {
        if w.ssthresh != u32::MAX {
            w.cwnd = w.ssthresh.max(w.floor());
        }
    }

    /// The last event proved to be none: no segment was lost. Restores `cwnd` if it is now smaller, `ssthresh`, and the
    /// algorithm's own state.
    fn on_undo(&mut self, w: &mut Window, now: Time);

    /// Nothing was sent for `idle`, which is longer than a retransmission timeout. The window may be out of date:
    /// `restart_window` is the window of a new connection (RFC 5681 4.1).
    fn on_idle(&mut self, w: &mut Window, idle: Duration, restart_window: u32) {
        let _ = idle;
        w.cwnd = w.cwnd.min(restart_window);
    }

    /// `w.mss` has changed ([`Window::set_mss`]).
    fn on_mss(&mut self, w: &mut Window) {
        let _ = w;
    }

    /// The pacing rate in bytes per second. `None`: the default, made of `cwnd` and the smoothed round trip.
    fn rate(&self, w: &Window) -> Option<u64> {
        let _ = w;
        None
    }

    /// Whether `cwnd` of this algorithm holds in recovery too. Otherwise recovery has a window of its own, which ends
    /// at `ssthresh`.
    fn own_recovery(&self) -> bool {
        false
    }
}

/// The algorithm of a connection. `match` on the few that are ours costs less than a call through a table.
#[derive(Debug)]
pub(crate) enum Cc {
    Reno(Reno),
    Cubic(Cubic),
    Bbr(Box<Bbr>),
    /// An embedder's own.
    Custom(Box<dyn Algorithm>),
}

const _: () = assert!(size_of::<Cc>() <= 64, "a connection holds one by value");

impl Cc {
    /// [`Algorithm::on_ack`], which each acknowledgement calls.
    pub(crate) fn on_ack(&mut self, w: &mut Window, s: &RateSample) {
        match self {
            Self::Reno(reno) => reno.on_ack(w, s),
            Self::Cubic(cubic) => cubic.on_ack(w, s),
            Self::Bbr(bbr) => bbr.on_ack(w, s),
            Self::Custom(custom) => custom.on_ack(w, s),
        }
    }
}

/// For the events that are rare.
impl Deref for Cc {
    type Target = dyn Algorithm;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Reno(reno) => reno,
            Self::Cubic(cubic) => cubic,
            Self::Bbr(bbr) => bbr.as_ref(),
            Self::Custom(custom) => custom.as_ref(),
        }
    }
}

impl DerefMut for Cc {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Reno(reno) => reno,
            Self::Cubic(cubic) => cubic,
            Self::Bbr(bbr) => bbr.as_mut(),
            Self::Custom(custom) => custom.as_mut(),
        }
    }
}
