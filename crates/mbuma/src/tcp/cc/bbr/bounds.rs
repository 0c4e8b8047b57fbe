//! The bounds that losses and marks set: for long (how much may be in flight at all), and for short (until the next probe).
//!
//! Source: draft-ietf-ccwg-bbr sections 5.5.10 and 5.5.11.

use super::BbrPhase;
use super::model::{PathModel, rate_of, share};
use crate::tcp::cc::{RateSample, Window};

/// Percent of the flight that may be lost or marked within a round trip.
const LOSS_MAX: u64 = 2;

/// Percent that is kept after too much loss.
const BETA: u64 = 70;

/// Percent of the bound that is left to other flows.
const HEADROOM: u64 = 15;

/// Acknowledgements with losses in one round trip that end STARTUP.
pub(super) const STARTUP_LOSSES: u8 = 6;

/// The bounds, and what was measured for them in this round trip.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlightBounds {
    pub(super) flight_high: u32,
    pub(super) flight_low: u32,
    pub(super) bandwidth_low: u64,
    /// The most of this round trip and of the one before.
    bandwidth_latest: u64,
    flight_latest: u32,
    /// Bytes lost or marked in this round trip, the acknowledgements that reported them, and whether the echo of a mark
    /// came.
    lost: u64,
    pub(super) losses: u8,
    any: bool,
}

impl Default for FlightBounds {
    fn default() -> Self {
        Self {
            flight_high: u32::MAX,
            flight_low: u32::MAX,
            bandwidth_low: u64::MAX,
            bandwidth_latest: 0,
            flight_latest: 0,
            lost: 0,
            losses: 0,
            any: false,
        }
    }
}

impl FlightBounds {
    /// The peer echoed a mark.
    pub(super) fn note_mark(&mut self) {
        self.any = true;
    }

    /// A loss was found.
    pub(super) fn note_loss(&mut self) {
        self.any = true;
    }

    pub(super) fn on_ack(
        &mut self,
        w: &Window,
        s: &RateSample,
        model: &PathModel,
        phase: BbrPhase,
    ) {
        let bad = u64::from(s.lost) + u64::from(s.ce);
        self.lost += bad;
        self.losses = self.losses.saturating_add(u8::from(bad > 0));
        self.any |= bad > 0;
        self.bandwidth_latest = self.bandwidth_latest.max(rate_of(s).unwrap_or(0));
        self.flight_latest =
            (self.flight_latest).max(u32::try_from(s.delivered).unwrap_or(u32::MAX));
        if model.round_start && self.any && !phase.probes() {
            self.lower(w, model);
        }
    }

    /// Losses between probes: the path carries less than it did.
    fn lower(&mut self, w: &Window, model: &PathModel) {
        let bandwidth = self.bandwidth_low.min(model.bandwidth());
        self.bandwidth_low = share(bandwidth, BETA).max(self.bandwidth_latest).max(1);
        let flight = self.flight_low.min(w.cwnd);
        self.flight_low = part(flight, BETA).max(self.flight_latest);
    }

    /// The end of an acknowledgement: a round trip that has begun is measured anew.
    pub(super) fn end_ack(&mut self, s: &RateSample, model: &PathModel) {
        if model.round_start {
            self.bandwidth_latest = rate_of(s).unwrap_or(0);
            self.flight_latest = u32::try_from(s.delivered).unwrap_or(u32::MAX);
            (self.lost, self.losses, self.any) = (0, 0, false);
        }
    }

    /// Whether too much of what was in flight is lost.
    pub(super) fn is_too_high(&self, s: &RateSample) -> bool {
        let flight = u64::from(flight_of(s));
        flight > 0 && self.lost > share(flight, LOSS_MAX)
    }

    /// Too much was in flight: sets the long bound. `target`: the model's flight.
    pub(super) fn cut(&mut self, s: &RateSample, target: u32) {
        if !s.app_limited {
            self.flight_high = flight_of(s).max(part(target, BETA));
        }
    }

    /// This much was in flight without a loss.
    pub(super) fn raise(&mut self, s: &RateSample) {
        if self.flight_high != u32::MAX {
            self.flight_high = self.flight_high.max(flight_of(s));
        }
    }

    /// Removes the short bounds, before the next probe.
    pub(super) fn forget_low(&mut self) {
        (self.flight_low, self.bandwidth_low) = (u32::MAX, u64::MAX);
    }

    /// The long bound, less room for others.
    pub(super) fn with_headroom(&self, w: &Window) -> u32 {
        if self.flight_high == u32::MAX {
            return u32::MAX;
        }
        let room = part(self.flight_high, HEADROOM).max(w.mss);
        self.flight_high
            .saturating_sub(room)
            .max(super::SEGMENTS_MIN * w.mss)
    }
}

/// What was in flight when the data was sent that has arrived; before the first measure, what is now.
fn flight_of(s: &RateSample) -> u32 {
    if s.sent_flight > 0 {
        s.sent_flight
    } else {
        s.prior_flight
    }
}

fn part(bytes: u32, percent: u64) -> u32 {
    share(bytes.into(), percent) as u32
}
