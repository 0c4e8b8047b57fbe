//! One entry into the stack: its time, the connections and interfaces that it touched, the wakers to call.
//!
//! Every public operation and every batch of frames runs inside of a [`Batch`]. It collects
//! work that would hold a lock over a call outwards, and does it at the end, without any lock but Giant:
//!
//! 1. [`Deferred`] work runs: a connection that input or a user touched gets one turn to send, so that one
//!    acknowledgement answers a batch of segments;
//! 2. the batch hands over packets for other CPUs, and handles packets from this stack to itself, unless another thread
//!    does;
//! 3. interfaces with queued frames transmit;
//! 4. the batch wakes CPUs that it gave work to, and calls the wakers of sockets that became ready.
//!
//! `StackState::enter` makes a batch and ends it. Locks: if Giant is over the stack, the batch holds it from its
//! beginning until step 4, except while it calls MP-safe devices.

use std::sync::Arc;

use kern::giant::Component;
use kern::{Cpu, Time};
use mbuf::{Mbufq, Packet};

use crate::drops::DropReason;
use crate::ifnet::Ifnet;
use crate::netisr;
use crate::one_or_many::OneOrMany;
use crate::state::StackState;
use crate::waiters::Wakes;

/// Work that a batch puts off to its end, and runs there with no lock held but, at most, Giant: a connection's turn to
/// send. It may defer more work, transmit and wake; the batch does all of that before it ends.
pub(crate) trait Deferred: Send + Sync {
    fn run(self: Arc<Self>, batch: &mut Batch<'_>);
}

/// Frames for a queue of an interface, of which the batch is the transmitter.
pub(crate) struct Transmit {
    pub(crate) ifp: Arc<Ifnet>,
    pub(crate) queue: usize,
    pub(crate) frames: Mbufq,
}

/// The work of one entry into the stack.
pub(crate) struct Batch<'s> {
    pub(crate) stack: &'s StackState,
    /// The time of the entry. A segment has the time of its arrival, not the time of its connection's turn.
    pub(crate) now: Time,
    /// Which of the stack's CPUs it runs on.
    pub(crate) cpu: Cpu,
    pub(crate) deferred: OneOrMany<Arc<dyn Deferred>>,
    pub(crate) transmits: OneOrMany<Transmit>,
    pub(crate) wakes: OneOrMany<Wakes>,
    /// CPUs that this batch gave work to, and that are not the caller.
    pub(crate) kicks: Vec<usize>,
    /// Packets for other CPUs, and workstreams that this batch owns.
    pub(crate) netisr: netisr::BatchQueues<Mbufq>,
}

impl<'s> Batch<'s> {
    pub(crate) fn new(stack: &'s StackState) -> Self {
        Self {
            stack,
            now: stack.clock.now(),
            cpu: stack.cpus.current(),
            deferred: OneOrMany::new(),
            transmits: OneOrMany::new(),
            wakes: OneOrMany::new(),
            kicks: Vec::new(),
            netisr: netisr::BatchQueues::default(),
        }
    }

    /// Ends a packet's life for a reason. Cold, so that the code of drops lies apart from that of packets that pass: a
    /// round trip executes more code than the first-level cache of instructions holds.
    #[cold]
    pub(crate) fn drop(&self, packet: Packet, reason: DropReason) {
        self.stack.drops.count(reason);
        drop(packet);
    }

    /// Ends the life of a packet that can't be sent, for a reason that its sender gets too.
    #[cold]
    pub(crate) fn refuse(&self, packet: Packet, reason: DropReason) -> Result<(), DropReason> {
        self.drop(packet, reason);
        Err(reason)
    }

    /// Counts a packet that reached its socket or protocol. Each received packet ends here or in
    /// [`Batch::drop`], once.
    pub(crate) fn delivered(&self) {
        self.stack.delivered.inc();
    }

    /// Runs `work` at the end of the batch.
    pub(crate) fn defer(&mut self, work: Arc<dyn Deferred>) {
        self.deferred.push(work);
    }

    /// This batch is the transmitter of a queue of the interface, and has these frames for it.
    pub(crate) fn transmit_later(&mut self, ifp: &Arc<Ifnet>, queue: usize, frames: Mbufq) {
        self.transmits.push(Transmit {
            ifp: Arc::clone(ifp),
            queue,
            frames,
        });
    }

    /// The frames of this batch for a queue of which it became the transmitter last.
    pub(crate) fn transmit_of(&mut self, ifp: &Arc<Ifnet>, queue: usize) -> Option<&mut Mbufq> {
        let last = self.transmits.last_mut()?;
        (Arc::ptr_eq(&last.ifp, ifp) && last.queue == queue).then_some(&mut last.frames)
    }

    /// Calls wakers at the end of the batch.
    pub(crate) fn wake(&mut self, wakes: Wakes) {
        if !wakes.is_empty() {
            self.wakes.push(wakes);
        }
    }

    /// CPU `cpu` has work: the batch wakes it at its end, unless the caller is that CPU and will see it.
    pub(crate) fn kick(&mut self, cpu: usize) {
        let own = self.cpu.is_own && self.cpu.index == cpu;
        if !own && !self.kicks.contains(&cpu) {
            self.kicks.push(cpu);
        }
    }

    /// A timer of CPU `cpu` was set that may be earlier than all others: the CPU must not sleep past it.
    pub(crate) fn wake_for_timer(&mut self, cpu: usize) {
        self.stack.quiet.end();
        self.kick(cpu);
    }

    /// Calls a device: without Giant, or under it if the device needs that.
    pub(crate) fn outward<R>(&mut self, device: &Component, call: impl FnOnce() -> R) -> R {
        self.stack.config.giant.call_outward(device, call)
    }
}
