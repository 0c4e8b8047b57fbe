//! The descriptors that a worker sleeps on, each under its token.
//!
//! Called by: the loop, and whatever opens a descriptor. Calls: sys::epoll, [`kern::adaptive_spin`].
//! Invariants: a descriptor is added once; it leaves by being closed, or for another worker's set.
//! Locks: none.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use kern::AdaptiveSpin;

use super::table::Token;
use crate::sys::epoll::{self, Epoll, EpollEvents};

/// The set of descriptors.
pub(super) struct Poller {
    set: Epoll,
    events: EpollEvents,
    spin: AdaptiveSpin,
}

/// The readiness of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Readiness(u32);

impl Readiness {
    /// Reading gives something: data, an end or an error.
    pub(super) const fn readable(self) -> bool {
        self.0 & (epoll::IN | epoll::RDHUP | epoll::HUP | epoll::ERR) != 0
    }

    /// Writing does something: it takes data, or gives an error.
    pub(super) const fn writable(self) -> bool {
        self.0 & (epoll::OUT | epoll::HUP | epoll::ERR) != 0
    }

    /// The end is there, behind the data that can be read.
    pub(super) const fn at_end(self) -> bool {
        self.0 & (epoll::RDHUP | epoll::HUP | epoll::ERR) != 0
    }

    /// An error waits to be taken.
    pub(super) const fn failed(self) -> bool {
        self.0 & epoll::ERR != 0
    }
}

impl Poller {
    /// An empty set.
    pub(super) fn new() -> io::Result<Poller> {
        Ok(Poller {
            set: Epoll::new()?,
            events: EpollEvents::new(),
            spin: AdaptiveSpin::for_syscall(kern::cpu::usable()),
        })
    }

    /// Reports `fd` as long as there is something to read.
    pub(super) fn add_reader(&self, fd: &impl AsFd, token: Token) -> io::Result<()> {
        self.set.add(fd.as_fd(), epoll::IN, token.number())
    }

    /// Reports `fd` each time something new is there to read.
    pub(super) fn add_alarm(&self, fd: &impl AsFd, token: Token) -> io::Result<()> {
        let interest = epoll::IN | epoll::EDGE;
        self.set.add(fd.as_fd(), interest, token.number())
    }

    /// Reports each time `fd` has priority data, and when it fails.
    pub(super) fn add_trigger(&self, fd: &impl AsFd, token: Token) -> io::Result<()> {
        let interest = epoll::PRI | epoll::EDGE;
        self.set.add(fd.as_fd(), interest, token.number())
    }

    /// Reports each change of `fd`, a stream: data, room, an end, an error.
    pub(super) fn add_stream(&self, fd: &impl AsFd, token: Token) -> io::Result<()> {
        let interest = epoll::IN | epoll::OUT | epoll::RDHUP | epoll::EDGE;
        self.set.add(fd.as_fd(), interest, token.number())
    }

    /// Reports nothing of `fd` any more.
    pub(super) fn remove(&self, fd: &impl AsFd) -> io::Result<()> {
        self.set.remove(fd.as_fd())
    }

    /// Waits until something is ready or the time has come; says how many events there are.
    pub(super) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        self.set.wait(&mut self.events, timeout)?;
        Ok(self.events.len())
    }

    /// Polls for a while without sleeping, if that may pay, and no longer than `timeout`. True if something is ready.
    pub(super) fn spin(&mut self, timeout: Option<Duration>) -> bool {
        let Self { set, events, spin } = self;
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        spin.spin(deadline, || {
            // The next blocking wait returns the same error to the caller.
            set.wait(events, Some(Duration::ZERO)).is_ok() && events.len() > 0
        })
    }

    /// How many events there are.
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// The `index`th event of the last wait.
    pub(super) fn event(&self, index: usize) -> Option<(Token, Readiness)> {
        let (number, readiness) = self.events.nth(index)?;
        Some((Token::from_number(number), Readiness(readiness)))
    }
}

#[cfg(test)]
mod tests;
