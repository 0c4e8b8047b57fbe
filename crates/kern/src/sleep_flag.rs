//! A flag that says whether a worker sleeps, so that a producer makes the system call that wakes it only if it does.
//!
//! A worker serves many sources of work and sleeps in one system call. Waking it costs a system call, often more than
//! the work itself. The flag tells a producer whether that call is needed, and of several producers one makes it. How
//! the worker sleeps (epoll with an eventfd, a futex) and where work lies is the caller's choice.
//!
//! # Protocol
//!
//! ```text
//!   worker                                     producer
//!   ------                                     --------
//!   works until it finds no work               puts the work into its queue
//!   prepare_sleep: flag = asleep; fence        wake_needed: fence; if flag == asleep,
//!   checks every queue once more                 compare-exchange asleep -> awake;
//!   if all are empty: sleeps                     if that succeeded: makes the wakeup call
//!   awake: flag = awake
//! ```
//!
//! | transition | by | then |
//! |---|---|---|
//! | Awake to Asleep | the worker, in `prepare_sleep` | it must check every queue once more before it sleeps |
//! | Asleep to Awake | one producer, in `wake_needed` | it must make the wakeup call |
//! | any to Awake | the worker, in `awake` | it works |
//!
//! # Claim: no wakeup is lost
//!
//! If a worker sleeps and a queue is not empty, then some producer is about to make the wakeup call, or the call was
//! made and the worker's system call returns.
//!
//! 1. Each side writes, executes a SeqCst fence, then reads what the other side writes. One of the two fences is first
//!    in the total order of SeqCst fences. If it is the producer's, the worker's last check finds the work. If it is
//!    the worker's, the producer reads `asleep`.
//! 2. A producer that reads `asleep` tries to change it to `awake`. If the exchange fails, another producer changed it
//!    and makes the call, or the worker did and is awake. A worker that was woken checks every queue; before it sleeps
//!    again it calls `prepare_sleep` again, so point 1 holds again.
//! 3. A wakeup call may reach a worker that is already awake, because its last check found the work. Its next sleep
//!    then returns at once. That costs time and loses no wakeup.
//!
//! Both fences are needed: without them each side may read a value from before the other's write, although both writes
//! were made, because x86 delays a store past a later load. Locks do not replace the fences where queue and flag are
//! under different locks.
//!
//! Locks: none. `tests/models/sleep_flag.rs` runs the protocol, and planted mistakes, in every order.
//! Source: the wakeup flag of seed 003.

use crate::prim::{AtomicBool, Ordering, fence};

/// Whether a worker sleeps (seed 003).
///
/// ```
/// use kern::SleepFlag;
///
/// let flag = SleepFlag::new();
/// assert!(!flag.wake_needed(), "the worker is awake, and will check before it sleeps");
/// flag.prepare_sleep();
/// // Here the worker checks every queue once more, and then sleeps.
/// assert!(flag.wake_needed(), "the first producer must wake it");
/// assert!(!flag.wake_needed(), "the second need not");
/// flag.awake();
/// ```
#[derive(Debug)]
pub struct SleepFlag {
    asleep: AtomicBool,
}

impl SleepFlag {
    /// The flag of a worker that is awake.
    #[must_use]
    pub fn new() -> Self {
        Self {
            asleep: AtomicBool::new(false),
        }
    }

    /// The worker is about to sleep. It must check every queue once more after this call, because producers that came
    /// before it do not wake the worker.
    pub fn prepare_sleep(&self) {
        // Relaxed: the fence orders this store before the checks that follow.
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The worker is awake: its sleep ended, or its last check found work.
    pub fn awake(&self) {
        // In most cases a producer has cleared the flag: then a load is enough, and the line is not written. Acquire:
        // the worker sees what that producer wrote before.
        if self.asleep.load(Ordering::Acquire) {
            self.asleep.store(false, Ordering::Relaxed);
        }
    }

    /// The caller has put work into a queue of the worker. Returns true if the caller must make the wakeup call.
    #[must_use = "a worker that is not woken sleeps for ever"]
    pub fn wake_needed(&self) -> bool {
        fence(Ordering::SeqCst);
        // The load avoids the exchange, and the transfer of the cache line, while the worker is awake.
        self.asleep.load(Ordering::Relaxed) && self.clear()
    }

    /// Changes Asleep to Awake; true for one of the producers that try.
    fn clear(&self) -> bool {
        let (set, fetch) = (Ordering::AcqRel, Ordering::Relaxed);
        self.asleep
            .compare_exchange(true, false, set, fetch)
            .is_ok()
    }
}

impl Default for SleepFlag {
    fn default() -> Self {
        Self::new()
    }
}
