//! The smallest round trip of the last minutes: the path without queues. A path that has become longer is believed after at
//! most two windows.
//!
//! Source: RFC 8985 6.2 step 1, which asks for a windowed minimum and suggests Linux's five minutes.

use kern::Time;

/// How long a minimum counts by itself, in seconds.
const WINDOW_S: u64 = 150;

/// The minimum of the window that runs, and that of the one before, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MinRtt {
    now: u64,
    before: u64,
    since: Time,
}

impl Default for MinRtt {
    fn default() -> Self {
        Self {
            now: u64::MAX,
            before: u64::MAX,
            since: Time::default(),
        }
    }
}

impl MinRtt {
    /// Takes a sample of `rtt` ns.
    pub(crate) fn sample(&mut self, rtt: u64, now: Time) {
        let age = now.as_nanos().saturating_sub(self.since.as_nanos());
        if age > WINDOW_S * 1_000_000_000 {
            let recent = age <= 2 * WINDOW_S * 1_000_000_000;
            self.before = if recent { self.now } else { u64::MAX };
            (self.now, self.since) = (u64::MAX, now);
        }
        self.now = self.now.min(rtt);
    }

    /// The minimum in ns, once there was a sample.
    pub(crate) fn get(&self) -> Option<u64> {
        Some(self.now.min(self.before)).filter(|min| *min != u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_minimum_is_forgotten() {
        // Breaks when a route that became longer looks like a queue for ever, or when a minimum is forgotten too early.
        let mut min = MinRtt::default();
        assert_eq!(min.get(), None);
        min.sample(50, Time::from_secs(1000));
        min.sample(80, Time::from_secs(1001));
        assert_eq!(min.get(), Some(50));
        min.sample(90, Time::from_secs(1160));
        assert_eq!(min.get(), Some(50), "for a window more");
        min.sample(70, Time::from_secs(1320));
        assert_eq!(min.get(), Some(70));
        min.sample(95, Time::from_secs(9000));
        assert_eq!(min.get(), Some(95));
    }
}
