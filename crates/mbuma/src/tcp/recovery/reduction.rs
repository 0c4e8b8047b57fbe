//! Proportional rate reduction: the window while SACK repairs a loss.
//!
//! Source: RFC 9937.

use kern::Time;

use crate::tcp::pcb::SendState;

impl SendState {
    /// The way to a smaller `ssthresh` begins, with so many bytes neither acknowledged nor sacked.
    pub(super) fn restart_reduction(&mut self, now: Time, outstanding: u32) {
        let flight = outstanding.max(self.mss).into();
        if let Some(episode) = &mut self.recovery.episode {
            (episode.flight, episode.delivered, episode.sent) = (flight, 0, 0);
            episode.reduced_at = now;
        }
    }

    /// RFC 9937 6.2: the window after `delivered` bytes were newly delivered. `safe`: SND.UNA has moved, and the same
    /// acknowledgement tells of no further loss. The one that begins a repair tells of a loss.
    #[doc(alias = "PRR")]
    pub(super) fn reduce(&mut self, delivered: u32, safe: bool) {
        let Some(episode) = &mut self.recovery.episode else {
            return;
        };
        let (pipe, mss) = (u64::from(self.sent.in_flight()), u64::from(self.mss));
        let ssthresh = u64::from(self.window.ssthresh);
        episode.delivered += u64::from(delivered);
        let mut may = if pipe > ssthresh {
            let share = (episode.delivered * ssthresh).div_ceil(episode.flight);
            share.saturating_sub(episode.sent)
        } else {
            let unsent = episode.delivered.saturating_sub(episode.sent);
            let more = if safe { mss } else { 0 };
            (unsent.max(delivered.into()) + more).min(ssthresh - pipe)
        };
        if episode.sent == 0 {
            may = may.max(mss);
        }
        episode.cwnd = (pipe + may).try_into().unwrap_or(u32::MAX);
    }
}
