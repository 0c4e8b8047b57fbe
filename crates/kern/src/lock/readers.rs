//! The numbers of a read-mostly lock's readers, on lines of each CPU.
//!
//! Invariant: `sectioned` is changed only by sections, on its CPU, and by the lock's drop.
//! Locks: the list of free columns.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use super::rmlock_word::Readers;
use crate::cpu;
use crate::percpu_words::{self, Column, FreeHeld, PercpuWords};
use crate::rseq::{self, PercpuMethod};

/// The columns of all locks.
static READERS: PercpuWords<CpuReaders> = PercpuWords::new();

/// Holds the list of free columns, for a fork.
pub(crate) fn readers_held() -> FreeHeld<CpuReaders> {
    READERS.hold()
}

/// One CPU's readers: who came here less who left here. `rmlock_word.rs` says which of the numbers a reader uses.
#[derive(Debug, Default)]
#[repr(C, align(16))] // so that pages can begin on a line
pub(crate) struct CpuReaders {
    sectioned: AtomicU64,
    counted: AtomicU64,
}

const _: () = assert!(offset_of!(CpuReaders, sectioned) == 0 && size_of::<CpuReaders>() == 16);

/// One lock's readers.
#[derive(Clone, Copy)]
pub(super) struct LockReaders(Column<CpuReaders>);

impl LockReaders {
    /// None are in.
    pub(super) fn new() -> Self {
        // Asked here, with no lock held: the first answer may take milliseconds.
        let _ = rseq::choose();
        Self(READERS.take())
    }

    /// Gives the numbers back. The lock is gone, and so are its readers, unless their guards were forgotten: those
    /// stay counted for ever, and the next lock that uses these numbers must not find them.
    pub(super) fn give(self) {
        if self.sum() == 0 {
            for cpu in self.0.each() {
                cpu.sectioned.store(0, Relaxed);
                cpu.counted.store(0, Relaxed);
            }
            READERS.give(self.0);
        }
    }
}

impl Readers<AtomicU32> for LockReaders {
    type Cpu = &'static CpuReaders;

    #[inline]
    fn here(&self) -> Self::Cpu {
        self.0.of(cpu::current())
    }

    #[inline]
    fn add_in_section(&self, n: u64, gate: &AtomicU32) -> bool {
        // SAFETY: each CPU's numbers begin with `sectioned`; an open gate says that the method is sections, and if it
        // is closed nothing is changed. All threads have an area if one has.
        unsafe { percpu_words::add_if_odd(self.0.as_ptr().cast(), n, gate) }
    }

    #[inline]
    fn add(cpu: Self::Cpu, n: u64) {
        cpu.counted.fetch_add(n, SeqCst);
    }

    fn sum(&self) -> u64 {
        let cpus = self.0.each();
        let sums = cpus.map(|cpu| {
            let sectioned = cpu.sectioned.load(SeqCst);
            sectioned.wrapping_add(cpu.counted.load(SeqCst))
        });
        sums.fold(0, u64::wrapping_add)
    }

    fn have_sections(&self) -> bool {
        rseq::choose() != PercpuMethod::Locked
    }

    fn fence(&self) {
        if !rseq::fence() {
            refused();
        }
    }
}

/// Readers are in whose number is not known and can't be: to go on would let a writer in beside them.
#[cold]
fn refused() -> ! {
    eprintln!(
        "membarrier(2) is refused now, which this process has used: let the filter of system calls allow it, or set \
         {}=locked",
        rseq::PERCPU_VAR
    );
    std::process::abort();
}
