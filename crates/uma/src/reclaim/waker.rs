//! Lets a thread sleep in poll(2) on two descriptors: other threads wake it by one, the caller chooses the other.
//!
//! Miri has neither eventfd nor poll: there it is a flag and a short sleep.

use core::time::Duration;
use std::io;
#[cfg(not(miri))]
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

#[cfg(not(miri))]
use kern::sys::EventFd;

/// Ends the present [wait](PollWaker::wait), or the next one.
#[derive(Debug)]
#[cfg(not(miri))]
pub(crate) struct PollWaker(EventFd);

/// The events that ended a wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub(crate) struct Woken {
    /// The other descriptor has the event for which it was opened.
    pub(crate) event: bool,
    /// The other descriptor reports an error.
    pub(crate) lost: bool,
}

#[cfg(not(miri))]
impl PollWaker {
    pub(crate) fn new() -> io::Result<Self> {
        EventFd::new().map(Self)
    }

    /// Ends the wait.
    pub(crate) fn wake(&self) {
        self.0.signal();
    }

    /// Sleeps until `wake` is called, `other` has priority data (POLLPRI), or `timeout` has passed.
    pub(crate) fn wait(&self, other: Option<BorrowedFd<'_>>, timeout: Option<Duration>) -> Woken {
        let mut fds = [
            poll_for(self.0.as_fd().as_raw_fd(), libc::POLLIN),
            // poll ignores a negative descriptor.
            poll_for(other.map_or(-1, |fd| fd.as_raw_fd()), libc::POLLPRI),
        ];
        let timeout_ms = timeout.map_or(-1, |left| {
            let up = left.saturating_add(Duration::from_micros(999));
            i32::try_from(up.as_millis()).unwrap_or(i32::MAX)
        });
        // SAFETY: the array is valid for the call and has as many entries as it says.
        let ready = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, timeout_ms) };
        if ready <= 0 {
            // The time is over; or a signal came, which the caller's loop allows.
            return Woken::default();
        }
        self.0.clear();
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
pub(crate) struct PollWaker(core::sync::atomic::AtomicBool);

#[cfg(miri)]
impl PollWaker {
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
