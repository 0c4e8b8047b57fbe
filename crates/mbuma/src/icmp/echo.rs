//! Pings to foreign addresses on an interface that answers for every address. A program gets them, and decides whether
//! the host is there.
//!
//! Locks: the queue (UDP).

use std::net::IpAddr;

use mbuf::Chain;

use crate::batch::Batch;
use crate::drops::DropReason;
use crate::ifnet::IfIndex;
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

/// The fields of a ping while it waits, beside its bytes.
#[derive(Debug)]
pub(crate) struct Asked {
    src: IpAddr,
    dst: IpAddr,
    id: u16,
    seq: u16,
    ttl: u8,
}

impl Ancillary for Asked {}

impl From<Echo> for QueuedRecord<Asked> {
    fn from(echo: Echo) -> Self {
        let Echo {
            src,
            dst,
            id,
            seq,
            payload,
            ttl,
        } = echo;
        let with = Asked {
            src,
            dst,
            id,
            seq,
            ttl,
        };
        Self {
            data: payload,
            with,
        }
    }
}

impl From<QueuedRecord<Asked>> for Echo {
    fn from(record: QueuedRecord<Asked>) -> Self {
        let Asked {
            src,
            dst,
            id,
            seq,
            ttl,
        } = record.with;
        Self {
            src,
            dst,
            id,
            seq,
            payload: record.data,
            ttl,
        }
    }
}

/// An interceptor's queue.
#[derive(Debug)]
pub(crate) struct EchoPcb {
    pub(crate) iface: IfIndex,
    pub(crate) queue: RecvSide<Asked>,
}

impl EchoPcb {
    pub(crate) fn new(iface: IfIndex) -> Self {
        Self {
            iface,
            queue: RecvSide::new(QUEUE_MAX),
        }
    }

    pub(crate) fn deliver(&self, batch: &mut Batch<'_>, echo: Echo) {
        match self.queue.push(echo.into()) {
            Ok(wakes) => {
                batch.delivered();
                batch.wake(wakes);
            }
            Err(_full) => batch.stack.drops.count(DropReason::EchoQueueFull),
        }
    }
}
