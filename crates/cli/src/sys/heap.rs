//! The C library's heap.
//!
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
