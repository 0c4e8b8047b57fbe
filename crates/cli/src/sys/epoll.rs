//! Waiting on very many descriptors.
//!
//! Invariants: a descriptor that is closed everywhere leaves the set by itself.
//! Locks: none.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use super::cvt;

/// Something to read, a connection to accept, or an end.
pub(crate) const IN: u32 = libc::EPOLLIN as u32;
/// Room to write, or a connection made.
pub(crate) const OUT: u32 = libc::EPOLLOUT as u32;
/// The peer will send no more.
pub(crate) const RDHUP: u32 = libc::EPOLLRDHUP as u32;
/// Both directions are over. Always reported.
pub(crate) const HUP: u32 = libc::EPOLLHUP as u32;
/// An error waits to be taken. Always reported.
pub(crate) const ERR: u32 = libc::EPOLLERR as u32;
/// Priority data: of a pressure trigger, tasks have stalled.
pub(crate) const PRI: u32 = libc::EPOLLPRI as u32;
/// Report changes only, not states.
pub(crate) const EDGE: u32 = libc::EPOLLET as u32;

/// Events of one wait at most; the next wait reports the rest.
const EVENTS_MAX: usize = 256;

/// A set of descriptors, each with a number of the caller's.
pub(crate) struct Epoll(OwnedFd);

impl AsFd for Epoll {
    /// Readable when one of its descriptors has an event.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The events of one wait.
pub(crate) struct EpollEvents {
    list: Vec<libc::epoll_event>,
}

impl Epoll {
    /// An empty set.
    pub(crate) fn new() -> io::Result<Epoll> {
        // SAFETY: takes flags and touches no memory.
        let fd = cvt(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the kernel just made this descriptor, and no other owner has it.
        Ok(Epoll(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Watches `fd` for `interest` until it is closed. It reports readiness from before, too.
    pub(crate) fn add(&self, fd: BorrowedFd<'_>, interest: u32, number: u64) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: interest,
            u64: number,
        };
        let (set, fd) = (self.0.as_raw_fd(), fd.as_raw_fd());
        // SAFETY: both descriptors are open, and the call reads one event.
        cvt(unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, fd, &raw mut event) })?;
        Ok(())
    }

    /// Watches `fd` no longer.
    pub(crate) fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        let (set, fd) = (self.0.as_raw_fd(), fd.as_raw_fd());
        // SAFETY: both descriptors are open, and the call reads no event.
        cvt(unsafe { libc::epoll_ctl(set, libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut()) })?;
        Ok(())
    }

    /// Waits until something is reported or `timeout` has passed, rounded up to milliseconds; `None`
    /// is for ever. A signal that interrupts counts as a report of nothing.
    pub(crate) fn wait(
        &self,
        events: &mut EpollEvents,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        let ms = timeout.map_or(-1, |t| {
            let ms = t.as_nanos().div_ceil(1_000_000);
            libc::c_int::try_from(ms).unwrap_or(libc::c_int::MAX)
        });
        events.list.clear();
        let room = events.list.spare_capacity_mut();
        let max = libc::c_int::try_from(room.len()).unwrap_or(libc::c_int::MAX);
        let at = room.as_mut_ptr().cast();
        // SAFETY: the call writes at most `max` events, for which there is room at `at`.
        match cvt(unsafe { libc::epoll_wait(self.0.as_raw_fd(), at, max, ms) }) {
            // SAFETY: the call wrote that many events, which is within the capacity.
            Ok(n) => unsafe { events.list.set_len(usize::try_from(n).unwrap_or(0)) },
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        Ok(())
    }
}

impl EpollEvents {
    /// Room for the events of one wait.
    pub(crate) fn new() -> EpollEvents {
        EpollEvents {
            list: Vec::with_capacity(EVENTS_MAX),
        }
    }

    /// How many were reported.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// The number and the readiness of the `index`th.
    pub(crate) fn nth(&self, index: usize) -> Option<(u64, u32)> {
        // The fields of this packed struct are copied out, never referred to.
        self.list.get(index).map(|e| (e.u64, e.events))
    }
}
