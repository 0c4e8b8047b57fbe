//! Pings to foreign addresses on an interface that answers for every address: handed to a program that
//! knows whether the host behind the address is there.
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
    /// The address that is pinged.
    pub dst: IpAddr,
    /// Commonly one per pinging process.
    pub id: u16,
    /// Counts the pings.
    pub seq: u16,
    /// The bytes that are to come back.
    pub payload: Chain,
    /// Hops that it had left.
    pub ttl: u8,
}

/// The fields that belong to a ping's bytes while they wait.
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
