//! Ticks: a descriptor that is readable again and again.
//!
//! Invariants: the descriptor is close-on-exec and its reads do not block.
//! Locks: none.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;

use super::cvt;

/// A descriptor that becomes readable once each period.
pub(crate) struct Ticks(File);

impl Ticks {
    /// Starts the timer.
    pub(crate) fn every(period: Duration) -> io::Result<Ticks> {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: takes two numbers and touches no memory.
        let fd = cvt(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })?;
        // SAFETY: the kernel just made this descriptor, and it has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let period = libc::timespec {
            tv_sec: period.as_secs().cast_signed(),
            tv_nsec: period.subsec_nanos().into(),
        };
        let times = libc::itimerspec {
            it_interval: period,
            it_value: period,
        };
        // SAFETY: the call reads one itimerspec; a null pointer declines the old one.
        cvt(unsafe {
            libc::timerfd_settime(fd.as_raw_fd(), 0, &raw const times, ptr::null_mut())
        })?;
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
