//! Listeners, and the connections that were not accepted yet.
//!
//! Connecting makes both sides at once and puts the listener's side into its queue; the connecting side may write from
//! then on. If the queue is full, the connecting thread waits. Until a program accepts it, the queue holds the socket
//! as a buffer holds a socket in flight: a listener may itself be in flight in a connection of its own queue, and then
//! neither can be received.
//!
//! Locks: `queue` (UNIX_RCV), inside of the flight's lock where a connection goes in.
//! Source: sonewconn() and so_comp of 4.4BSD.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use kern::{Giant, LockClass, order};

use super::connection::{not_ready, ready_if};
use super::error::UnixError;
use super::lock::Lock;
use super::name::Name;
use super::pcb::{Handle, Role, Unpcb};
use super::seqpacket::UnixSeqpacket;
use super::stream::UnixStream;
use crate::park::{Wait, retry};
use crate::waiters::{WaiterSet, Want};

static QUEUE: LockClass = LockClass::new("unix accept queue", order::UNIX_RCV);

/// A listener's state.
pub(super) struct Listening {
    pub(super) name: Name,
    backlog: usize,
    queue: Lock<Backlog>,
}

#[derive(Default)]
struct Backlog {
    ready: VecDeque<Arc<Unpcb>>,
    closed: bool,
    /// Threads that wait to accept, and threads that wait for a place in the queue.
    waiters: WaiterSet,
}

impl Listening {
    pub(super) fn new(giant: &Arc<Giant>, name: Name, backlog: usize) -> Self {
        Self {
            name,
            backlog: backlog.max(1),
            queue: Lock::new(giant, &QUEUE, Backlog::default()),
        }
    }

    /// Queues the listener's side of a connection, waiting for a place if that is allowed.
    ///
    /// # Errors
    /// `Refused` if the listener has gone; `WouldBlock`; `TimedOut`.
    #[doc(alias = "sonewconn")]
    pub(super) fn enqueue(
        &self,
        listener: &Unpcb,
        embryo: &Arc<Unpcb>,
        wait: Wait,
    ) -> Result<(), UnixError> {
        let queued = retry(wait, |waiter| self.try_enqueue(listener, embryo, waiter));
        queued.unwrap_or(Err(not_ready(wait)))
    }

    fn try_enqueue(
        &self,
        listener: &Unpcb,
        embryo: &Arc<Unpcb>,
        waiter: Option<&Waker>,
    ) -> Poll<Result<(), UnixError>> {
        let mut graph = listener.unix.flight.lock();
        let mut q = self.queue.lock();
        if q.closed {
            return Poll::Ready(Err(UnixError::Refused));
        }
        if q.ready.len() >= self.backlog {
            if let Some(waiter) = waiter {
                q.waiters.add(Want::Write, waiter);
            }
            return Poll::Pending;
        }
        graph.load(embryo, listener.id);
        q.ready.push_back(Arc::clone(embryo));
        // Several threads may wait to accept, so all are woken.
        let wakes = q.waiters.take(Want::Read);
        drop(q);
        drop(graph);
        self.queue.outward(|| wakes.wake());
        Poll::Ready(Ok(()))
    }

    /// Takes the oldest connection: its socket leaves flight and gets a handle.
    #[doc(alias = "soaccept")]
    fn accept(&self, listener: &Unpcb, wait: Wait) -> Result<Handle, UnixError> {
        let accepted = retry(wait, |waiter| {
            let handle = self.try_accept(listener, waiter);
            handle.map_or(Poll::Pending, Poll::Ready)
        });
        accepted.ok_or(not_ready(wait))
    }

    fn try_accept(&self, listener: &Unpcb, waiter: Option<&Waker>) -> Option<Handle> {
        let mut q = self.queue.lock();
        let Some(pcb) = q.ready.pop_front() else {
            if let Some(waiter) = waiter {
                q.waiters.add(Want::Read, waiter);
            }
            return None;
        };
        let wakes = q.waiters.take(Want::Write);
        drop(q);
        // The caller has a handle of the listener, so its connections do not count as dead meanwhile.
        let mut graph = listener.unix.flight.lock();
        graph.unload(&pcb, listener.id);
        let handle = Handle::new(&pcb);
        drop(graph);
        if let Role::Stream(connection) | Role::Seqpacket(connection) = &pcb.role {
            connection.mark_accepted();
        }
        self.queue.outward(|| wakes.wake());
        Some(handle)
    }

    /// Whether there is a connection; if there is none, the next one wakes `waiter`.
    fn is_ready(&self, waiter: Option<&Waker>) -> bool {
        let mut q = self.queue.lock();
        let ready = !q.ready.is_empty();
        if let (false, Some(waiter)) = (ready, waiter) {
            q.waiters.add(Want::Read, waiter);
        }
        ready
    }

    fn set_waker(&self, waker: Option<Waker>) {
        let mut q = self.queue.lock();
        let now = (!q.ready.is_empty()).then(|| waker.clone()).flatten();
        let old = q.waiters.keep(Want::Read, waker);
        drop(q);
        drop(old);
        self.queue.outward(|| now.into_iter().for_each(Waker::wake));
    }

    /// Closes the listener; returns the connections that were not accepted.
    pub(super) fn close(&self) -> Vec<Arc<Unpcb>> {
        let mut q = self.queue.lock();
        q.closed = true;
        let orphans = std::mem::take(&mut q.ready);
        let old = q.waiters.keep(Want::Read, None);
        let wakes = q.waiters.take_all();
        drop(q);
        drop(old);
        self.queue.outward(|| wakes.wake());
        orphans.into()
    }
}

macro_rules! listener {
    ($(#[$doc:meta])* $name:ident accepts $socket:ident as $role:ident) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $name(pub(super) Handle);

        impl $name {
            fn listening(&self) -> &Listening {
                match &self.0.pcb().role {
                    Role::$role(listening) => listening,
                    _ => unreachable!("a listener is made of nothing else"),
                }
            }

            /// The next connection.
            ///
            /// # Errors
            /// `WouldBlock` if there is none.
            pub fn accept(&self) -> Result<$socket, UnixError> {
                let accepted = self.listening().accept(self.0.pcb(), Wait::No);
                accepted.map($socket)
            }

            /// The next connection, waiting for one.
            ///
            /// # Errors
            /// `TimedOut` when the time is over.
            pub fn accept_blocking(&self, timeout: Option<Duration>) -> Result<$socket, UnixError> {
                let wait = Wait::Yes(timeout);
                let accepted = self.listening().accept(self.0.pcb(), wait);
                accepted.map($socket)
            }

            /// Ready when there is a connection; the task is woken then.
            pub fn poll_acceptable(&self, cx: &Context<'_>) -> Poll<()> {
                ready_if(self.listening().is_ready(Some(cx.waker())))
            }

            /// Sets the waker for a connection; it is called at once if one is there now. It stays until replaced.
            pub fn set_waker(&self, waker: Option<Waker>) {
                self.listening().set_waker(waker);
            }

            /// Its name.
            #[doc(alias = "getsockname")]
            pub fn local_name(&self) -> &Name {
                &self.listening().name
            }
        }

        kern::impl_debug!($name |this| id: this.0.pcb().id, name: this.local_name());
    };
}

listener! {
    /// Waits for streams to its name. Clones are handles on the same socket; the last one to go frees the
    /// name, and resets the connections that were not accepted.
    UnixListener accepts UnixStream as Listener
}

listener! {
    /// Waits for connections of sequenced packets to its name. Otherwise as [`UnixListener`].
    UnixSeqpacketListener accepts UnixSeqpacket as SeqpacketListener
}
