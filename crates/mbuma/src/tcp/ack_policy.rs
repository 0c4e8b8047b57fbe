//! When the receiver acknowledges: at once, or later, so that data of ours may carry the acknowledgement.
//!
//! | arriving data | acknowledged |
//! |---|---|
//! | makes two full segments, or fills a gap (RFC 5681 4.2) | at once |
//! | a full segment, of the first 16, or after a pause or a repair: the peer's window is small | at once |
//! | any other, on a connection whose user answers | within the longest delay (RFC 1122 4.2.3.2) |
//! | any other, after two delays that ended without an answer | within half a round trip |
//! | before its turn, without SACK or with a near peer | at once, each (RFC 5681 4.2) |
//! | before its turn, the fourth of a gap and later, with SACK | within 1 ms, one for all that it has room to report |
//!
//! A user that answers within the longest delay makes the connection *interactive*: then no full segment is
//! acknowledged by itself. A delay that ends without an answer ends that.
//!
//! Locks: none; part of the connection. Sources: RFC 1122 4.2.3.2, RFC 5681 4.2, RFC 9293 3.8.6.3.

use std::time::Duration;

use kern::Time;

/// Segments that are acknowledged one by one at the beginning, after a pause and after a repair.
#[doc(alias = "TCP_MAX_QUICKACKS")]
const QUICK_MAX: u8 = 16;

/// So many delays without an answer tell that none is to be expected. One alone is a slow answer.
const IN_VAIN: u8 = 2;

/// Duplicate acknowledgements of a gap that are not held back: with so many a peer repairs (RFC 5681 3.2).
const DUPLICATES_AT_ONCE: u8 = 3;

/// Duplicate acknowledgements that are held back at most.
#[doc(alias = "tcp_comp_sack_nr")]
const HELD_MAX: u8 = 44;

/// Changed blocks that are to be reported with the next acknowledgement, and not more: so many have room beside timestamps
/// (RFC 2018 3). A block without room might never be reported, if others change meanwhile, and pass for a loss.
const BLOCKS_MAX: usize = 3;

/// How long they are held back: the tick of the timers. A peer from which a round trip takes less than
/// [`FAR`] would notice.
const HOLD: Duration = kern::callout::TICK;
/// A hold is at most a twentieth of the round trip.
const FAR: Duration = Duration::from_millis(20);

/// The part of it that a connection keeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AckPolicy {
    /// Full segments that are acknowledged one by one.
    quick: u8,
    interactive: bool,
    /// Delays that ended without data of ours, since there was some.
    in_vain: u8,
    /// Duplicate acknowledgements of the gap that there is, and those held back since the last.
    duplicates: u8,
    held: u8,
    /// Segments that came before their turn and were not answered yet, one by one.
    pub(crate) dup_acks_owed: u8,
    /// When data arrived last.
    data_at: Time,
}

/// When an acknowledgement goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum AckDue {
    Now,
    Within(Duration),
}

/// Data that arrived in its turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InOrder {
    /// Bytes of the segment.
    pub(crate) len: u32,
    /// Bytes of a full segment of the peer.
    pub(crate) full: u32,
    /// Bytes that are not acknowledged, these included.
    pub(crate) unacknowledged: u32,
    /// Nothing is missing before what is queued now.
    pub(crate) filled_gap: bool,
}

/// How the path is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PathTiming {
    pub(crate) rtt: Option<Duration>,
    /// After such a pause the peer begins with a small window again: its retransmission timeout, as far as we know.
    pub(crate) rto: Duration,
    /// The longest delay.
    pub(crate) delay_max: Duration,
}

impl AckPolicy {
    pub(crate) const fn new(now: Time) -> Self {
        Self {
            quick: QUICK_MAX,
            interactive: false,
            in_vain: 0,
            dup_acks_owed: 0,
            duplicates: 0,
            held: 0,
            data_at: now,
        }
    }

    /// Data arrived in its turn.
    pub(crate) fn on_data(&mut self, data: InOrder, path: &PathTiming, now: Time) -> AckDue {
        let paused = now - self.data_at > path.rto;
        self.data_at = now;
        (self.duplicates, self.held) = (0, 0);
        if data.filled_gap || paused {
            self.quick = QUICK_MAX;
        }
        if data.filled_gap || data.unacknowledged >= 2 * data.full {
            self.quick = self.quick.saturating_sub(1);
            return AckDue::Now;
        }
        if data.len >= data.full && self.quick > 0 && !self.interactive {
            self.quick -= 1;
            return AckDue::Now;
        }
        AckDue::Within(self.delay(path))
    }

    fn delay(&self, path: &PathTiming) -> Duration {
        match path.rtt {
            Some(rtt) if self.in_vain >= IN_VAIN => (rtt / 2).max(HOLD).min(path.delay_max),
            _ => path.delay_max,
        }
    }

    /// Data arrived before its turn; so many blocks are to be reported by now.
    pub(crate) fn on_out_of_order(
        &mut self,
        sack: bool,
        unreported: usize,
        path: &PathTiming,
    ) -> AckDue {
        let near = path.rtt.is_none_or(|rtt| rtt < FAR);
        self.duplicates = self.duplicates.saturating_add(1);
        let few = self.duplicates <= DUPLICATES_AT_ONCE;
        if !sack || near || few || self.held >= HELD_MAX || unreported >= BLOCKS_MAX {
            self.held = 0;
            return AckDue::Now;
        }
        self.held += 1;
        AckDue::Within(HOLD)
    }

    /// Data of ours goes, which carries an acknowledgement.
    pub(crate) fn on_answer(&mut self, delay_max: Duration, now: Time) {
        if now - self.data_at < delay_max {
            (self.interactive, self.in_vain) = (true, 0);
        }
    }

    /// A delay is over, and nothing has carried the acknowledgement.
    pub(crate) fn on_delay_over(&mut self) {
        if std::mem::take(&mut self.held) > 0 {
            return;
        }
        self.interactive = false;
        self.in_vain = self.in_vain.saturating_add(1);
    }
}

#[cfg(test)]
mod tests;
