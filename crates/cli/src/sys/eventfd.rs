//! A descriptor to wake a thread by that sleeps in an epoll set.
//!
//! Called by: gateway::crew. Calls: eventfd(2), write(2).
//! Invariants: watched by edge, each signal is a new edge, so that nobody has to read it back: the count
//! that grows instead is full after five hundred years of a signal each nanosecond.
//! Locks: none.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd};

use super::cvt;

/// The descriptor.
#[derive(Debug)]
pub(crate) struct EventFd(File);

impl EventFd {
    /// One that nobody has signalled.
    pub(crate) fn new() -> io::Result<EventFd> {
        // SAFETY: takes two numbers and touches no memory.
        let fd = cvt(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: the kernel just made this descriptor, and nobody else has it.
        Ok(EventFd(unsafe { File::from_raw_fd(fd) }))
    }

    /// Wakes whoever watches it.
    pub(crate) fn signal(&self) {
        // Fails only when the count is full, and then an edge has gone unanswered for centuries.
        let _ = (&self.0).write(&1_u64.to_ne_bytes());
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
