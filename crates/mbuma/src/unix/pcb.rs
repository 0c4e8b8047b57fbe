//! A UNIX-domain socket: its kind, and its count of handles.
//!
//! A socket is open as long as it has a handle, or is in flight and can still be received. `handles` counts the
//! handles; [`flight`](super::flight) has the sockets in flight. An [`Arc`] of [`Unpcb`] only keeps the memory.
//!
//! | holder | counted by | given up by |
//! |---|---|---|
//! | a program, by a [`Handle`] | `handles` | its drop |
//! | a message that was not received yet | the graph of sockets in flight | receiving it; the buffer's end |
//! | a listener, before `accept` | the same | `accept`; the listener's end |
//!
//! Locks: none of its own.

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use kern::prim::{AtomicBool, AtomicUsize, Ordering};

use super::close;
use super::connection::UnixConnection;
use super::endpoint::Endpoint;
use super::listener::Listening;
use super::state::UnixState;
use crate::config::Credentials;

/// A socket.
#[doc(alias = "unpcb")]
pub(crate) struct Unpcb {
    /// Unique in its stack.
    pub(super) id: u64,
    pub(super) unix: Arc<UnixState>,
    /// The credentials of its maker.
    pub(super) credentials: Credentials,
    pub(super) role: Role,
    /// Leaves zero only under the flight's lock.
    handles: AtomicUsize,
    /// It was in flight once. Otherwise only the thread that drops the last handle decides about its end. Set with a
    /// handle held (or before there is one); the drop of that handle publishes it.
    passed: AtomicBool,
    /// Set once, by the thread that closes it.
    closed: AtomicBool,
}

// As the state of a stack.
impl UnwindSafe for Unpcb {}
impl RefUnwindSafe for Unpcb {}

/// The kind of a socket, with its state.
pub(super) enum Role {
    Stream(UnixConnection),
    Seqpacket(UnixConnection),
    Datagram(Endpoint),
    Listener(Listening),
    SeqpacketListener(Listening),
}

impl Unpcb {
    /// A socket without a handle. `id` is from [`UnixState::next_id`].
    pub(super) fn new(
        unix: &Arc<UnixState>,
        id: u64,
        credentials: Credentials,
        role: Role,
    ) -> Arc<Self> {
        unix.opened();
        Arc::new(Self {
            id,
            unix: Arc::clone(unix),
            credentials,
            role,
            handles: AtomicUsize::new(0),
            passed: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        })
    }

    pub(super) fn has_handles(&self) -> bool {
        // Acquire: a thread that reads zero sees everything that the last holder did.
        self.handles.load(Ordering::Acquire) > 0
    }

    pub(super) fn mark_passed(&self) {
        self.passed.store(true, Ordering::Release);
    }

    /// Marks it as closed; whether it was before.
    pub(super) fn mark_closed(&self) -> bool {
        self.closed.swap(true, Ordering::AcqRel)
    }
}

impl Drop for Unpcb {
    fn drop(&mut self) {
        self.unix.ended();
    }
}

/// A program's hold on a socket: the socket closes with its last handle, unless it is in flight.
pub(super) struct Handle(Arc<Unpcb>);

impl Handle {
    /// Makes one more handle. The caller has a handle already, or the only reference to the socket, or takes the socket
    /// out of flight under the flight's lock.
    pub(super) fn new(pcb: &Arc<Unpcb>) -> Self {
        // Relaxed: a thread gets the handle through something that synchronises.
        pcb.handles.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(pcb))
    }

    pub(super) fn pcb(&self) -> &Arc<Unpcb> {
        &self.0
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        Self::new(&self.0)
    }
}

impl Drop for Handle {
    #[doc(alias = "sorele")]
    fn drop(&mut self) {
        let pcb = &self.0;
        // Each drop releases, and the last one acquires: so the last one sees all changes to the socket, and whether it
        // ever was in flight.
        if pcb.handles.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let dead = match pcb.passed.load(Ordering::Acquire) {
            true => pcb.unix.flight.released(pcb),
            false => vec![Arc::clone(pcb)],
        };
        // A thread that holds Giant may drop a handle.
        pcb.unix.giant.without(|| close::run(dead));
    }
}
