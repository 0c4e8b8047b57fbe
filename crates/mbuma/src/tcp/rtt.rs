//! Estimates the round trip and the retransmission timeout (RFC 6298).
//!
//! Samples come from the sent map, and never from a retransmitted range, whose acknowledgement does not show which
//! transmission it answers (Karn's algorithm).

use std::num::NonZeroU64;
use std::time::Duration;

use kern::Time;

use crate::config::TcpConfig;

/// Granularity of the clock that the variance term must not fall below, RFC 6298 (2.3), in nanoseconds.
const GRANULARITY: u64 = 1_000_000;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// The estimator of one connection. In nanoseconds, because each segment uses it, and operations on a [`Duration`] need
/// divisions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rtt {
    /// The smoothed round trip and 1 more, so that its absence takes no room.
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

    /// The variation of round trips, in nanoseconds.
    #[doc(alias = "RTTVAR")]
    pub(crate) fn variance_ns(&self) -> u64 {
        self.variance
    }

    /// The handshake needed more than one try: the round trip is not known (RFC 6298 (5.7)).
    pub(crate) fn handshake_repeated(&mut self) {
        self.backoff = 0;
        self.handshake_repeated = true;
    }

    /// RFC 6298 (2.2) and (2.3), for one of `samples` in a round trip. A backed-off timeout stays until there is a
    /// sample (RFC 6298 5); otherwise a path that has become longer than the timeout would never give one.
    pub(crate) fn sample(&mut self, r: u64, samples: u32) {
        match samples {
            // The fast path divides by constants: a small flight.
            1 => self.mix_in(r, 1),
            samples => self.mix_in(r, samples.into()),
        }
    }

    #[inline(always)]
    fn mix_in(&mut self, r: u64, samples: u64) {
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

    /// The present timeout.
    pub(crate) fn timeout(&self, config: &TcpConfig) -> Duration {
        Duration::from_nanos(self.timeout_ns(config))
    }

    /// The time at which the timer expires if it starts now.
    pub(crate) fn expires(&self, now: Time, config: &TcpConfig) -> Time {
        let wait = self.timeout_ns(config);
        Time::from_nanos(now.as_nanos().saturating_add(wait))
    }

    /// The present timeout in nanoseconds.
    pub(crate) fn timeout_ns(&self, config: &TcpConfig) -> u64 {
        let (min, max) = (nanos(config.rto_min), nanos(config.rto_max));
        let rto = match self.smoothed_ns() {
            None if self.handshake_repeated => min.max(3 * SECOND),
            None => min.max(nanos(config.rto_initial)),
            // The lower bound applies to the added term: so a peer that delays each acknowledgement causes no timeout
            // on a path with a round trip near the bound. Linux does the same.
            Some(smoothed) => {
                let more = self.variance.saturating_mul(4).max(GRANULARITY).max(min);
                smoothed.saturating_add(more)
            }
        };
        let backed_off = rto.min(max).saturating_mul(1 << self.backoff);
        backed_off.min(max)
    }
}

/// The mean of `old` and one more sample, with a weight of 1 in `weight` + 1.
#[inline]
fn mix(old: u64, weight: u64, sample: u64) -> u64 {
    old.saturating_mul(weight).saturating_add(sample) / (weight + 1)
}

fn nanos(duration: Duration) -> u64 {
    (duration.as_secs().saturating_mul(SECOND)).saturating_add(u64::from(duration.subsec_nanos()))
}
