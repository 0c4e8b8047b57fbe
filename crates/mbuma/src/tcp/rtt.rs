//! How long a round trip takes, and how long to wait for an acknowledgement (RFC 6298).
//!
//! One segment at a time is timed. After a retransmission none is, until all that was under way then is
//! acknowledged (Karn's algorithm): an acknowledgement that waited for a gap to be filled would say
//! that the path is as slow as the repair.

use std::time::Duration;

use kern::Time;
use wire::SeqNum;

/// Granularity of the clock that the variance term must not fall below, RFC 6298 (2.3).
const GRANULARITY: Duration = Duration::from_millis(1);

/// The estimator of one connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rtt {
    smoothed: Option<Duration>,
    variance: Duration,
    rto: Duration,
    backoff: u32,
    /// The segment being timed: the sequence number that acknowledges it, and when it was sent.
    timing: Option<(SeqNum, Time)>,
}

impl Rtt {
    pub(crate) const fn new() -> Self {
        Self {
            smoothed: None,
            variance: Duration::ZERO,
            rto: Duration::from_secs(1), // RFC 6298 (2.1)
            backoff: 0,
            timing: None,
        }
    }

    /// The smoothed round trip, once there was a sample.
    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.smoothed
    }

    /// A segment whose last byte is before `end` was sent for the first time.
    pub(crate) fn sent(&mut self, end: SeqNum, now: Time) {
        if self.timing.is_none() {
            self.timing = Some((end, now));
        }
    }

    /// Something was sent again: an acknowledgement can't tell which sending it answers.
    pub(crate) fn retransmitted(&mut self) {
        self.timing = None;
    }

    /// The handshake needed more than one try: nobody knows the round trip (RFC 6298 (5.7)).
    pub(crate) fn handshake_repeated(&mut self) {
        self.backoff = 0;
        if self.smoothed.is_none() {
            self.rto = Duration::from_secs(3);
        }
    }

    /// New data was acknowledged up to `ack`. A backed-off timeout stays until there is a sample
    /// (RFC 6298 5): on a path that has become longer than the timeout there would never be one.
    pub(crate) fn acked(&mut self, ack: SeqNum, now: Time) {
        if let Some((end, sent)) = self.timing
            && !ack.before(end)
        {
            self.timing = None;
            self.sample(now - sent);
        }
    }

    /// RFC 6298 (2.2) and (2.3).
    fn sample(&mut self, r: Duration) {
        match self.smoothed {
            None => {
                self.smoothed = Some(r);
                self.variance = r / 2;
            }
            Some(s) => {
                self.variance = (self.variance * 3 + s.abs_diff(r)) / 4;
                self.smoothed = Some((s * 7 + r) / 8);
            }
        }
        self.backoff = 0;
        let s = self.smoothed.unwrap_or(r);
        self.rto = s + (self.variance * 4).max(GRANULARITY);
    }

    /// RFC 6298 (5.5): the timer expired, so wait twice as long.
    pub(crate) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(16);
        self.timing = None;
    }

    /// How long to wait now.
    pub(crate) fn timeout(&self, min: Duration, max: Duration) -> Duration {
        self.rto
            .clamp(min, max)
            .saturating_mul(1 << self.backoff)
            .min(max)
    }
}
