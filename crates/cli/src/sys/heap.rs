//! The C library's heap.
//!
//! Called by: gateway::reclaim, the workers. Calls: malloc_trim(3), where the C library has it.
//! Locks: the heap's own.

/// Gives free pages of the heap back to the system. It takes some 0.1 ms a megabyte of heap.
#[cfg(target_env = "gnu")]
pub(crate) fn trim() {
    // SAFETY: takes a number and touches free memory of the heap only, under the heap's locks.
    unsafe { libc::malloc_trim(0) };
}

/// Gives free pages of the heap back to the system: this C library keeps none for long.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn trim() {}

/// The sizes of free pieces that glibc caches for each thread, as far as they are renewed, and how many of each it caches.
/// There are larger ones, but a full cache of those takes more memory than their pages.
#[cfg(target_env = "gnu")]
const CACHED: (std::ops::RangeInclusive<usize>, usize, usize) = (24..=504, 16, 7);

/// Has the calling thread's cache of free pieces hold others in their place, which lie where the heap is in use anyway.
///
/// After a spike the cached pieces lie where the first connections to end had theirs. malloc_trim(3) can't give back a
/// page that has one, and they are on some 40 pages a thread.
#[cfg(target_env = "gnu")]
pub(crate) fn renew_thread_cache() {
    let (sizes, step, kept) = CACHED;
    let mut pieces: Vec<Vec<u8>> = Vec::with_capacity(2 * kept);
    for size in sizes.step_by(step) {
        // The first half comes out of the cache, the second does not.
        pieces.extend((0..2 * kept).map(|_| Vec::with_capacity(size)));
        std::hint::black_box(&pieces);
        // The second half goes first, and fills the cache.
        while pieces.pop().is_some() {}
    }
}

/// Has the calling thread's cache of free pieces hold others: this C library has none.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn renew_thread_cache() {}
