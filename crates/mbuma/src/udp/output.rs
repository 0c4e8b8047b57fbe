//! Datagrams that leave.
//!
//! Called by: [`UdpSocket`](crate::UdpSocket). Calls: ip4/output.
//!
//! Invariants: the payload is not copied; the checksum field holds the pseudo-header's sum, and
//! [`Csum::UDP`] says that the rest is to be added by a device or by
//! [`offload`](crate::device::offload).
//! Locks: the socket's route (UDP). Sources: RFC 768, RFC 1122 section 4.1.3.4 (checksums are always sent).

use std::net::SocketAddrV4;

use mbuf::{Chain, Csum, NoBufs, Packet};
use wire::{IpProto, Ipv4Header, UdpHeader, pseudo_header_v4};

use super::pcb::UdpPcb;
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::ip;
use crate::ip4;

/// Bytes that fit one datagram.
pub(crate) const PAYLOAD_MAX: usize = u16::MAX as usize - Ipv4Header::LEN - UdpHeader::LEN;

/// Sends one datagram of `pcb`'s.
///
/// # Errors
/// It was dropped, and counted, for this reason.
#[doc(alias = "udp_output")]
pub(crate) fn run(
    batch: &mut Batch<'_>,
    pcb: &UdpPcb,
    payload: Chain,
    src: SocketAddrV4,
    dst: SocketAddrV4,
) -> Result<(), DropReason> {
    let Ok(packet) = build(batch, pcb, payload, src, dst) else {
        batch.stack.drops.count(DropReason::TxNoBufs);
        return Err(DropReason::TxNoBufs);
    };
    let to = ip::Send {
        src: *src.ip(),
        dst: *dst.ip(),
        proto: IpProto::UDP,
        tos: 0,
        ttl: 0,
        df: false,
    };
    route(batch, pcb, packet, &to)
}

/// Sends it the way that the last one went, if it goes to the same address. A thread that finds another sending
/// looks the way up for itself.
fn route(
    batch: &mut Batch<'_>,
    pcb: &UdpPcb,
    packet: Packet,
    to: &ip::Send,
) -> Result<(), DropReason> {
    let many = to.dst.is_broadcast() || to.dst.is_multicast();
    let Some(mut kept) = pcb.route.try_lock().filter(|_| !many) else {
        return ip4::output::run(batch, packet, to);
    };
    let (dst, cache) = &mut *kept;
    if *dst != to.dst {
        *dst = to.dst;
        cache.clear();
    }
    ip4::output::run_cached(batch, packet, to, cache)
}

fn build(
    batch: &Batch<'_>,
    pcb: &UdpPcb,
    payload: Chain,
    src: SocketAddrV4,
    dst: SocketAddrV4,
) -> Result<Packet, NoBufs> {
    // The socket checked it against `PAYLOAD_MAX`.
    let len = (UdpHeader::LEN + payload.len()) as u16;
    let mut header = UdpHeader::new(src.port(), dst.port(), len);
    let sum = pseudo_header_v4(*src.ip(), *dst.ip(), IpProto::UDP, u32::from(len));
    header.set_checksum(sum.partial());
    let mut packet = Packet::before_chain(&batch.stack.pool, payload)?;
    header.emit(packet.prepend(UdpHeader::LEN)?);
    let netisr = &batch.stack.netisr;
    let meta = packet.header_mut();
    // A gateway's leave by the queue of the CPU that sends them: if the device receives a flow by the queue by which
    // it is sent, the CPU that serves the flow also takes its packets in.
    if netisr.flows_matter() && pcb.any.is_none() {
        meta.flow = netisr.flows().between(src, dst);
    }
    meta.csum = Csum::UDP;
    meta.l4_len = UdpHeader::LEN as u8;
    Ok(packet)
}
