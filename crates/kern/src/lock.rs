//! Mutexes and read-write locks that name their class, count their cost, and know their owner.
//!
//! | file | content |
//! |---|---|
//! | `class` | [`LockClass`]: the data that a lock protects, its rank, its counters |
//! | `mutex` | [`Mutex`]: the data, and WITNESS around it |
//! | `rmlock` | [`RmLock`]: the same for data that is read more often than written: readers share no line |
//! | `raw` | [`RawMutex`]: the same without data and without WITNESS |
//! | `mutex_word`, `rwlock_word`, `rmlock_word` | the protocols, over any `word`: a futex, or loom's model of one |
//! | `futex` | the word that a thread can sleep on |
//! | `spin` | how long to spin before sleeping |
//! | `wait` | one wait: its cost, and which owner the thread waits for |
//!
//! An uncontended lock is one compare-exchange and an uncontended unlock another. A thread that
//! finds the lock held spins for about as long as a sleep and a wakeup take, but only if the
//! machine has another CPU and no thread sleeps for the lock yet; then it sleeps in the kernel. The
//! word holds the owner, so a report can name the thread that a waiter waits for.
//!
//! Invariants: the order is the one of [`order`](crate::order). A panic while a lock is held does
//! not poison it: the owner of the data must judge its state, and release builds abort anyway. A
//! thread that finds its lock free writes to no memory that locks share, except in one of 64
//! acquisitions, which it counts for the class, on a line of its CPU.

mod class;
mod futex;
mod mutex;
pub(crate) mod mutex_word;
mod raw;
mod rmlock;
pub(crate) mod rmlock_word;
pub(crate) mod rwlock_word;
mod spin;
mod wait;
pub(crate) mod word;

pub use class::LockClass;
pub use mutex::{Mutex, MutexGuard};
pub use raw::RawMutex;
pub use rmlock::{RmLock, RmLockReadGuard, RmLockWriteGuard};
pub use wait::How;

pub(crate) use class::{ClassesHeld, Registry};
pub(crate) use mutex_word::OWNER;
pub(crate) use rmlock::readers_held;
pub(crate) use wait::Waiting;
pub(crate) use word::LockWord;

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
