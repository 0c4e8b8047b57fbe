//! Which protocol a received frame's payload goes to, and when: at once, on the thread that brought
//! it in (direct dispatch, seed 002).
//!
//! Called by: ether/input. Calls: ip4/input, arp. A packet to ourselves does not pass here: see
//! [`loopback`](crate::ip4::loopback).
//! Locks: none.

use std::sync::Arc;

use mbuf::Packet;
use wire::EtherType;

use crate::batch::Batch;
use crate::drops::DropReason;
use crate::ether::arp;
use crate::ifnet::Ifnet;
use crate::ip4;

/// How a packet came to us, which its bytes do not tell any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// In a frame to this station.
    Unicast,
    /// In a frame to a group of stations, broadcast included.
    #[doc(alias = "M_BCAST")]
    Group,
    /// From this stack itself.
    Loopback,
}

/// Hands the payload of a frame to its protocol.
#[doc(alias = "netisr_dispatch")]
pub(crate) fn dispatch(
    batch: &mut Batch<'_>,
    ifp: &Arc<Ifnet>,
    ethertype: EtherType,
    packet: Packet,
    arrival: Arrival,
) {
    match ethertype {
        EtherType::IPV4 => ip4::input::run(batch, ifp, packet, arrival),
        EtherType::ARP => arp::input(batch, ifp, packet),
        _ => batch.drop(packet, DropReason::UnknownEtherType),
    }
}
