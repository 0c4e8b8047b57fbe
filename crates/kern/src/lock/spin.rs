//! How long a thread spins on a lock before it sleeps.
//!
//! A thread that spins for as long as a sleep and a wakeup take spends at most twice the time of
//! the better choice. The duration of a pause instruction differs by a factor of ten between
//! processors, so it is timed once. A kernel spins while the owner runs; a program cannot see
//! whether the owner runs, so it spins for a bounded time, and does not spin if the machine has one
//! CPU, on which the owner would have to run.
//!
//! Locks: none.
//! Source: Karlin et al., "Empirical studies of competitive spinning", SOSP 1991.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

use crate::cpu;

/// The time that a sleep and a wakeup take, about.
const SLEEP_NANOS: u64 = 4_000;
/// How many pauses are timed.
const SAMPLE: u64 = 64;
/// The bounds of the budget, if the clock shows a pause as very fast or very slow.
const BOUNDS: core::ops::RangeInclusive<u64> = 20..=2_000;
const UNKNOWN: u32 = u32::MAX;

/// Pauses to spend before sleeping: 0 on a single CPU.
pub(super) fn budget() -> u32 {
    static BUDGET: AtomicU32 = AtomicU32::new(UNKNOWN);
    match BUDGET.load(Relaxed) {
        UNKNOWN => {
            let budget = measure(cpu::usable());
            BUDGET.store(budget, Relaxed);
            budget
        }
        budget => budget,
    }
}

#[cold]
fn measure(cpus: usize) -> u32 {
    if cpus < 2 {
        return 0;
    }
    // The best of three: an interrupt in one of them makes a pause look long.
    let time = |_| {
        let begin = Instant::now();
        (0..SAMPLE).for_each(|_| core::hint::spin_loop());
        begin.elapsed().as_nanos()
    };
    let nanos = (0..3).map(time).min().unwrap_or(0);
    budget_for(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// How many pauses last as long as a sleep, when [`SAMPLE`] of them take `nanos`.
fn budget_for(nanos: u64) -> u32 {
    let pauses = SLEEP_NANOS * SAMPLE / nanos.max(1);
    u32::try_from(pauses.clamp(*BOUNDS.start(), *BOUNDS.end())).unwrap_or(0)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_single_cpu_never_spins() {
        // Breaks if a waiter burns the only CPU, on which the owner would have to run.
        assert_eq!(measure(1), 0);
        assert!(measure(2) >= 20);
    }

    #[test]
    fn slower_pauses_give_fewer_spins() {
        // Breaks if the budget is a fixed number of pauses and not a time.
        assert_eq!(budget_for(64 * 40), 100);
        assert_eq!(budget_for(64 * 4), 1_000);
        assert_eq!((budget_for(0), budget_for(u64::MAX)), (2_000, 20));
    }
}
