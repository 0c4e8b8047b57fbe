//! A network namespace with an interface of mbuma, and its end.
//!
//! Locks: none.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::name::NamedNetwork;
use crate::sys::fd;
use crate::sys::process::Pidfd;

/// The namespace of a process, or one that has a name.
pub(crate) struct HeldNetwork {
    process: Option<Pidfd>,
    name: Option<NamedNetwork>,
}

impl HeldNetwork {
    pub(super) fn new(process: Option<Pidfd>, name: Option<NamedNetwork>) -> HeldNetwork {
        HeldNetwork { process, name }
    }

    /// Descriptors that become readable when it may have ended.
    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let name = self.name.as_ref().map(AsFd::as_fd);
        name.into_iter()
            .chain(self.process.as_ref().map(AsFd::as_fd))
    }

    /// Whether its process has ended, or its name was removed.
    pub(crate) fn has_ended(&mut self) -> bool {
        let process = self.process.as_ref().map(AsFd::as_fd);
        let polled = fd::poll(process.as_slice(), Some(Duration::ZERO));
        let ended = polled.is_ok_and(|polled| polled.contains(&true));
        ended || self.name.as_mut().is_some_and(|name| name.is_gone())
    }
}
