//! The protocol of a read-mostly lock: a word of its own for the readers of each CPU, and a read-write lock for
//! writers, and for readers that find a writer.
//!
//! ```text
//!   slots    CPU 0: readers that are in | CPU 1: readers that are in | ...     each a line of its CPU's
//!   behind   a read-write lock: its writer is the writer, its readers are those that met a writer
//! ```
//!
//! A reader adds itself to its CPU's slot and checks whether the lock behind has a writer. If not, the reader is in:
//! it has written to no line that another CPU writes, and has read one line, which only writers change. If there is a
//! writer, the reader subtracts itself from the slot and takes the lock behind for reading, which lets it in after
//! this write and before the next.
//!
//! A writer takes the lock behind, which also excludes the readers in that lock; its announcement there turns new
//! readers away from the slots. Then the writer waits until it has read 0 from each slot once: a reader that adds
//! itself later sees the writer and leaves the slot. A reader that brings its slot to 0 loads the writer's word again,
//! and wakes a writer that it finds there.
//!
//! **No thread is missed.** A reader adds to its slot (SeqCst), then loads the writer's word (SeqCst). A writer
//! announces itself, executes a SeqCst fence, then loads the slot (SeqCst). In the total order of these operations one
//! side is first, so at least one of the two sees the other. The same holds for a reader that leaves (SeqCst
//! subtraction, then a load of the writer's word) and a writer that sleeps on the slot: either the reader sees the
//! writer and wakes it, or the slot no longer holds the value on which the writer would sleep. A reader may leave on
//! another CPU than it came in on; it remembers its slot.
//!
//! **Bounded waits.** A writer waits for the readers that were in when it came: each thread enters a slot
//! once more at most before it waits behind. A reader waits for one write. So no thread starves.
//!
//! **Why two locked instructions a read, and not a restartable section.** In a section a reader would need no locked
//! instruction, but a writer would have to interrupt all CPUs (membarrier) before it reads the slots. That saves a
//! read a third of its four nanoseconds; it makes a write three hundred times as long as its ten, and interrupts every
//! busy CPU. Connects and closes write. `cargo run --release -p mbuma-kern --example locks` measures both. A lock whose
//! readers used sections only after some thousand of them had come without a writer was built: a round trip of
//! `cargo lab stream`, which then executed four locked instructions fewer, took as long as before.
//!
//! Locks: this is a lock itself.
//! Sources: rmlock(9); Calciu et al., "NUMA-aware reader-writer locks", PPoPP 2013.

use core::sync::atomic::Ordering::SeqCst;

use super::rwlock_word::{RwLockWord, Write};
use super::word::{LockWord, Waiter, spin};

/// Set in a slot that counts too many readers: guards that were forgotten stay counted, and a count that
/// wrapped to 0 would let a writer in beside them. The sign bit costs no more to test than the sum does.
const FULL: u32 = 1 << 31;

/// The lock behind the slots; these come with each call.
pub(crate) struct RmLockWord<W> {
    behind: RwLockWord<W>,
}

impl<W: LockWord> RmLockWord<W> {
    /// A lock in three words, which hold 0; so do its slots.
    pub(crate) const fn new(writers: W, state: W, draining: W) -> Self {
        let behind = RwLockWord::new(writers, state, draining);
        Self { behind }
    }

    /// The word that names the writer, to be read.
    pub(crate) fn writer(&self) -> &W {
        self.behind.writer()
    }

    /// Takes the lock for reading through `slot`, if no thread writes or waits to. Returns false also if the slot is
    /// full; [`RmLockWord::read_behind`], whose count has its own bound, must follow.
    #[inline]
    pub(crate) fn read(&self, slot: &W) -> bool {
        let before = slot.fetch_add(1, SeqCst);
        W::fence_after_add();
        if before & FULL != 0 || self.behind.is_written() {
            self.unlock_read(slot);
            return false;
        }
        true
    }

    /// Ends a read through `slot`.
    #[inline]
    pub(crate) fn unlock_read(&self, slot: &W) {
        let before = slot.fetch_sub(1, SeqCst);
        W::fence_after_add();
        if before == 1 && self.behind.is_written() {
            slot.wake_one();
        }
    }

    /// Takes the lock for reading after the end of the write that the reader met, if it met one.
    #[cold]
    pub(crate) fn read_behind(&self, waiter: &mut impl Waiter) {
        if let Err(counted) = self.behind.read() {
            self.behind.read_slow(counted, waiter);
        }
    }

    /// Ends a read that [`RmLockWord::read_behind`] began.
    #[cold]
    pub(crate) fn unlock_read_behind(&self) {
        self.behind.unlock_read();
    }

    /// Takes the lock for writing if no thread holds it or waits for it; after an error, [`RmLockWord::write_slow`]
    /// must follow.
    #[inline]
    pub(crate) fn write<'a>(
        &self,
        me: u32,
        mut slots: impl Iterator<Item = &'a W>,
    ) -> Result<(), Write>
    where
        W: 'a,
    {
        match self.behind.write(me) {
            Write::Alone => {}
            waits => return Err(waits),
        }
        W::fence();
        if slots.all(|slot| slot.load(SeqCst) == 0) {
            Ok(())
        } else {
            Err(Write::Alone)
        }
    }

    /// Waits for other writers, and for readers of both kinds.
    #[cold]
    pub(crate) fn write_slow<'a>(
        &self,
        me: u32,
        came: Write,
        slots: impl Iterator<Item = &'a W>,
        waiter: &mut impl Waiter,
    ) where
        W: 'a,
    {
        match came {
            Write::Alone => {}
            Write::Behind => self.behind.write_slow(me, waiter),
            Write::Readers(readers) => self.behind.drain(readers, waiter),
        }
        W::fence();
        for slot in slots {
            loop {
                let left = spin(slot, |left| left == 0);
                if left == 0 {
                    break;
                }
                waiter.sleeps();
                slot.sleep(left, None);
            }
        }
    }

    /// Ends a write.
    #[inline]
    pub(crate) fn unlock_write(&self) {
        self.behind.unlock_write();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::{FULL, RmLockWord, Write};

    #[test]
    fn forgotten_readers_never_let_a_writer_in() {
        // Breaks when the count of a CPU's readers wraps to 0: each forgotten guard adds one.
        for counted in [FULL - 1, u32::MAX - 1] {
            let word = RmLockWord::new(AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
            let slot = AtomicU32::new(counted);
            let admitted = (0..4).filter(|_| word.read(&slot)).count();
            assert_eq!(slot.load(Relaxed), counted + admitted as u32);
            assert!(admitted <= 1, "a full slot lets {admitted} more in");
            assert!(matches!(
                word.write(1, [&slot].into_iter()),
                Err(Write::Alone)
            ));
        }
    }
}
