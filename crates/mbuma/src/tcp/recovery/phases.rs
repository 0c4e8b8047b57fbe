//! The phases of recovery: what an acknowledgement means in each, and how one follows another.
//!
//! Locks: none; part of the connection. Sources: RFC 5681, 6582, 9937, 5682.

use kern::Time;

use super::delivery::PriorFlight;
use super::state::{Episode, Frto, RecoveryPhase};
use super::{AckOutcome, Acknowledgement};
use crate::tcp::cc::{CongestionEvent, RateSample, Why};
use crate::tcp::pcb::SendState;

/// Duplicate acknowledgements that mean a loss (RFC 5681 3.2).
const DUPLICATES: u8 = 3;

impl SendState {
    /// A repair was lost: one more sign of congestion, but one for all that were sent since the window last shrank (RFC
    /// 5681 4.3, RFC 8985 3.4).
    pub(super) fn on_repair_lost(
        &mut self,
        now: Time,
        before: &PriorFlight,
        outcome: &mut AckOutcome,
    ) {
        match self.recovery.phase {
            RecoveryPhase::Fast => {
                self.congested(&CongestionEvent {
                    continues: true,
                    ..CongestionEvent::new(Why::Loss, now, before.flight_size)
                });
                self.restart_reduction(now, before.outstanding);
            }
            // Slow start ends: what it sent again did not pass.
            RecoveryPhase::Loss => {
                outcome.entered = true;
                self.enter(now, before);
            }
            RecoveryPhase::Open | RecoveryPhase::Marked => {}
        }
    }

    pub(super) fn on_ack_open(
        &mut self,
        a: &Acknowledgement<'_>,
        sample: &RateSample,
        before: &PriorFlight,
        outcome: &mut AckOutcome,
    ) {
        if !self.tells_of_loss(a, sample) {
            if a.marked {
                outcome.marked = true;
                self.congested(&CongestionEvent::new(Why::Ecn, a.now, before.flight_size));
                self.begin(RecoveryPhase::Marked, a.now, before.outstanding, true);
                self.reduce(sample.acked, true);
                self.sample_own(sample);
                return;
            }
            // Reports of a hole may be the first sign of a loss: until reordering was seen, they do not enlarge the
            // window.
            if a.ack.after(before.una) || self.reordering.is_seen() || self.cc.own_recovery() {
                self.cc.on_ack(&mut self.window, sample);
            }
            if self.sent.is_empty() {
                // The state ends with the flight; an earlier event can't be undone any more.
                self.recovery.episode = None;
            }
            return;
        }
        outcome.entered = true;
        self.enter(a.now, before);
        if a.sack_on {
            self.reduce(sample.acked, false);
        } else {
            // RFC 6582 3.2 step 2.
            let inflated = self.window.ssthresh.saturating_add(3 * self.mss);
            if let Some(episode) = &mut self.recovery.episode {
                episode.cwnd = inflated;
            }
            self.repair_first();
        }
        self.sample_own(sample);
    }

    /// An algorithm with a recovery of its own sees each sample.
    fn sample_own(&mut self, sample: &RateSample) {
        if self.cc.own_recovery() {
            let lost = sample.lost + self.recovery.take_timer_lost();
            let sample = RateSample { lost, ..*sample };
            self.cc.on_ack(&mut self.window, &sample);
        }
    }

    fn tells_of_loss(&self, a: &Acknowledgement<'_>, sample: &RateSample) -> bool {
        let third = !a.sack_on && a.is_duplicate && self.recovery.dup_acks == DUPLICATES;
        sample.lost > 0 || third
    }

    pub(super) fn on_ack_marked(
        &mut self,
        a: &Acknowledgement<'_>,
        sample: &RateSample,
        advanced: bool,
        outcome: &mut AckOutcome,
    ) {
        if self.tells_of_loss(a, sample) {
            outcome.entered = true;
            self.repair_in_window();
            if !a.sack_on {
                self.repair_first();
            }
        }
        self.on_ack_fast(a, sample, advanced);
    }

    /// A loss was found during a reduction: one reduction for a window of data is enough.
    pub(super) fn repair_in_window(&mut self) {
        self.recovery.phase = RecoveryPhase::Fast;
        self.recovery.recover = self.nxt;
        self.recovery.frto = Frto::Off;
        self.probe.forget();
    }

    /// Begins `Fast`; the window is still to be set.
    pub(super) fn enter(&mut self, now: Time, before: &PriorFlight) {
        self.congested(&CongestionEvent::new(Why::Loss, now, before.flight_size));
        self.begin(RecoveryPhase::Fast, now, before.outstanding, false);
        self.recovery.frto = Frto::Off;
        self.probe.forget();
    }

    pub(super) fn begin(&mut self, phase: RecoveryPhase, now: Time, flight: u32, marked: bool) {
        self.recovery.phase = phase;
        self.recovery.recover = self.nxt;
        self.recovery.episode = Some(Box::new(Episode {
            resent: 0,
            reduced_at: now,
            judged: self.una,
            first_resent_ms: None,
            marked,
            flight: flight.max(self.mss).into(),
            delivered: 0,
            sent: 0,
            cwnd: self.window.cwnd,
            timer_lost: 0,
            partial_acks: 0,
            inflatable: flight,
            repeated: None,
        }));
    }

    /// The first segment is retransmitted at once.
    pub(super) fn repair_first(&mut self) {
        self.sent.mark_first_lost(self.mss);
        self.recovery.forced = true;
    }

    pub(super) fn on_ack_fast(
        &mut self,
        a: &Acknowledgement<'_>,
        sample: &RateSample,
        advanced: bool,
    ) {
        self.sample_own(sample);
        if self.una.at_or_after(self.recovery.recover) {
            self.end_phase();
            self.cc.on_recovered(&mut self.window);
        } else if a.sack_on || self.recovery.phase == RecoveryPhase::Marked {
            if sample.acked > 0 {
                self.reduce(sample.acked, advanced && sample.lost == 0);
            }
        } else if advanced {
            // RFC 6582 3.2 step 3: deflate the window by the bytes that left the network, and add one segment.
            let mss = self.mss;
            let more = if a.data >= mss { mss } else { 0 };
            let outstanding = self.nxt.since(self.una);
            if let Some(episode) = &mut self.recovery.episode {
                episode.cwnd = episode.cwnd.saturating_sub(a.data).max(mss) + more;
                if more > 0 {
                    episode.inflatable = outstanding;
                }
                episode.partial_acks += 1;
            }
            // What a repair under way covers needs no other one: a peer that acknowledges it byte by byte would get a
            // segment for each byte. If the peer took only a part, the timer repairs the rest.
            if !self.sent.is_first_repaired() {
                self.repair_first();
            }
        } else if a.is_duplicate {
            // Without a bound, a peer's false duplicates would open any window (RFC 5681 5).
            if let Some(episode) = &mut self.recovery.episode {
                let more = self.mss.min(episode.inflatable);
                episode.inflatable -= more;
                episode.cwnd = episode.cwnd.saturating_add(more);
            }
        }
    }

    pub(super) fn on_ack_loss(
        &mut self,
        a: &Acknowledgement<'_>,
        sample: &RateSample,
        advanced: bool,
    ) {
        self.cc.on_ack(&mut self.window, sample);
        self.recovery.frto = match self.recovery.frto {
            Frto::Asked if advanced => Frto::AskedAgain,
            Frto::Asked if a.is_duplicate => Frto::Off,
            Frto::AskedAgain => Frto::Off,
            frto => frto,
        };
        if self.una.at_or_after(self.recovery.recover) {
            self.end_phase();
            if self.cc.own_recovery() {
                self.cc.on_recovered(&mut self.window);
            }
        }
    }

    fn end_phase(&mut self) {
        if self.recovery.phase.is_repair() {
            self.reordering.on_recovered();
        }
        self.recovery.phase = RecoveryPhase::Open;
        self.recovery.frto = Frto::Off;
        self.recovery.forced = false;
    }
}
