//! The protocol of a mutex in one word.
//!
//! ```text
//!    31        30        29   28                        0
//!   | WAITERS | HANDOFF |    | token of the owner, or 0 |
//!
//!   0                   free
//!   t                   t has it, no thread sleeps
//!   t WAITERS           t has it, a thread may sleep: the release wakes one sleeper
//!   t WAITERS HANDOFF   and a sleeper has been overtaken too often
//!   0 WAITERS HANDOFF   released, but only a thread that has slept may take it
//! ```
//!
//! **No wakeup is lost.** A thread sleeps only on a word with WAITERS in it, and the kernel
//! compares the word and queues the thread in one step. The release of a word with WAITERS in it
//! is followed by a wakeup of one sleeper. The woken thread cannot know whether others sleep, so it takes the lock
//! with WAITERS set, or sets WAITERS before it sleeps again. So while a thread sleeps, WAITERS is in
//! the word, or a woken thread is about to set it.
//!
//! **No thread starves.** The first thread that tries takes a free lock. Usually it is a running thread, because
//! waking a sleeper takes thousands of times longer than taking a lock. A sleeper that other threads have overtaken
//! [`LockWord::PATIENCE`] times sets HANDOFF. From then on a release leaves WAITERS and HANDOFF in the word and wakes
//! one sleeper; from that state only a thread that has slept may take the lock. Newcomers go to the end of the
//! kernel's queue, which is first in, first out: threads that slept before the overtaken sleeper get the lock before
//! it, later threads do not. The sleeper clears HANDOFF when it has the lock.
//!
//! Locks: this is a lock itself.
//! Sources: Drepper, "Futexes are tricky", mutex 3; seed 002 on adaptive mutexes.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::word::{LockWord, Waiter, spin};

/// The owner's token; 0 if the mutex has no owner.
pub(crate) const OWNER: u32 = (1 << 29) - 1;
/// A thread may sleep on the word.
const WAITERS: u32 = 1 << 31;
/// Only a thread that has slept may take the released lock.
const HANDOFF: u32 = 1 << 30;

/// A mutex without data.
pub(crate) struct MutexWord<W>(W);

impl<W: LockWord> MutexWord<W> {
    /// A mutex in `word`, which holds 0.
    pub(crate) const fn new(word: W) -> Self {
        Self(word)
    }

    /// The word, to be read.
    pub(crate) fn word(&self) -> &W {
        &self.0
    }

    /// Takes the mutex for `me` if it is free and no thread waits.
    #[inline]
    pub(crate) fn try_lock(&self, me: u32) -> bool {
        self.0.compare_exchange(0, me, Acquire, Relaxed).is_ok()
    }

    /// Takes the mutex for `me`, after [`MutexWord::try_lock`] has failed.
    #[cold]
    #[inline(never)]
    pub(crate) fn lock_slow(&self, me: u32, waiter: &mut impl Waiter) {
        let mut sleeps = 0;
        let mut starves = false;
        loop {
            // A thread that finds sleepers does not spin: a sleeper would get the lock before it.
            let word = spin(&self.0, |word| word & OWNER == 0 || word & WAITERS != 0);
            if word & OWNER == 0 && (word & HANDOFF == 0 || sleeps > 0) {
                let mut taken = me | word;
                if sleeps > 0 {
                    taken |= WAITERS; // others may sleep behind it
                }
                if starves {
                    taken &= !HANDOFF;
                }
                let took = self.0.compare_exchange(word, taken, Acquire, Relaxed);
                if took.is_ok() {
                    if word & HANDOFF != 0 {
                        waiter.handed();
                    }
                    return;
                }
                continue;
            }
            starves = sleeps >= W::PATIENCE;
            let marked = word | WAITERS | if starves { HANDOFF } else { 0 };
            if word != marked
                && self
                    .0
                    .compare_exchange(word, marked, Relaxed, Relaxed)
                    .is_err()
            {
                continue;
            }
            waiter.sleeps();
            self.0.sleep(marked, None);
            sleeps += 1;
        }
    }

    /// Releases the mutex. The caller must hold it.
    #[inline]
    pub(crate) fn unlock(&self) {
        let owner = self.0.load(Relaxed) & OWNER;
        if self.0.compare_exchange(owner, 0, Release, Relaxed).is_err() {
            self.unlock_slow();
        }
    }

    /// Forgets the threads that wait. The caller must hold the mutex and be the only thread of its process.
    pub(crate) fn forget_waiters(&self) {
        let word = self.0.load(Relaxed);
        let forgot = self
            .0
            .compare_exchange(word, word & OWNER, Relaxed, Relaxed);
        debug_assert!(forgot.is_ok(), "there is another thread");
    }

    #[cold]
    #[inline(never)] // callers are many, and small
    fn unlock_slow(&self) {
        let mut word = self.0.load(Relaxed);
        loop {
            let released = match word & HANDOFF {
                0 => 0,
                _ => WAITERS | HANDOFF,
            };
            match self.0.compare_exchange(word, released, Release, Relaxed) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        self.0.wake_one();
    }
}
