//! The packets of one protocol that wait for one CPU: netisr(9)'s workstream.
//!
//! A [`WorkQueue`], whose receiver is the CPU's worker: a thread that puts packets there kicks the CPU, or handles them
//! in its place. Its head has the protocol, and the argument that no packet is forgotten or overtaken.
//!
//! Locks: the queue's (class IFQUEUE, so that a connection may be held). `models/netisr.rs` runs workstreams, queues
//! and batches, and mistakes in them, in many random orders. Sources: netisr(9)'s workstreams, seed 003's state
//! machine.

use std::sync::Arc;

use kern::prim::{AtomicU64, AtomicUsize, Ordering};
use kern::work_queue::{Handler, Items, PutOutcome};
use kern::{LockClass, WorkQueue, order};

static QUEUE: LockClass = LockClass::new("netisr queue", order::IFQUEUE);

/// A CPU's queue, on cache lines of its own, so that CPUs that exchange no packets share no line.
#[repr(align(128))]
pub(crate) struct Workstream<Q> {
    pub(crate) queue: WorkQueue<Q>,
    /// Packets that another CPU queued for this one. Relaxed: a count.
    pub(crate) moved: AtomicU64,
}

impl<Q: Items> Workstream<Q> {
    /// An idle queue of at most `max` packets. `active` counts the protocol's queues that are not idle.
    pub(crate) fn new(max: usize, active: Arc<AtomicUsize>) -> Self {
        Self {
            queue: WorkQueue::fixed(&QUEUE, max, active),
            moved: AtomicU64::new(0),
        }
    }

    /// Queues the packets that fit. `from_another`: a CPU other than this queue's brought them in, so their CPU changes
    /// unless the caller handles them.
    pub(crate) fn put(&self, packets: &mut Q, from_another: bool, by: Handler) -> PutOutcome {
        let before = packets.len();
        let put = self.queue.put(packets, by);
        let queued = before - packets.len();
        if from_another && queued > 0 && !matches!(put, PutOutcome::Owned) {
            self.moved.fetch_add(queued as u64, Ordering::Relaxed);
        }
        put
    }
}
