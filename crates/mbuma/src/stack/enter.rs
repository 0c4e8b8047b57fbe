//! Entries into a stack: a batch and its end, Giant without a batch, a protocol's input.
//!
//! The end of a batch, in this order, until nothing is left: deferred work, packets that were queued, transmits; then,
//! without Giant, CPUs and wakers.
//!
//! Locks: Giant, if that is over the stack.

use kern::{Giant, GiantGuard};

use crate::batch::Batch;
use crate::config::Protocol;
use crate::dispatch;
use crate::ether::transmit;
use crate::state::StackState;

/// Rounds of packets to ourselves after which pending transmits and wakeups are done anyway.
const ROUNDS_MAX: usize = 64;

impl StackState {
    /// Runs `f` as one batch and does the deferred work after it.
    #[track_caller]
    pub(crate) fn enter<R>(&self, f: impl FnOnce(&mut Batch<'_>) -> R) -> R {
        // First, so that the batch has the time at which it has Giant.
        let giant = self.config.giant.enter();
        // Not moved: copying it would often cost more than the work done in it.
        let mut batch = Batch::new(self);
        let result = f(&mut batch);
        finish(&mut batch);
        drop(giant);
        wake(&mut batch);
        result
    }

    /// For a call that needs no batch: it is under Giant as long as the guard lives, if that is over the stack.
    #[track_caller]
    pub(crate) fn enter_giant(&self) -> GiantGuard<'_> {
        self.config.giant.enter()
    }

    /// Giant, for [locks](kern::Guarded) that a call takes without a batch.
    #[inline]
    pub(crate) fn giant(&self) -> &Giant {
        &self.config.giant
    }

    /// A protocol's input: under Giant as long as the guard lives, if it needs that.
    #[track_caller]
    pub(crate) fn enter_protocol(&self, protocol: Protocol) -> GiantGuard<'_> {
        let component = self.components.protocol(protocol);
        self.config.giant.enter_component(component)
    }
}

/// Does all deferred work but wakeups. That may queue frames, and packets to ourselves may defer more work: so it repeats until
/// nothing is left.
fn finish(batch: &mut Batch<'_>) {
    for round in 1_usize.. {
        while let Some(work) = batch.deferred.pop() {
            work.run(batch);
        }
        if dispatch::settle(batch) {
            // Other threads may add packets to ourselves for ever: frames and wakeups must not wait for the last one.
            if round.is_multiple_of(ROUNDS_MAX) {
                while transmit(batch) {}
                wake(batch);
            }
        } else if !transmit(batch) {
            break;
        }
    }
    let counts = &batch.netisr.at_once;
    batch.stack.netisr.count(batch.cpu.index, counts);
}

/// Tells one interface to transmit; false if none has to be told.
fn transmit(batch: &mut Batch<'_>) -> bool {
    let Some((ifp, queue)) = batch.transmits.pop() else {
        return false;
    };
    transmit::run(batch, &ifp, queue);
    true
}

/// Wakes CPUs and calls the collected wakers, without Giant.
fn wake(batch: &mut Batch<'_>) {
    let (stack, kicks, wakes) = (batch.stack, &mut batch.kicks, &mut batch.wakes);
    if kicks.is_empty() && wakes.is_empty() {
        return;
    }
    stack.config.giant.without(|| {
        kicks.drain(..).for_each(|cpu| stack.wake_cpu(cpu));
        while let Some(wakes) = wakes.pop() {
            wakes.wake();
        }
    });
}
