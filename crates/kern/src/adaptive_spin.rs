//! Spin, then block: how long a thread that waits for another polls before it sleeps.
//!
//! Waking a thread that sleeps on another CPU takes a system call, an interrupt there and, on a virtual machine, help
//! of the host: 5 to 50 us. An answer often takes less than 1 us. So a waiting thread polls for about as long as a
//! wakeup takes, which costs at most twice the better of the two choices (Karlin et al.). It backs off where polling
//! does not pay:
//!
//! | case | the thread |
//! |---|---|
//! | the last wakeup came from this CPU | sleeps at once: the waker cannot run while the thread polls |
//! | it polled and then slept all the same | polls again only in the 2nd, 4th, 8th ... 256th wait |
//! | its CPU is contended: a yield took long | sleeps, and counts this as a miss, unless the answer came meanwhile |
//! | its polls always succeed | yields once in 512 waits, so that other threads of this CPU run |
//!
//! So a thread whose waits are long polls in one of 256 waits, and a thread that was never woken does not poll.
//!
//! A poll reads a word that another thread writes ([`AdaptiveSpin::for_word`]), or makes a system call
//! ([`AdaptiveSpin::for_syscall`]): a worker that has just served a guest asks epoll again, so that a round trip
//! through it takes two wakeups instead of four. The kernel may wake the worker from any CPU, so in that form the first
//! row applies only on a machine with one CPU.
//!
//! State: each thread has its own. Locks: none.
//! Sources: Karlin et al., "Empirical studies of competitive spinning", SOSP 1991; the adaptive mutexes of seed 002.

use std::cell::Cell;
#[cfg(not(any(loom, shuttle)))]
use std::time::Duration;
use std::time::Instant;

use crate::prim::thread::yield_now;

/// How long a wakeup takes where it is expensive: the longest time to poll.
#[cfg(not(any(loom, shuttle)))]
const BUDGET: Duration = Duration::from_micros(50);
/// Time between two yields, which show whether this CPU is contended.
#[cfg(not(any(loom, shuttle)))]
const YIELD_AFTER: Duration = Duration::from_micros(8);
/// A yield that takes longer than this let another thread run: the CPU is contended.
#[cfg(not(any(loom, shuttle)))]
const CONTENDED_YIELD: Duration = Duration::from_micros(4);
/// Polls of a word between two reads of the clock.
const WORD_POLLS: u32 = 20;
/// Successful waits between two yields.
const HITS_PER_YIELD: u32 = 512;
/// Back-off bound: after this many misses in a row the thread polls in one of 2^8 waits.
const MISSES_MAX: u32 = 8;

/// The record of a thread's waits, from which it decides whether to poll (Karlin et al., SOSP 1991).
#[derive(Debug)]
pub struct AdaptiveSpin {
    /// Polls between two reads of the clock.
    #[cfg_attr(any(loom, shuttle), allow(dead_code))] // a model has no clock
    polls: u32,
    /// The last wakeup came from another CPU.
    woken_remotely: Cell<bool>,
    /// Waits in a row in which polling failed.
    misses: Cell<u32>,
    /// Waits for which the thread sleeps at once (back-off).
    skip: Cell<u32>,
    /// Waits in which polling succeeded.
    hits: Cell<u32>,
}

impl AdaptiveSpin {
    /// For a word that another thread writes. After each sleep the thread reports its waker ([`Self::woken_by`]).
    #[must_use]
    pub const fn for_word() -> Self {
        Self::new(WORD_POLLS, false)
    }

    /// For a poll that is a system call, on a machine with `cpus` CPUs.
    #[must_use]
    pub const fn for_syscall(cpus: usize) -> Self {
        Self::new(1, cpus > 1)
    }

    const fn new(polls: u32, woken_remotely: bool) -> Self {
        Self {
            polls,
            woken_remotely: Cell::new(woken_remotely),
            misses: Cell::new(0),
            skip: Cell::new(0),
            hits: Cell::new(0),
        }
    }

    /// Polls `done`, if that may pay, until it returns true or `deadline` has passed. Returns the last answer.
    pub fn spin(&self, deadline: Option<Instant>, done: impl FnMut() -> bool) -> bool {
        self.spin_with(deadline, done, yield_now)
    }

    /// As [`Self::spin`], with the system's yield or, in tests, another.
    ///
    /// An answer during a long yield is a hit: the answering thread may have run on this CPU during the yield. Else
    /// threads that share a CPU would stop to poll, and each answer would cost a wakeup.
    fn spin_with(
        &self,
        deadline: Option<Instant>,
        done: impl FnMut() -> bool,
        yield_now: impl FnMut(),
    ) -> bool {
        if cfg!(any(loom, shuttle)) {
            return Self::poll(self.polls, deadline, done, yield_now);
        }
        if !self.woken_remotely.get() || self.backs_off() {
            return false;
        }
        let hit = Self::poll(self.polls, deadline, done, yield_now);
        match hit {
            true => self.hit(),
            false => self.miss(),
        }
        hit
    }

    /// The thread slept, and the thread that woke it ran on `cpu`.
    pub fn woken_by(&self, cpu: usize) {
        self.woken_remotely.set(cpu != crate::cpu::current());
    }

    fn backs_off(&self) -> bool {
        let left = self.skip.get();
        self.skip.set(left.saturating_sub(1));
        left > 0
    }

    fn hit(&self) {
        self.misses.set(0);
        self.hits.set(self.hits.get().wrapping_add(1));
        if self.hits.get().is_multiple_of(HITS_PER_YIELD) {
            yield_now();
        }
    }

    fn miss(&self) {
        let misses = (self.misses.get() + 1).min(MISSES_MAX);
        self.misses.set(misses);
        self.skip.set((1 << misses) - 1);
    }

    /// Returns the last answer of `done`. Ends early if another thread wants this CPU.
    #[cfg(not(any(loom, shuttle)))]
    fn poll(
        polls: u32,
        deadline: Option<Instant>,
        mut done: impl FnMut() -> bool,
        mut yield_now: impl FnMut(),
    ) -> bool {
        let begin = Instant::now();
        let end = deadline.map_or(begin + BUDGET, |d| d.min(begin + BUDGET));
        let mut yield_at = begin + YIELD_AFTER;
        loop {
            for _ in 0..polls {
                if done() {
                    return true;
                }
                std::hint::spin_loop();
            }
            let now = Instant::now();
            if now >= end {
                return done();
            }
            if now >= yield_at {
                yield_now();
                let back = Instant::now();
                if back - now > CONTENDED_YIELD {
                    return done();
                }
                yield_at = back + YIELD_AFTER;
            }
        }
    }

    /// Time does not pass in a model: two polls, with steps of other threads before each.
    #[cfg(any(loom, shuttle))]
    fn poll(
        _polls: u32,
        _deadline: Option<Instant>,
        mut done: impl FnMut() -> bool,
        mut yield_now: impl FnMut(),
    ) -> bool {
        let mut polls = std::iter::repeat_with(|| {
            yield_now();
            done()
        });
        polls.by_ref().take(2).any(|done| done)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// A thread whose last wakeup came from another CPU.
    fn woken_from_another_cpu() -> AdaptiveSpin {
        let spin = AdaptiveSpin::for_word();
        spin.woken_remotely.set(true);
        spin
    }

    /// In how many of `waits` waits the thread polls, if every poll fails.
    fn polling_waits(waits: u32, spin: &AdaptiveSpin) -> usize {
        let polls_in = |_: &u32| {
            let polled = Cell::new(false);
            assert!(!spin.spin(None, || {
                polled.set(true);
                false
            }));
            polled.get()
        };
        (0..waits).filter(polls_in).count()
    }

    /// Breaks if a thread burns the CPU that its waker needs.
    #[test]
    fn a_thread_that_was_woken_from_its_own_cpu_sleeps_at_once() {
        let spin = AdaptiveSpin::for_word();
        assert_eq!(polling_waits(10, &spin), 0);
    }

    /// Breaks if a thread whose waits are long goes on to burn a CPU.
    #[test]
    fn misses_make_polling_rare() {
        let spin = woken_from_another_cpu();
        // In waits 1, 3, 7, 15, 31, 63, 127, 255, and then in each 256th.
        assert_eq!(polling_waits(255, &spin), 8);
        assert_eq!(polling_waits(256, &spin), 1);
    }

    /// Breaks if a machine with one CPU polls while the other side could run.
    #[test]
    fn on_one_cpu_no_system_call_is_repeated() {
        assert_eq!(polling_waits(10, &AdaptiveSpin::for_syscall(1)), 0);
        assert_eq!(polling_waits(1, &AdaptiveSpin::for_syscall(2)), 1);
    }

    /// Breaks if the back-off outlasts the reason for it.
    #[test]
    fn a_hit_ends_the_back_off() {
        let spin = woken_from_another_cpu();
        assert_eq!(polling_waits(255 + 255, &spin), 8);
        for _ in 0..2 * HITS_PER_YIELD {
            assert!(spin.spin(None, || true));
        }
        assert_eq!(polling_waits(3, &spin), 2, "as at first");
    }

    /// How the record changes after a wait with a long yield; `answers` says whether the answer came meanwhile. A
    /// thread that the system stopped before its yield waits anew.
    fn after_long_yield(answers: bool) -> AdaptiveSpin {
        loop {
            let (spin, yielded) = (woken_from_another_cpu(), Cell::new(false));
            let done = || answers && yielded.get();
            let long_yield = || {
                std::thread::sleep(2 * CONTENDED_YIELD);
                yielded.set(true);
            };
            assert_eq!(
                spin.spin_with(None, done, long_yield),
                answers && yielded.get()
            );
            if yielded.get() {
                return spin;
            }
        }
    }

    /// Breaks if a thread that shares its CPU with others stops to poll although its polls succeed.
    #[test]
    fn an_answer_that_came_during_a_long_yield_is_a_hit() {
        assert_eq!(polling_waits(1, &after_long_yield(true)), 1);
    }

    /// Breaks if a thread without an answer keeps a CPU that others want.
    #[test]
    fn a_long_yield_without_an_answer_is_a_miss() {
        assert_eq!(polling_waits(1, &after_long_yield(false)), 0);
    }

    /// Breaks if a wait with a deadline in the past takes time.
    #[test]
    fn a_deadline_ends_polling() {
        let polls = Cell::new(0);
        let done = || {
            polls.set(polls.get() + 1);
            false
        };
        assert!(!woken_from_another_cpu().spin(Some(Instant::now()), done));
        assert_eq!(polls.get(), WORD_POLLS + 1);
    }
}
