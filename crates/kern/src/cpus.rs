//! The CPUs of a stack: their number, and the one that the calling thread works for.
//!
//! A stack's CPU is a worker, not a piece of the machine: it has timers of its own, a queue of packets of its own, and
//! a thread that serves both. The stack's owner says which thread is which worker, as it says the time: the threads of
//! a runtime declare themselves ([`Workers`]), a simulator that runs several workers on one thread declares the
//! running one ([`VirtualCpus`]), and a stack that one thread drives has one worker ([`OneCpu`]).
//!
//! Invariant: the index of a [`Cpu`] is below the count.
//! Locks: none.
//! Source: seed 002 (netisr), RSS.

use core::cell::Cell;
use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::cpu;

/// Tells which of a stack's CPUs the caller is (the CPUs of netisr(9), seed 002).
pub trait Cpus: Send + Sync + fmt::Debug {
    /// How many there are: at least 1, and the same number for ever.
    #[doc(alias = "mp_ncpus")]
    fn count(&self) -> usize;

    /// The CPU that the calling thread is, or works for.
    #[doc(alias = "curcpu")]
    fn current(&self) -> Cpu;
}

/// One of a stack's CPUs: the calling thread's at the time of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    /// Its number, from 0.
    pub index: usize,
    /// The caller is that CPU: it serves the CPU's timers and packets before it sleeps. Otherwise the
    /// caller only queued work for that CPU, and may have to wake its worker.
    pub is_own: bool,
}

/// A stack that one thread drives at a time.
#[derive(Debug, Clone, Copy, Default)]
pub struct OneCpu;

impl Cpus for OneCpu {
    fn count(&self) -> usize {
        1
    }

    /// `is_own` is false: the calling thread may not be the one that drives the stack.
    fn current(&self) -> Cpu {
        Cpu {
            index: 0,
            is_own: false,
        }
    }
}

/// The workers of one runtime. Any other thread works for the worker whose number is that of the machine's
/// CPU on which the thread runs, modulo the number of workers.
///
/// ```
/// use kern::cpus::{Cpus, Workers};
///
/// let workers = Workers::new(2);
/// assert!(!workers.current().is_own);
/// let me = workers.bind(1);
/// assert_eq!(workers.current().index, 1);
/// assert!(workers.current().is_own);
/// drop(me);
/// assert!(!workers.current().is_own);
/// ```
#[derive(Debug)]
pub struct Workers {
    count: usize,
    /// Tells the workers of one runtime from those of another.
    id: usize,
}

std::thread_local! {
    /// The runtime's id and this thread's index among its workers; id 0 if the thread is no worker.
    static BOUND: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

impl Workers {
    /// `count` workers, at least 1.
    #[must_use]
    pub fn new(count: usize) -> Self {
        static LAST_ID: AtomicUsize = AtomicUsize::new(0);
        Self {
            count: count.max(1),
            // Relaxed: the numbers only have to differ.
            id: LAST_ID.fetch_add(1, Ordering::Relaxed) + 1,
        }
    }

    /// The calling thread is worker `index` until the result is dropped.
    ///
    /// # Panics
    /// If there is no such worker.
    #[must_use = "the thread is a worker as long as this lives"]
    pub fn bind(&self, index: usize) -> WorkerBinding {
        assert!(index < self.count, "no worker {index} of {}", self.count);
        WorkerBinding {
            before: BOUND.replace((self.id, index)),
            _not_send: core::marker::PhantomData,
        }
    }
}

impl Cpus for Workers {
    fn count(&self) -> usize {
        self.count
    }

    fn current(&self) -> Cpu {
        let (id, index) = BOUND.try_with(Cell::get).unwrap_or_default();
        let is_own = id == self.id;
        let index = if is_own {
            index
        } else {
            cpu::current() % self.count
        };
        Cpu { index, is_own }
    }
}

/// The calling thread is a worker until this is dropped.
#[derive(Debug)]
pub struct WorkerBinding {
    before: (usize, usize),
    /// Not Send: it stands for the thread that made it.
    _not_send: core::marker::PhantomData<*const ()>,
}

impl Drop for WorkerBinding {
    fn drop(&mut self) {
        BOUND.set(self.before);
    }
}

/// CPUs that one thread plays in turn; a simulator chooses which.
#[derive(Debug)]
pub struct VirtualCpus {
    count: usize,
    /// Relaxed: one thread plays them all.
    current: AtomicUsize,
}

impl VirtualCpus {
    /// `count` of them, at least 1; it is number 0's turn.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self {
            count: count.max(1),
            current: AtomicUsize::new(0),
        }
    }

    /// It is `index`'s turn.
    ///
    /// # Panics
    /// If there is no such CPU.
    pub fn switch_to(&self, index: usize) {
        assert!(index < self.count, "no CPU {index} of {}", self.count);
        self.current.store(index, Ordering::Relaxed);
    }
}

impl Cpus for VirtualCpus {
    fn count(&self) -> usize {
        self.count
    }

    fn current(&self) -> Cpu {
        Cpu {
            index: self.current.load(Ordering::Relaxed),
            is_own: true,
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_worker_belongs_to_one_runtime_only() {
        let (one, other) = (Workers::new(4), Workers::new(2));
        let _me = one.bind(3);
        assert_eq!(
            one.current(),
            Cpu {
                index: 3,
                is_own: true
            }
        );
        let seen = other.current();
        assert!(!seen.is_own && seen.index < 2);
    }

    #[test]
    fn cpu_bindings_nest() {
        let workers = Workers::new(2);
        let outer = workers.bind(0);
        let inner = workers.bind(1);
        assert_eq!(workers.current().index, 1);
        drop(inner);
        assert_eq!(
            workers.current(),
            Cpu {
                index: 0,
                is_own: true
            }
        );
        drop(outer);
    }
}
