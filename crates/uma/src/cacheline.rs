//! The first cache line of an item that one CPU frees and another allocates.
//!
//! Locks: none.
//!
//! A CPU can write to a cache line only while no other cache has a copy. An item that one CPU has written and another
//! has read is in Shared state, which is the most expensive case: the first CPU has a copy, but before it writes it
//! must invalidate the other one. That takes as long as a fetch of the line, and a prefetch does not help: the
//! processor ignores it, because it has the line already.
//!
//! ```text
//!                                       CPU 0 has       CPU 1 has
//!   CPU 0 allocates, writes             the line        -
//!   CPU 1 reads                         a copy          a copy
//!   CPU 1 frees: claim_exclusive()      -               the line     no other thread waits for this
//!   CPU 0 prefetches                    the line        -            many at a time, ahead of their use
//! ```
//!
//! So a CPU that frees an item which another CPU will allocate first [claims](claim_exclusive) its line, by a store of
//! the value that is there already. Measured on a minimal pool (one writer, one reader, AMD EPYC; `ring-back-ctor` and
//! `ring-back-own` of `mbuma-lab alloc --case prodcons --size 2048`): 7 ns an item and not 13 where the two CPUs share
//! a cache, 20 and not 54 where they do not. If one CPU both allocates and frees, a claim saves nothing and costs up
//! to a fifth of a bulk free; so the depot detects the case (`depot/cross_cpu.rs`).
//!
//! Only the first line is claimed. Later lines are often not read by the freeing CPU, and claiming all 32 lines of a
//! cluster costs TCP between two threads a tenth.

use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// Fetches an item's first line for writing by this CPU.
#[inline]
pub(crate) fn fetch_to_write(item: NonNull<u8>) {
    // The intrinsic becomes a fetch for reading, unless the whole build is for processors of 2014 and later. Older
    // processors execute this instruction as no operation.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint, and may have any address; it changes no register and no memory.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) item.as_ptr(), options(nostack, preserves_flags));
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("prfm pstl1keep, [{}]", in(reg) item.as_ptr(), options(nostack, preserves_flags));
    }
    let _ = item;
}

/// Takes an item's first line from every other CPU that has it. The item does not change.
///
/// It writes a word, not a byte, because the processor can't forward a byte's store to a later load of the word. Skips
/// an item that is not aligned to a word.
///
/// # Safety
/// The item is memory, of at least a word, and no other thread uses it.
#[inline]
pub(crate) unsafe fn claim_exclusive(item: NonNull<u8>) {
    let word = item.cast::<MaybeUninit<u64>>();
    if word.is_aligned() {
        // SAFETY: the caller promises that it is memory which no other thread uses; it is aligned, and any bits are
        // valid.
        let same = unsafe { word.read_volatile() };
        // SAFETY: as above.
        unsafe { word.write_volatile(same) };
    }
}

#[cfg(all(test, target_os = "linux", not(any(loom, shuttle, miri))))]
mod tests;
