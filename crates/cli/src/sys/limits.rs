//! Limits of this process.
//!
//! Invariants: set after the fork that leads to COMMAND, which keeps the limits that mbuma was given.
//! Locks: none.

use std::io;

use super::cvt;

/// Allows as many descriptors as the hard limit does: each connection takes one.
pub(crate) fn raise_descriptors() -> io::Result<()> {
    let mut limit = get()?;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the call reads one rlimit.
    cvt(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })?;
    Ok(())
}

/// The limit on descriptors.
pub(crate) fn descriptors() -> io::Result<usize> {
    Ok(usize::try_from(get()?.rlim_cur).unwrap_or(usize::MAX))
}

fn get() -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the call writes one rlimit.
    cvt(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    Ok(limit)
}
