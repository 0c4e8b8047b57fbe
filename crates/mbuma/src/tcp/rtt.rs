//! How long a round trip takes, and how long to wait for an acknowledgement (RFC 6298).
//!
//! Samples come from the sent map: never of what was sent more than once, whose acknowledgement does not tell which
//! transmission it answers (Karn's algorithm).

use std::num::NonZeroU64;
use std::time::Duration;

use kern::Time;

use crate::config::TcpConfig;

/// Granularity of the clock that the variance term must not fall below, RFC 6298 (2.3), in nanoseconds.
const GRANULARITY: u64 = 1_000_000;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// The estimator of one connection. In nanoseconds: each segment asks, and a [`Duration`] is divided at each step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rtt {
    /// One more than it is.
    smoothed: Option<NonZeroU64>,
    variance: u64,
    /// The handshake took more than one try.
    handshake_repeated: bool,
    backoff: u8,
}

impl Rtt {
    pub(crate) const fn new() -> Self {
        Self {
            smoothed: None,
            variance: 0,
            handshake_repeated: false,
            backoff: 0,
        }
    }

    /// The smoothed round trip, once there was a sample.
    pub(crate) fn smoothed(&self) -> Option<Duration> {
        self.smoothed_ns().map(Duration::from_nanos)
    }

    /// The same in nanoseconds.
    pub(crate) fn smoothed_ns(&self) -> Option<u64> {
        self.smoothed.map(|more| more.get() - 1)
    }

    /// How much round trips differ, in nanoseconds.
    #[doc(alias = "RTTVAR")]
    pub(crate) fn variance_ns(&self) -> u64 {
        self.variance
    }

    /// The handshake needed more than one try: the round trip is not known (RFC 6298 (5.7)).
    pub(crate) fn handshake_repeated(&mut self) {
        self.backoff = 0;
        self.handshake_repeated = true;
    }

    /// RFC 6298 (2.2) and (2.3), for one of `samples` a round trip. A backed-off timeout stays until there is a sample
    /// (RFC 6298 5): on a path that has become longer than the timeout there would never be one.
    pub(crate) fn sample(&mut self, r: u64, samples: u32) {
        let samples = u64::from(samples);
        let (smoothed, variance) = match self.smoothed_ns() {
            None => (r, r / 2),
            Some(s) => {
                let variance = mix(self.variance, 4 * samples - 1, s.abs_diff(r));
                (mix(s, 8 * samples - 1, r), variance)
            }
        };
        self.smoothed = NonZeroU64::new(smoothed.saturating_add(1));
        self.variance = variance;
        self.backoff = 0;
    }

    /// RFC 6298 (5.5): the timer expired, so wait twice as long.
    pub(crate) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(16);
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
        let rto = match self.smoothed_ns() {
            None if self.handshake_repeated => min.max(3 * SECOND),
            None => min.max(SECOND), // RFC 6298 (2.1)
            // The bound is of what is added: a peer that delays each acknowledgement causes no timeout on a path whose
            // round trip is near the bound. Linux does the same.
            Some(smoothed) => {
                let more = self.variance.saturating_mul(4).max(GRANULARITY).max(min);
                smoothed.saturating_add(more)
            }
        };
        let backed_off = rto.min(max).saturating_mul(1 << self.backoff);
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
