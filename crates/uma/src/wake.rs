//! A descriptor that wakes a thread, and the sleep on it and on another one.
//!
//! Called by: `reclaimer.rs`. Calls: eventfd, poll.
//!
//! Under Miri, which knows neither, a flag and a short sleep.

use core::time::Duration;
use std::io;
#[cfg(not(miri))]
use std::{
    fs::File,
    io::{Read, Write},
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

/// Wakes whoever [waits](Wake::wait), now or the next time.
#[derive(Debug)]
#[cfg(not(miri))]
pub(crate) struct Wake(File);

/// What ended a wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub(crate) struct Woken {
    /// The other descriptor has what it was opened for.
    pub(crate) event: bool,
    /// The other descriptor is of no use any more.
    pub(crate) lost: bool,
}

#[cfg(not(miri))]
impl Wake {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: makes a new descriptor and touches nothing that exists.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that was made just now and that nobody else knows.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }.into()))
    }

    /// Ends the wait.
    pub(crate) fn wake(&self) {
        // It fails only where 2^64 wakeups wait already, and those will do.
        let _ = (&self.0).write(&1_u64.to_ne_bytes());
    }

    /// Sleeps until woken, until `other` has something urgent to say, or for `timeout` if there
    /// is one.
    pub(crate) fn wait(&self, other: Option<BorrowedFd<'_>>, timeout: Option<Duration>) -> Woken {
        let mut fds = [
            poll_for(self.0.as_raw_fd(), libc::POLLIN),
            // A negative descriptor is passed over.
            poll_for(other.map_or(-1, |fd| fd.as_raw_fd()), libc::POLLPRI),
        ];
        let timeout_ms = timeout.map_or(-1, |left| {
            let up = left.saturating_add(Duration::from_micros(999));
            i32::try_from(up.as_millis()).unwrap_or(i32::MAX)
        });
        // SAFETY: the array is valid for the call and has as many entries as it says.
        let ready = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout_ms) };
        if ready <= 0 {
            // Time is up; or a signal, which the caller's loop survives.
            return Woken::default();
        }
        // Forgets the wakeups so far; there may have been none.
        let _ = (&self.0).read(&mut [0; 8]);
        let lost = fds[1].revents & (libc::POLLERR | libc::POLLNVAL) != 0;
        Woken {
            event: !lost && fds[1].revents & libc::POLLPRI != 0,
            lost,
        }
    }
}

#[cfg(not(miri))]
fn poll_for(fd: i32, events: i16) -> libc::pollfd {
    libc::pollfd {
        fd,
        events,
        revents: 0,
    }
}

#[derive(Debug)]
#[cfg(miri)]
pub(crate) struct Wake(core::sync::atomic::AtomicBool);

#[cfg(miri)]
impl Wake {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(core::sync::atomic::AtomicBool::new(false)))
    }

    pub(crate) fn wake(&self) {
        self.0.store(true, core::sync::atomic::Ordering::Release);
    }

    pub(crate) fn wait(
        &self,
        _other: Option<std::os::fd::BorrowedFd<'_>>,
        timeout: Option<Duration>,
    ) -> Woken {
        if !self.0.swap(false, core::sync::atomic::Ordering::Acquire) {
            let nap = Duration::from_millis(5);
            std::thread::sleep(timeout.map_or(nap, |timeout| timeout.min(nap)));
        }
        Woken::default()
    }
}
