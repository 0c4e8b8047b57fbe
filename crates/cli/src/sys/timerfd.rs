//! Ticks: a descriptor that is readable again and again.
//!
//! Invariants: the descriptor is close-on-exec and its reads do not block.
//! Locks: none.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// A descriptor that becomes readable once each period.
pub(crate) struct Ticks(File);

impl Ticks {
    /// Starts the timer.
    pub(crate) fn every(period: Duration) -> io::Result<Ticks> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let period = Timespec::try_from(period).map_err(io::Error::other)?;
        let times = Itimerspec {
            it_interval: period,
            it_value: period,
        };
        timerfd_settime(&fd, TimerfdTimerFlags::empty(), &times)?;
        Ok(Ticks(fd.into()))
    }

    /// Whether a period has ended since the last call. Does not wait.
    pub(crate) fn take(&self) -> bool {
        (&self.0).read(&mut [0; 8]).is_ok()
    }
}

impl AsFd for Ticks {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
