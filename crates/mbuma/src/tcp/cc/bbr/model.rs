//! The model of the path: its bandwidth, its round trip, how much a receiver acknowledges at once, and whether the pipe
//! is full.
//!
//! Source: draft-ietf-ccwg-bbr sections 5.3.1, 5.5.

use std::time::Duration;

use kern::Time;

use super::BbrPhase;
use crate::tcp::cc::{RateSample, Window};

/// The time for which a smallest round trip counts.
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);

/// After this time without a smaller round trip, PROBE_RTT measures again.
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);

/// Round trips for which an excess of acknowledgements counts, in each of two halves.
const AGGREGATION_ROUNDS: u64 = 5;

/// Percent that the bandwidth must have grown, and the round trips without it, until the pipe is full.
const GROWTH: u64 = 125;
const ROUNDS_FULL: u8 = 3;

/// `amount` times `percent`.
pub(super) fn share(amount: u64, percent: u64) -> u64 {
    let all = u128::from(amount) * u128::from(percent) / 100;
    u64::try_from(all).unwrap_or(u64::MAX)
}

/// Bytes that `rate` bytes per second are in `nanos`.
fn bytes_in(rate: u64, nanos: u64) -> u64 {
    let all = u128::from(rate) * u128::from(nanos) / 1_000_000_000;
    u64::try_from(all).unwrap_or(u64::MAX)
}

/// The model.
#[derive(Debug, Default)]
pub(super) struct PathModel {
    /// The fastest delivery in this cycle of probing and in the one before, in bytes per second.
    bandwidths: [u64; 2],
    min_rtt: u64,
    min_rtt_at: Time,
    /// The smallest since the last PROBE_RTT.
    pub(super) probe_rtt: u64,
    pub(super) probe_rtt_at: Time,
    /// There was no smaller round trip for long: PROBE_RTT is due.
    pub(super) is_rtt_old: bool,
    /// Bytes delivered, and the number with which the round trip ends.
    delivered: u64,
    round_end: u64,
    rounds: u64,
    /// This acknowledgement begins a round trip.
    pub(super) round_start: bool,
    /// Samples of data that was sent until so many bytes were delivered are application-limited.
    limited_until: Option<u64>,
    /// Acknowledged beyond what the bandwidth explains: since when, and how much; the most of two spans of rounds.
    burst_since: Time,
    burst: u64,
    bursts: [u32; 2],
    bursts_since: u64,
    /// Bandwidth that the next rounds must exceed, rounds that did not, and the verdict.
    full_bandwidth: u64,
    full_rounds: u8,
    pub(super) is_full_now: bool,
    is_full: bool,
}

impl PathModel {
    /// Bytes per second; 0 before the first sample.
    pub(super) fn bandwidth(&self) -> u64 {
        self.bandwidths[0].max(self.bandwidths[1])
    }

    /// STARTUP has found the bandwidth.
    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    pub(super) fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    pub(super) fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Percent of the path's product at this bandwidth; without a round trip, everything.
    pub(super) fn product(&self, bandwidth: u64, percent: u64) -> u32 {
        if self.min_rtt == 0 {
            return 0;
        }
        let bytes = share(bytes_in(bandwidth, self.min_rtt), percent);
        u32::try_from(bytes).unwrap_or(u32::MAX)
    }

    /// The largest amount that was acknowledged beyond the bandwidth's share.
    pub(super) fn aggregation(&self) -> u32 {
        self.bursts[0].max(self.bursts[1])
    }

    /// Bytes delivered in all.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Bytes delivered before the data was sent that a sample is of.
    pub(super) fn delivered_before(&self, s: &RateSample) -> u64 {
        self.delivered.saturating_sub(s.delivered)
    }

    /// The data in flight, and what is sent until it is delivered, does not measure the path.
    pub(super) fn note_limited(&mut self, flight: u32) {
        self.limited_until = Some(self.delivered + u64::from(flight));
    }

    /// Round trips begin to count here.
    pub(super) fn begin_round(&mut self) {
        self.round_end = self.delivered;
    }

    /// `bandwidth`: the estimate with the bounds.
    pub(super) fn on_ack(
        &mut self,
        w: &Window,
        s: &mut RateSample,
        phase: BbrPhase,
        bandwidth: u64,
    ) {
        self.delivered += u64::from(s.acked);
        let before = self.delivered_before(s);
        s.app_limited |= self.limited_until.is_some_and(|until| before <= until);
        self.round_start = s.delivered > 0 && before >= self.round_end;
        if self.round_start {
            self.round_end = self.delivered;
            self.rounds += 1;
        }
        if let Some(rate) = rate_of(s)
            && (rate >= self.bandwidth() || !s.app_limited)
        {
            self.bandwidths[0] = self.bandwidths[0].max(rate);
        }
        self.update_aggregation(w, s, bandwidth);
        self.check_full(s, phase);
    }

    /// A cycle of probing is over: the one before the last is forgotten.
    pub(super) fn next_cycle(&mut self) {
        self.bandwidths = [0, self.bandwidths[0].max(1)];
    }

    /// A new measure of whether the pipe is full.
    pub(super) fn reset_full(&mut self, bandwidth: u64) {
        (self.full_bandwidth, self.full_rounds, self.is_full_now) = (bandwidth, 0, false);
    }

    fn check_full(&mut self, s: &RateSample, phase: BbrPhase) {
        let judges = matches!(phase, BbrPhase::Startup | BbrPhase::Up);
        let Some(rate) = rate_of(s).filter(|_| judges && self.round_start && !s.app_limited) else {
            return;
        };
        if self.is_full_now {
            return;
        }
        if rate >= share(self.full_bandwidth, GROWTH) {
            self.reset_full(rate);
            return;
        }
        self.full_rounds += 1;
        self.is_full_now = self.full_rounds >= ROUNDS_FULL;
        self.is_full |= self.is_full_now;
    }

    fn update_aggregation(&mut self, w: &Window, s: &RateSample, bandwidth: u64) {
        if self.rounds >= self.bursts_since + AGGREGATION_ROUNDS {
            (self.bursts, self.bursts_since) = ([0, self.bursts[0]], self.rounds);
        }
        let nanos = s.now.as_nanos().saturating_sub(self.burst_since.as_nanos());
        let expected = bytes_in(bandwidth, nanos);
        if self.burst <= expected {
            (self.burst, self.burst_since) = (0, s.now);
        }
        let expected = if self.burst == 0 { 0 } else { expected };
        self.burst += u64::from(s.acked);
        let excess = (self.burst - expected.min(self.burst)).min(u64::from(w.cwnd));
        self.bursts[0] = self.bursts[0].max(excess as u32);
        if !self.is_full {
            // The window doubles in STARTUP, and with it what is acknowledged at once.
            self.bursts = [excess as u32, 0];
        }
    }

    pub(super) fn update_min_rtt(&mut self, s: &RateSample) {
        let Some(rtt) = s.rtt.filter(|rtt| *rtt > 0) else {
            return;
        };
        self.is_rtt_old = self.probe_rtt > 0 && s.now > self.probe_rtt_at + PROBE_RTT_INTERVAL;
        if self.probe_rtt == 0 || rtt < self.probe_rtt || self.is_rtt_old {
            (self.probe_rtt, self.probe_rtt_at) = (rtt, s.now);
        }
        let is_old = s.now > self.min_rtt_at + MIN_RTT_WINDOW;
        if self.min_rtt == 0 || self.probe_rtt < self.min_rtt || is_old {
            (self.min_rtt, self.min_rtt_at) = (self.probe_rtt, self.probe_rtt_at);
        }
    }
}

/// Bytes per second of a sample that has a rate.
pub(super) fn rate_of(s: &RateSample) -> Option<u64> {
    let bytes = u128::from(s.delivered) * 1_000_000_000;
    let rate = bytes.checked_div(s.interval.into())?;
    (s.delivered > 0).then(|| u64::try_from(rate).unwrap_or(u64::MAX))
}
