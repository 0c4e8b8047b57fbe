//! The begin and the end of the service: the monitor's interface to `run` and `attach`, and the gateway's to the
//! monitor.
//!
//! Locks: none.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use crate::errors::Error;
use crate::guests::{GuestChange, GuestId, NetworkRequest};
use crate::namespace_agent::NamespaceAgent;
use crate::ports::PortChange;

/// Decides when to begin and to stop, and reports changes in between.
pub(crate) trait Lifecycle {
    /// Called once, when the stack answers and every published port is bound: releases COMMAND, or notifies the
    /// container engine.
    ///
    /// # Errors
    /// COMMAND can't be executed: the caller must return the error, because nothing is left to serve.
    fn up(&mut self) -> Result<(), Error>;

    /// Descriptors to watch beside the stack's own, the same ones for as long as this lives. Any
    /// event on any of them, hang-up included, means [`Lifecycle::check`].
    fn fds(&self) -> Vec<BorrowedFd<'_>>;

    /// Lets a process that outlives this one, if there is one, hold a descriptor too.
    fn hold(&self, _fd: BorrowedFd<'_>) {}

    /// Handles events: passes signals on, reaps ended processes. Never blocks, and may be
    /// called when nothing happened, or after the guest's end.
    fn check(&mut self) -> Result<GuestState, Error>;

    /// Called a few times a second while the last data of a guest that has ended are delivered.
    fn lingers(&mut self) {}

    /// Changes that [`Lifecycle::check`] has read since the last call: each must be answered.
    fn take_changes(&mut self) -> Vec<ServiceChange> {
        Vec::new()
    }

    /// Says that the next of these changes is made, or why it is not.
    fn report(&mut self, _made: io::Result<()>) {}

    /// The process in the guest's namespaces, if there is one: from then on the monitor asks it.
    fn take_agent(&mut self) -> Option<NamespaceAgent> {
        None
    }

    /// Requests to the monitor that [`Lifecycle::check`] has collected since the last call.
    fn take_requests(&mut self) -> Vec<NetworkRequest> {
        Vec::new()
    }

    /// The request of this guest was fulfilled, or was `refused` for this reason.
    fn tell_guest(&mut self, _guest: GuestId, _refused: Option<String>) {}
}

/// A change while a guest is served.
#[derive(Debug)]
pub(crate) enum ServiceChange {
    /// Of published ports.
    Port(PortChange),
    /// Of the guests of a network.
    Guest(GuestChange),
    /// The host's resolv.conf names these from now on.
    NameServers(Vec<SocketAddr>),
    /// One that was lost on its way.
    Lost(io::Error),
}

/// Whether to keep serving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum GuestState {
    /// Keep serving.
    Running,
    /// The guest has ended. The TAP still reaches its kernel, which may hold bytes to deliver.
    Ended,
    /// A signal asked mbuma to end: at once.
    StopRequested,
}
