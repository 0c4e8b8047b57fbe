//! The variables of loss recovery: the phase that a connection is in, and its last congestion event.

use std::ops::Range;

use kern::Time;
use wire::SeqNum;

/// The phase of a connection's loss recovery.
#[doc(alias = "tcpi_ca_state")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RecoveryPhase {
    /// No loss is repaired, and the window is not being reduced.
    #[default]
    Open,
    /// Acknowledgements indicated a loss.
    Fast,
    /// The retransmission timer expired.
    Loss,
    /// No loss is repaired; the window is being reduced because a router marked congestion.
    #[doc(alias = "CWR")]
    Marked,
}

impl RecoveryPhase {
    /// Whether losses are being repaired.
    pub(crate) fn is_repair(self) -> bool {
        matches!(self, Self::Fast | Self::Loss)
    }

    /// Whether the phase has a window of its own that leads to `ssthresh`.
    pub(super) fn has_own_window(self) -> bool {
        matches!(self, Self::Fast | Self::Marked)
    }
}

/// Whether a timeout may have been too early (RFC 5682 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frto {
    /// It was not, or the question is closed.
    Off,
    /// The first segment was sent again.
    Asked,
    /// The acknowledgement did not decide: until the next one, new data is sent instead of data that is marked lost.
    AskedAgain,
}

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct Recovery {
    pub(super) phase: RecoveryPhase,
    pub(super) frto: Frto,
    /// Send one lost segment at the next turn, independent of the window.
    pub(crate) forced: bool,
    /// Duplicate acknowledgements in a row.
    pub(super) dup_acks: u8,
    /// SND.NXT at the phase's begin, with which it ends.
    pub(super) recover: SeqNum,
    /// All retransmitted bytes.
    pub(super) resent_bytes: u64,
    /// The last rate sample, in bytes per millisecond.
    pub(super) last_rate: u32,
    /// SND.NXT at the last retransmission.
    pub(super) resent_at: SeqNum,
    /// The last congestion event, while it can be undone.
    pub(super) episode: Option<Box<Episode>>,
}

/// From a congestion event on.
#[derive(Debug)]
pub(super) struct Episode {
    /// Retransmitted bytes, without those that arrived twice or whose first transmission arrived.
    pub(super) resent: u64,
    /// When the window last shrank: the loss of what was sent again earlier has counted.
    pub(super) reduced_at: Time,
    /// For data before this it is known whether its retransmission was needed; SND.UNA at the start.
    pub(super) judged: SeqNum,
    /// When the first of them was.
    pub(super) first_resent_ms: Option<u64>,
    /// It began with a router's mark, which no arrival can disprove.
    pub(super) marked: bool,
    /// Bytes in flight at its start.
    #[doc(alias = "RecoverFS")]
    pub(super) flight: u64,
    #[doc(alias = "prr_delivered")]
    pub(super) delivered: u64,
    #[doc(alias = "prr_out")]
    pub(super) sent: u64,
    /// The window of `Fast`.
    pub(super) cwnd: u32,
    /// Bytes that the reorder timer found lost, until the next acknowledgement's sample has them.
    pub(super) timer_lost: u32,
    /// Partial acknowledgements, without SACK.
    pub(super) partial_acks: u32,
    /// Bytes by which duplicates may still enlarge the window, without SACK: as many as were outstanding at the start,
    /// or at the last partial acknowledgement, because each duplicate answers one segment.
    pub(super) inflatable: u32,
    /// The end of the repair that the probe timer repeated, until it is acknowledged.
    pub(super) repeated: Option<SeqNum>,
}

impl Recovery {
    pub(crate) fn new(iss: SeqNum) -> Self {
        Self {
            phase: RecoveryPhase::Open,
            frto: Frto::Off,
            forced: false,
            dup_acks: 0,
            recover: iss,
            resent_bytes: 0,
            last_rate: 0,
            resent_at: iss,
            episode: None,
        }
    }

    /// Whether the retransmission timer is not restarted at this acknowledgement. RFC 6582 3.2 step 3 restarts it only
    /// at the first partial one: a repair of one segment in each round trip must not last longer than a timeout, which
    /// repairs faster.
    pub(crate) fn keeps_timer(&self) -> bool {
        let partial_acks = self.episode.as_ref().map_or(0, |e| e.partial_acks);
        self.phase == RecoveryPhase::Fast && partial_acks > 1
    }

    pub(crate) fn dup_acks(&self) -> u8 {
        self.dup_acks
    }

    pub(crate) fn phase(&self) -> RecoveryPhase {
        self.phase
    }

    pub(crate) fn resent_bytes(&self) -> u64 {
        self.resent_bytes
    }

    /// Bytes per second, by the last sample.
    pub(crate) fn delivery_rate(&self) -> u64 {
        u64::from(self.last_rate) * 1000
    }

    /// Whether new data goes before what is marked lost.
    pub(crate) fn prefers_new_data(&self) -> bool {
        self.frto == Frto::AskedAgain
    }

    /// Whether data was sent after the flight at the start of the phase.
    pub(crate) fn has_new_data_in_flight(&self, nxt: SeqNum) -> bool {
        nxt.after(self.recover)
    }

    /// The range was retransmitted; `nxt` is SND.NXT.
    pub(crate) fn on_resent(&mut self, range: &Range<SeqNum>, nxt: SeqNum, now: Time) {
        self.resent_at = nxt;
        self.resent_bytes += u64::from(range.end.since(range.start));
        if let Some(episode) = &mut self.episode {
            episode.resent += u64::from(range.end.since(range.start));
            episode.first_resent_ms.get_or_insert(now.as_millis());
        }
    }

    /// The window shrinks once more in the same episode.
    pub(super) fn on_reduced(&mut self, now: Time) {
        if let Some(episode) = &mut self.episode {
            episode.reduced_at = now;
            episode.repeated = None;
        }
    }

    /// When the window last shrank, while something is repaired.
    pub(super) fn reduced_at(&self) -> Option<Time> {
        let episode = self.episode.as_ref().filter(|_| self.phase.is_repair());
        episode.map(|episode| episode.reduced_at)
    }

    /// Whether `ack` is the first acknowledgement of a repair that the probe timer repeated.
    pub(super) fn take_repeated(&mut self, ack: SeqNum) -> bool {
        let episode = self.episode.as_mut();
        let acked = episode.and_then(|e| e.repeated.take_if(|end| ack.at_or_after(*end)));
        acked.is_some()
    }

    /// Bytes that the reorder timer found lost since the last acknowledgement.
    pub(super) fn take_timer_lost(&mut self) -> u32 {
        let episode = self.episode.as_mut();
        episode.map_or(0, |episode| std::mem::take(&mut episode.timer_lost))
    }

    /// `bytes` were sent.
    pub(crate) fn on_sent(&mut self, bytes: u32) {
        if let Some(episode) = &mut self.episode {
            episode.sent += u64::from(bytes);
        }
    }
}
