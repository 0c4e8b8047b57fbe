//! The first cache line of an item, on its way from the CPU that frees it to the one that allocates it.
//!
//! Locks: none.
//!
//! A CPU that writes to a line must be the only one that has it. An item that one CPU wrote and another one read is
//! in a worse state than one that nobody has: each has a copy, and when it is the first one's turn again it may
//! not write to its own, and must ask around. That takes as long as to fetch the line, and no fetching ahead helps:
//! a processor that has the line already takes the hint for done.
//!
//! ```text
//!                              CPU 0 has     CPU 1 has
//!   CPU 0 allocates, writes     the line      -
//!   CPU 1 reads                 a copy        a copy
//!   CPU 1 frees: own()          -             the line     nobody waits for this
//!   CPU 0 fetches               the line      -            many at a time, ahead of their use
//! ```
//!
//! So who frees an item that will be wanted elsewhere [owns](claim_exclusive) its line first, by a store of what is there
//! already. What that is worth to the least pool there is, whose items are written by one CPU of an AMD EPYC and read
//! by another (`ring-back-ctor` and `ring-back-own` of `mbuma lab alloc --case prodcons --size 2048`): 13 and 7 ns an
//! item where the two share a cache, 54 and 20 where they do not. Where one CPU both allocates and frees it would cost up
//! to a fifth, of many items at once, and gain nothing: the depot looks which way items go (`depot/cross_cpu.rs`).
//!
//! Only the first line: what is beyond it has a reader who may have left it alone, and to own all 32 lines of a cluster
//! costs TCP between two threads a tenth.

use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// Fetches an item's first line for this CPU to write to.
#[inline]
pub(crate) fn fetch_to_write(item: NonNull<u8>) {
    // The intrinsic for it becomes a fetch to read, unless the whole build is for processors of
    // 2014 and later. Those before it take the instruction for none.
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

/// Takes an item's first line from every other CPU that has it, and changes nothing.
///
/// A word of it is written, not a byte: a load of the word could not be served from a byte's store. An item that
/// does not begin with a word stays where it is.
///
/// # Safety
/// The item is memory, of at least a word, and in the caller's hands alone.
#[inline]
pub(crate) unsafe fn claim_exclusive(item: NonNull<u8>) {
    let word = item.cast::<MaybeUninit<u64>>();
    if word.is_aligned() {
        // SAFETY: the caller says that it is memory and nobody else's; it is aligned, and any bits will do.
        let same = unsafe { word.read_volatile() };
        // SAFETY: as above.
        unsafe { word.write_volatile(same) };
    }
}

#[cfg(all(test, target_os = "linux", not(any(loom, shuttle, miri))))]
mod tests;
