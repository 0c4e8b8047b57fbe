#![doc = include_str!("../README.md")]
//! No module here knows of packets. Time, randomness, wakeups and CPU ids come in through these
//! types, so that the crates above run unchanged in production, in the simulator and in tests.
//!
//! # The modules, top to bottom
//!
//! A module uses those below it and those of its own layer; `cargo xtask tidy` checks that. Read from the bottom.
//!
//! | module | what it is |
//! |---|---|
//! | [`show`] | the locks that threads hold and wait for, and what locks cost, class by class |
//! | | |
//! | [`adaptive_spin`] | how long a waiting thread polls before it sleeps |
//! | [`giant`] | the one lock over a whole stack, for code that is not MP-safe |
//! | [`guarded`] | a lock with its data, and Giant outside of it |
//! | [`quiet_until`] | the time until which no timer is due, kept until an earlier one is set |
//! | [`sleep_flag`] | whether a worker sleeps, so that a producer wakes it only then |
//! | [`taskqueue`] | work handed from one thread to another without a lost wakeup |
//! | [`work_queue`] | a queue that wakes its receiver only when it must, with one owner at a time |
//! | [`work_state`] | the state machine of both |
//! | | |
//! | [`prim`] | atomics and a mutex that the schedule checker can replace |
//! | `model` | in the checker's builds: a scenario in many orders, counted |
//! | | |
//! | [`condvar`] | sleeping under a mutex until another thread changes what it protects |
//! | | |
//! | [`fork`] | the locks of this crate during a fork |
//! | [`lock`] | mutexes and read-write locks that name their class |
//! | [`witness`] | checks the lock order as it happens, reports both sites |
//! | | |
//! | [`atomic_deadline`] | the next deadline of locked data, read without the lock |
//! | [`callout`] | timers: a hierarchical wheel |
//! | [`clock`] | where instants come from: the machine's clock, or a test's |
//! | [`counter`] | event counters |
//! | [`cpus`] | which of a stack's CPUs, its workers, the caller is |
//! | [`random`] | seeded streams and keyed hashes: a seed replays a run |
//! | `percpu_words` | a word for each CPU, without a cache line for each word |
//! | [`cpu`] | which CPU the thread runs on, and how many there are |
//! | [`rseq`] | restartable sequences: per-CPU data without a lock |
//! | [`sys`] | system calls behind safe types |
//! | | |
//! | [`fault`] | mistakes that tests plant, to see that checks find them |
//! | [`figure`] | the name, unit and meaning of a figure |
//! | [`impl_debug!`] | `Debug` of types that show a part of themselves |
//! | [`invariant!`] | checks of whole structures, for builds that can afford them |
//! | `json` | places and times in JSON |
//! | [`order`] | the one table of lock ranks |
//! | [`slot_map`] | values in places that are used again, found by keys |
//! | [`time`] | [`Time`], an instant on a clock that the caller chose |
#![deny(clippy::missing_errors_doc)]
#![deny(unsafe_code)]

#[allow(unsafe_code)] // reads the lock that another thread sleeps for
pub mod show;

pub mod adaptive_spin;
#[allow(unsafe_code)] // the guard of a lock gives access to its data
pub mod giant;
pub mod guarded;
pub mod quiet_until;
pub mod sleep_flag;
pub mod taskqueue;
pub mod work_queue;
pub mod work_state;

#[cfg(any(loom, shuttle))]
pub mod model;
pub mod prim;

pub mod condvar;

#[allow(unsafe_code)] // pthread_atfork
pub mod fork;
#[allow(unsafe_code)] // the guard of a lock gives access to its data; the futex system call
pub mod lock;
mod thread;
pub mod witness;

pub mod atomic_deadline;
pub mod callout;
pub mod clock;
#[allow(unsafe_code)] // the names of columns
pub mod counter;
pub mod cpus;
#[allow(unsafe_code)] // getrandom
pub mod random;

#[allow(unsafe_code)] // pages with a word for each CPU, and the sections on one
mod percpu_words;

#[allow(unsafe_code)] // system calls
pub mod cpu;

#[allow(unsafe_code)] // membarrier, and two variables of libc
pub mod rseq;
#[allow(unsafe_code)] // system calls
pub mod sys;

pub mod fault;
pub mod figure;
mod impl_debug;
pub mod invariant;
mod json;
pub mod order;
pub mod slot_map;
pub mod time;

#[cfg(all(test, loom))]
#[allow(unsafe_code)] // the checker's cells
mod models;

pub use adaptive_spin::AdaptiveSpin;
pub use atomic_deadline::AtomicDeadline;
pub use callout::{Callout, CalloutId};
pub use clock::{Clock, MonotonicClock, VirtualClock};
pub use condvar::Condvar;
pub use counter::Counter;
pub use cpus::{Cpu, Cpus, OneCpu, VirtualCpus, Workers};
pub use figure::{Figure, Unit};
pub use giant::{Giant, GiantGuard};
pub use guarded::Guarded;
pub use lock::{LockClass, Mutex, MutexGuard, RmLock, RmLockReadGuard, RmLockWriteGuard};
pub use quiet_until::QuietUntil;
pub use random::{KeyedHash, Random, SeededState};
pub use show::{Watchdog, duration_text, lock_stats, show_locks};
pub use sleep_flag::SleepFlag;
pub use taskqueue::{Task, Taskqueue};
pub use time::Time;
pub use work_queue::WorkQueue;
