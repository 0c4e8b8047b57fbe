//! Loss recovery: detects losses from acknowledgements and timers, and decides how much may be sent during their
//! repair.
//!
//! ```text
//!             RACK finds a loss; or three duplicates          all that was in flight is acknowledged
//!   Open  ---------------------------------------------> Fast ----------------------------------------> Open
//!     |                                                    |                                              ^
//!     +------ the retransmission timer expires ------------+----> Loss -----------------------------------+
//!                                                                 (slow start)
//! ```
//!
//! 1. With SACK: [`rack`](super::rack) marks records of the [sent map](super::sent) lost, and proportional rate
//!    reduction (RFC 9937) sets the window of `Fast`, so that it gets to `ssthresh` in one round trip without a pause
//!    or a burst.
//! 2. Without: NewReno (RFC 6582) on the same map. Its window is inflated by duplicates.
//! 3. A spurious event is undone, once: the algorithm restores its window and its epoch. Proofs are an echo of a
//!    timestamp from before the first repair (RFC 4015), a report of a duplicate for each repair (RFC 3708), and, after
//!    a timeout, the arrival of data that was not retransmitted (F-RTO, RFC 5682 3).
//! 4. `Marked` is entered from `Open` when the peer reports a mark (RFC 3168 6.1.2), and leads to `Open` as `Fast`
//!    does. If a loss is found meanwhile, `Fast` repairs it without another reduction: there is one event in a window
//!    of data.
//!
//! An algorithm of [`cc`](super::cc) decides how large windows are; it sees no sequence numbers.
//!
//! Locks: none; part of the connection. Sources: RFC 5681, 6582, 6675, 8985, 9937, 5682, 4015, 3708.

mod blocks;
mod delivery;
mod in_order;
mod phases;
mod reduction;
mod state;
mod timeouts;
mod undo;

use std::ops::Range;

use kern::Time;
use wire::{SackBlock, SeqNum};

use super::cc::{CongestionEvent, Why};
use super::pcb::SendState;
use super::rack::{Losses, Patience};
use super::sent::SentRecord;
use super::tlp::ProbeOutcome;
use blocks::Blocks;
use delivery::{Delivery, PriorFlight};
pub(crate) use state::Recovery;
pub use state::RecoveryPhase;

/// Segments that limited transmit may have in flight beyond the window (RFC 3042 2).
const LIMITED_SEGMENTS: u8 = 2;

/// The parts of an acknowledgement that recovery needs.
#[derive(Debug)]
pub(crate) struct Acknowledgement<'a> {
    pub(crate) now: Time,
    pub(crate) ack: SeqNum,
    /// SACK blocks in their order; none without SACK.
    pub(crate) blocks: &'a [SackBlock],
    pub(crate) sack_on: bool,
    /// By RFC 5681's definition.
    pub(crate) is_duplicate: bool,
    /// The millisecond in which the echoed segment was sent.
    pub(crate) echoed_ms: Option<u64>,
    /// Bytes of data, without SYN and FIN, that it covers.
    pub(crate) data: u32,
    /// It reports a router's congestion mark for the first time in this window of data.
    pub(crate) marked: bool,
    /// Marked bytes, if the peer counts them.
    pub(crate) ce: u32,
}

/// The connection's next step.
#[derive(Debug, Default)]
pub(crate) struct AckOutcome {
    /// A recovery began.
    pub(crate) entered: bool,
    /// It was undone.
    pub(crate) undone: bool,
    /// The window is reduced because a router marked congestion.
    pub(crate) marked: bool,
    /// The time of the next check for losses: the end of the reordering window.
    pub(crate) look_again: Option<Time>,
}

impl SendState {
    /// Bytes that may be in flight.
    pub(crate) fn cwnd(&self) -> u32 {
        match &self.recovery.episode {
            Some(episode) if self.recovery.phase.has_own_window() && !self.cc.own_recovery() => {
                episode.cwnd
            }
            _ => self.window.cwnd,
        }
    }

    /// Additional bytes for new data, without SACK: a segment for each of the first two duplicates, each of which shows
    /// that a segment has left the network (RFC 3042 2).
    pub(crate) fn limited_transmit(&self) -> u32 {
        match self.recovery.phase {
            RecoveryPhase::Open => {
                u32::from(self.recovery.dup_acks.min(LIMITED_SEGMENTS)) * self.window.mss
            }
            _ => 0,
        }
    }

    /// Handles an acknowledgement: moves SND.UNA and the records, takes samples, detects losses, and sets the window.
    /// None: it was in order, and the connection has no next step.
    pub(crate) fn on_ack(&mut self, a: &Acknowledgement<'_>) -> Option<AckOutcome> {
        if self.is_in_order(a) {
            self.on_ack_in_order(a);
            return None;
        }
        Some(self.on_any_ack(a))
    }

    /// The same for each acknowledgement, without the fast path.
    #[inline(never)]
    fn on_any_ack(&mut self, a: &Acknowledgement<'_>) -> AckOutcome {
        let before = self.prior_flight();
        let blocks = Blocks::of(a, self);
        let d = self.deliver(a, &blocks);
        let advanced = a.ack.after(before.una);
        if advanced {
            self.move_una(a.ack);
        } else if a.is_duplicate && !a.sack_on {
            self.recovery.dup_acks = self.recovery.dup_acks.saturating_add(1);
        }
        let rtt = self.sample_round_trip(a, &d, &before, advanced);
        let mut sample = self.rate_sample(a, &d, &before, rtt);
        let mut outcome = AckOutcome::default();
        if let Some(duplicate) = &blocks.duplicate {
            self.on_duplicate_reported(duplicate);
        }
        if let Some(range) = &d.late {
            self.on_original(range);
        }
        let losses = self.look_for_losses(a, &mut outcome);
        sample.lost = losses.bytes;
        sample.flight = self.sent.in_flight();
        self.judge_probe(a, &before, blocks.duplicate.is_some());
        let repeated = self.is_repeated_repair_acked(a, &d, blocks.duplicate.is_some());
        if self.is_undone(a, &d, advanced, blocks.duplicate.is_some()) {
            self.undo(a.now);
            outcome.undone = true;
            return outcome;
        }
        if losses.of_repair || repeated {
            self.on_repair_lost(a.now, &before, &mut outcome);
        }
        match self.recovery.phase {
            RecoveryPhase::Open => self.on_ack_open(a, &sample, &before, &mut outcome),
            RecoveryPhase::Marked => self.on_ack_marked(a, &sample, advanced, &mut outcome),
            RecoveryPhase::Fast => self.on_ack_fast(a, &sample, advanced),
            RecoveryPhase::Loss => self.on_ack_loss(a, &sample, advanced),
        }
        outcome
    }

    fn move_una(&mut self, una: SeqNum) {
        self.una = una;
        self.recovery.dup_acks = 0;
        self.reordering.on_una(una);
        self.recovery.resent_at = self.recovery.resent_at.max(una);
    }

    fn prior_flight(&self) -> PriorFlight {
        let sent = self.nxt.since(self.una);
        PriorFlight {
            una: self.una,
            outstanding: sent - self.sent.sacked(),
            flight_size: sent.min(self.window.cwnd),
            in_flight: self.sent.in_flight(),
        }
    }

    fn patience(&self) -> Patience {
        Patience {
            srtt: self.rtt.smoothed_ns().unwrap_or(0),
            mss: self.mss,
            reduced_at: self.recovery.reduced_at(),
        }
    }

    fn look_for_losses(&mut self, a: &Acknowledgement<'_>, outcome: &mut AckOutcome) -> Losses {
        if !a.sack_on {
            return Losses::default();
        }
        let losses = self.detect_losses(a.now);
        outcome.look_again = losses.look_again;
        losses
    }

    fn detect_losses(&mut self, now: Time) -> Losses {
        let patience = self.patience();
        let losses = self.reordering.detect(&mut self.sent, now, &patience);
        Losses {
            bytes: self.without_probe(losses.bytes, now),
            ..losses
        }
    }

    fn on_duplicate_reported(&mut self, range: &Range<SeqNum>) {
        self.reordering.on_dsack(self.nxt);
        if let Some(episode) = &mut self.recovery.episode
            && range.start.at_or_after(episode.judged)
        {
            let len = range.end.since(range.start).into();
            episode.resent = episode.resent.saturating_sub(len);
        }
    }

    /// The first transmission of the first segment arrived, although it was retransmitted: the echo is from before that
    /// (RFC 3522 3.2). So it was late, and not lost.
    fn on_original(&mut self, range: &Range<SeqNum>) {
        self.reordering.on_overtaken(1);
        if let Some(episode) = &mut self.recovery.episode
            && range.start.at_or_after(episode.judged)
        {
            let len = range.end.since(range.start).into();
            episode.resent = episode.resent.saturating_sub(len);
            episode.judged = range.end;
        }
    }

    fn judge_probe(&mut self, a: &Acknowledgement<'_>, before: &PriorFlight, dsack: bool) {
        let plain = a.is_duplicate && a.blocks.is_empty();
        if self.probe.on_ack(a.ack, dsack, plain) == ProbeOutcome::Repaired
            && self.recovery.phase == RecoveryPhase::Open
        {
            self.congested(&CongestionEvent::new(Why::Loss, a.now, before.flight_size));
            self.cc.on_recovered(&mut self.window);
        }
    }

    /// Whether the acknowledgement tells that a repair was lost which the probe timer repeated. It was not if a time of
    /// before it was repeated is echoed, or a duplicate reported.
    fn is_repeated_repair_acked(
        &mut self,
        a: &Acknowledgement<'_>,
        d: &Delivery,
        dsack: bool,
    ) -> bool {
        self.recovery.take_repeated(a.ack) && d.late.is_none() && !dsack
    }

    fn congested(&mut self, event: &CongestionEvent) {
        self.cc.on_congestion(&mut self.window, event);
        if let Some(path) = &mut self.path {
            path.search.on_congestion();
        }
    }

    /// The segment size of the path has changed.
    pub(crate) fn set_mss(&mut self, mss: u32) {
        self.mss_passes &= mss <= self.mss;
        self.mss = mss;
        self.window.set_mss(mss);
        self.cc.on_mss(&mut self.window);
    }

    /// Records a SYN-ACK for which no state was kept, so that its time of sending is not known.
    pub(crate) fn syn_was_sent(&mut self, now: Time) {
        let stamp = self.rate.on_send(now, 0);
        let range = self.iss..self.iss + 1;
        self.sent.push(SentRecord {
            resent: true,
            ..SentRecord::new(range, now, stamp)
        });
        self.nxt = self.iss + 1;
    }

    /// The handshake took several tries. If more than one SYN or SYN-ACK was lost, the path is bad, and the window
    /// begins with one segment (RFC 6928 2, RFC 5681 3.1). A lost SYN says nothing about ssthresh.
    pub(crate) fn handshake_repeated(&mut self) {
        self.rtt.handshake_repeated();
        if self.retransmits > 1 {
            self.window.cwnd = self.mss;
        }
        self.retransmits = 0;
    }
}
