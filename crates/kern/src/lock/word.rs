//! Thirty-two bits that threads change with atomic operations and can sleep on.
//!
//! The protocols are written over this trait, so that the same code runs on a futex (`futex.rs`) and, in its models,
//! on loom's atomics (`loom_tests.rs`).
//!
//! Locks: none.

use core::sync::atomic::Ordering;
use core::time::Duration;

/// An atomic word with a queue of sleepers, first come, first woken.
pub(crate) trait LockWord {
    /// How often a waiter lets itself be overtaken before it has the lock handed to it.
    const PATIENCE: u32;

    /// The value.
    fn load(&self, order: Ordering) -> u32;
    /// Changes it from `current` to `new`, or returns the value that it holds instead.
    fn compare_exchange(
        &self,
        current: u32,
        new: u32,
        success: Ordering,
        failure: Ordering,
    ) -> Result<u32, u32>;
    /// Adds, wrapping; returns the value before.
    fn fetch_add(&self, value: u32, order: Ordering) -> u32;
    /// Subtracts, wrapping; returns the value before.
    fn fetch_sub(&self, value: u32, order: Ordering) -> u32;

    /// What a SeqCst addition to a word needs between itself and a SeqCst load of another word, so that of
    /// two threads that each add to one and load the other, one sees the other's addition. By the
    /// language it needs nothing; loom takes SeqCst of anything but a fence for less.
    fn fence_after_add();
    /// The same after an operation that is not SeqCst itself.
    fn fence();

    /// Sleeps if it holds `expected`, which is looked at in one step with going to sleep, until
    /// woken or `timeout` is over. May return for no reason.
    fn sleep(&self, expected: u32, timeout: Option<Duration>);
    /// Wakes one sleeper if there is one.
    fn wake_one(&self);
    /// Wakes all sleepers.
    fn wake_all(&self);

    /// How many pauses to look again for before sleeping; 0 where it cannot help.
    fn spins() -> u32;
    /// Lets `pauses` pass.
    fn pause(pauses: u32);
}

/// The waiting thread, as the protocols report to it.
pub(crate) trait Waiter {
    /// The thread is about to sleep; again, if it was overtaken since.
    fn sleeps(&mut self);
    /// The lock was kept for this thread.
    fn handed(&mut self);
}

/// The longest time between two looks while spinning, in pauses.
const PAUSES_MAX: u32 = 16;

/// Looks again and again, less and less often, until `done` with what the word holds or out of
/// patience. The last look is the result.
pub(crate) fn spin<W: LockWord>(word: &W, done: impl Fn(u32) -> bool) -> u32 {
    let (mut left, mut pauses) = (W::spins(), 1);
    loop {
        let now = word.load(Ordering::Acquire);
        if left == 0 || done(now) {
            return now;
        }
        W::pause(pauses);
        left = left.saturating_sub(pauses);
        pauses = (pauses * 2).min(PAUSES_MAX);
    }
}
