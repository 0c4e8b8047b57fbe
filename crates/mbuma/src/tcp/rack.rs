//! RACK: detects losses by time (RFC 8985 6). A record is lost if one that was sent later has arrived, and a reordering
//! window has passed since.
//!
//! ```text
//!   each delivered record   on_delivered   the latest transmission that arrived; was there reordering?
//!   then                    detect         marks records lost, or says when to look again
//! ```
//!
//! The reordering window is 0 until reordering was seen. Then it is a quarter of the smallest round trip, and grows
//! with each round trip in which the peer reports a duplicate, up to the smoothed round trip.
//!
//! Invariants: (`sent_at`, `end`) only grows: a batch has one time stamp, so equal times are usual, and the sequence
//! number decides between them. Locks: none; part of the connection.

use std::cell::Cell;

use kern::Time;
use wire::SeqNum;

use super::min_rtt::MinRtt;
use super::sent::{SentMap, SentRecord};

/// Bytes sacked that mean a loss while there is no reordering, in segments (RFC 8985 6.2 step 4).
const DUPTHRESH: u32 = 3;

/// Recoveries for which a widened reordering window stays (RFC 8985 6.2 step 4).
const PERSIST: u8 = 16;

/// The arrived data of the present flight. It is in the box of the [sent map](super::sent): with a single record
/// nothing can have been overtaken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rack {
    /// The last sent record among those that arrived: its time, its end, its round trip in ns.
    sent_at: Time,
    rtt: u64,
    end: SeqNum,
    /// The highest sequence number that arrived.
    fack: SeqNum,
}

/// The state of the path, also while nothing is in flight.
#[derive(Debug, Default)]
pub(crate) struct Reordering {
    pub(crate) min_rtt: MinRtt,
    /// If `in_dsack_round`: until SND.UNA gets here, another D-SACK does not widen the window.
    dsack_round: SeqNum,
    in_dsack_round: bool,
    /// The segments by which data was overtaken at most, as far as it is known; 0 if reordering was not seen.
    degree: u8,
    /// The reordering window in quarters of the smallest round trip, minus one.
    wider: u8,
    persist: u8,
}

/// The data of an acknowledgement besides the ranges.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AckArrival {
    pub(crate) now: Time,
    /// With timestamps: the millisecond in which the echoed segment was sent. It tells nothing of data that a SACK
    /// block covers: the echo is of what arrived in order (RFC 7323 4.3).
    pub(crate) echoed_ms: Option<u64>,
    /// The highest sequence number that had arrived before.
    pub(crate) fack: SeqNum,
    pub(crate) mss: u32,
}

/// The inputs for the time to wait for overtaken data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) srtt: u64,
    pub(crate) mss: u32,
    /// When the window last shrank, in a recovery.
    pub(crate) reduced_at: Option<Time>,
}

/// The data that was found lost.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Losses {
    pub(crate) bytes: u32,
    /// Some of it was sent again since the window last shrank, and is lost again.
    pub(crate) of_repair: bool,
    /// When to look again, if something may still be on its way.
    pub(crate) look_again: Option<Time>,
}

impl Rack {
    /// No data from `una` on has arrived.
    pub(crate) fn new(una: SeqNum) -> Self {
        Self {
            sent_at: Time::default(),
            rtt: 0,
            end: una,
            fack: una,
        }
    }

    /// The highest sequence number that arrived.
    pub(crate) fn fack(&self) -> SeqNum {
        self.fack
    }

    /// Steps 2 and 3: a record has arrived.
    pub(crate) fn on_delivered(
        &mut self,
        record: &SentRecord,
        a: &AckArrival,
        path: &mut Reordering,
    ) {
        if record.end.after(self.fack) {
            self.fack = record.end;
        } else if record.end.before(a.fack) && !record.resent {
            path.on_overtaken(a.fack.since(record.start).div_ceil(a.mss.max(1)));
        }
        let rtt = nanos_since(a.now, record.sent_at);
        if record.resent && is_of_earlier_transmission(record, rtt, a, path) {
            return;
        }
        self.rtt = rtt;
        if is_later(record.sent_at, record.end, self.sent_at, self.end) {
            (self.sent_at, self.end) = (record.sent_at, record.end);
        }
    }

    /// Whether a record, and each that was sent after it, was sent after all that has arrived, and lies behind it.
    #[inline]
    pub(super) fn is_before(&self, record: &SentRecord) -> bool {
        self.fack.at_or_before(record.start)
            && !is_later(self.sent_at, self.end, record.sent_at, record.end)
    }

    /// The same as [`on_delivered`](Self::on_delivered) for records that it [is before](Self::is_before), up to `una`;
    /// the last of them was sent at `sent_at`.
    #[inline]
    pub(super) fn on_acked_in_order(&mut self, una: SeqNum, sent_at: Time, now: Time) {
        *self = Self {
            sent_at,
            rtt: nanos_since(now, sent_at),
            end: una,
            fack: una,
        };
    }

    /// SND.UNA has moved: older numbers are raised to it, because they must stay within half of the circle.
    pub(crate) fn on_una(&mut self, una: SeqNum) {
        self.fack = self.fack.max(una);
        if self.end.before(una - (1 << 30)) {
            self.end = una;
        }
    }
}

impl AckArrival {
    /// Whether the echo tells that the acknowledgement answers the record's last transmission; None if nothing is
    /// known.
    pub(crate) fn is_of_last_transmission(&self, r: &SentRecord) -> Option<bool> {
        // The clock's grain, in ns: of two transmissions in a shorter time it tells nothing.
        const GRAIN: u64 = 2_000_000;
        let echoed = self.echoed_ms?;
        let sent = r.sent_at.as_millis();
        (echoed < sent || nanos_since(self.now, r.sent_at) >= GRAIN).then_some(echoed >= sent)
    }
}

/// An acknowledgement of what was sent again may answer an earlier transmission (RFC 8985 6.2 step 2). Where the echo
/// tells, the smallest round trip is not asked: a path may have become shorter since.
fn is_of_earlier_transmission(r: &SentRecord, rtt: u64, a: &AckArrival, path: &Reordering) -> bool {
    match a.is_of_last_transmission(r) {
        Some(last) => !last,
        None => rtt < path.min_rtt.get().unwrap_or(0),
    }
}

impl Reordering {
    /// Step 4, first part: the peer reports a duplicate, so a retransmission was too early.
    pub(crate) fn on_dsack(&mut self, nxt: SeqNum) {
        if !self.in_dsack_round {
            (self.in_dsack_round, self.dsack_round) = (true, nxt);
            self.widen();
        }
    }

    /// Data was overtaken by `segments` at least.
    pub(crate) fn on_overtaken(&mut self, segments: u32) {
        self.degree = self.degree.max(segments.clamp(1, 255) as u8);
    }

    /// Whether the path was seen to reorder.
    pub(crate) fn is_seen(&self) -> bool {
        self.degree > 0
    }

    /// The segments by which data was overtaken at most.
    pub(crate) fn degree(&self) -> u8 {
        self.degree
    }

    /// Waits longer from now on.
    pub(crate) fn widen(&mut self) {
        self.on_overtaken(1);
        self.wider = self.wider.saturating_add(1);
        self.persist = PERSIST;
    }

    /// SND.UNA has moved.
    pub(crate) fn on_una(&mut self, una: SeqNum) {
        self.in_dsack_round &= una.before(self.dsack_round);
    }

    /// A recovery has ended.
    pub(crate) fn on_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.wider = 0;
        }
    }

    /// Step 4: how long overtaken data may still be under way, in ns.
    fn window(&self, sacked: u32, p: &Patience) -> u64 {
        let enough = p.reduced_at.is_some() || sacked.div_ceil(p.mss.max(1)) >= DUPTHRESH;
        if !self.is_seen() && enough {
            return 0;
        }
        let quarter = self.min_rtt.get().unwrap_or(0) / 4;
        quarter
            .saturating_mul(u64::from(self.wider) + 1)
            .min(p.srtt)
    }

    /// Step 5: marks lost what must have arrived by now.
    pub(crate) fn detect(&self, map: &mut SentMap, now: Time, p: &Patience) -> Losses {
        let Some(rack) = map.rack() else {
            return Losses::default();
        };
        let wait = rack.rtt.saturating_add(self.window(map.sacked(), p));
        let overtaken = |r: &SentRecord| is_later(rack.sent_at, rack.end, r.sent_at, r.end);
        // A clock may be coarser than the round trip. Then the order of what has one time stamp is unknown for a
        // repair, which is not lost before the clock has advanced.
        let wait_of = |r: &SentRecord| if r.resent { wait.max(1) } else { wait };
        let due =
            |r: &SentRecord| r.sent_at.as_nanos().saturating_add(wait_of(r)) <= now.as_nanos();
        // No repair is known to be lost before a round trip has passed: a peer that forges blocks must not begin one
        // reduction after the other.
        let min_rtt = self.min_rtt.get().unwrap_or(0);
        let reduced_at = (p.reduced_at).filter(|at| nanos_since(now, *at) >= min_rtt.max(1));
        let repair = |r: &SentRecord| r.resent && reduced_at.is_some_and(|at| r.sent_at >= at);
        let of_repair = Cell::new(false);
        let bytes = map.detect_lost(|r| {
            let lost = overtaken(r) && due(r);
            of_repair.set(of_repair.get() || (lost && repair(r)));
            lost
        });
        // By then all overtaken data counts as lost, so one check is enough.
        let last = Time::from_nanos(rack.sent_at.as_nanos().saturating_add(wait.max(1)));
        Losses {
            bytes,
            of_repair: of_repair.get(),
            look_again: map.any_in_flight(overtaken).then_some(last),
        }
    }

    /// The timer expired: marks data lost that was sent a round trip and a reordering window ago, whether or not later
    /// data has arrived (RFC 8985 6.3).
    pub(crate) fn detect_after_timeout(&self, map: &mut SentMap, now: Time, p: &Patience) {
        let wait = p.srtt.saturating_add(self.window(map.sacked(), p));
        map.detect_lost(|r| r.sent_at.as_nanos().saturating_add(wait) <= now.as_nanos());
    }
}

/// Whether one transmission was after another; of a batch, which has one time stamp, the higher sequence number.
fn is_later(at: Time, end: SeqNum, other_at: Time, other_end: SeqNum) -> bool {
    at > other_at || (at == other_at && end.after(other_end))
}

pub(crate) fn nanos_since(now: Time, then: Time) -> u64 {
    now.as_nanos().saturating_sub(then.as_nanos())
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_wider_window_lasts_for_sixteen_recoveries() {
        // RFC 8985 6.2 step 4: breaks when a path that stopped to reorder delays each repair for ever, or one that
        // reorders now and then is forgotten at once.
        let ms = 1_000_000;
        let mut path = Reordering::default();
        path.min_rtt.sample(40 * ms, Time::from_secs(1));
        let p = Patience {
            srtt: 100 * ms,
            mss: 1000,
            reduced_at: None,
        };
        assert_eq!(path.window(3000, &p), 0, "no reordering was seen");
        path.widen();
        path.widen();
        for n in 0..PERSIST {
            assert_eq!(path.window(3000, &p), 30 * ms, "{n} recoveries");
            path.on_recovered();
        }
        assert_eq!(path.window(3000, &p), 10 * ms, "but the path may reorder");
        for _ in 0..20 {
            path.widen();
        }
        assert_eq!(path.window(3000, &p), 100 * ms, "a round trip at most");
    }
}
