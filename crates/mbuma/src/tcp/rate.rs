//! Measures the path's delivery rate at each acknowledgement, and the reason that limited the sender.
//!
//! A sample is the number of bytes that were delivered between the sending of a segment and its acknowledgement,
//! divided by the longer of two intervals: that in which these bytes were sent, and that in which they were
//! acknowledged. So neither a burst of segments nor a burst of acknowledgements, as some receivers and links cause,
//! looks like a faster path.
//!
//! ```text
//!   transmission      on_send       -> SendStamp, kept in the sent map's record
//!   acknowledgement   on_delivered  for each record that it newly covers (cumulative or SACK)
//!                     finish        -> RateSample
//!   end of a turn     after_output  notes what held data back
//! ```
//!
//! Invariants: `delivered` only grows; each byte counts once. All state may be dropped while nothing is in flight.
//!
//! Sources: draft-cheng-iccrg-delivery-rate-estimation 3 and 4, RFC 7661 4.1 (whether a window was used).

use kern::Time;

use super::cc::{RateSample, Window};

#[cfg(all(test, not(shuttle)))]
mod tests;

/// The notes of a transmission in its record, beside its own time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SendStamp {
    /// Twice the bytes that were delivered by then, plus one if the sender was application-limited.
    delivered_and_flag: u64,
    /// When the last of them was delivered.
    delivered_at: Time,
    /// When the first segment of the sampling interval was sent.
    first_sent_at: Time,
}

impl SendStamp {
    fn delivered(self) -> u64 {
        self.delivered_and_flag >> 1
    }

    fn app_limited(self) -> bool {
        self.delivered_and_flag & 1 == 1
    }
}

/// The last sent record among those that an acknowledgement newly covers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LastSent(Option<(Time, SendStamp)>);

/// The estimator of one connection.
#[derive(Debug, Default)]
pub(crate) struct DeliveryRate {
    /// Bytes delivered in all.
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    /// Samples are application-limited until `delivered` exceeds this. 0: they are not. Low bits, as of the next field:
    /// `delivered` is never 2^31 bytes away, which is more than two windows.
    app_limited_until: u32,
    /// A segment that is sent when so many bytes were delivered belongs to the next round trip.
    round_end: u32,
    /// Whether the window held data back in this round trip and in the previous one; and the largest flights.
    used: Usage,
    used_before: Usage,
}

const _: () = assert!(
    size_of::<DeliveryRate>() <= 40,
    "an idle connection has one"
);

/// How much of the window was used in a round trip: twice the largest flight, plus one if the window held data back.
#[derive(Debug, Clone, Copy, Default)]
struct Usage(u32);

impl Usage {
    fn note(&mut self, flight: u32, filled: bool) {
        let largest = (self.0 & !1).max(flight << 1);
        self.0 = largest | (self.0 & 1) | u32::from(filled);
    }

    fn forget_filled(&mut self) {
        self.0 &= !1;
    }

    fn filled(self) -> bool {
        self.0 & 1 == 1
    }

    fn flight_max(self) -> u32 {
        self.0 >> 1
    }
}

/// Whether a count of bytes is not before another one, by their low bits.
fn has_reached(count: u64, other: u32) -> bool {
    (count as u32).wrapping_sub(other) < 1 << 31
}

impl DeliveryRate {
    /// Bytes delivered in all.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// A segment is sent, for the first time or again, when `flight` bytes are in flight.
    pub(crate) fn on_send(&mut self, now: Time, flight: u32) -> SendStamp {
        if flight == 0 {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        SendStamp {
            delivered_and_flag: self.delivered << 1 | u64::from(self.app_limited_until > 0),
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
        }
    }

    /// `bytes` of a record, last sent at `sent_at`, were acknowledged for the first time, cumulatively or by SACK. True
    /// if the record is the last sent one so far.
    pub(crate) fn on_delivered(
        &mut self,
        now: Time,
        bytes: u32,
        sent_at: Time,
        stamp: SendStamp,
        last: &mut LastSent,
    ) -> bool {
        self.delivered += u64::from(bytes);
        self.delivered_at = now;
        let newer = last
            .0
            .is_none_or(|(at, other)| (sent_at, stamp.delivered()) >= (at, other.delivered()));
        if newer {
            last.0 = Some((sent_at, stamp));
        }
        newer
    }

    /// The end of an acknowledgement. `s.now` and `s.min_rtt` are set; this sets what the estimator knows: `delivered`,
    /// `interval`, `app_limited`, `round_start` and `cwnd_limited`.
    pub(crate) fn finish(&mut self, last: LastSent, w: &Window, s: &mut RateSample) {
        if has_reached(self.delivered, self.app_limited_until.wrapping_add(1)) {
            self.app_limited_until = 0;
        }
        if let Some((sent_at, stamp)) = last.0 {
            self.sample(sent_at, stamp, s);
        }
        s.cwnd_limited = self.is_cwnd_limited(w);
    }

    fn sample(&mut self, sent_at: Time, stamp: SendStamp, s: &mut RateSample) {
        let sending = span(stamp.first_sent_at, sent_at);
        let acknowledging = span(stamp.delivered_at, s.now);
        // The next interval begins where this one's sending ended.
        self.first_sent_at = sent_at;
        s.app_limited = stamp.app_limited();
        s.round_start = has_reached(stamp.delivered(), self.round_end);
        if s.round_start {
            self.round_end = self.delivered as u32;
            self.used_before = std::mem::take(&mut self.used);
        }
        let interval = sending.max(acknowledging);
        // An interval shorter than any round trip is not valid: the record was retransmitted, and the acknowledgement
        // belongs to an earlier transmission.
        if interval > 0 && interval >= s.min_rtt {
            s.interval = interval;
            s.delivered = self.delivered - stamp.delivered();
        }
    }

    /// The end of a turn to send, with `flight` bytes in flight; `waiting`: there is data that was not sent.
    pub(crate) fn after_output(&mut self, flight: u32, w: &Window, waiting: bool) {
        let filled = flight.saturating_add(w.mss) > w.cwnd;
        self.used.note(flight, filled);
        if !filled && !waiting {
            // At least 1, because 0 means "not limited".
            self.app_limited_until = (self.delivered as u32).wrapping_add(flight).max(1);
        }
    }

    /// The window is restored after a spurious event. That the smaller window was filled says nothing about the
    /// restored one.
    pub(crate) fn on_undo(&mut self) {
        self.used.forget_filled();
        self.used_before.forget_filled();
    }

    /// Whether the window held data back: it was filled, or in slow start half filled, so that a sender that fills it
    /// only at times does not get half of the window that it needs.
    fn is_cwnd_limited(&self, w: &Window) -> bool {
        let flight = self.used.flight_max().max(self.used_before.flight_max());
        let filled = self.used.filled() || self.used_before.filled();
        filled || (w.in_slow_start() && w.cwnd / 2 < flight)
    }
}

/// Nanoseconds from one instant to a later one.
fn span(from: Time, to: Time) -> u64 {
    to.as_nanos().saturating_sub(from.as_nanos())
}
