//! How long a round trip takes, and how long to wait for an acknowledgement (RFC 6298).
//!
//! One segment at a time is timed. After a retransmission none is, until all that was under way then is
//! acknowledged (Karn's algorithm): an acknowledgement that waited for a gap to be filled would say
//! that the path is as slow as the repair.

use std::time::Duration;

use kern::Time;
use wire::SeqNum;

use crate::config::TcpConfig;

/// Granularity of the clock that the variance term must not fall below, RFC 6298 (2.3), in nanoseconds.
const GRANULARITY: u64 = 1_000_000;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// The estimator of one connection. In nanoseconds: each segment asks, and a [`Duration`] is divided at each step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rtt {
    smoothed: Option<u64>,
    variance: u64,
    rto: u64,
    backoff: u32,
    /// The segment being timed: the sequence number that acknowledges it, and when it was sent.
    timing: Option<(SeqNum, Time)>,
}

impl Rtt {
    pub(crate) const fn new() -> Self {
        Self {
            smoothed: None,
            variance: 0,
            rto: SECOND, // RFC 6298 (2.1)
            backoff: 0,
            timing: None,
        }
    }

    /// The smoothed round trip, once there was a sample.
    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.smoothed.map(Duration::from_nanos)
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
            self.rto = 3 * SECOND;
        }
    }

    /// New data was acknowledged up to `ack`. A backed-off timeout stays until there is a sample
    /// (RFC 6298 5): on a path that has become longer than the timeout there would never be one.
    pub(crate) fn acked(&mut self, ack: SeqNum, now: Time) {
        if let Some((end, sent)) = self.timing
            && !ack.before(end)
        {
            self.timing = None;
            self.sample(now.as_nanos().saturating_sub(sent.as_nanos()));
        }
    }

    /// RFC 6298 (2.2) and (2.3).
    fn sample(&mut self, r: u64) {
        let (smoothed, variance) = match self.smoothed {
            None => (r, r / 2),
            Some(s) => (mix(s, 7, r), mix(self.variance, 3, s.abs_diff(r))),
        };
        (self.smoothed, self.variance) = (Some(smoothed), variance);
        self.backoff = 0;
        self.rto = smoothed.saturating_add(variance.saturating_mul(4).max(GRANULARITY));
    }

    /// RFC 6298 (5.5): the timer expired, so wait twice as long.
    pub(crate) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(16);
        self.timing = None;
    }

    /// How long to wait now.
    pub(crate) fn timeout(&self, min: Duration, max: Duration) -> Duration {
        Duration::from_nanos(self.timeout_ns(min, max))
    }

    /// When what is sent, or acknowledged, now has waited for so long.
    pub(crate) fn expires(&self, now: Time, config: &TcpConfig) -> Time {
        let wait = self.timeout_ns(config.rto_min, config.rto_max);
        Time::from_nanos(now.as_nanos().saturating_add(wait))
    }

    fn timeout_ns(&self, min: Duration, max: Duration) -> u64 {
        let (min, max) = (nanos(min), nanos(max));
        let backed_off = self.rto.clamp(min, max).saturating_mul(1 << self.backoff);
        backed_off.min(max)
    }
}

/// `old` and one more sample, which weighs one part of `weight` + 1.
fn mix(old: u64, weight: u64, sample: u64) -> u64 {
    old.saturating_mul(weight).saturating_add(sample) / (weight + 1)
}

fn nanos(duration: Duration) -> u64 {
    (duration.as_secs().saturating_mul(SECOND)).saturating_add(u64::from(duration.subsec_nanos()))
}
