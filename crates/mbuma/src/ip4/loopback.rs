//! Packets to ourselves: out of one protocol and into another without a device.
//!
//! Called by: [`output`](super::output), and [`Batch::finish`](crate::batch::Batch::finish), which drains
//! the queue when no lock is held: output runs under a connection's lock, input takes it.
//! Calls: [`input`].
//!
//! Invariants: whoever queues a packet has a batch, and that batch's end drains the queue, unless
//! another one did so before.
//! Locks: `queue` (IFQUEUE). Sources: RFC 1122 section 3.2.1.5 (packets to one's own addresses).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kern::{LockClass, Mutex, order};
use mbuf::{Csum, Mbufq, Packet};

use super::input;
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::ifnet::{IfIndex, Ifnet};
use crate::netisr::Arrival;

static QUEUE: LockClass = LockClass::new("loopback queue", order::IFQUEUE);

/// Packets that wait at most.
const QUEUE_MAX: usize = 4096;

/// The queue of packets to ourselves.
#[derive(Debug)]
pub(crate) struct Loopback {
    queue: Mutex<Mbufq>,
    /// Something may be queued. Set under the lock, read without it: who queues a packet sees its own
    /// flag when its batch ends, and that is enough. Relaxed: the lock orders the packets.
    waiting: AtomicBool,
}

impl Loopback {
    pub(super) fn new() -> Self {
        Self {
            queue: Mutex::new(&QUEUE, Mbufq::new()),
            waiting: AtomicBool::new(false),
        }
    }

    /// Queues an IP packet for the interface `iface`, which has its destination address.
    #[doc(alias = "if_simloop")]
    pub(super) fn enqueue(
        &self,
        mut packet: Packet,
        iface: IfIndex,
    ) -> Result<(), (Packet, DropReason)> {
        let meta = packet.header_mut();
        meta.iface = iface.0;
        meta.turn_round();
        meta.csum |= Csum::IP_VALID;
        let mut queue = self.queue.lock();
        if queue.len() >= QUEUE_MAX {
            drop(queue);
            return Err((packet, DropReason::TxQueueFull));
        }
        queue.enqueue(packet);
        self.waiting.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn take_all(&self) -> Mbufq {
        if !self.waiting.load(Ordering::Relaxed) {
            return Mbufq::new();
        }
        let mut queue = self.queue.lock();
        self.waiting.store(false, Ordering::Relaxed);
        queue.take_all()
    }
}

/// Takes in what was sent to ourselves. Says whether there was anything.
pub(crate) fn drain(batch: &mut Batch<'_>) -> bool {
    let packets = batch.stack.ip4.looped.take_all();
    let any = !packets.is_empty();
    // Mostly they are all one interface's, which is looked up once then.
    let mut last: Option<Arc<Ifnet>> = None;
    for packet in packets {
        batch.stack.received.inc();
        let index = IfIndex(packet.header().iface);
        if last
            .as_ref()
            .is_none_or(|ifp| ifp.index != index || ifp.is_detached())
        {
            last = batch.stack.interface(index);
        }
        match &last {
            Some(ifp) => input::run(batch, ifp, packet, Arrival::Loopback),
            None => batch.drop(packet, DropReason::NoInterface),
        }
    }
    any
}
