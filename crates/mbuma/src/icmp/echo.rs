//! Pings to foreign addresses on an interface that answers for every address: handed to whoever
//! knows whether the host behind the address is there.
//!
//! Called by: icmp/input, [`EchoSocket`](crate::socket::EchoSocket). Calls: nothing.
//! Locks: the queue (UDP).

use std::net::Ipv4Addr;

use mbuf::Chain;

use crate::batch::Batch;
use crate::datagramq::Datagramq;
use crate::drops::DropReason;
use crate::ifnet::IfIndex;

/// Pings that wait for an interceptor at most.
const QUEUE_MAX: usize = 256;

/// A ping to a foreign address.
#[derive(Debug)]
pub struct Echo {
    /// Who asks.
    pub src: Ipv4Addr,
    /// Who is asked.
    pub dst: Ipv4Addr,
    /// Commonly one per pinging process.
    pub id: u16,
    /// Counts the pings.
    pub seq: u16,
    /// What is to come back.
    pub payload: Chain,
    /// Hops that it had left.
    pub ttl: u8,
}

/// An interceptor's queue.
#[derive(Debug)]
pub(crate) struct EchoPcb {
    pub(crate) iface: IfIndex,
    pub(crate) queue: Datagramq<Echo>,
}

impl EchoPcb {
    pub(crate) fn new(iface: IfIndex) -> Self {
        Self {
            iface,
            queue: Datagramq::new(QUEUE_MAX),
        }
    }

    pub(super) fn deliver(&self, batch: &mut Batch<'_>, echo: Echo) {
        let pinned = echo.payload.pinned();
        match self.queue.push(echo, pinned) {
            Ok(wakes) => {
                batch.delivered();
                batch.wake(wakes);
            }
            Err(_full) => batch.stack.drops.count(DropReason::EchoQueueFull),
        }
    }
}
