//! A receive queue of an interface, for the thread that takes in its packets.
//!
//! The device is called with no lock held but Giant; ether/input runs inside of a [`Batch`](crate::batch::Batch).
//!
//! A thread that polls repeatedly keeps an [`RxQueue`]: for a small packet, looking the interface up and counting a
//! reference costs more than its frame does.
//!
//! Invariant: once the interface is detached, its [`RxQueue`]s return only errors, because its index is never used
//! again. Locks: none here.

use std::io;
use std::sync::Arc;

use mbuf::{Mbufq, Packet};

use crate::device::Budget;
use crate::drops::DropReason;
use crate::ether;
use crate::ifnet::{IfIndex, Ifnet, is_set_anew};
use crate::stack::Stack;
use crate::state::StackState;

/// One of an interface's receive queues, which may be polled from any thread.
///
/// This keeps the device alive, with its descriptor and its receive buffers, also after [`Stack::detach`]. So a program
/// must drop it once a poll fails, or before it waits for the end of the device.
#[derive(Clone)]
pub struct RxQueue {
    stack: Arc<StackState>,
    ifp: Arc<Ifnet>,
    /// The index in `ifp.queues`, which has this many.
    queue: usize,
}

impl RxQueue {
    /// Takes in received frames, within `budget`, and runs them through the stack. Returns whether more may be waiting.
    ///
    /// # Errors
    /// The device is broken, or the interface is gone: no more frames will come.
    pub fn poll(&self, budget: Budget) -> io::Result<bool> {
        poll(&self.stack, &self.ifp, self.queue, budget)
    }
}

/// Polls a queue, which the interface must have.
fn poll(stack: &StackState, ifp: &Arc<Ifnet>, queue: usize, budget: Budget) -> io::Result<bool> {
    if ifp.is_detached() {
        return Err(not_found("no such interface any more"));
    }
    let device = &*ifp.queues[queue].device;
    let mut frames = Mbufq::new();
    let before = device.next_deadline();
    let more = stack.outward(ifp, || device.receive(&mut frames, budget));
    if is_set_anew(device.next_deadline(), before) {
        stack.wake_for_shared_timer();
    }
    // A repeated poll mostly finds nothing, and then needs no entry.
    if !frames.is_empty() {
        stack.enter(|batch| ether::lro::run(batch, ifp, frames));
    }
    for (reason, n) in stack.outward(ifp, || device.take_drops()) {
        if !reason.is_outward() {
            stack.received.add(n);
        }
        stack.drops.add(reason, n);
    }
    more
}

/// The methods for a runtime, which keeps queues.
impl RxQueue {
    /// The queue of this number, if the interface has it.
    pub(crate) fn new(stack: &Arc<StackState>, ifp: &Arc<Ifnet>, queue: usize) -> Self {
        let (stack, ifp) = (Arc::clone(stack), Arc::clone(ifp));
        Self { stack, ifp, queue }
    }

    /// Its number among the interface's queues.
    pub(crate) fn number(&self) -> usize {
        self.queue
    }

    pub(crate) fn is_of(&self, stack: &Stack) -> bool {
        Arc::ptr_eq(&self.stack, &stack.0)
    }

    pub(crate) fn is_interface(&self, index: IfIndex) -> bool {
        self.ifp.index == index
    }
}

kern::impl_debug!(RxQueue |this| interface: this.ifp.name, queue: this.queue);

fn not_found(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, what)
}

impl Stack {
    /// Takes in frames that the device received, within `budget`, and runs them through the stack. Returns whether more
    /// may be waiting.
    ///
    /// # Errors
    /// The device is gone or broken, or there is no such interface.
    pub fn poll_interface(&self, index: IfIndex, budget: Budget) -> io::Result<bool> {
        self.poll_queue(index, 0, budget)
    }

    /// As [`Stack::poll_interface`], for one of several queues, each of which may be polled by another thread.
    ///
    /// # Errors
    /// As [`Stack::poll_interface`], or there is no such queue.
    pub fn poll_queue(&self, index: IfIndex, queue: usize, budget: Budget) -> io::Result<bool> {
        let ifp = self.interface_of(index, queue)?;
        poll(&self.0, &ifp, queue, budget)
    }

    /// A queue of an interface, for a thread that polls it repeatedly: [`RxQueue::poll`] needs no look-up.
    ///
    /// # Errors
    /// There is no such interface, or it has no such queue.
    pub fn rx_queue(&self, index: IfIndex, queue: usize) -> io::Result<RxQueue> {
        let ifp = self.interface_of(index, queue)?;
        Ok(RxQueue::new(&self.0, &ifp, queue))
    }

    /// The interface, if it has this queue.
    fn interface_of(&self, index: IfIndex, queue: usize) -> io::Result<Arc<Ifnet>> {
        let ifp = self.0.interface(index);
        let ifp = ifp.ok_or_else(|| not_found("no such interface"))?;
        if queue >= ifp.queues.len() {
            return Err(not_found("no such queue"));
        }
        Ok(ifp)
    }

    /// Takes in one frame as if `index` had received it, for devices that push instead of being polled, and for tests.
    pub fn input(&self, index: IfIndex, frame: Packet) {
        let Some(ifp) = self.0.interface(index) else {
            self.0.received.inc();
            return self.0.drops.count(DropReason::NoInterface);
        };
        self.0.enter(|batch| ether::input::run(batch, &ifp, frame));
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
