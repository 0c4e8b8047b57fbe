//! Counts the time in which a connection had data to send, and what limited it meanwhile.
//!
//! | limit | when |
//! |---|---|
//! | idle | nothing is in flight, and nothing waits |
//! | peer's window | data waits that the peer's window does not take, and the congestion window would |
//! | send buffer | all of a full buffer is in flight, and both windows would take more |
//! | none of these | the path and the congestion window |
//!
//! The end of each turn to send decides it, and so does the acknowledgement of all data. Only a change reads the time.
//!
//! Locks: none; part of the connection. Source: Linux's `tcp_chrono`.

use std::time::Duration;

use kern::Time;

/// What limits the sender now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum SendLimit {
    /// It has nothing to send.
    #[default]
    Idle,
    /// The path, the congestion window or the program's rate.
    Path,
    PeerWindow,
    SendBuffer,
}

/// The clocks of one connection, in [ticks](tick): small, because an idle connection keeps them.
#[derive(Debug, Default)]
pub(crate) struct SendClocks {
    path: u32,
    peer_window: u32,
    send_buffer: u32,
    /// When the present limit began.
    since: u32,
}

/// The figures of a connection's clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SendTimes {
    pub(crate) busy: Duration,
    pub(crate) peer_window: Duration,
    pub(crate) send_buffer: Duration,
}

/// A tick has 2^20 ns: about a millisecond, and no division.
const TICK_SHIFT: u32 = 20;

/// The ticks of the stack's clock, which wrap after 52 days.
fn tick(now: Time) -> u32 {
    (now.as_nanos() >> TICK_SHIFT) as u32
}

impl SendClocks {
    /// The present limit ends now.
    pub(crate) fn end(&mut self, limit: SendLimit, now: Time) {
        let now = tick(now);
        let spent = self.spent(now);
        let clock = match limit {
            SendLimit::Idle => None,
            SendLimit::Path => Some(&mut self.path),
            SendLimit::PeerWindow => Some(&mut self.peer_window),
            SendLimit::SendBuffer => Some(&mut self.send_buffer),
        };
        if let Some(clock) = clock {
            *clock = clock.saturating_add(spent);
        }
        self.since = now;
    }

    /// Ticks since the present limit began; none if another thread has read a later time before.
    fn spent(&self, now: u32) -> u32 {
        now.wrapping_sub(self.since)
            .cast_signed()
            .max(0)
            .cast_unsigned()
    }

    /// The times until now, at the present limit.
    pub(crate) fn times(&self, limit: SendLimit, now: Time) -> SendTimes {
        let spent = self.spent(tick(now));
        let of = |clock: u32, counted| {
            let present = if counted == limit { spent } else { 0 };
            Duration::from_nanos((u64::from(clock) + u64::from(present)) << TICK_SHIFT)
        };
        let path = of(self.path, SendLimit::Path);
        let peer_window = of(self.peer_window, SendLimit::PeerWindow);
        let send_buffer = of(self.send_buffer, SendLimit::SendBuffer);
        SendTimes {
            busy: path + peer_window + send_buffer,
            peer_window,
            send_buffer,
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    /// The clocks with the present limit, as a connection has them.
    #[derive(Default)]
    struct TestClocks(SendClocks, SendLimit);

    impl TestClocks {
        fn set(&mut self, limit: SendLimit, now: Time) {
            self.0.end(std::mem::replace(&mut self.1, limit), now);
        }

        fn times(&self, now: Time) -> SendTimes {
            self.0.times(self.1, now)
        }
    }

    #[test]
    fn each_limit_has_its_time_and_idleness_has_none() {
        // Breaks when a time is counted for another limit, an idle time counts, or parts of milliseconds get lost with
        // each change.
        let mut clocks = TestClocks::default();
        let at = |micros: u64| Time::from_nanos(micros * 1000);
        clocks.set(SendLimit::Path, at(5_000_000));
        for n in 0..1000 {
            // Each change comes after 300 us.
            let now = at(5_000_000 + n * 600);
            clocks.set(SendLimit::PeerWindow, now);
            clocks.set(SendLimit::Path, now + Duration::from_micros(300));
        }
        clocks.set(SendLimit::SendBuffer, at(5_600_000));
        clocks.set(SendLimit::Idle, at(5_650_000));
        let times = clocks.times(at(9_000_000));
        let about = |time: Duration, ms| time.abs_diff(Duration::from_millis(ms)).as_millis() < 3;
        assert!(
            about(times.busy, 650) && about(times.send_buffer, 50),
            "{times:?}"
        );
        let shared = times.peer_window.as_millis();
        assert!((200..400).contains(&shared), "{times:?}");
        clocks.set(SendLimit::PeerWindow, at(9_000_000));
        let later = clocks.times(at(9_100_000));
        assert!(about(later.busy, 750), "the present limit counts too");
    }

    #[test]
    fn an_earlier_time_counts_nothing() {
        // Breaks when a thread whose batch began earlier makes a clock jump.
        let mut clocks = TestClocks::default();
        clocks.set(SendLimit::Path, Time::from_secs(10));
        clocks.set(SendLimit::SendBuffer, Time::from_secs(9));
        let times = clocks.times(Time::from_secs(8));
        assert_eq!(times.busy, Duration::ZERO);
    }

    #[test]
    fn the_clock_may_wrap() {
        // Breaks when the ticks wrap within a limit and the time is lost.
        let mut clocks = TestClocks::default();
        let at = |ticks: u64| Time::from_nanos(ticks << TICK_SHIFT);
        let wrap = 1 << 32;
        clocks.set(SendLimit::PeerWindow, at(wrap - 100));
        let times = clocks.times(at(wrap + 101));
        assert_eq!(times.peer_window, Duration::from_nanos(201 << TICK_SHIFT));
    }
}
