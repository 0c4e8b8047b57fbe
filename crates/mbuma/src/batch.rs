//! One entry into the stack: when it began, the connections and interfaces it touched, the wakers to call.
//!
//! Every public operation and every batch of frames runs inside of a [`Batch`]. Work that would hold
//! a lock over a call outwards is collected here and done at the end, without any lock but Giant:
//!
//! 1. [`Deferred`] work runs: a connection that input or a user touched gets one turn to send, so that a batch of
//!    segments is answered by one acknowledgement;
//! 2. packets that were collected for other CPUs are handed over, and packets to ourselves handled, if
//!    no other thread does;
//! 3. interfaces with frames queued are told to transmit;
//! 4. CPUs that were given something to do, and the wakers of sockets that became ready, are called.
//!
//! Called by: [`Stack`](crate::Stack) and the sockets. Locks: Giant, if that is over the stack, which
//! [`StackState::enter`] has from before the beginning to step 4, but for MP-safe devices.

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

/// Rounds of packets to ourselves after which pending transmits and wakeups are done anyway.
const ROUNDS_MAX: usize = 64;

/// Work that is put off to the batch's end, and runs there with no lock held but, at most, Giant: a connection's turn to
/// send. It may defer more work, transmit and wake; each is done before the batch ends.
pub(crate) trait Deferred: Send + Sync {
    fn run(self: Arc<Self>, batch: &mut Batch<'_>);
}

/// The work of one entry into the stack.
pub(crate) struct Batch<'s> {
    pub(crate) stack: &'s StackState,
    /// The time of the entry. Segments are timed by their arrival, not by when their turn comes.
    pub(crate) now: Time,
    /// Which of the stack's CPUs it runs on.
    pub(crate) cpu: Cpu,
    deferred: OneOrMany<Arc<dyn Deferred>>,
    transmit: OneOrMany<(Arc<Ifnet>, usize)>,
    wakes: OneOrMany<Wakes>,
    /// CPUs that were given something to do, and are not the caller.
    kicked: Vec<usize>,
    /// Packets for other CPUs, and works that this batch owns.
    pub(crate) netisr: netisr::Outbox<Mbufq>,
}

impl<'s> Batch<'s> {
    pub(crate) fn new(stack: &'s StackState) -> Self {
        Self {
            stack,
            now: stack.clock.now(),
            cpu: stack.cpus.current(),
            deferred: OneOrMany::new(),
            transmit: OneOrMany::new(),
            wakes: OneOrMany::new(),
            kicked: Vec::new(),
            netisr: netisr::Outbox::default(),
        }
    }

    /// Ends a packet's life for a reason.
    pub(crate) fn drop(&self, packet: Packet, reason: DropReason) {
        self.stack.drops.count(reason);
        drop(packet);
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

    /// A queue of the interface has frames and this batch is the one to send them.
    pub(crate) fn transmit_later(&mut self, ifp: &Arc<Ifnet>, queue: usize) {
        self.transmit.push((Arc::clone(ifp), queue));
    }

    /// Calls wakers at the end of the batch.
    pub(crate) fn wake(&mut self, wakes: Wakes) {
        if !wakes.is_empty() {
            self.wakes.push(wakes);
        }
    }

    /// CPU `cpu` has something to do: it is woken at the end of the batch, unless the caller is that CPU
    /// and will see it.
    pub(crate) fn kick(&mut self, cpu: usize) {
        let own = self.cpu.is_own && self.cpu.index == cpu;
        if !own && !self.kicked.contains(&cpu) {
            self.kicked.push(cpu);
        }
    }

    /// Calls a device: without Giant, or under it if the device needs that.
    pub(crate) fn outward<R>(&mut self, device: &Component, call: impl FnOnce() -> R) -> R {
        self.stack.config.giant.call_outward(device, call)
    }

    /// Does what was put off, to step 3. Output may queue frames, and packets to ourselves may touch
    /// connections: round and round until nothing is left.
    pub(crate) fn finish(&mut self) {
        for round in 1_usize.. {
            self.run_deferred();
            if netisr::settle(self) {
                // Others may add packets to ourselves for ever: nothing else may wait for that.
                if round.is_multiple_of(ROUNDS_MAX) {
                    while self.transmit() {}
                    self.call();
                }
            } else if !self.transmit() {
                break;
            }
        }
        self.stack
            .netisr
            .count(self.cpu.index, &self.netisr.at_once);
    }

    /// Step 4: calls the collected wakers, without Giant.
    pub(crate) fn call(&mut self) {
        let (stack, kicked, wakes) = (self.stack, &mut self.kicked, &mut self.wakes);
        if kicked.is_empty() && wakes.is_empty() {
            return;
        }
        stack.config.giant.without(|| {
            kicked.drain(..).for_each(|cpu| stack.wake_cpu(cpu));
            while let Some(wakes) = wakes.pop() {
                wakes.wake();
            }
        });
    }

    /// Runs what was deferred.
    fn run_deferred(&mut self) {
        while let Some(work) = self.deferred.pop() {
            work.run(self);
        }
    }

    /// Tells one interface to transmit; false if none has to be told.
    fn transmit(&mut self) -> bool {
        let Some((ifp, queue)) = self.transmit.pop() else {
            return false;
        };
        ifp.transmit(self, queue);
        true
    }
}
