//! Pings to foreign addresses on an interface that answers for every address. A program gets them, and decides whether
//! the host is there.
//!
//! Locks: the queue (UDP).

use std::net::IpAddr;

use mbuf::{Chain, Packet};

use crate::batch::Batch;
use crate::drops::DropReason;
use crate::ifnet::IfIndex;
use crate::ip::Addressed;
use crate::sockbuf::{Ancillary, QueuedRecord, RecvSide};

/// Pings that wait for an interceptor at most.
const QUEUE_MAX: usize = 256;

/// A ping to a foreign address.
#[derive(Debug)]
pub struct Echo {
    /// The sender of the ping.
    pub src: IpAddr,
    /// The address that the ping was sent to.
    pub dst: IpAddr,
    /// The identifier; usually one for each pinging process.
    pub id: u16,
    /// Counts the pings.
    pub seq: u16,
    /// The bytes that the answer must repeat.
    pub payload: Chain,
    /// Its remaining hops.
    pub ttl: u8,
}

impl Ancillary for Echo {}

/// While it waits, its bytes are apart from its fields.
impl From<Echo> for QueuedRecord<Echo> {
    fn from(mut echo: Echo) -> Self {
        Self {
            data: std::mem::take(&mut echo.payload),
            with: echo,
        }
    }
}

impl From<QueuedRecord<Echo>> for Echo {
    fn from(record: QueuedRecord<Echo>) -> Self {
        Self {
            payload: record.data,
            ..record.with
        }
    }
}

/// A ping to a foreign address: to the interceptor of its interface, if there is one.
pub(crate) fn to_interceptor<A: Copy + Into<IpAddr>>(
    batch: &mut Batch<'_>,
    packet: Packet,
    from: &Addressed<'_, A>,
    (id, seq): (u16, u16),
) {
    let Some(pcb) = batch.stack.icmp.interceptor(from.ip.ifp.index) else {
        return batch.drop(packet, DropReason::IcmpUnhandled);
    };
    let echo = Echo {
        src: from.src.into(),
        dst: from.dst.into(),
        id,
        seq,
        payload: packet.into_chain(),
        ttl: from.ip.ttl,
    };
    pcb.deliver(batch, echo);
}

/// An interceptor's queue.
#[derive(Debug)]
pub(crate) struct EchoPcb {
    pub(crate) iface: IfIndex,
    pub(crate) queue: RecvSide<Echo>,
}

impl EchoPcb {
    pub(crate) fn new(iface: IfIndex) -> Self {
        Self {
            iface,
            queue: RecvSide::new(QUEUE_MAX),
        }
    }

    fn deliver(&self, batch: &mut Batch<'_>, echo: Echo) {
        match self.queue.push(echo.into()) {
            Ok(wakes) => {
                batch.delivered();
                batch.wake(wakes);
            }
            Err(_full) => batch.stack.drops.count(DropReason::EchoQueueFull),
        }
    }
}
