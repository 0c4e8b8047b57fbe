//! The frames that wait for one of an interface's devices.
//!
//! The queue, mutex and state of seed 003: a thread that finds the queue idle becomes the transmitter, and takes the whole
//! queue in O(1) until it is empty; all other threads only add.
//!
//! Locks: that of the queue (class IFQUEUE).

use std::sync::Arc;

use kern::prim::Mutex;
use kern::{LockClass, Time, order};
use mbuf::{Mbufq, Packet};

use super::Ifnet;
use crate::device::Device;

/// Frames that wait for the device at most.
const TX_QUEUE_MAX: usize = 4096;

static QUEUE: LockClass = LockClass::new("interface queue", order::IFQUEUE);

/// The result of queueing a frame. After [`Enqueued::Transmit`] the caller must transmit: no other thread will.
#[must_use]
pub(crate) enum Enqueued {
    /// The present transmitter sends it.
    Queued,
    /// The caller is the transmitter of this queue.
    Transmit(usize),
    /// There is no room.
    Full(Packet),
}

/// One of an interface's devices, with the frames that wait for it.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) device: Arc<dyn Device>,
    tx: Mutex<TxQueue>,
}

impl Queue {
    pub(super) fn new(device: Arc<dyn Device>) -> Self {
        Self {
            device,
            tx: Mutex::new(&QUEUE, TxQueue::default()),
        }
    }

    /// Whether the device has frames of its own to pass on at `now`.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.device.next_deadline().is_some_and(|at| at <= now)
    }

    /// Makes the caller the transmitter; false if another thread is.
    pub(crate) fn begin(&self) -> bool {
        !std::mem::replace(&mut self.tx.lock().running, true)
    }

    /// Takes all frames that wait. If none wait, the caller stops being the transmitter, unless it `goes_on` anyway.
    pub(crate) fn next(&self, goes_on: bool) -> Option<Mbufq> {
        let mut queue = self.tx.lock();
        if queue.waiting.is_empty() && !goes_on {
            queue.running = false;
            return None;
        }
        Some(queue.waiting.take_all())
    }

    /// Planted fault: the transmitter stops without another check of the queue.
    pub(crate) fn planted_stop(&self) {
        self.tx.lock().running = false;
    }
}

#[derive(Debug, Default)]
struct TxQueue {
    waiting: Mbufq,
    /// A thread transmits, and will check the queue again before it stops.
    running: bool,
}

impl Ifnet {
    /// Queues a complete frame that a thread of CPU `cpu` sends.
    pub(crate) fn enqueue(&self, cpu: usize, frame: Packet) -> Enqueued {
        let number = self.queue_of(cpu, &frame);
        let mut queue = self.queues[number].tx.lock();
        if queue.waiting.len() >= TX_QUEUE_MAX {
            return Enqueued::Full(frame);
        }
        queue.waiting.enqueue(frame);
        match std::mem::replace(&mut queue.running, true) {
            true => Enqueued::Queued,
            false => Enqueued::Transmit(number),
        }
    }

    /// A flow stays on one of the device's queues; a packet without a flow takes the queue of the sending CPU.
    fn queue_of(&self, cpu: usize, frame: &Packet) -> usize {
        match (self.queues.len(), frame.header().flow) {
            (1, _) => 0,
            (n, 0) => cpu % n,
            (n, flow) => flow as usize % n,
        }
    }

    /// The queues whose devices are due.
    pub(crate) fn due_queues(&self, now: Time) -> impl Iterator<Item = usize> {
        let queues = self.queues.iter().enumerate();
        let due = queues.filter(move |(_, queue)| queue.is_due(now));
        due.map(|(number, _)| number)
    }
}
