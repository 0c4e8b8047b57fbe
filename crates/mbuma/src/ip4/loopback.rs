//! Packets from this stack to itself, which pass no device; and the interface lo0, which has 127/8 and ::1.
//!
//! Invariants: nothing leaves through lo0. Packets to its addresses are queued here, and its device refuses any other
//! packet that a route or a socket sends through it. Locks: none held here. Sources: RFC 1122 section 3.2.1.5 (packets
//! to one's own addresses).

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use mbuf::{Csum, Mbufq, Packet};
use wire::MacAddr;

use crate::batch::Batch;
use crate::device::{Budget, Capabilities, Device};
use crate::dispatch;
use crate::drops::DropReason;
use crate::ifnet::{IfConfig, IfIndex, Ifnet};
use crate::inet::policy_table::AddressPolicy;
use crate::neighbour::{NeighbourLimits, Tables};

/// Queues an IP packet, of either version, for the interface `iface`, which has its destination address.
///
/// # Errors
/// The packet was dropped, and counted, because there is no room.
#[doc(alias = "if_simloop")]
pub(crate) fn enqueue(
    batch: &mut Batch<'_>,
    mut packet: Packet,
    iface: IfIndex,
) -> Result<(), DropReason> {
    let meta = packet.header_mut();
    meta.iface = iface.0;
    meta.turn_round();
    meta.csum |= Csum::IP_VALID;
    let len = packet.len();
    if let Err(packet) = dispatch::loop_back(batch, packet) {
        return batch.refuse(packet, DropReason::TxQueueFull);
    }
    let counters = &batch.stack.lo.counters;
    // Each packet that goes out of lo0 comes in by it, so both directions are counted here.
    counters.output.record(len);
    counters.input.record(len);
    Ok(())
}

/// The loopback interface. Its MTU is the size of the largest packet: a smaller one would gain nothing.
#[doc(alias = "lo0")]
pub(crate) fn interface(policy: Arc<AddressPolicy>) -> Arc<Ifnet> {
    let config = IfConfig::new("lo0")
        .with_addr(Ipv4Addr::LOCALHOST, 8)
        .with_addr(Ipv6Addr::LOCALHOST, 128);
    Arc::new(Ifnet::new(
        IfIndex::LOOPBACK,
        config,
        MacAddr::ZERO,
        vec![Arc::new(Nowhere)],
        Tables::new(NeighbourLimits::default(), Duration::ZERO),
        policy,
    ))
}

/// No link at all.
#[derive(Debug)]
struct Nowhere;

impl Device for Nowhere {
    fn capabilities(&self) -> Capabilities {
        Capabilities::whole(u16::MAX)
    }

    fn receive(&self, _: &mut Mbufq, _: Budget) -> io::Result<bool> {
        Ok(false)
    }

    fn transmit(&self, tx: &mut Mbufq) -> io::Result<usize> {
        Ok(tx.take_all().len())
    }
}
