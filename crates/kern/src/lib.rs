//! kern is the small kernel that the rest of mbuma stands on: the things a BSD stack takes from
//! its operating system, as a library that keeps no globals and starts no threads.
//!
//! Nothing here knows of packets. Time, randomness, wakeups and CPU ids come in through these
//! types, so that the crates above run unchanged in production, in the simulator and in tests.
//!
//! # The modules, in reading order
//!
//! | module | what it is |
//! |---|---|
//! | [`time`] | [`Time`], an instant on a clock that someone else chose |
//! | [`clock`] | where instants come from: the machine's, or a test's |
//! | [`random`] | seeded streams and keyed hashes: a seed replays a run |
//! | [`order`] | the one table of lock ranks |
//! | [`lock`] | mutexes and read-write locks that name their class |
//! | [`giant`] | the one lock over everything, for what is not MP-safe |
//! | [`condvar`] | sleeping under a mutex until another thread changes what it protects |
//! | [`fork`] | what a fork finds locked |
//! | [`witness`] | checks the lock order as it happens, reports both sites |
//! | [`invariant!`] | checks of whole structures, for builds that can afford them |
//! | [`show`] | the locks that threads hold and wait for |
//! | [`counter`] | event counters |
//! | [`figure`] | the name, unit and meaning of a figure |
//! | [`cpu`] | which CPU this is, and how many there are |
//! | [`cpus`] | which of a stack's CPUs, its workers, the caller is |
//! | [`rseq`] | restartable sequences: per-CPU data without a lock |
//! | [`callout`] | timers: a hierarchical wheel |
//! | [`handoff`] | a queue that wakes its receiver only when it must |
//! | [`sleep_flag`] | whether a worker sleeps, so that a producer wakes it only then |
//! | [`adaptive_spin`] | how long a waiting thread polls before it sleeps |
//! | [`sys`] | system calls behind safe types |
//! | [`taskqueue`] | work handed from one thread to another without a lost wakeup |
//! | [`prim`] | atomics and a mutex that the schedule checker can take over |
//! | `model` | in its builds: a scenario in many orders, counted |
#![deny(unsafe_code)]

pub mod adaptive_spin;
pub mod callout;
pub mod clock;
pub mod condvar;
#[allow(unsafe_code)] // the section that counts
pub mod counter;
#[allow(unsafe_code)] // system calls
pub mod cpu;
pub mod cpus;
pub mod figure;
#[allow(unsafe_code)] // pthread_atfork
pub mod fork;
#[allow(unsafe_code)] // the guard of a lock gives access to its data
pub mod giant;
pub mod handoff;
pub mod invariant;
#[allow(unsafe_code)] // the same, and the futex system call
pub mod lock;
#[cfg(any(loom, shuttle))]
pub mod model;
pub mod order;
#[allow(unsafe_code)] // pages of words that each CPU has its own of
mod percpu_words;
pub mod prim;
#[allow(unsafe_code)] // getrandom
pub mod random;
#[allow(unsafe_code)] // membarrier, and two variables of libc
pub mod rseq;
#[allow(unsafe_code)] // looks at the lock that another thread sleeps for
pub mod show;
pub mod sleep_flag;
#[allow(unsafe_code)] // eventfd
pub mod sys;
pub mod taskqueue;
mod thread;
pub mod time;
pub mod witness;

pub use adaptive_spin::AdaptiveSpin;
pub use callout::{Callout, CalloutId};
pub use clock::{Clock, MonotonicClock, VirtualClock};
pub use condvar::Condvar;
pub use counter::Counter;
pub use cpus::{Cpu, Cpus, OneCpu, VirtualCpus, Workers};
pub use figure::{Figure, Unit};
pub use giant::{Giant, GiantGuard};
pub use handoff::Handoff;
pub use lock::{
    LockClass, Mutex, MutexGuard, RmLock, RmLockReadGuard, RmLockWriteGuard, RwLock,
    RwLockReadGuard, RwLockWriteGuard, lock_stats,
};
pub use random::{KeyedHash, Random, SeededState};
pub use show::{Watchdog, show_locks};
pub use sleep_flag::SleepFlag;
pub use taskqueue::{Task, Taskqueue};
pub use time::Time;
