//! A scheme as a device: packets go from one stack to another by way of it, as in an epair.
//!
//! Invariant: the task of an end polls its interface, and is queued again where the scheme says so.

use super::scheme::{Scheme, Sent};
use kern::{Task, Taskqueue};
use mbuf::{Mbufq, Packet};
use mbuma::device::{Budget, Capabilities, Device};
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

/// One direction.
pub(crate) struct Way<S> {
    scheme: S,
    /// The task that takes packets in from this side, once it exists.
    task: OnceLock<(Arc<Taskqueue>, Arc<Task>)>,
}

impl<S: Scheme<Packet>> Way<S> {
    pub(crate) fn new(size: usize) -> Arc<Self> {
        Arc::new(Self {
            scheme: S::new(size),
            task: OnceLock::new(),
        })
    }

    /// Sets the task that takes packets in; no packet may have been sent before.
    pub(crate) fn set_task(&self, queue: &Arc<Taskqueue>, task: Arc<Task>) {
        let _ = self.task.set((Arc::clone(queue), task));
    }

    fn schedule(&self) {
        if let Some((queue, task)) = self.task.get() {
            queue.enqueue(task);
        }
    }
}

/// An end.
pub(crate) struct SchemeDevice<S> {
    pub(crate) mtu: u16,
    pub(crate) inward: Arc<Way<S>>,
    pub(crate) outward: Arc<Way<S>>,
}

impl<S: Scheme<Packet>> Device for SchemeDevice<S> {
    fn capabilities(&self) -> Capabilities {
        Capabilities::whole(self.mtu)
    }

    fn receive(&self, rx: &mut Mbufq, _: Budget) -> io::Result<bool> {
        Ok(self.inward.scheme.run(&mut |packet| rx.enqueue(packet)))
    }

    fn transmit(&self, tx: &mut Mbufq) -> io::Result<usize> {
        let mut refused = 0;
        for mut packet in tx.by_ref() {
            packet.header_mut().turn_round();
            match self.outward.scheme.send(packet) {
                Sent::Queued => {}
                Sent::Schedule => self.outward.schedule(),
                Sent::Full(_) => refused += 1,
            }
        }
        Ok(refused)
    }
}

impl<S> fmt::Debug for SchemeDevice<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SchemeDevice").finish_non_exhaustive()
    }
}
