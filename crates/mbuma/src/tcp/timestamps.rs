//! The timestamps of one connection, as a value: which one to send, which one to echo, and which segments are too old.
//!
//! 1. The clock has a tick of 1 ms and an offset that is a keyed hash of the two ends: it does not reveal the host's
//!    uptime, and a later connection of the same ends continues the clock of the earlier one (RFC 7323 7.1, RFC 6191).
//! 2. `recent` is the value that is echoed. A segment sets it only if it begins at or before the last acknowledgement
//!    that was *sent*: so a delayed acknowledgement echoes the earliest segment that it is for (RFC 7323 4.3).
//! 3. `recent` is valid for 24 days: after that a peer's clock of 1 ms may have gone half around (RFC 7323 5.5).
//! 4. A segment that fills a gap may be older than `recent`, because a repair before it was faster than it, but not
//!    older than `floor`. `floor` is at most 2^30 bytes old, and a window is as large: a segment that the peer sent
//!    after it is not of an earlier turn around the sequence space, and of that alone PAWS protects. RFC 7323 5.3 would
//!    have each such segment dropped: then each hole that is repaired on a path that reorders costs segments that had
//!    only been late.
//!
//! Comparisons are modular: `a` is older than `b` if the way from `b` forward to `a` is longer than half of the circle.
//!
//! Locks: none; part of the connection. Source: RFC 7323 sections 3 to 5 and 7.1.

use kern::Time;
use wire::SeqNum;

/// The timestamps option of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timestamps {
    /// The sender's clock, in its own unit.
    #[doc(alias = "TSval")]
    pub(crate) value: u32,
    /// A value of the receiver's clock that the sender has seen; meaningless without ACK.
    #[doc(alias = "TSecr")]
    pub(crate) echo: u32,
}

impl Timestamps {
    /// Those of an option.
    #[inline]
    pub(super) fn of_option((value, echo): (u32, u32)) -> Self {
        Self { value, echo }
    }
}

/// The part that a connection keeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimestampClock {
    /// Offered, until the handshake is over; then agreed on.
    pub(crate) on: bool,
    offset: u32,
    /// The peer's value to echo.
    #[doc(alias = "TS.Recent")]
    recent: u32,
    /// When it was set, in seconds of the stack's clock.
    recent_at: u32,
    /// The peer's value when `floor_nxt` was RCV.NXT.
    floor: u32,
    floor_nxt: SeqNum,
}

/// Bytes after which `floor` is updated.
const FLOOR_BYTES: u32 = 1 << 30;

/// Seconds for which a peer's value is valid.
const RECENT_VALID: u32 = 24 * 24 * 3600;

impl TimestampClock {
    pub(crate) const fn new(on: bool) -> Self {
        Self {
            on,
            offset: 0,
            recent: 0,
            recent_at: 0,
            floor: 0,
            floor_nxt: SeqNum(0),
        }
    }

    /// The same with another offset.
    pub(crate) const fn with_offset(self, offset: u32) -> Self {
        Self { offset, ..self }
    }

    /// The option of a segment that is sent now; nothing is echoed without ACK (RFC 7323 3.2).
    pub(crate) fn option(&self, now: Time, ack: bool) -> Option<(u32, u32)> {
        let echo = if ack { self.recent } else { 0 };
        self.on.then(|| (self.value(now), echo))
    }

    /// The clock's value.
    pub(crate) fn value(&self, now: Time) -> u32 {
        (now.as_millis() as u32).wrapping_add(self.offset)
    }

    /// A SYN brings the peer's first value, or tells that the peer has none; data begins at `nxt`.
    pub(crate) fn begin(&mut self, syn: Option<Timestamps>, nxt: SeqNum, now: Time) {
        self.on &= syn.is_some();
        if let (true, Some(ts)) = (self.on, syn) {
            self.set_recent(ts.value, now);
            (self.floor, self.floor_nxt) = (ts.value, nxt);
        }
    }

    /// Whether a segment is older than one that was received before (RFC 7323 5.3, R1).
    pub(crate) fn is_too_old(&self, ts: Timestamps, now: Time) -> bool {
        // Segments are almost never older, so only older ones need the further check.
        let believed = || seconds(now).wrapping_sub(self.recent_at) < RECENT_VALID;
        is_older(ts.value, self.recent) && believed()
    }

    /// Whether a segment that is too old was sent on this turn around the sequence space; `nxt` is RCV.NXT.
    pub(crate) fn is_of_this_turn(&self, ts: Timestamps, nxt: SeqNum) -> bool {
        !is_older(ts.value, self.floor) && nxt.since(self.floor_nxt) < FLOOR_BYTES
    }

    /// Takes the value of an acceptable segment that begins at `start`, before its data (RFC 7323 4.3 (2)).
    pub(crate) fn note(&mut self, ts: Timestamps, start: SeqNum, last_ack_sent: SeqNum, now: Time) {
        // An older value takes its place once `recent` has become invalid (RFC 7323 5.5).
        if start.at_or_before(last_ack_sent) && !self.is_too_old(ts, now) {
            self.set_recent(ts.value, now);
            if last_ack_sent.since(self.floor_nxt) >= FLOOR_BYTES / 2 {
                (self.floor, self.floor_nxt) = (ts.value, last_ack_sent);
            }
        }
    }

    fn set_recent(&mut self, value: u32, now: Time) {
        (self.recent, self.recent_at) = (value, seconds(now));
    }

    /// The last accepted value of the peer.
    pub(crate) fn recent(&self) -> Option<u32> {
        self.on.then_some(self.recent)
    }

    /// The millisecond in which the echoed segment was sent; none if the echo is of a value that was never sent.
    pub(crate) fn echoed_ms(&self, ts: Timestamps, now: Time) -> Option<u64> {
        let ticks = self.value(now).wrapping_sub(ts.echo);
        let sent_before = ticks < 1 << 31;
        (self.on && sent_before).then(|| now.as_millis().saturating_sub(ticks.into()))
    }
}

/// Whether `value` is the older one.
pub(crate) fn is_older(value: u32, than: u32) -> bool {
    (value.wrapping_sub(than) as i32) < 0
}

fn seconds(now: Time) -> u32 {
    (now.as_millis() / 1000) as u32
}

#[cfg(all(test, not(shuttle)))]
mod tests;
