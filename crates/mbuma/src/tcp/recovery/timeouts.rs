//! Losses that a connection's timers detect.
//!
//! Sources: RFC 6298 5, RFC 8985 6.3 and 7, RFC 2018 8, RFC 5682 3.

use kern::Time;

use super::state::Frto;
use super::{AckOutcome, CongestionEvent, RecoveryPhase, Why};
use crate::tcp::pcb::SendState;

impl SendState {
    /// The reordering window is over. Returns whether a recovery began, and the time of the next check.
    pub(crate) fn on_reorder_timer(&mut self, now: Time) -> AckOutcome {
        let mut outcome = AckOutcome::default();
        let before = self.prior_flight();
        let losses = self.detect_losses(now);
        outcome.look_again = losses.look_again;
        let lost = losses.bytes;
        if losses.of_repair {
            self.on_repair_lost(now, &before, &mut outcome);
        } else if lost > 0 && self.recovery.phase == RecoveryPhase::Open {
            self.enter(now, &before);
            outcome.entered = true;
        } else if lost > 0 && self.recovery.phase == RecoveryPhase::Marked {
            self.repair_in_window();
            outcome.entered = true;
        }
        if let (true, Some(episode)) = (lost > 0, &mut self.recovery.episode) {
            episode.timer_lost += lost;
        }
        if lost > 0 && self.recovery.phase == RecoveryPhase::Fast {
            self.reduce(0, false);
        }
        outcome
    }

    /// The probe timer expired in a recovery: sends the repair of the first hole once more. Only its acknowledgement
    /// shows whether it was lost.
    pub(crate) fn on_probe_timer(&mut self) {
        self.probe.on_repair_repeated();
        let repeats = self.sent.is_first_repaired();
        self.repair_first();
        let first = self.sent.next_lost().filter(|_| repeats);
        if let (Some(first), Some(episode)) = (first, &mut self.recovery.episode) {
            episode.repeated = Some(first.end.min(first.start + self.mss));
        }
    }

    /// The retransmission timer expired; `first`: for the first time for this segment. True if the receiver has
    /// discarded data that it had reported.
    pub(crate) fn on_timeout(&mut self, now: Time, sack_on: bool, first: bool) -> bool {
        let before = self.prior_flight();
        let fresh = first && self.recovery.phase == RecoveryPhase::Open;
        if let Some(path) = &mut self.path {
            path.search.forget_probe();
        }
        let reneges = self.sent.is_first_sacked();
        if reneges {
            // Its earlier reports do not count any more (RFC 2018 8).
            self.sent.clear_sacked();
        }
        if sack_on {
            let patience = self.patience();
            self.reordering
                .detect_after_timeout(&mut self.sent, now, &patience);
            self.sent.mark_first_lost(self.mss);
        } else {
            self.sent.mark_all_lost();
        }
        let begins = fresh || self.recovery.episode.is_none();
        self.congested(&CongestionEvent {
            again: !first,
            continues: !begins,
            ..CongestionEvent::new(Why::Timeout, now, before.flight_size)
        });
        match begins {
            true => self.begin(RecoveryPhase::Loss, now, before.outstanding, false),
            false => {
                self.recovery.phase = RecoveryPhase::Loss;
                self.recovery.recover = self.nxt;
                self.recovery.on_reduced(now);
            }
        }
        self.recovery.frto = if fresh && sack_on {
            Frto::Asked
        } else {
            Frto::Off
        };
        self.recovery.forced = true;
        self.recovery.dup_acks = 0;
        self.probe.forget();
        reneges
    }
}
