//! The machine's monotonic clock, read once and without detours: every entry into a stack reads it.
//!
//! Locks: none.
//! Source: clock_gettime(2).

/// Nanoseconds since some moment before the process began.
#[inline]
pub(super) fn monotonic_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the clock is one that every system has, and the timespec is ours to write.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    // Neither is ever negative, and 64 bits of nanoseconds are 584 years.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
