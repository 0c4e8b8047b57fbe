//! Undo of a spurious recovery.
//!
//! Sources: RFC 4015 (Eifel), RFC 3708 (D-SACK), RFC 5682 3 (F-RTO).

use kern::Time;

use super::delivery::Delivery;
use super::state::Frto;
use super::{Acknowledgement, Recovery, RecoveryPhase};
use crate::tcp::pcb::SendState;

impl SendState {
    /// Whether the acknowledgement proves that the last event was spurious.
    pub(super) fn is_undone(
        &self,
        a: &Acknowledgement<'_>,
        d: &Delivery,
        advanced: bool,
        dsack: bool,
    ) -> bool {
        let Recovery { phase, frto, .. } = self.recovery;
        let Some(episode) = &self.recovery.episode else {
            return false;
        };
        if episode.marked {
            return false;
        }
        let Some(first_ms) = episode.first_resent_ms else {
            // All data that was considered lost arrived before its retransmission.
            return phase == RecoveryPhase::Fast && self.sent.lost() == 0;
        };
        let complete = match phase {
            RecoveryPhase::Open | RecoveryPhase::Marked => false,
            RecoveryPhase::Fast => self.una.at_or_after(self.recovery.recover),
            RecoveryPhase::Loss => true,
        };
        let echo = advanced && complete && a.echoed_ms.is_some_and(|ms| ms < first_ms);
        let all_twice = (dsack || d.late.is_some()) && episode.resent == 0;
        let original = phase == RecoveryPhase::Loss && frto != Frto::Off && d.original;
        echo || all_twice || original
    }

    /// The data of the last event was lost, but not by congestion: the window grows by slow start to its former size.
    pub(in crate::tcp) fn restore_threshold(&mut self, now: Time) {
        let cwnd = self.window.cwnd;
        self.cc.on_undo(&mut self.window, now);
        if !self.cc.own_recovery() {
            self.window.cwnd = cwnd;
        }
    }

    pub(super) fn undo(&mut self, now: Time) {
        self.cc.on_undo(&mut self.window, now);
        self.rate.on_undo();
        self.sent.clear_lost();
        self.reordering.widen();
        self.recovery.phase = RecoveryPhase::Open;
        self.recovery.frto = Frto::Off;
        self.recovery.forced = false;
        self.recovery.episode = None;
    }
}
