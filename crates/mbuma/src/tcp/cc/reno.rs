//! Reno: a segment more each round trip, half of the flight at each loss (RFC 5681).
//!
//! It is kept beside the default because its rules are few and its throughput is known in closed form: tests compare
//! others with it.
//!
//! Sources: RFC 5681 3.1, 3465 2.1 (byte counting), 8511 (marks).

use kern::Time;

use super::{Algorithm, CongestionEvent, RateSample, Why, Window};

#[cfg(all(test, not(shuttle)))]
mod tests;

/// Reno's state.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reno {
    /// Bytes acknowledged since the window last grew in congestion avoidance.
    acked: u32,
    /// `cwnd` and `ssthresh` before the event that began the last recovery, until it is undone.
    before: Option<(u32, u32)>,
}

impl Algorithm for Reno {
    fn name(&self) -> &'static str {
        "reno"
    }

    fn on_ack(&mut self, w: &mut Window, s: &RateSample) {
        if !s.cwnd_limited {
            return;
        }
        if w.in_slow_start() {
            // By bytes acknowledged. RFC 3465's limit of two segments an acknowledgement is left out: peers that merge
            // segments acknowledge 64 KiB at a time.
            w.grow(s.acked);
            return;
        }
        // Once in a round trip, in which whole segments are acknowledged: the rest of the window is never filled.
        let round = w.cwnd - w.cwnd % w.mss.max(1);
        self.acked = self.acked.saturating_add(s.acked);
        if self.acked >= round {
            self.acked -= round;
            w.grow(w.mss);
        }
    }

    fn on_congestion(&mut self, w: &mut Window, event: &CongestionEvent) {
        if !event.again {
            let first = self.before.filter(|_| event.continues);
            self.before = first.or(Some((w.cwnd, w.ssthresh)));
            self.acked = 0;
            let part = match event.why {
                // RFC 8511 3.1: a queue that marks is short.
                Why::Ecn => u64::from(event.flight) * 4 / 5,
                Why::Loss | Why::Timeout => u64::from(event.flight) / 2, // RFC 5681 equation (4)
            };
            w.ssthresh = (part as u32).max(w.floor());
        }
        w.cwnd = match event.why {
            Why::Timeout => w.mss, // RFC 5681 3.1: the loss window
            Why::Loss | Why::Ecn => w.ssthresh,
        };
    }

    fn on_undo(&mut self, w: &mut Window, _: Time) {
        if let Some((cwnd, ssthresh)) = self.before.take() {
            w.cwnd = w.cwnd.max(cwnd);
            w.ssthresh = ssthresh.max(w.floor());
        }
    }
}
