//! The bounds that losses and marks set: for long (how much may be in flight at all), and for short (until the next
//! probe).
//!
//! Source: draft-ietf-ccwg-bbr sections 5.5.10 and 5.5.11.

use super::BbrPhase;
use super::losses::RecentLosses;
use super::model::{PathModel, rate_of, share};
use crate::tcp::cc::{RateSample, Window};

/// Percent of the flight that may be lost or marked within a round trip.
const LOSS_MAX: u64 = 2;

/// Percent that is kept after too much loss.
const BETA: u64 = 70;

/// Percent of the bound that is left to other flows.
const HEADROOM: u64 = 15;

/// Acknowledgements with losses in one round trip that end STARTUP.
const STARTUP_LOSSES: u8 = 6;

/// The bounds, and what was measured for them in this round trip.
#[derive(Debug)]
pub(super) struct FlightBounds {
    pub(super) flight_high: u32,
    pub(super) flight_low: u32,
    pub(super) bandwidth_low: u64,
    /// The most of this round trip. Losses have round trips of their own, which begin at the first loss, so that the
    /// most is that of a whole round trip beside it.
    bandwidth_latest: u64,
    flight_latest: u32,
    round_end: u64,
    ended: bool,
    /// Acknowledgements in this round trip that reported losses or marks; and whether a loss or a mark was found at
    /// all.
    losses: u8,
    any: bool,
    noted: bool,
    recent: RecentLosses,
    /// Bytes lost or marked since the data was sent that has arrived.
    lost: u64,
}

/// The bounds alone, as they were before an event that may prove to be none.
#[derive(Debug, Clone, Copy)]
pub(super) struct SavedBounds {
    flight_high: u32,
    flight_low: u32,
    bandwidth_low: u64,
}

impl Default for FlightBounds {
    fn default() -> Self {
        Self {
            flight_high: u32::MAX,
            flight_low: u32::MAX,
            bandwidth_low: u64::MAX,
            bandwidth_latest: 0,
            flight_latest: 0,
            round_end: 0,
            ended: false,
            losses: 0,
            any: false,
            noted: false,
            recent: RecentLosses::default(),
            lost: 0,
        }
    }
}

impl FlightBounds {
    /// A loss was found, or the peer echoed a mark.
    pub(super) fn note(&mut self) {
        self.noted = true;
    }

    pub(super) fn on_ack(
        &mut self,
        w: &Window,
        s: &RateSample,
        model: &PathModel,
        phase: BbrPhase,
    ) {
        self.count(s, model);
        self.bandwidth_latest = self.bandwidth_latest.max(rate_of(s).unwrap_or(0));
        self.flight_latest =
            (self.flight_latest).max(u32::try_from(s.delivered).unwrap_or(u32::MAX));
        self.ended = s.delivered > 0 && model.delivered_before(s) >= self.round_end;
        if !self.ended {
            return;
        }
        self.round_end = model.delivered();
        if std::mem::take(&mut self.any) && !phase.probes() {
            self.lower(w, model);
        }
    }

    fn count(&mut self, s: &RateSample, model: &PathModel) {
        let bad = u64::from(s.lost) + u64::from(s.ce);
        if bad > 0 {
            self.losses = self.losses.saturating_add(1);
            self.recent.note(model.delivered(), bad);
        }
        if s.delivered > 0 {
            self.lost = self.recent.since(model.delivered_before(s));
        } else {
            self.lost += bad;
        }
        let noted = std::mem::take(&mut self.noted) || bad > 0;
        if noted && !self.any {
            (self.any, self.round_end) = (true, model.delivered());
        }
    }

    /// Losses between probes: the path carries less than it did.
    fn lower(&mut self, w: &Window, model: &PathModel) {
        if self.bandwidth_low == u64::MAX {
            self.bandwidth_low = model.bandwidth();
        }
        if self.flight_low == u32::MAX {
            self.flight_low = w.cwnd;
        }
        self.bandwidth_low = (share(self.bandwidth_low, BETA).max(self.bandwidth_latest)).max(1);
        self.flight_low = part(self.flight_low, BETA).max(self.flight_latest);
    }

    /// The end of an acknowledgement: a round trip that has begun is measured anew.
    pub(super) fn end_ack(&mut self, s: &RateSample) {
        if self.ended {
            self.bandwidth_latest = rate_of(s).unwrap_or(0);
            self.flight_latest = u32::try_from(s.delivered).unwrap_or(u32::MAX);
            self.losses = 0;
        }
    }

    /// The end of a probe: its losses do not count against the phases that follow.
    pub(super) fn forget_losses(&mut self) {
        self.any = false;
        (self.bandwidth_latest, self.flight_latest) = (0, 0);
    }

    /// Whether losses go on for a round trip of STARTUP.
    pub(super) fn ends_startup(&self, s: &RateSample) -> bool {
        self.ended && self.losses >= STARTUP_LOSSES && self.is_too_high(s)
    }

    /// STARTUP ends for its losses.
    pub(super) fn cut_startup(&mut self, product: u32) {
        self.flight_high = product.max(self.flight_latest);
    }

    pub(super) fn save(&self) -> SavedBounds {
        SavedBounds {
            flight_high: self.flight_high,
            flight_low: self.flight_low,
            bandwidth_low: self.bandwidth_low,
        }
    }

    /// The losses since `before` were none (section 5.5.11.2).
    pub(super) fn restore(&mut self, before: SavedBounds) {
        self.any = false;
        self.bandwidth_low = self.bandwidth_low.max(before.bandwidth_low);
        self.flight_low = self.flight_low.max(before.flight_low);
        self.flight_high = self.flight_high.max(before.flight_high);
    }

    /// Whether too much of what was in flight is lost.
    pub(super) fn is_too_high(&self, s: &RateSample) -> bool {
        let flight = u64::from(flight_of(s));
        flight > 0 && self.lost > share(flight, LOSS_MAX)
    }

    /// Too much was in flight: sets the long bound. `target`: the model's flight.
    pub(super) fn cut(&mut self, s: &RateSample, target: u32) {
        if !s.app_limited {
            self.flight_high = self.flight_at_loss(s).max(part(target, BETA));
        }
    }

    /// The flight from which on too much was lost: one acknowledgement may show the loss of many segments, of which the
    /// first ones were still allowed (section 5.5.10.2, BBRInflightAtLoss).
    fn flight_at_loss(&self, s: &RateSample) -> u32 {
        let flight = u64::from(flight_of(s));
        let now = (u64::from(s.lost) + u64::from(s.ce)).min(flight);
        let (flight, lost) = (flight - now, self.lost.saturating_sub(now));
        let allowed = share(flight, LOSS_MAX).saturating_sub(lost);
        let first = (allowed * 100 / (100 - LOSS_MAX)).min(now);
        (flight + first).try_into().unwrap_or(u32::MAX)
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
