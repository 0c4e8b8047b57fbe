//! A descriptor that a thread makes readable to wake another thread, which sleeps in epoll(7) or poll(2).
//!
//! Invariant: where the descriptor is watched by edge, it need not be read: each write is a new edge. The counter is
//! full after 2^64 - 1 writes, some five hundred years at one write a nanosecond.
//!
//! Locks: none. Source: eventfd(2).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

/// An event descriptor, not blocking, closed on exec (eventfd(2)).
#[derive(Debug)]
pub struct EventFd(File);

impl EventFd {
    /// A descriptor without a signal.
    ///
    /// # Errors
    /// Those of eventfd(2): the process or the system has no descriptor left (EMFILE, ENFILE), or no memory (ENOMEM).
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes two numbers and touches no memory.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor, and no other value owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }.into()))
    }

    /// Makes the descriptor readable, which wakes each thread that waits for it.
    pub fn signal(&self) {
        // The write fails only if the counter is full; the descriptor is readable then.
        let _ = (&self.0).write(&1_u64.to_ne_bytes());
    }

    /// Forgets all signals. True if there were any.
    pub fn clear(&self) -> bool {
        (&self.0).read(&mut [0; 8]).is_ok()
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::EventFd;

    #[test]
    fn signals_are_kept_until_they_are_cleared() {
        // Breaks if a signal that comes before the wait is lost, or `clear` blocks.
        let event = EventFd::new().expect("a descriptor");
        assert!(!event.clear());
        event.signal();
        event.signal();
        assert!(event.clear());
        assert!(!event.clear());
    }
}
