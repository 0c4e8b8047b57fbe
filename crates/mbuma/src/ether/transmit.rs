//! Frames from an interface's queue to its device.
//!
//! One thread a queue transmits ([`Queue::begin`](crate::ifnet::Queue::begin), [`Enqueued`](crate::ifnet::Enqueued)):
//! it sends all frames that wait, until none do.
//!
//! Locks: none held over a call of the device, but Giant, where the device needs that.

use std::sync::Arc;

use mbuf::Mbufq;

use crate::batch::{Batch, Transmit};
use crate::device::{Device, offload};
use crate::drops::DropReason;
use crate::faults::{StackFault, planted};
use crate::ifnet::{FrameCounts, Ifnet, is_set_anew};
use crate::state::SHARED_TIMERS_CPU;

/// Sends the batch's frames, and those that other threads queue meanwhile, until none wait.
#[doc(alias = "if_start")]
pub(crate) fn run(batch: &mut Batch<'_>, transmit: Transmit) {
    let Transmit {
        ifp,
        queue: number,
        mut frames,
    } = transmit;
    let queue = &ifp.queues[number];
    queue.take(&mut frames);
    loop {
        send(batch, &ifp, &*queue.device, &mut frames);
        if planted(StackFault::OneLook) {
            return queue.planted_stop();
        }
        match queue.next() {
            Some(more) => frames = more,
            None => return,
        }
    }
}

/// Transmits on the queues whose devices have frames of their own that are due.
pub(crate) fn run_due(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>) {
    for (number, queue) in ifp.queues.iter().enumerate() {
        // A thread that transmits at the moment sends them too.
        if queue.is_due(batch.now) && queue.begin() {
            batch.transmit_later(ifp, number, Mbufq::new());
        }
    }
}

/// Does the offloads that the device lacks, and gives it the frames.
fn send(batch: &mut Batch<'_>, ifp: &Ifnet, device: &dyn Device, frames: &mut Mbufq) {
    let mut ready = Mbufq::new();
    let caps = ifp.offloads();
    let mut given = FrameCounts::default();
    while let Some(frame) = frames.dequeue() {
        ifp.counters.output.record(frame.len());
        given.add(frame.len());
        if let Err(reason) = offload::prepare(&batch.stack.pool, frame, caps, &mut ready) {
            batch.stack.drops.count(reason);
            ifp.counters.output_dropped.inc();
        }
    }
    given.all = ready.len();
    if ifp.is_gone() {
        return drop_gone(batch, ifp, ready);
    }
    let before = device.next_deadline();
    let sent = batch.outward(&ifp.component, || device.transmit(&mut ready));
    if is_set_anew(device.next_deadline(), before) {
        batch.wake_for_timer(SHARED_TIMERS_CPU);
    }
    let Ok(refused) = sent else {
        ifp.mark_gone();
        return drop_gone(batch, ifp, ready);
    };
    if refused > 0 {
        let drops = &batch.stack.drops;
        drops.add(DropReason::DeviceError, refused as u64);
        ifp.counters.output_dropped.add(refused as u64);
    }
    // Frames that a full device does not take are lost, as on a wire: TCP retransmits them.
    let mut left = FrameCounts::default();
    if !ready.is_empty() {
        ifp.counters.output_dropped.add(ready.len() as u64);
    }
    ready.for_each(|p| {
        left.add(p.len());
        batch.drop(p, DropReason::DeviceError);
    });
    ifp.large_frames.note(batch.now, given, left, refused);
}

/// Drops frames of an interface that is gone.
#[cold]
fn drop_gone(batch: &Batch<'_>, ifp: &Ifnet, frames: Mbufq) {
    ifp.counters.output_dropped.add(frames.len() as u64);
    frames.for_each(|p| batch.drop(p, DropReason::InterfaceGone));
}
