//! When a zone must give out a sample, and with what weight.
//!
//! Invariants: each item that a refill brought is in the weight of one sample at most.
//! Locks: none.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Counts refills until a zone's next sample.
pub(crate) struct Sampler {
    /// Refills between samples; 0: never.
    every: u32,
    /// Since the last sample: refills in the low bits, the items that they brought above. Relaxed: no data depends on
    /// the numbers; the thread that sets it to 0 has the turn.
    since: AtomicU64,
    /// 1: a sample that was freed early passed this turn on. It must not be passed on again.
    pub(crate) handed_on: AtomicU32,
}

const REFILL_BITS: u32 = 24;
const REFILLS: u64 = (1 << REFILL_BITS) - 1;

impl Sampler {
    pub(crate) fn new(every: u32) -> Self {
        Self {
            every,
            since: AtomicU64::new(0),
            handed_on: AtomicU32::new(0),
        }
    }

    /// Counts `items` that came from the depot or the keg.
    #[inline]
    pub(crate) fn refilled(&self, items: usize) {
        if self.every == 0 || self.since.load(Relaxed) & REFILLS == REFILLS {
            return;
        }
        self.since
            .fetch_add((items as u64) << REFILL_BITS | 1, Relaxed);
    }

    /// Items that no sample represents yet.
    pub(crate) fn unsampled(&self) -> u64 {
        self.since.load(Relaxed) >> REFILL_BITS
    }

    /// Takes the turn, if there is one: the weight of the sample, and whether it may pass the turn on.
    pub(crate) fn claim(&self, shift: u32) -> Option<(u64, bool)> {
        let since = self.since.load(Relaxed);
        if self.every == 0 || since & REFILLS < self.threshold(shift) {
            return None;
        }
        self.since
            .compare_exchange(since, 0, Relaxed, Relaxed)
            .ok()?;
        let was_handed_on = self.handed_on.swap(0, Relaxed) != 0;
        Some((since >> REFILL_BITS, !was_handed_on))
    }

    /// Passes a turn on to the next thread that needs a refill.
    pub(crate) fn hand_on(&self, weight: u64, shift: u32) {
        let turn = weight << REFILL_BITS | self.threshold(shift);
        self.since.fetch_add(turn, Relaxed);
    }

    fn threshold(&self, shift: u32) -> u64 {
        (u64::from(self.every) << shift.min(16)).min(REFILLS / 2)
    }
}
