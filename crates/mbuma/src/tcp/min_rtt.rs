//! The smallest round trip of the last minutes: that of the path without queues. A longer path is accepted after at
//! most two windows.
//!
//! Source: RFC 8985 6.2 step 1, which asks for a windowed minimum and suggests Linux's five minutes.

use kern::Time;

/// The length of a window in seconds.
const WINDOW: u32 = 150;

/// The minima of the present window and of the previous one, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MinRtt {
    now: u32,
    before: u32,
    /// When the window began, in seconds of the stack's clock.
    since: u32,
}

impl Default for MinRtt {
    fn default() -> Self {
        Self {
            now: u32::MAX,
            before: u32::MAX,
            since: 0,
        }
    }
}

impl MinRtt {
    /// Takes a sample of `rtt` ns.
    pub(crate) fn sample(&mut self, rtt: u64, now: Time) {
        let seconds = (now.as_millis() / 1000) as u32;
        let age = seconds.wrapping_sub(self.since);
        if age > WINDOW {
            self.before = if age <= 2 * WINDOW {
                self.now
            } else {
                u32::MAX
            };
            (self.now, self.since) = (u32::MAX, seconds);
        }
        let micros = u32::try_from(rtt / 1000).unwrap_or(u32::MAX - 1);
        self.now = self.now.min(micros);
    }

    /// The minimum in ns, once there was a sample.
    pub(crate) fn get(&self) -> Option<u64> {
        let min = self.now.min(self.before);
        (min != u32::MAX).then(|| u64::from(min) * 1000)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn an_old_minimum_is_forgotten() {
        // Breaks when a route that became longer looks like a queue for ever, or when a minimum is forgotten too early.
        let mut min = MinRtt::default();
        assert_eq!(min.get(), None);
        min.sample(50_000, Time::from_secs(1000));
        min.sample(80_000, Time::from_secs(1001));
        assert_eq!(min.get(), Some(50_000));
        min.sample(90_000, Time::from_secs(1160));
        assert_eq!(min.get(), Some(50_000), "for a window more");
        min.sample(70_000, Time::from_secs(1320));
        assert_eq!(min.get(), Some(70_000));
        min.sample(95_000, Time::from_secs(9000));
        assert_eq!(min.get(), Some(95_000));
    }
}
