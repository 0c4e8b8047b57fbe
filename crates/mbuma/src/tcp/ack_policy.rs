//! Decides when the receiver acknowledges: at once, or delayed, so that data of ours may carry the acknowledgement.
//!
//! | arriving data | acknowledged |
//! |---|---|
//! | makes two full segments, or fills a gap (RFC 5681 4.2) | at once |
//! | a full segment, of the first 16, or after a pause or a repair: the peer's window is small | at once |
//! | a small segment among these 16: the peer may hold more data back until it is acknowledged (RFC 896) | within 1 ms |
//! | any other, on a connection whose user answers | within the longest delay (RFC 1122 4.2.3.2) |
//! | any other, after two delays that ended without an answer | within half a round trip |
//! | out of order, without SACK or with a near peer | at once, each (RFC 5681 4.2) |
//! | out of order, the fourth of a gap and later, with SACK | within 1 ms, one for as many blocks as it has room for |
//!
//! If the user answers within the longest delay, the connection becomes *interactive*: then a single full segment is
//! not acknowledged at once, nor a small one within 1 ms. A delay that ends without an answer ends that mode. If more
//! data comes then, before the answer, the delay was in vain: the peer had held that data back until the
//! acknowledgement (RFC 896), and the answer does not begin the mode again.
//!
//! Locks: none; part of the connection. Sources: RFC 1122 4.2.3.2, RFC 5681 4.2, RFC 9293 3.8.6.3.

use std::time::Duration;

use kern::Time;

use super::rack::nanos_since;

/// Segments that are acknowledged one by one at the start, after a pause and after a repair.
#[doc(alias = "TCP_MAX_QUICKACKS")]
const QUICK_MAX: u8 = 16;

/// After so many delays without an answer, none is expected. A single one may be a slow answer.
const IN_VAIN: u8 = 2;

/// Duplicate acknowledgements of a gap that are not delayed: after so many the peer begins its repair (RFC 5681 3.2).
const DUPLICATES_AT_ONCE: u8 = 3;

/// Duplicate acknowledgements at most that are delayed.
#[doc(alias = "tcp_comp_sack_nr")]
const HELD_MAX: u8 = 44;

/// Changed blocks that one acknowledgement can report beside timestamps (RFC 2018 3). If more change, a block without
/// room might never be reported, because others change meanwhile, and the peer would take it for lost.
const BLOCKS_MAX: usize = 3;

/// How long they are delayed, as are small segments among the first: the tick of the timers. For the duplicates of a
/// peer with a round trip of less than [`FAR`] that would be too long.
const HOLD: Duration = kern::callout::TICK;
/// In ns; the delay is at most a twentieth of the round trip.
const FAR: u64 = 20_000_000;

/// The part of it that a connection keeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AckPolicy {
    /// Segments that are acknowledged one by one.
    quick: u8,
    dialogue: Dialogue,
    /// Delays that ended without data of ours, since the connection last became interactive.
    in_vain: u8,
    /// Duplicate acknowledgements of the present gap, and those delayed since the last one sent.
    duplicates: u8,
    held: u8,
    /// Out-of-order segments that need an acknowledgement each, and have none yet.
    pub(crate) dup_acks_owed: u8,
    /// Bytes of the peer's largest segment.
    pub(crate) largest: u16,
    /// When data arrived last; before the first, when the connection was established.
    pub(crate) data_at: Time,
}

/// Whether the user answers, by the last exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialogue {
    /// Nothing says so.
    Unknown,
    /// It answered within the longest delay.
    Interactive,
    /// A delay has ended without an answer.
    DelayEnded,
    /// More data came then: the peer had held it back.
    InVain,
    /// The same, and then our answer.
    AnsweredLate,
}

/// When an acknowledgement goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum AckDue {
    Now,
    Within(Duration),
}

/// Data that arrived in order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InOrder {
    /// Bytes of the segment.
    pub(crate) len: u32,
    /// Bytes of a full segment of the peer: its largest, which may be less than the maximum.
    pub(crate) full: u32,
    /// Unacknowledged bytes, these included.
    pub(crate) unacknowledged: u32,
    /// The segment filled the last gap.
    pub(crate) filled_gap: bool,
}

/// How the path is; in nanoseconds, as in [`Rtt`](super::rtt::Rtt).
#[derive(Debug, Clone, Copy)]
pub(crate) struct PathTiming {
    pub(crate) rtt: Option<u64>,
    /// After such a pause the peer begins with a small window again: our estimate of its retransmission timeout.
    pub(crate) rto: u64,
    /// The longest delay.
    pub(crate) delay_max: Duration,
}

impl AckPolicy {
    pub(crate) const fn new(now: Time) -> Self {
        Self {
            quick: QUICK_MAX,
            dialogue: Dialogue::Unknown,
            in_vain: 0,
            dup_acks_owed: 0,
            duplicates: 0,
            held: 0,
            largest: 0,
            data_at: now,
        }
    }

    /// Data arrived in order.
    pub(crate) fn on_data(&mut self, data: InOrder, path: &PathTiming, now: Time) -> AckDue {
        let paused = nanos_since(now, self.data_at) > path.rto;
        self.data_at = now;
        self.dialogue = match self.dialogue {
            Dialogue::Unknown | Dialogue::AnsweredLate => Dialogue::Unknown,
            Dialogue::Interactive => Dialogue::Interactive,
            Dialogue::DelayEnded | Dialogue::InVain => Dialogue::InVain,
        };
        (self.duplicates, self.held) = (0, 0);
        if data.filled_gap || paused {
            self.quick = QUICK_MAX;
        }
        if data.filled_gap || data.unacknowledged >= 2 * data.full {
            self.quick = self.quick.saturating_sub(1);
            return AckDue::Now;
        }
        if self.quick > 0 && self.dialogue != Dialogue::Interactive {
            self.quick -= 1;
            return match data.len >= data.full {
                true => AckDue::Now,
                false => AckDue::Within(HOLD.min(path.delay_max)),
            };
        }
        AckDue::Within(self.delay(path))
    }

    fn delay(&self, path: &PathTiming) -> Duration {
        match path.rtt {
            Some(rtt) if self.in_vain >= IN_VAIN => {
                Duration::from_nanos(rtt / 2).max(HOLD).min(path.delay_max)
            }
            _ => path.delay_max,
        }
    }

    /// Data arrived out of order; `blocks` are to be reported now.
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

    /// Data of ours is sent, and carries an acknowledgement.
    pub(crate) fn on_answer(&mut self, delay_max: Duration, now: Time) {
        // `largest` is 0 before the first data: a client's request is no answer.
        let in_time = self.largest > 0 && now - self.data_at < delay_max;
        match self.dialogue {
            Dialogue::InVain | Dialogue::AnsweredLate => self.dialogue = Dialogue::AnsweredLate,
            _ if in_time => (self.dialogue, self.in_vain) = (Dialogue::Interactive, 0),
            Dialogue::DelayEnded => self.dialogue = Dialogue::Unknown,
            Dialogue::Unknown | Dialogue::Interactive => {}
        }
    }

    /// The delay is over, and no data has carried the acknowledgement.
    pub(crate) fn on_delay_over(&mut self) {
        if std::mem::take(&mut self.held) > 0 {
            return;
        }
        self.dialogue = Dialogue::DelayEnded;
        self.in_vain = self.in_vain.saturating_add(1);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
