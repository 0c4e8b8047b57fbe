//! Packets to ourselves: out of one protocol and into another without a device.
//!
//! Called by: [`output`](super::output), which may hold a connection's lock, as input will: so they are
//! queued, whatever their policy. Calls: [`netisr`], which hands them to [`input`](super::input).
//!
//! Locks: none held here. Sources: RFC 1122 section 3.2.1.5 (packets to one's own addresses).

use mbuf::{Csum, Packet};

use crate::batch::Batch;
use crate::drops::DropReason;
use crate::ifnet::IfIndex;
use crate::netisr;

/// Queues an IP packet for the interface `iface`, which has its destination address.
///
/// # Errors
/// There is no room; the packet is given back.
#[doc(alias = "if_simloop")]
pub(super) fn enqueue(
    batch: &mut Batch<'_>,
    mut packet: Packet,
    iface: IfIndex,
) -> Result<(), (Packet, DropReason)> {
    let meta = packet.header_mut();
    meta.iface = iface.0;
    meta.turn_round();
    meta.csum |= Csum::IP_VALID;
    netisr::loop_back(batch, packet).map_err(|packet| (packet, DropReason::TxQueueFull))
}
