//! Datagrams that leave.
//!
//! Invariants: the payload is not copied; the checksum field holds the pseudo-header's sum, and
//! [`Csum::UDP`] says that the rest is to be added by a device or by
//! [`offload`](crate::device::offload).
//! Locks: the socket's route (UDP).
//! Sources: RFC 768, RFC 1122 section 4.1.3.4 (checksums are always sent), RFC 1112 section 6.

use std::net::IpAddr;

use mbuf::{Chain, Csum, NoBufs, Packet};
use wire::{Checksum, IpProto, Ipv4Header, UdpHeader};

use super::pcb::UdpPcb;
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::ifnet::IfIndex;
use crate::inet::Ends;
use crate::ip::{self, ToGroup};
use crate::network::{self, SendVia, UpperHeader};

/// Bytes that fit one datagram: IPv4's length counts its own header.
pub(crate) const fn payload_max(ends: &Ends) -> usize {
    let all = u16::MAX as usize - UdpHeader::LEN;
    match ends {
        Ends::V4(_) => all - Ipv4Header::LEN,
        Ends::V6(..) => all,
    }
}

/// Sends one datagram of `pcb`'s; to a group, by the interface `link`, if the program named one.
///
/// # Errors
/// It was dropped, and counted, for this reason.
#[doc(alias = "udp_output")]
pub(crate) fn run(
    batch: &mut Batch<'_>,
    pcb: &UdpPcb,
    payload: Chain,
    ends: &Ends,
    link: Option<IfIndex>,
) -> Result<(), DropReason> {
    let header = header(&payload, ends);
    let Ok(packet) = build(batch, pcb, payload, ends) else {
        batch.stack.drops.count(DropReason::TxNoBufs);
        return Err(DropReason::TxNoBufs);
    };
    if let Ends::V6(pair, _) = ends {
        let (sent, len) = (&batch.stack.ip6.sent_long, header.len().into());
        sent.note(pair.peer, IpProto::UDP, pair.ports(), len);
    }
    let upper = UpperHeader {
        len: UdpHeader::LEN,
        emit: |room: &mut [u8]| {
            header.emit(room);
        },
    };
    match ends.peer().ip().is_multicast() {
        true => to_group(batch, pcb, packet, ends, link, upper),
        false => route(batch, pcb, packet, ends, upper),
    }
}

fn to_group<F: FnOnce(&mut [u8])>(
    batch: &mut Batch<'_>,
    pcb: &UdpPcb,
    packet: Packet,
    ends: &Ends,
    link: Option<IfIndex>,
    upper: UpperHeader<F>,
) -> Result<(), DropReason> {
    let loops = pcb.send.loops();
    let via = SendVia::Group(ToGroup { link, loops });
    network::output(batch, packet, ends, pcb.send.group_service(), via, upper)
}

/// Sends a datagram by the kept route, if it has the same destination as the last one. If another thread is sending on
/// the socket, this thread looks the route up itself.
fn route<F: FnOnce(&mut [u8])>(
    batch: &mut Batch<'_>,
    pcb: &UdpPcb,
    packet: Packet,
    ends: &Ends,
    upper: UpperHeader<F>,
) -> Result<(), DropReason> {
    let (to, service) = (ends.peer().ip(), pcb.send.service());
    let Some(mut kept) = pcb.route.try_lock().filter(|_| !is_for_many(to)) else {
        return network::output(batch, packet, ends, service, SendVia::Route(None), upper);
    };
    let (dst, cache) = &mut *kept;
    if *dst != to {
        *dst = to;
        cache.clear();
    }
    let via = SendVia::Route(Some(cache));
    network::output(batch, packet, ends, service, via, upper)
}

/// The route to these destinations also depends on the source address.
fn is_for_many(to: IpAddr) -> bool {
    match to {
        IpAddr::V4(to) => to.is_broadcast() || to.is_multicast(),
        IpAddr::V6(to) => to.is_multicast(),
    }
}

fn header(payload: &Chain, ends: &Ends) -> UdpHeader {
    // The socket checked it against `payload_max`.
    let len = (UdpHeader::LEN + payload.len()) as u16;
    let mut header = UdpHeader::new(ends.local_port(), ends.peer_port(), len);
    let mut sum = ip::pseudo_header(ends, IpProto::UDP, usize::from(len));
    header.set_checksum(match has_whole_sum(ends) {
        true => whole_sum(&mut sum, &header, payload),
        false => sum.partial(),
    });
    header
}

/// DHCP clients read raw frames, and some do not know unfinished checksums.
fn has_whole_sum(ends: &Ends) -> bool {
    is_for_many(ends.peer().ip())
}

/// A packet without its headers.
fn build(batch: &Batch<'_>, pcb: &UdpPcb, payload: Chain, ends: &Ends) -> Result<Packet, NoBufs> {
    let room = network::udp_headers_len(ends);
    let mut packet = Packet::under_headers(&batch.stack.pool, payload, room)?;
    let netisr = &batch.stack.netisr;
    let meta = packet.header_mut();
    // A gateway's datagrams leave by the queue of the sending CPU: if the device receives a flow by the queue by which
    // it is sent, the CPU that serves the flow also receives its packets.
    if netisr.flows_matter() && pcb.any.is_none() {
        meta.flow = netisr.flows().between(ends);
    }
    if !has_whole_sum(ends) {
        meta.csum = Csum::UDP;
    }
    meta.l4_len = UdpHeader::LEN as u8;
    Ok(packet)
}

/// The checksum over all of the datagram; `sum` has the pseudo header.
fn whole_sum(sum: &mut Checksum, header: &UdpHeader, payload: &Chain) -> u16 {
    let mut bytes = [0; UdpHeader::LEN];
    header.emit(&mut bytes);
    sum.add_bytes(&bytes);
    payload.segments().for_each(|piece| sum.add_bytes(piece));
    sum.finish_nonzero()
}
