//! How much a worker has moved of late, as the others may read it.
//!
//! ```text
//!   63          32 31             0
//!   | step         | bytes         |      bytes of before count half, a step later
//! ```
//!
//! Called by: crew. Calls: nothing.
//! Invariants: its own worker alone writes it, so no addition is lost. Locks: none; one word, Relaxed: who reads
//! a number of a moment ago decides as it would have decided then.

use std::sync::atomic::{AtomicU64, Ordering};

use kern::Time;

/// Nanoseconds in a step.
const STEP: u64 = 8_000_000;

/// Bytes moved, those of before counted less and less.
#[derive(Debug, Default)]
pub(super) struct Heat(AtomicU64);

impl Heat {
    /// Its worker has moved `bytes` more.
    pub(super) fn add(&self, now: Time, bytes: u64) {
        let sum = (self.at(now) + bytes).min(u64::from(u32::MAX));
        self.0.store(step(now) << 32 | sum, Ordering::Relaxed);
    }

    /// How hot it is by now.
    pub(super) fn at(&self, now: Time) -> u64 {
        let word = self.0.load(Ordering::Relaxed);
        // Somebody else's clock may have been read a moment before.
        let age = step(now).saturating_sub(word >> 32);
        (word & u64::from(u32::MAX)) >> age.min(63)
    }
}

/// In which step a time is: 32 bits of them are a year.
fn step(at: Time) -> u64 {
    (at.as_nanos() / STEP).min(u64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Heat, STEP};
    use kern::Time;

    fn after(steps: u64) -> Time {
        Time::ZERO + Duration::from_nanos(steps * STEP)
    }

    #[test]
    fn what_was_moved_counts_half_a_step_later() {
        // Breaks when a worker that was busy once counts as busy for ever, or one that is does not.
        let heat = Heat::default();
        assert_eq!(heat.at(after(1 << 40)), 0);
        heat.add(after(3), 1000);
        heat.add(after(3), 24);
        assert_eq!(
            [3, 4, 5, 13, 14, 1000].map(|n| heat.at(after(n))),
            [1024, 512, 256, 1, 0, 0]
        );
        heat.add(after(4), 88);
        assert_eq!(heat.at(after(4)), 600);
        // A clock that was read before.
        assert_eq!(heat.at(after(2)), 600);
    }

    #[test]
    fn it_has_an_end() {
        // Breaks when so many bytes that they do not fit in are taken for few, or for a time.
        let heat = Heat::default();
        heat.add(after(7), u64::from(u32::MAX));
        heat.add(after(7), 1 << 20);
        assert_eq!(
            [7, 8].map(|n| heat.at(after(n))),
            [u32::MAX.into(), u64::from(u32::MAX / 2)]
        );
    }
}
