//! An instant, in nanoseconds since the epoch of the clock that gave it.
//!
//! Invariants: arithmetic saturates at both ends and never wraps or panics, because deadlines are
//! made from numbers that peers send. 2^64 ns are 584 years.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};
use core::time::Duration;

/// An instant: nanoseconds since the epoch of some [`Clock`](crate::Clock).
///
/// Instants of different clocks must not be mixed; the type does not check it.
///
/// ```
/// use core::time::Duration;
/// use kern::Time;
///
/// let sent = Time::from_millis(40);
/// let acked = sent + Duration::from_millis(12);
/// assert_eq!(acked - sent, Duration::from_millis(12));
/// assert_eq!(sent - acked, Duration::ZERO); // saturates
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(u64);

impl Time {
    /// The epoch itself.
    pub const ZERO: Self = Self(0);
    /// The last instant there is: "never" for a deadline.
    pub const MAX: Self = Self(u64::MAX);

    /// The instant `nanos` nanoseconds after the epoch.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The instant `micros` microseconds after the epoch, or [`Time::MAX`].
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// The instant `millis` milliseconds after the epoch, or [`Time::MAX`].
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// The instant `secs` seconds after the epoch, or [`Time::MAX`].
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// The earliest of these, if there is any. [`Time::MAX`] counts as none.
    #[inline]
    #[must_use]
    pub fn earliest(times: impl IntoIterator<Item = Option<Self>>) -> Option<Self> {
        // Compares numbers, without a branch for each time that is not there.
        let never = |at: Option<Self>| at.unwrap_or(Self::MAX);
        let first = times.into_iter().map(never).fold(Self::MAX, Self::min);
        (first != Self::MAX).then_some(first)
    }

    /// Nanoseconds since the epoch.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole microseconds since the epoch, rounded down.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole milliseconds since the epoch, rounded down.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(nanos(by)))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, by: Duration) {
        *self = *self + by;
    }
}

impl Sub<Duration> for Time {
    type Output = Self;

    fn sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(by)))
    }
}

impl Sub for Time {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Seconds with nine decimals, as packet traces show them.
impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (secs, nanos) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        write!(f, "{secs}.{nanos:09}s")
    }
}

/// A duration in nanoseconds, clamped to the range of a [`Time`].
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
