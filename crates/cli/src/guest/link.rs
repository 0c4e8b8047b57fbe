//! The wire between the guest and the stack.
//!
//! Locks: none.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;

/// The source and destination of the guest's frames, without blocking.
#[derive(Debug)]
pub(crate) enum GuestLink {
    /// A TAP: a descriptor a queue, at least one. Keeps the guest's network alive.
    Taps(Vec<OwnedFd>),
    /// Virtual machines, which connect to this one after the other.
    Machines(UnixListener),
    /// The same, with frames in memory that they share (vhost-user).
    SharedMemory(UnixListener),
    /// Guests of a network, whose TAPs come later.
    Network,
}

impl GuestLink {
    /// The number of threads that can take frames from it at once.
    pub(crate) fn queues(&self) -> usize {
        match self {
            GuestLink::Taps(taps) => taps.len(),
            GuestLink::Machines(_) | GuestLink::SharedMemory(_) | GuestLink::Network => 1,
        }
    }

    /// Its descriptors.
    pub(crate) fn fds(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            GuestLink::Taps(taps) => taps.iter().map(AsFd::as_fd).collect(),
            GuestLink::Machines(listener) | GuestLink::SharedMemory(listener) => {
                vec![listener.as_fd()]
            }
            GuestLink::Network => Vec::new(),
        }
    }
}
