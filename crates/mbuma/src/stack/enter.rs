//! Entries into a stack: a batch and its end, Giant without a batch, and the input of a protocol.
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

/// Rounds of packets from this stack to itself after which pending transmits and wakeups are done anyway.
const ROUNDS_MAX: usize = 64;

impl StackState {
    /// Runs `f` as one batch and does the deferred work after it.
    #[track_caller]
    pub(crate) fn enter<R>(&self, f: impl FnOnce(&mut Batch<'_>) -> R) -> R {
        // Giant first, so that the batch's time is not before the wait for Giant.
        let giant = self.config.giant.enter();
        // The batch is not moved, because copying it would often cost more than its work.
        let mut batch = Batch::new(self);
        let result = f(&mut batch);
        finish(&mut batch);
        drop(giant);
        wake(&mut batch);
        result
    }

    /// Takes Giant, if it is over the stack, for a call that needs no batch. The guard's drop releases it.
    #[track_caller]
    pub(crate) fn enter_giant(&self) -> GiantGuard<'_> {
        self.config.giant.enter()
    }

    /// Giant, for [locks](kern::Guarded) that a call takes without a batch.
    #[inline]
    pub(crate) fn giant(&self) -> &Giant {
        &self.config.giant
    }

    /// Takes Giant for a protocol's input, if that needs it. The guard's drop releases it.
    #[track_caller]
    pub(crate) fn enter_protocol(&self, protocol: Protocol) -> GiantGuard<'_> {
        let component = self.components.protocol(protocol);
        self.config.giant.enter_component(component)
    }
}

/// Does all deferred work except wakeups. The work may queue frames, and packets to this stack itself may defer more
/// work, so this repeats until none is left.
fn finish(batch: &mut Batch<'_>) {
    for round in 1_usize.. {
        while let Some(work) = batch.deferred.pop() {
            work.run(batch);
        }
        if dispatch::settle(batch) {
            // Other threads may add such packets for ever, and frames and wakeups must not wait for the last one.
            if round.is_multiple_of(ROUNDS_MAX) {
                flush(batch);
            }
        } else if let Some(frames) = batch.transmits.pop() {
            transmit::run(batch, frames);
        } else {
            break;
        }
    }
}

/// Does the transmits and wakeups of a batch that goes on.
#[cold]
fn flush(batch: &mut Batch<'_>) {
    while let Some(frames) = batch.transmits.pop() {
        transmit::run(batch, frames);
    }
    wake(batch);
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
