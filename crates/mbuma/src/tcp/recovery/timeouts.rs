//! What the timers of a connection say of losses.
//!
//! Sources: RFC 6298 5, RFC 8985 6.3, RFC 2018 8, RFC 5682 3.

use kern::Time;

use super::state::Frto;
use super::{AckOutcome, RecoveryPhase, Why};
use crate::tcp::pcb::SendState;

impl SendState {
    /// The reordering window is over. Returns whether a recovery began, and when to look again.
    pub(crate) fn on_reorder_timer(&mut self, now: Time) -> AckOutcome {
        let mut outcome = AckOutcome::default();
        let before = (
            self.nxt.since(self.una) - self.sent.sacked(),
            self.sent.in_flight(),
        );
        let patience = self.patience();
        let (lost, again) = self.reordering.detect(&mut self.sent, now, &patience);
        outcome.look_again = again;
        let lost = self.without_probe(lost, now);
        if lost > 0 && self.recovery.phase == RecoveryPhase::Open {
            self.enter(now, before.0, before.1);
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

    /// The retransmission timer expired: `first` for this segment, or again. True if the receiver has dropped what it had said
    /// to have.
    pub(crate) fn on_timeout(&mut self, now: Time, sack_on: bool, first: bool) -> bool {
        let outstanding = self.nxt.since(self.una) - self.sent.sacked();
        let fresh = first && self.recovery.phase == RecoveryPhase::Open;
        if let Some(path) = &mut self.path {
            path.search.forget_probe();
        }
        let reneges = self.sent.is_first_sacked();
        if reneges {
            // Nothing that it said counts any more (RFC 2018 8).
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
        self.congested(Why::Timeout, now, outstanding, !first);
        match fresh || self.recovery.episode.is_none() {
            true => self.begin(RecoveryPhase::Loss, outstanding, false),
            false => {
                self.recovery.phase = RecoveryPhase::Loss;
                self.recovery.recover = self.nxt;
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
