//! The protocol of a read-write lock, which is the part of a read-mostly lock behind its slots: a mutex for writers, a
//! word that counts readers, a word in which a writer waits for the last of them.
//!
//! ```text
//!             31     30       29                      0
//!   state    | PHASE | WRITER |   readers, in or waiting |
//!   draining   readers that were in when WRITER was set and are still; wraps below 0
//! ```
//!
//! A reader adds one to the count. If WRITER was not set, the reader has the lock: one atomic
//! addition, no loop, whatever other readers do. If WRITER was set, the reader waits until WRITER
//! is clear or PHASE has changed. A writer takes the mutex, adds one at WRITER, and waits until the
//! readers that were counted then have left: each of them finds WRITER when it leaves and subtracts
//! one from `draining`, and the last wakes the writer. To release, the writer adds one at WRITER
//! again, which clears WRITER and carries into PHASE, wakes the readers that came meanwhile, and
//! releases the mutex.
//!
//! **Bounded waits.** No reader gets in once a writer has announced itself, so readers do not
//! starve writers. The readers that came during a write are all in when it ends, before the next
//! writer, which finds them counted and waits for them; so writers do not starve readers. Writers
//! wait for each other in the mutex, which starves no thread.
//!
//! **PHASE** tells a reader that is slow to wake that it has the lock, even if WRITER is set again.
//! PHASE cannot change twice before the reader sees it: the next writer waits until that reader has
//! left.
//!
//! Writing costs twice the atomic operations that a lock in one word would need. These locks are for data that each
//! packet reads and that only configuration writes.
//!
//! Locks: this is a lock itself.
//! Source: Brandenburg and Anderson, "Spin-based reader-writer synchronization for multiprocessor real-time systems",
//! 2010, on phase-fair locks.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use super::mutex_word::MutexWord;
use super::word::{LockWord, Waiter, spin};

/// A writer has the lock or waits for readers to leave. Adding it sets it; adding it again clears
/// it and changes PHASE.
const WRITER: u32 = 1 << 30;
const PHASE: u32 = 1 << 31;
const READERS: u32 = WRITER - 1;
/// Set before the count of readers could reach WRITER.
const TOO_MANY: u32 = 1 << 29;

/// A read-write lock without data.
pub(crate) struct RwLockWord<W> {
    writers: MutexWord<W>,
    state: W,
    draining: W,
}

/// A reader that added itself to the count while a writer had the lock or wanted it.
#[must_use = "it must wait"]
pub(crate) struct Counted(u32);

impl<W: LockWord> RwLockWord<W> {
    /// A lock in three words, which hold 0.
    pub(crate) const fn new(writers: W, state: W, draining: W) -> Self {
        Self {
            writers: MutexWord::new(writers),
            state,
            draining,
        }
    }

    /// The word that names the writer, to be read.
    pub(crate) fn writer(&self) -> &W {
        self.writers.word()
    }

    /// Whether a writer has the lock or wants it. A SeqCst load, which `rmlock_word.rs` needs; it also acquires.
    #[inline]
    pub(crate) fn is_written(&self) -> bool {
        self.state.load(SeqCst) & WRITER != 0
    }

    /// Takes the lock for reading; after an error, [`RwLockWord::read_slow`] must follow.
    #[inline]
    pub(crate) fn read(&self) -> Result<(), Counted> {
        let before = self.state.fetch_add(1, Acquire);
        match before & (WRITER | TOO_MANY) {
            0 => Ok(()),
            _ => Err(Counted(before)),
        }
    }

    /// Waits for the end of the write that the reader met.
    #[cold]
    pub(crate) fn read_slow(&self, Counted(before): Counted, waiter: &mut impl Waiter) {
        // A refused reader waits as well. A writer that announced itself earlier does not count this reader: if the
        // reader left during that write, it would subtract itself from `draining` in the place of another reader.
        if before & WRITER != 0 {
            self.wait_for_end_of_write(before, waiter);
        }
        if before & TOO_MANY != 0 {
            // The reader subtracts itself before the panic: a caller that catches such panics would otherwise carry
            // the count into WRITER.
            self.unlock_read();
            panic!("too many readers of one lock");
        }
    }

    fn wait_for_end_of_write(&self, before: u32, waiter: &mut impl Waiter) {
        let in_now = |state| state & WRITER == 0 || (state ^ before) & PHASE != 0;
        loop {
            let state = spin(&self.state, in_now);
            if in_now(state) {
                return;
            }
            waiter.sleeps();
            self.state.sleep(state, None);
        }
    }

    /// Ends a read.
    #[inline]
    pub(crate) fn unlock_read(&self) {
        if self.state.fetch_sub(1, Release) & WRITER != 0 {
            self.leave();
        }
    }

    /// A writer waits for this reader, so the lock still exists.
    #[cold]
    #[inline(never)]
    fn leave(&self) {
        if self.draining.fetch_sub(1, Release) == 1 {
            self.draining.wake_one();
        }
    }

    /// Takes the lock for writing if no other writer has it or waits; [`RwLockWord::write_slow`] or
    /// [`RwLockWord::drain`] must follow, as the result says.
    #[inline]
    pub(crate) fn write(&self, me: u32) -> Write {
        if !self.writers.try_lock(me) {
            return Write::Behind;
        }
        self.announce()
    }

    /// Waits for other writers, then for readers.
    #[cold]
    pub(crate) fn write_slow(&self, me: u32, waiter: &mut impl Waiter) {
        self.writers.lock_slow(me, waiter);
        if let Write::Readers(readers) = self.announce() {
            self.drain(readers, waiter);
        }
    }

    /// Waits until `readers` have left.
    #[cold]
    pub(crate) fn drain(&self, readers: u32, waiter: &mut impl Waiter) {
        // Readers may have left already, and brought `draining` below 0.
        self.draining.fetch_add(readers, Relaxed);
        loop {
            let left = spin(&self.draining, |left| left == 0);
            if left == 0 {
                return;
            }
            waiter.sleeps();
            self.draining.sleep(left, None);
        }
    }

    /// Ends a write: readers that waited are in, and then another writer may come.
    #[inline]
    pub(crate) fn unlock_write(&self) {
        if self.state.fetch_add(WRITER, Release) & READERS != 0 {
            self.state.wake_all();
        }
        self.writers.unlock();
    }

    /// Announces a writer, after which no reader gets in; returns the number of readers that hold the lock.
    #[inline]
    fn announce(&self) -> Write {
        match self.state.fetch_add(WRITER, Acquire) & READERS {
            0 => Write::Alone,
            readers => Write::Readers(readers),
        }
    }
}

/// The result of a writer's first step.
#[must_use = "a writer may have to wait"]
pub(crate) enum Write {
    /// The writer has the lock.
    Alone,
    /// The writer must wait for other writers.
    Behind,
    /// The writer must wait until this many readers have left.
    Readers(u32),
}

#[cfg(all(test, not(loom)))]
mod tests {
    use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::super::word::Waiter;
    use super::{RwLockWord, TOO_MANY};

    struct Awake;

    impl Waiter for Awake {
        fn sleeps(&mut self) {}
        fn handed(&mut self) {}
    }

    #[test]
    fn a_refused_reader_leaves_the_writers_count_alone() {
        // Breaks when a reader that came behind a writer leaves in the place of one for which the writer waits.
        let word = RwLockWord::new(
            AtomicU32::new(1),
            AtomicU32::new(super::WRITER | TOO_MANY),
            AtomicU32::new(TOO_MANY),
        );
        std::thread::scope(|threads| {
            let late = threads.spawn(|| {
                catch_unwind(AssertUnwindSafe(|| {
                    word.read().map_err(|late| word.read_slow(late, &mut Awake))
                }))
                .is_err()
            });
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert_eq!(word.draining.load(Relaxed), TOO_MANY);
            word.unlock_write();
            assert!(late.join().expect("it is caught"));
        });
        assert_eq!(word.state.load(Relaxed) & super::READERS, TOO_MANY);
    }

    #[test]
    fn a_refused_reader_is_not_counted() {
        // Breaks when a reader past the bound stays counted: caught panics would add up to the writer's bit.
        let word = RwLockWord::new(
            AtomicU32::new(0),
            AtomicU32::new(TOO_MANY),
            AtomicU32::new(0),
        );
        let read =
            AssertUnwindSafe(|| word.read().map_err(|late| word.read_slow(late, &mut Awake)));
        assert!(catch_unwind(read).is_err());
        assert_eq!(word.state.load(Relaxed), TOO_MANY);
    }
}
