//! How long a thread that waits for another looks again before it sleeps.
//!
//! To wake a thread that sleeps on another CPU takes a system call and an interrupt there, and on a virtual
//! machine the host's help: 5 to 50 microseconds. An answer often takes less than one. So a thread looks again
//! for about as long as a wakeup takes, which costs at most twice what the better of the two would have. Where that
//! does not pay it soon stops:
//!
//! | case | what it does |
//! |---|---|
//! | who woke it last did so on this CPU | it sleeps: nobody can answer while it looks |
//! | it looked, and then slept after all | it sleeps in the next wait; then in the next 3, 7, up to 255 |
//! | others want this CPU: a yield took long | it sleeps |
//! | it never sleeps, because answers are quick | it yields now and then, for others that want this CPU |
//!
//! A thread whose waits are long so looks in one of 256; a thread that nobody wakes, not at all.
//!
//! What it looks at may be a word ([`Patience::for_a_word`]), or the system may have to be asked
//! ([`Patience::for_the_system`]): a worker that has just served a guest asks for the next packet so, and a round
//! trip through it costs two wakeups in the place of four. The system wakes from any CPU, so there the first row
//! is for machines that have but one.
//!
//! Called by: blocking sockets, workers; what it learns is the thread's own. Calls: the clock. Locks: none.
//! Sources: Karlin et al., "Empirical studies of competitive spinning", SOSP 1991; the adaptive mutexes of seed 002.

use std::cell::Cell;
#[cfg(not(any(loom, shuttle)))]
use std::time::Duration;
use std::time::Instant;

use crate::prim::thread::yield_now;

/// What a wakeup takes where it is dear.
#[cfg(not(any(loom, shuttle)))]
const BUDGET: Duration = Duration::from_micros(50);
/// So long it looks without asking whether others want this CPU.
#[cfg(not(any(loom, shuttle)))]
const TURN: Duration = Duration::from_micros(8);
/// A yield that takes longer has had others run.
#[cfg(not(any(loom, shuttle)))]
const SWITCH: Duration = Duration::from_micros(4);
/// Looks at a word between two looks at the clock.
const LOOKS: u32 = 20;
/// Answers in a row that were quick, until it yields.
const ROW: u32 = 512;
/// After so many misses in a row, one wait in 2 to the power of this is one with looks.
const MISSES_MAX: u32 = 8;

/// What a thread knows about its waits.
#[derive(Debug)]
pub struct Patience {
    /// Looks between two looks at the clock.
    #[cfg_attr(any(loom, shuttle), allow(dead_code))] // a model has no clock
    looks: u32,
    /// Who woke it last ran on another CPU.
    elsewhere: Cell<bool>,
    /// Looks in a row that nothing came of.
    misses: Cell<u32>,
    /// So many waits more it sleeps at once.
    skip: Cell<u32>,
    /// Looks that something came of.
    hits: Cell<u32>,
}

impl Patience {
    /// For a word that another thread writes, as it says afterwards ([`Self::woken_by`]).
    #[must_use]
    pub const fn for_a_word() -> Self {
        Self::new(LOOKS, false)
    }

    /// For what the system has to be asked for, which may bring it from any of `cpus` CPUs.
    #[must_use]
    pub const fn for_the_system(cpus: usize) -> Self {
        Self::new(1, cpus > 1)
    }

    const fn new(looks: u32, elsewhere: bool) -> Self {
        Self {
            looks,
            elsewhere: Cell::new(elsewhere),
            misses: Cell::new(0),
            skip: Cell::new(0),
            hits: Cell::new(0),
        }
    }

    /// Looks again, if that may pay, until `done` or `deadline`. Says whether it is done.
    pub fn spin(&self, deadline: Option<Instant>, done: impl FnMut() -> bool) -> bool {
        if cfg!(any(loom, shuttle)) {
            return self.look(deadline, done, &mut false);
        }
        if !self.elsewhere.get() || self.skips() {
            return false;
        }
        let mut crowded = false;
        let hit = self.look(deadline, done, &mut crowded);
        match hit && !crowded {
            true => self.hit(),
            false => self.miss(),
        }
        hit
    }

    /// The thread was woken by one who ran on this CPU, when it has slept, if it has.
    pub fn woken_by(&self, cpu: usize) {
        self.elsewhere.set(cpu != crate::cpu::current());
    }

    fn skips(&self) -> bool {
        let left = self.skip.get();
        self.skip.set(left.saturating_sub(1));
        left > 0
    }

    fn hit(&self) {
        self.misses.set(0);
        self.hits.set(self.hits.get().wrapping_add(1));
        if self.hits.get().is_multiple_of(ROW) {
            yield_now();
        }
    }

    fn miss(&self) {
        let misses = (self.misses.get() + 1).min(MISSES_MAX);
        self.misses.set(misses);
        self.skip.set((1 << misses) - 1);
    }

    /// Says whether it is done, and of a CPU that others want, that it is `crowded`.
    #[cfg(not(any(loom, shuttle)))]
    fn look(
        &self,
        deadline: Option<Instant>,
        mut done: impl FnMut() -> bool,
        crowded: &mut bool,
    ) -> bool {
        let begin = Instant::now();
        let end = deadline.map_or(begin + BUDGET, |d| d.min(begin + BUDGET));
        let mut turn = begin + TURN;
        loop {
            for _ in 0..self.looks {
                if done() {
                    return true;
                }
                std::hint::spin_loop();
            }
            let now = Instant::now();
            if now >= end {
                return done();
            }
            if now >= turn {
                yield_now();
                let back = Instant::now();
                if back - now > SWITCH {
                    *crowded = true;
                    return done();
                }
                turn = back + TURN;
            }
        }
    }

    /// Time does not pass in a model: a few looks, with others' steps between them.
    #[cfg(any(loom, shuttle))]
    fn look(
        &self,
        _: Option<Instant>,
        mut done: impl FnMut() -> bool,
        _crowded: &mut bool,
    ) -> bool {
        let mut looks = std::iter::repeat_with(|| {
            yield_now();
            done()
        });
        looks.by_ref().take(2).any(|done| done)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// One to whom an answer may come while it looks.
    fn woken_from_elsewhere() -> Patience {
        let patience = Patience::for_a_word();
        patience.elsewhere.set(true);
        patience
    }

    /// In how many of so many waits it looks, when nothing ever comes of it.
    fn looks_in(waits: u32, patience: &Patience) -> usize {
        let looked = |_: &u32| {
            let looked = Cell::new(false);
            assert!(!patience.spin(None, || {
                looked.set(true);
                false
            }));
            looked.get()
        };
        (0..waits).filter(looked).count()
    }

    /// Breaks if a thread burns the CPU that its peer needs.
    #[test]
    fn who_was_woken_on_this_cpu_sleeps_at_once() {
        let patience = Patience::for_a_word();
        assert_eq!(looks_in(10, &patience), 0);
    }

    /// Breaks if a thread whose waits are long goes on to burn a CPU.
    #[test]
    fn misses_make_looks_rare() {
        let patience = woken_from_elsewhere();
        // In waits 1, 3, 7, 15, 31, 63, 127, 255, and then in each 256th.
        assert_eq!(looks_in(255, &patience), 8);
        assert_eq!(looks_in(256, &patience), 1);
    }

    /// Breaks if a machine with one CPU burns it while the peer could run.
    #[test]
    fn with_one_cpu_the_system_is_not_asked_again() {
        assert_eq!(looks_in(10, &Patience::for_the_system(1)), 0);
        assert_eq!(looks_in(1, &Patience::for_the_system(2)), 1);
    }

    /// Breaks if one bad time is never forgotten.
    #[test]
    fn a_hit_makes_up_for_misses() {
        let patience = woken_from_elsewhere();
        assert_eq!(looks_in(255 + 255, &patience), 8);
        for _ in 0..2 * ROW {
            assert!(patience.spin(None, || true));
        }
        assert_eq!(looks_in(3, &patience), 2, "as at first");
    }

    /// Breaks if a wait that may take no time does.
    #[test]
    fn a_deadline_ends_it() {
        let looks = Cell::new(0);
        let done = || {
            looks.set(looks.get() + 1);
            false
        };
        assert!(!woken_from_elsewhere().spin(Some(Instant::now()), done));
        assert_eq!(looks.get(), LOOKS + 1);
    }
}
