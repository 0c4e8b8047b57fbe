//! What to send again, and how much: NewReno's fast recovery around a congestion-control algorithm (RFC 6582).
//!
//! The algorithm ([`cc`](super::cc)) sets the window; in recovery the window is inflated by what left the network. Windows
//! are bytes. Called by: `ack` and `timers`.

use std::time::Duration;

use kern::Time;
use wire::SeqNum;

use super::cc::{Cc, CongestionEvent, RateSample, Why, Window, initial_window};
use crate::config::TcpConfig;

/// Segments that limited transmit may have in flight beyond the window (RFC 3042 2).
const LIMITED_SEGMENTS: u8 = 2;

/// Recovery's state, and the algorithm's.
#[derive(Debug)]
pub(crate) struct Congestion {
    window: Window,
    cc: Cc,
    /// While repairing a loss: the highest sequence number sent when it was noticed.
    recover: Option<SeqNum>,
    /// After a timeout: duplicate acknowledgements below this come from what is sent again, and mean
    /// no new loss (RFC 6582 4).
    ignore_below: Option<SeqNum>,
}

/// What an acknowledgement during fast recovery means (RFC 6582 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Recovery {
    /// Not in recovery: the window grew as usual.
    None,
    /// Part of what was outstanding: the next hole begins at the acknowledgement. Send it again.
    Partial,
    /// All of it: recovery is over.
    Done,
}

impl Congestion {
    /// A window as it begins, and the configured algorithm.
    pub(crate) fn new(mss: u32, config: &TcpConfig) -> Self {
        Self {
            window: Window::new(mss, config.initial_window),
            cc: Cc::new(config.congestion),
            recover: None,
            ignore_below: None,
        }
    }

    /// Bytes that may be in flight.
    pub(crate) fn cwnd(&self) -> u32 {
        self.window.cwnd
    }

    pub(crate) fn in_recovery(&self) -> bool {
        self.recover.is_some()
    }

    /// New data was acknowledged up to `ack`.
    pub(crate) fn acked(&mut self, ack: SeqNum, sample: &RateSample) -> Recovery {
        let Some(recover) = self.recover else {
            self.cc.on_ack(&mut self.window, sample);
            return Recovery::None;
        };
        if ack.before(recover) {
            // RFC 6582 3.2 step 3: deflate by what left the network, and let one more in.
            let Window { cwnd, mss, .. } = self.window;
            self.window.cwnd = cwnd.saturating_sub(sample.acked).max(mss);
            if sample.acked >= mss {
                self.window.cwnd += mss;
            }
            return Recovery::Partial;
        }
        self.cc.on_recovered(&mut self.window);
        self.recover = None;
        Recovery::Done
    }

    /// How much more than the window may be in flight after so many duplicate acknowledgements: a segment for each of
    /// the first two, which says that one has left the network (RFC 3042 2).
    pub(crate) fn limited_transmit(&self, duplicates: u8, una: SeqNum) -> u32 {
        match self.recover.is_none() && !self.repeats(una) {
            true => u32::from(duplicates.min(LIMITED_SEGMENTS)) * self.window.mss,
            false => 0,
        }
    }

    /// After a timeout: duplicates at `una` answer what is sent again.
    fn repeats(&self, una: SeqNum) -> bool {
        self.ignore_below.is_some_and(|below| una.before(below))
    }

    /// The third duplicate acknowledgement. False if that loss is being repaired already.
    pub(crate) fn enter_recovery(
        &mut self,
        now: Time,
        flight: u32,
        una: SeqNum,
        max: SeqNum,
    ) -> bool {
        if self.recover.is_some() || self.repeats(una) {
            return false;
        }
        self.ignore_below = None;
        // What limited transmit sent beyond the window does not count (RFC 5681 3.2 step 2).
        let beyond = flight.saturating_sub(self.window.cwnd);
        let limited = beyond.min(u32::from(LIMITED_SEGMENTS) * self.window.mss);
        let event = CongestionEvent {
            why: Why::Loss,
            now,
            flight: flight - limited,
            again: false,
        };
        self.cc.on_congestion(&mut self.window, &event);
        let three = 3 * self.window.mss;
        self.window.cwnd = self.window.ssthresh.saturating_add(three);
        self.recover = Some(max);
        true
    }

    /// One more duplicate acknowledgement in recovery: one more segment has left the network.
    pub(crate) fn inflate(&mut self) {
        self.window.cwnd = self.window.cwnd.saturating_add(self.window.mss);
    }

    /// The retransmission timer expired, for the first time for this loss or again.
    pub(crate) fn timed_out(&mut self, now: Time, flight: u32, max: SeqNum, first: bool) {
        let event = CongestionEvent {
            why: Why::Timeout,
            now,
            flight,
            again: !first,
        };
        self.cc.on_congestion(&mut self.window, &event);
        self.recover = None;
        self.ignore_below = Some(max);
    }

    /// The handshake took several tries. If more than one SYN or SYN-ACK was lost, the path is bad, and the window begins
    /// with one segment (RFC 6928 2, RFC 5681 3.1). A lost SYN says nothing about ssthresh.
    pub(crate) fn handshake_repeated(&mut self, retransmits: u8) {
        if retransmits > 1 {
            self.window.cwnd = self.window.mss;
        }
    }

    /// Nothing was sent for a timeout: what the window knew is old (RFC 5681 4.1).
    pub(crate) fn restart_after_idle(&mut self, idle: Duration, segments: u32) {
        let restart = self.restart_window(segments);
        self.cc.on_idle(&mut self.window, idle, restart);
    }

    /// What is left of a window after that, at most.
    #[doc(alias = "RW")]
    pub(crate) fn restart_window(&self, segments: u32) -> u32 {
        initial_window(self.window.mss, segments)
    }

    /// The path carries less than was thought.
    pub(crate) fn set_mss(&mut self, mss: u32) {
        self.window.set_mss(mss);
        self.cc.on_mss(&mut self.window);
    }
}
