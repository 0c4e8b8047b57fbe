//! ICMPv6 messages that the stack does not use go to a program that asked for their type: for example router
//! solicitations, to a program that advertises a router.
//!
//! Invariants: a type of message on an interface has one socket at most.
//! Locks: the table (IFADDR, read-mostly), which output reads while it holds a socket's route: it says whether the
//! stack has the anycast addresses of routers; each socket's queue (UDP).

use std::net::Ipv6Addr;
use std::sync::Arc;

use kern::{LockClass, RmLock, order};
use mbuf::{Chain, Packet};
use wire::Icmp6Header;

use crate::batch::Batch;
use crate::drops::DropReason;
use crate::ifnet::IfIndex;
use crate::ip::Addressed;
use crate::sockbuf::{Ancillary, QueuedRecord, RecvSide};

static TABLE: LockClass = LockClass::new("icmp6 sockets", order::IFADDR);

/// Messages that wait for a program at most.
const QUEUE_MAX: usize = 64;

/// A message of an [`Icmp6Socket`](crate::socket::Icmp6Socket). Of one that arrived the checksum is right, and a
/// message of neighbour discovery has passed the checks of RFC 4861 sections 6.1 and 8.1.
#[derive(Debug)]
pub struct Icmp6Datagram {
    /// The sender.
    pub src: Ipv6Addr,
    /// The address, or group, that it is sent to.
    pub dst: Ipv6Addr,
    /// Its remaining hops. Neighbour discovery requires 255 (RFC 4861 section 4).
    pub hop_limit: u8,
    /// Its type.
    pub kind: u8,
    /// Its code.
    pub code: u8,
    /// The four bytes behind the checksum.
    pub rest: [u8; 4],
    /// The bytes behind those.
    pub body: Chain,
}

impl Ancillary for Icmp6Datagram {}

/// While it waits, its body is apart from its fields.
impl From<QueuedRecord<Icmp6Datagram>> for Icmp6Datagram {
    fn from(record: QueuedRecord<Icmp6Datagram>) -> Self {
        Self {
            body: record.data,
            ..record.with
        }
    }
}

/// A socket's state.
#[derive(Debug)]
pub(crate) struct Icmp6Pcb {
    pub(crate) iface: IfIndex,
    pub(crate) kinds: Vec<u8>,
    pub(crate) queue: RecvSide<Icmp6Datagram>,
}

impl Icmp6Pcb {
    pub(crate) fn new(iface: IfIndex, kinds: &[u8]) -> Self {
        Self {
            iface,
            kinds: kinds.to_vec(),
            queue: RecvSide::new(QUEUE_MAX),
        }
    }

    /// Queues a message whose header was `header`; `packet` begins behind it.
    pub(super) fn deliver(
        &self,
        batch: &mut Batch<'_>,
        packet: Packet,
        from: &Addressed<'_, Ipv6Addr>,
        header: &Icmp6Header,
    ) {
        // Small data must not pin a large cluster while it waits.
        let mut data = Chain::new();
        data.append_compact(&batch.stack.pool, packet.into_chain());
        let with = Icmp6Datagram {
            src: from.src,
            dst: from.dst,
            hop_limit: from.ip.ttl,
            kind: header.kind(),
            code: header.code(),
            rest: header.rest(),
            body: Chain::new(),
        };
        match self.queue.push(QueuedRecord { data, with }) {
            Ok(wakes) => {
                batch.delivered();
                batch.wake(wakes);
            }
            Err(_full) => batch.stack.drops.count(DropReason::Icmp6QueueFull),
        }
    }

    fn takes(&self, iface: IfIndex, kind: u8) -> bool {
        self.iface == iface && self.kinds.contains(&kind)
    }
}

/// The sockets of a stack.
#[derive(Debug)]
pub(crate) struct Icmp6Sockets(RmLock<Vec<Arc<Icmp6Pcb>>>);

impl Icmp6Sockets {
    pub(crate) fn new() -> Self {
        Self(RmLock::new(&TABLE, Vec::new()))
    }

    /// Adds a socket; false if another socket has one of its types on its interface.
    pub(crate) fn insert(&self, pcb: &Arc<Icmp6Pcb>) -> bool {
        let mut all = self.0.write();
        let is_taken = |kind: &u8| all.iter().any(|other| other.takes(pcb.iface, *kind));
        if pcb.kinds.iter().any(is_taken) {
            return false;
        }
        all.push(Arc::clone(pcb));
        true
    }

    /// Removes the socket of an owner that is gone.
    pub(crate) fn remove(&self, pcb: &Arc<Icmp6Pcb>) {
        self.0.write().retain(|other| !Arc::ptr_eq(other, pcb));
    }

    /// An interface is gone, and with it the messages for its sockets.
    pub(crate) fn interface_gone(&self, batch: &mut Batch<'_>, index: IfIndex) {
        let its = |pcb: &&Arc<Icmp6Pcb>| pcb.iface == index;
        let its: Vec<_> = self.0.read().iter().filter(its).cloned().collect();
        its.iter().for_each(|pcb| batch.wake(pcb.queue.cut_off()));
    }

    /// Whether there is a socket for messages of this type on this interface.
    pub(crate) fn has(&self, iface: IfIndex, kind: u8) -> bool {
        self.0.read().iter().any(|pcb| pcb.takes(iface, kind))
    }

    /// The socket for messages of this type on this interface.
    pub(super) fn find(&self, iface: IfIndex, kind: u8) -> Option<Arc<Icmp6Pcb>> {
        let all = self.0.read();
        all.iter()
            .find(|pcb| pcb.takes(iface, kind))
            .map(Arc::clone)
    }
}
