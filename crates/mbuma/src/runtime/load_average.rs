//! A load average in bytes, of a worker or of a task, which other workers may read.
//!
//! ```text
//!   63          28 27             0
//!   | step         | bytes         |      bytes of before count half, a step later
//! ```
//!
//! Locks: none. One word, Relaxed: a reader that sees an older number decides as it would have decided earlier. It is
//! changed by compare-exchange, because a worker that gives a task away also changes the other worker's load.

use std::sync::atomic::{AtomicU64, Ordering};

use kern::Time;

/// Nanoseconds in a step.
const STEP: u64 = 8_000_000;
/// Bits of the word that count bytes. The other bits count steps, enough for 17 years.
const BYTES_BITS: u32 = 28;
const BYTES_MAX: u64 = (1 << BYTES_BITS) - 1;

/// Bytes transferred, with older ones counted less.
#[derive(Debug, Default)]
pub(super) struct LoadAverage(AtomicU64);

impl LoadAverage {
    /// Adds `bytes`.
    pub(super) fn record(&self, now: Time, bytes: u64) {
        self.change(now, |sum| sum.saturating_add(bytes).min(BYTES_MAX));
    }

    /// Subtracts the `bytes` of a task that migrates.
    pub(super) fn hand_over(&self, now: Time, bytes: u64) {
        self.change(now, |sum| sum.saturating_sub(bytes));
    }

    fn change(&self, now: Time, change: impl Fn(u64) -> u64) {
        let changed = |word| {
            // Another thread may have read its clock a moment later.
            let at = step(now).max(word >> BYTES_BITS);
            Some(at << BYTES_BITS | change(left(word, at)))
        };
        // It never refuses.
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
    }

    /// The bytes as they count now.
    pub(super) fn at(&self, now: Time) -> u64 {
        left(self.0.load(Ordering::Relaxed), step(now))
    }
}

/// The part of the bytes in `word` that still counts in step `at`.
fn left(word: u64, at: u64) -> u64 {
    let age = at.saturating_sub(word >> BYTES_BITS);
    (word & BYTES_MAX) >> age.min(63)
}

/// The step of a time.
fn step(at: Time) -> u64 {
    (at.as_nanos() / STEP).min(u64::MAX >> BYTES_BITS)
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::time::Duration;

    use super::{BYTES_MAX, LoadAverage, STEP};
    use kern::Time;

    fn after(steps: u64) -> Time {
        Time::ZERO + Duration::from_nanos(steps * STEP)
    }

    #[test]
    fn what_was_moved_counts_half_a_step_later() {
        // Breaks when a worker that was busy once counts as busy for ever, or one that is does not.
        let load_average = LoadAverage::default();
        assert_eq!(load_average.at(after(1 << 40)), 0);
        load_average.record(after(3), 1000);
        load_average.record(after(3), 24);
        assert_eq!(
            [3, 4, 5, 13, 14, 1000].map(|n| load_average.at(after(n))),
            [1024, 512, 256, 1, 0, 0]
        );
        load_average.record(after(4), 88);
        assert_eq!(load_average.at(after(4)), 600);
        // A clock that was read before.
        assert_eq!(load_average.at(after(2)), 600);
        load_average.record(after(2), 40);
        assert_eq!(
            [3, 4, 5].map(|n| load_average.at(after(n))),
            [640, 640, 320]
        );
    }

    #[test]
    fn what_goes_elsewhere_counts_no_more() {
        // Breaks when a worker that gave its load away goes on giving, or has less than nothing.
        let load_average = LoadAverage::default();
        load_average.record(after(1), 1000);
        load_average.hand_over(after(2), 200);
        assert_eq!(load_average.at(after(2)), 300);
        load_average.hand_over(after(2), 301);
        assert_eq!(load_average.at(after(2)), 0);
    }

    #[test]
    fn it_has_an_end() {
        // Breaks when so many bytes that they do not fit in are taken for few, or for a time.
        let load_average = LoadAverage::default();
        load_average.record(after(7), BYTES_MAX);
        load_average.record(after(7), u64::MAX);
        assert_eq!(
            [7, 8].map(|n| load_average.at(after(n))),
            [BYTES_MAX, BYTES_MAX / 2]
        );
        let late = after(u64::MAX / STEP);
        load_average.record(late, 5);
        assert_eq!(load_average.at(late), 5);
    }
}
