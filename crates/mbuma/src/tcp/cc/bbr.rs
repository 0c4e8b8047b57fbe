//! BBR, version 3: a model of the path, its bandwidth and its round trip, decides how fast and how much is sent.
//!
//! ```text
//!                                 +----------------------------------------------+
//!   STARTUP --> DRAIN --> PROBE_BW: DOWN --> CRUISE --> REFILL --> UP --> (DOWN) |
//!   rate x2.77  x0.5                0.9       1.0        1.0      1.25           |
//!                  ^             +----------------------------------------------+
//!                  +-- each 5 s without a smaller round trip: PROBE_RTT, half of the product for 200 ms
//! ```
//!
//! 1. `bandwidth` is the fastest delivery of the last two cycles of probing, `min_rtt` the smallest round trip of 10 s.
//!    Their product is the amount that fills the path and no queue.
//! 2. A single loss changes nothing. More than 2 % of what was in flight within a round trip, lost or marked, ends a
//!    probe and bounds the flight from then on (`flight_high`); losses between probes lower the model for a while
//!    (`bandwidth_low`, `flight_low`).
//! 3. Data leaves at the model's rate ([`Algorithm::rate`]), so there is a path to it only where the stack paces.
//!
//! The state is in a box: connections with another algorithm have no room for it.
//!
//! Marks count as losses do: by bytes with AccECN, once a window with RFC 3168's echo. The draft leaves them open.
//!
//! Locks: none. Sources: draft-ietf-ccwg-bbr-06 (BBRv3), draft-cheng-iccrg-delivery-rate-estimation.

mod bounds;
mod cycle;
mod losses;
mod model;
#[cfg(all(test, not(shuttle)))]
mod tests;

use std::time::Duration;

use kern::Time;

use super::{Algorithm, CongestionEvent, RateSample, Why, Window};
use bounds::{FlightBounds, SavedBounds};
use cycle::Cycle;
use model::PathModel;

/// The phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BbrPhase {
    /// The rate doubles each round trip, until the bandwidth stops growing.
    Startup,
    /// The queue that STARTUP made drains.
    Drain,
    /// Slower than the path, so that the queue of a probe drains.
    Down,
    /// At the rate of the path.
    Cruise,
    /// The same without the short-term bounds, for one round trip.
    Refill,
    /// Faster than the path: has it become faster?
    Up,
    /// Nearly idle, so that the round trip can be measured.
    ProbeRtt,
}

impl BbrPhase {
    fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// Whether it probes for more bandwidth, so that the probe itself may cause a loss.
    fn probes(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Drain => "drain",
            Self::Down => "probe-bw-down",
            Self::Cruise => "probe-bw-cruise",
            Self::Refill => "probe-bw-refill",
            Self::Up => "probe-bw-up",
            Self::ProbeRtt => "probe-rtt",
        }
    }

    /// Percent of the bandwidth at which data leaves, and of the product that may be in flight.
    fn gains(self) -> (u64, u64) {
        match self {
            Self::Startup => (277, 200),
            Self::Drain => (50, 200),
            Self::Down => (90, 200),
            Self::Cruise | Self::Refill => (100, 200),
            Self::Up => (125, 225),
            Self::ProbeRtt => (100, 50),
        }
    }
}

/// Percent of the rate that is used: so that no queue grows by the error of a measurement.
const PACING_MARGIN: u64 = 99;

/// Segments that may be in flight at least.
const SEGMENTS_MIN: u32 = 4;

/// BBR's state.
#[derive(Debug)]
pub struct Bbr {
    phase: BbrPhase,
    model: PathModel,
    bounds: FlightBounds,
    cycle: Cycle,
    /// Bytes per second; 0 before the first sample of a round trip.
    pacing_rate: u64,
    /// The window before PROBE_RTT or a timeout.
    prior_cwnd: u32,
    /// The bounds before the event that began the last recovery, until it is undone or the next one begins; and the
    /// probe that a loss has ended since.
    before: Option<SavedBounds>,
    probe_lost: Option<BbrPhase>,
    /// The recovery has not ended.
    recovers: bool,
    /// Sending begins again after a pause.
    restarts: bool,
}

impl Default for Bbr {
    fn default() -> Self {
        Self {
            phase: BbrPhase::Startup,
            model: PathModel::default(),
            bounds: FlightBounds::default(),
            cycle: Cycle::default(),
            pacing_rate: 0,
            prior_cwnd: 0,
            before: None,
            probe_lost: None,
            recovers: false,
            restarts: false,
        }
    }
}

impl Bbr {
    /// The estimate of the bandwidth.
    fn bandwidth(&self) -> u64 {
        self.model.bandwidth().min(self.bounds.bandwidth_low)
    }

    /// Percent of the path's product, in bytes.
    fn product(&self, percent: u64) -> u32 {
        self.model.product(self.bandwidth(), percent)
    }

    fn enter(&mut self, phase: BbrPhase) {
        self.phase = phase;
    }

    fn set_pacing_rate(&mut self, w: &Window, s: &RateSample) {
        let (gain, _) = self.phase.gains();
        // Until a window was measured, the first one stands for the path (section 5.6.2): the acknowledgement of a SYN,
        // or of a few bytes, does not measure its bandwidth.
        if self.pacing_rate == 0
            && let Some(first) = (u64::from(w.cwnd) * 1_000_000_000).checked_div(s.srtt)
        {
            self.pacing_rate = model::share(first, gain);
        }
        if self.model.bandwidth() == 0 {
            return;
        }
        let rate = model::share(model::share(self.bandwidth(), gain), PACING_MARGIN).max(1);
        if self.model.is_full() || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// Bytes that the path takes with its queue, with room for what a receiver acknowledges at once.
    fn flight_max(&self, w: &Window) -> u32 {
        let (_, gain) = self.phase.gains();
        let model = self.product(gain).saturating_add(self.model.aggregation());
        // Three of the stack's packets, so that a sender of large packets is not limited to one in flight.
        let packet = (self.pacing_rate / 1000).min(64 << 10) as u32;
        let quantum = packet.max(2 * w.mss).saturating_mul(3);
        let probe = match self.phase {
            BbrPhase::Up => 2 * w.mss,
            _ => 0,
        };
        let least = quantum.max(SEGMENTS_MIN * w.mss);
        model.max(least).saturating_add(probe)
    }

    fn set_cwnd(&mut self, w: &mut Window, s: &RateSample) {
        let most = self.flight_max(w);
        let grown = w.cwnd.saturating_add(s.acked);
        let cwnd = match self.model.is_full() {
            true => grown.min(most),
            false if w.cwnd < most => grown,
            false => w.cwnd,
        };
        let mut cwnd = cwnd.max(SEGMENTS_MIN * w.mss);
        if self.phase == BbrPhase::ProbeRtt {
            cwnd = cwnd.min(self.flight_of_probe_rtt(w));
        }
        let high = match self.phase {
            BbrPhase::Cruise | BbrPhase::ProbeRtt => self.bounds.with_headroom(w),
            phase if phase.is_probe_bw() => self.bounds.flight_high,
            _ => u32::MAX,
        };
        let bound = high.min(self.bounds.flight_low);
        let cwnd = cwnd.min(bound.max(SEGMENTS_MIN * w.mss));
        w.cwnd = 0;
        w.grow(cwnd);
    }

    /// Saves the window that PROBE_RTT or a recovery will make smaller; `fresh`: no recovery is under way (section
    /// 5.6.4.4).
    fn save_cwnd(&mut self, w: &Window, fresh: bool) {
        self.prior_cwnd = match fresh && self.phase != BbrPhase::ProbeRtt {
            true => w.cwnd,
            false => self.prior_cwnd.max(w.cwnd),
        };
    }

    fn flight_of_probe_rtt(&self, w: &Window) -> u32 {
        self.product(50).max(SEGMENTS_MIN * w.mss)
    }
}

impl Algorithm for Bbr {
    fn name(&self) -> &'static str {
        "bbr"
    }

    fn phase(&self) -> Option<&'static str> {
        Some(self.phase.name())
    }

    fn on_ack(&mut self, w: &mut Window, s: &RateSample) {
        let s = &mut { *s };
        let bandwidth = self.bandwidth();
        self.model.on_ack(w, s, self.phase, bandwidth);
        self.bounds.on_ack(w, s, &self.model, self.phase);
        self.check_startup(s);
        self.check_drain(s);
        self.advance_cycle(w, s);
        self.model.update_min_rtt(s);
        self.check_probe_rtt(w, s);
        self.bounds.end_ack(s);
        self.set_pacing_rate(w, s);
        self.set_cwnd(w, s);
    }

    fn on_congestion(&mut self, w: &mut Window, event: &CongestionEvent) {
        let begins = !event.continues && !event.again;
        self.save_cwnd(w, begins);
        self.recovers = true;
        if begins {
            self.before = Some(self.bounds.save());
            self.probe_lost = None;
        }
        match event.why {
            Why::Ecn | Why::Loss => self.bounds.note(),
            Why::Timeout => w.cwnd = w.mss,
        }
    }

    fn on_recovered(&mut self, w: &mut Window) {
        // The next acknowledgement bounds it by the model. The event may prove to be none still, by reports of
        // duplicates.
        self.recovers = false;
        if self.phase != BbrPhase::ProbeRtt {
            w.cwnd = w.cwnd.max(self.prior_cwnd).max(SEGMENTS_MIN * w.mss);
        }
    }

    fn on_undo(&mut self, w: &mut Window, _: Time) {
        let Some(before) = self.before.take() else {
            return;
        };
        self.bounds.restore(before);
        self.recovers = false;
        w.cwnd = w.cwnd.max(self.prior_cwnd);
        self.model.reset_full(0);
        self.resume_probe();
    }

    fn on_idle(&mut self, _: &mut Window, _: Duration, _: u32) {
        // The model still describes the path, and pacing prevents a burst (section 5.4.1).
        self.restarts = true;
        if self.phase.is_probe_bw() && self.model.bandwidth() > 0 {
            self.pacing_rate = self.bandwidth().max(1);
        }
    }

    fn rate(&self, _: &Window) -> Option<u64> {
        (self.pacing_rate > 0).then_some(self.pacing_rate)
    }

    fn own_recovery(&self) -> bool {
        true
    }
}
