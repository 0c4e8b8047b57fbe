//! The protocol of a read-mostly lock: two numbers of readers for each CPU, a gate that says which of them a reader may
//! use, and a read-write lock for writers, and for readers that find a writer.
//!
//! ```text
//!   gate     odd: open. Even: closed; it counts what happens while it is
//!   CPU 0    sectioned, counted | CPU 1    sectioned, counted | ...     each on a line of its CPU's
//!   behind   a read-write lock: its writer is the writer, its readers are those that met a writer
//! ```
//!
//! While the gate is **open**, a reader adds 1 to `sectioned` of its CPU when it comes, and subtracts 1 from that of
//! its CPU when it leaves, which may be another. Each is a restartable section that also reads the gate, so it executes
//! no locked instruction. While the gate is **closed**, or if the section was interrupted, a reader adds itself to
//! `counted` by a locked instruction, and then checks whether the lock behind has a writer. If it has one, the reader
//! subtracts itself again and takes the lock behind for reading, which lets it in after this write and before the next.
//!
//! A writer takes the lock behind, which also excludes the readers in that lock; its announcement there turns new
//! readers away from `counted`. If the gate is open, the writer closes it and calls `fence` (membarrier), which
//! interrupts the sections of all CPUs: after that no `sectioned` changes, since a section that begins again finds
//! the gate closed, and the writer sees all of them. Then the writer waits until the sum of all numbers is 0. The
//! numbers of one CPU say nothing alone, because readers migrate.
//!
//! **The gate opens again** when enough readers were in since the last write that the locked instructions of as many
//! take longer than an interruption of all CPUs. So a lock that is written for each connection stays closed under such
//! a load, and a lock that only configuration writes is open. A reader opens it that is in through `counted`; so no
//! writer is in. A writer that has announced itself meanwhile sees that: it looks at the gate once more when it has
//! found the sum 0. If any reader that it saw leave came through the open gate, or opened it, it finds the gate open
//! and closes it first. (A section acquires the gate and releases its number; a writer acquires the numbers.)
//!
//! **No thread is missed.** A reader adds to `counted` (SeqCst), then loads the writer's word (SeqCst). A writer
//! announces itself, executes a SeqCst fence, then loads the numbers (SeqCst). In the total order of these operations
//! one side is first, so at least one of the two sees the other. The sum is read number by number, while readers leave:
//! each reader that is in was added before the writer's loads, and adds 1 or, once it is seen to leave, 0; one that
//! comes and meets the writer adds 1 or 0. So the sum is 0 only if all have left.
//!
//! **No wakeup is lost.** A writer loads the gate, adds up, and sleeps if the gate still has that value. A reader that
//! leaves through `counted` loads the writer's word after it; if it finds a writer, it changes the gate and wakes the
//! writer. A reader that opens the gate does the same. While the gate is open no writer sleeps.
//!
//! **Bounded waits.** A writer waits for the readers that are in the lock behind, then closes the gate and waits for
//! those that were in by then: each thread enters once more at most before it waits behind. A reader waits for one
//! write. So no thread starves.
//!
//! Numbers have 64 bits: forgotten guards stay counted, and no program lives long enough to make the sum wrap.
//!
//! Locks: this is a lock itself.
//! Sources: rmlock(9); Calciu et al., "NUMA-aware reader-writer locks", PPoPP 2013; Dice and Kogan, "BRAVO: biased
//! locking for reader-writer locks", USENIX ATC 2019.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use super::rwlock_word::{RwLockWord, Write};
use super::word::{LockWord, Waiter, spin};

/// In the gate: readers count in sections.
pub(crate) const OPEN: u32 = 1;
/// What each other event adds to the gate, so that OPEN stays as it is when the rest wraps.
pub(crate) const EVENT: u32 = 2;
/// So many readers of a sample open the gate. With the [sample](crate::thread)'s one in 64 these are about 4,096
/// readers, two locked instructions each: several times as long as an interruption of two CPUs.
pub(crate) const SAMPLES: u32 = 64;

/// The numbers of readers.
pub(crate) trait Readers<W> {
    /// Those of one CPU.
    type Cpu: Copy;

    /// Those of this CPU, or of any other.
    fn here(&self) -> Self::Cpu;
    /// Adds to `sectioned` of the CPU that the thread runs on, if the gate is open, in one section. False: nothing
    /// happened.
    fn add_in_section(&self, n: u64, gate: &W) -> bool;
    /// Adds to `counted` (SeqCst).
    fn add(cpu: Self::Cpu, n: u64);
    /// The sum of all numbers (each loaded SeqCst).
    fn sum(&self) -> u64;
    /// Whether there are sections here, and a fence.
    fn have_sections(&self) -> bool;
    /// Ends all sections that are in progress: each has happened, and the caller sees that, or it begins again and
    /// sees the earlier stores of the caller.
    fn fence(&self);
}

/// The way of a reader into the lock.
#[derive(Clone, Copy)]
pub(crate) enum ReadWay<C> {
    /// By a section.
    Section,
    /// Counted with this CPU.
    Counted(C),
    /// Through the lock behind.
    Behind,
}

/// The gate, and the lock behind; the readers' numbers come with each call.
pub(crate) struct RmLockWord<W> {
    behind: RwLockWord<W>,
    gate: W,
}

impl<W: LockWord> RmLockWord<W> {
    /// A lock in three words that hold 0, and a gate, which is 0 too: closed, and no reader was in yet.
    pub(crate) const fn new(writers: W, state: W, draining: W, gate: W) -> Self {
        let behind = RwLockWord::new(writers, state, draining);
        Self { behind, gate }
    }

    /// The word that names the writer, to be read.
    pub(crate) fn writer(&self) -> &W {
        self.behind.writer()
    }

    /// The gate, for planted mistakes.
    #[cfg(all(test, loom))]
    pub(crate) fn gate(&self) -> &W {
        &self.gate
    }

    /// Takes the lock for reading, if no thread writes or waits to; if one does, [`RmLockWord::read_behind`] must
    /// follow.
    #[inline]
    pub(crate) fn read<R: Readers<W>>(&self, readers: &R) -> Option<ReadWay<R::Cpu>> {
        // Relaxed: the section looks again.
        if self.gate.load(Relaxed) & OPEN != 0 && readers.add_in_section(1, &self.gate) {
            return Some(ReadWay::Section);
        }
        let cpu = readers.here();
        R::add(cpu, 1);
        W::fence_after_add();
        if self.behind.is_written() {
            self.leave::<R>(cpu);
            return None;
        }
        Some(ReadWay::Counted(cpu))
    }

    /// Notes that a reader of a sample is in, by this way. Enough of them open the gate.
    #[cold]
    pub(crate) fn note_sample<R: Readers<W>>(&self, readers: &R, way: ReadWay<R::Cpu>) {
        // Readers in sections find it open; behind the lock readers do not hold off a gate that opens.
        if !matches!(way, ReadWay::Counted(_)) || !readers.have_sections() {
            return;
        }
        let now = self.gate.load(Relaxed);
        if now & OPEN != 0 {
            return;
        }
        if now < SAMPLES * EVENT {
            self.gate.fetch_add(EVENT, Relaxed);
            return;
        }
        let opened = self
            .gate
            .compare_exchange(now, now | OPEN, SeqCst, Relaxed)
            .is_ok();
        W::fence_after_add();
        if opened && self.behind.is_written() {
            self.gate.wake_one();
        }
    }

    /// Ends a read that came this way.
    #[inline]
    pub(crate) fn unlock_read<R: Readers<W>>(&self, readers: &R, way: ReadWay<R::Cpu>) {
        match way {
            ReadWay::Section => {
                if !readers.add_in_section(1_u64.wrapping_neg(), &self.gate) {
                    self.leave::<R>(readers.here());
                }
            }
            ReadWay::Counted(cpu) => self.leave::<R>(cpu),
            ReadWay::Behind => self.behind.unlock_read(),
        }
    }

    #[inline]
    fn leave<R: Readers<W>>(&self, cpu: R::Cpu) {
        R::add(cpu, 1_u64.wrapping_neg());
        W::fence_after_add();
        if self.behind.is_written() {
            self.wake_writer();
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_writer(&self) {
        self.gate.fetch_add(EVENT, SeqCst);
        self.gate.wake_one();
    }

    /// Takes the lock for reading after the end of the write that the reader met, if it met one.
    #[cold]
    pub(crate) fn read_behind(&self, waiter: &mut impl Waiter) {
        if let Err(counted) = self.behind.read() {
            self.behind.read_slow(counted, waiter);
        }
    }

    /// Takes the lock for writing if no thread holds it or waits for it, and the gate is closed; after an error,
    /// [`RmLockWord::write_slow`] must follow.
    #[inline]
    pub(crate) fn write<R: Readers<W>>(&self, me: u32, readers: &R) -> Result<(), Write> {
        match self.behind.write(me) {
            Write::Alone => {}
            waits => return Err(waits),
        }
        W::fence();
        if self.is_empty(readers) {
            Ok(())
        } else {
            Err(Write::Alone)
        }
    }

    /// Whether no reader is in, and the gate is closed. If it was open while the numbers were read, it still is: only
    /// the caller, the writer, closes it.
    fn is_empty<R: Readers<W>>(&self, readers: &R) -> bool {
        readers.sum() == 0 && self.gate.load(SeqCst) & OPEN == 0
    }

    /// Waits for other writers, and for readers of each way.
    #[cold]
    pub(crate) fn write_slow<R: Readers<W>>(
        &self,
        me: u32,
        came: Write,
        readers: &R,
        waiter: &mut impl Waiter,
    ) {
        match came {
            Write::Alone => {}
            Write::Behind => self.behind.write_slow(me, waiter),
            Write::Readers(behind) => self.behind.drain(behind, waiter),
        }
        W::fence();
        loop {
            let before = self.gate.load(SeqCst);
            if before & OPEN != 0 {
                // Only a writer closes it. Adding OPEN again clears it.
                self.gate.fetch_add(OPEN, SeqCst);
                readers.fence();
            } else if self.is_empty(readers) {
                return;
            } else if spin(&self.gate, |now| now != before) == before {
                waiter.sleeps();
                self.gate.sleep(before, None);
            }
        }
    }

    /// Ends a write: no reader was in since.
    #[inline]
    pub(crate) fn unlock_write(&self) {
        let events = self.gate.load(Relaxed);
        if events != 0 {
            self.gate.fetch_sub(events, Relaxed);
        }
        self.behind.unlock_write();
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
