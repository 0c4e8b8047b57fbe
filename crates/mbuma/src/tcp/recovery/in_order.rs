//! The fast path of acknowledgements: nothing in flight was lost, reported or sent again, and the acknowledgement does
//! nothing but move SND.UNA.
//!
//! Nearly all acknowledgements on a path without losses are such. Each step that the fast path leaves out would change
//! nothing:
//!
//! | step | reason |
//! |---|---|
//! | SACK blocks, reports of duplicates (RFC 2018, RFC 2883) | there are none |
//! | duplicate acknowledgements, limited transmit (RFC 5681, RFC 3042) | SND.UNA moves |
//! | which transmission is acknowledged (RFC 6298 3, RFC 8985 6.2 step 2) | each was sent once |
//! | search for overtaken data (RFC 8985 6.2 step 5) | what is left was sent after all that has arrived |
//! | tail loss probe (RFC 8985 7.4.2) | none is outstanding |
//! | undo (RFC 4015, RFC 3708, RFC 5682) | no arrival of data that was sent once tells anything of an event that is over |
//! | reduction, recovery, mark | the phase is [`Open`](RecoveryPhase::Open), and nothing is marked |
//!
//! BSD's header prediction does the same for all of TCP's input (V. Jacobson, 1990). The tests compare both paths.

use super::delivery::Delivery;
use super::{Acknowledgement, RecoveryPhase};
use crate::tcp::pcb::SendState;

#[cfg(all(test, not(shuttle)))]
mod tests;

impl SendState {
    /// Whether the fast path may handle an acknowledgement.
    #[inline]
    pub(super) fn is_in_order(&self, a: &Acknowledgement<'_>) -> bool {
        a.ack.after(self.una)
            && a.blocks.is_empty()
            && !a.marked
            && self.recovery.phase == RecoveryPhase::Open
            && !self.probe.is_outstanding()
            && self.sent.is_in_order()
    }

    /// Moves SND.UNA and the records, takes samples, and grows the window.
    #[inline]
    pub(super) fn on_ack_in_order(&mut self, a: &Acknowledgement<'_>) {
        let before = self.prior_flight();
        let d = self.deliver_in_order(a);
        self.move_una(a.ack);
        let rtt = self.sample_round_trip(a, &d, &before, true);
        let mut sample = self.rate_sample(a, &d, &before, rtt);
        sample.flight = self.sent.in_flight();
        self.cc.on_ack(&mut self.window, &sample);
        self.recovery.take_repeated(a.ack);
        if self.sent.is_empty() {
            self.recovery.episode = None;
        }
    }

    fn deliver_in_order(&mut self, a: &Acknowledgement<'_>) -> Delivery {
        let mut d = Delivery::default();
        let Self {
            sent,
            rate,
            recovery,
            mss,
            mss_passes,
            ..
        } = self;
        sent.ack(a.ack, |r| {
            if rate.on_delivered(a.now, r.len(), r.sent_at, r.stamp, &mut d.last) {
                d.sent_flight = r.flight;
            }
            *mss_passes |= r.len() >= *mss;
            d.acked += r.len();
            d.newest = Some(r.sent_at);
            if r.start.at_or_after(recovery.resent_at) {
                d.oldest_acked.get_or_insert(r.sent_at);
            }
        });
        if let Some(newest) = d.newest {
            sent.on_acked_in_order(a.ack, newest, a.now);
        }
        d
    }
}
