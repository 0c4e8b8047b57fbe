//! Thirty-two bits that threads change with atomic operations and can sleep on.
//!
//! The protocols are written over this trait, so that the same code runs on a futex (`futex.rs`) and, in its models,
//! on loom's atomics (`models/lock.rs`).
//!
//! Locks: none.

use core::sync::atomic::Ordering;
use core::time::Duration;

/// An atomic word with a queue of sleepers, first come, first woken.
pub(crate) trait LockWord {
    /// How often other threads may overtake a waiter before it asks for a handoff.
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

    /// The fence between a SeqCst addition to one word and a SeqCst load of another word. If two threads each add to
    /// one word and then load the other, at least one must see the other's addition. The memory model guarantees that
    /// without a fence; loom treats SeqCst operations other than fences as AcqRel, and needs one.
    fn fence_after_add();
    /// The fence after an operation that is not SeqCst itself: always a real one.
    fn fence();

    /// Sleeps until woken or until `timeout` is over, if the word holds `expected`. The comparison
    /// and the queueing of the thread are one atomic step. May return spuriously.
    fn sleep(&self, expected: u32, timeout: Option<Duration>);
    /// Wakes one sleeper if there is one.
    fn wake_one(&self);
    /// Wakes all sleepers.
    fn wake_all(&self);

    /// How many pauses to spin before sleeping; 0 on a single CPU.
    fn spins() -> u32;
    /// Lets `pauses` pass.
    fn pause(pauses: u32);
}

/// The waiting thread, as the protocols report to it.
pub(crate) trait Waiter {
    /// The thread is about to sleep; again, if it was overtaken since.
    fn sleeps(&mut self);
    /// The releasing thread handed the lock to this thread.
    fn handed(&mut self);
}

/// The longest time between two loads while spinning, in pauses.
const PAUSES_MAX: u32 = 16;

/// Loads the word at growing intervals until `done` accepts its value or the budget is spent.
/// Returns the last value.
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
