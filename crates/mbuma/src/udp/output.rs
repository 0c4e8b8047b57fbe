//! Datagrams that leave.
//!
//! Invariants: the payload is not copied; the checksum field holds the pseudo-header's sum, and
//! [`Csum::UDP`] says that the rest is to be added by a device or by
//! [`offload`](crate::device::offload).
//! Locks: the socket's route (UDP).
//! Sources: RFC 768, RFC 1122 section 4.1.3.4 (checksums are always sent), RFC 1112 section 6.

use std::net::IpAddr;

use mbuf::{Chain, Csum, NoBufs, Packet};
use wire::{Checksum, EtherHeader, IpProto, Ipv4Header, UdpHeader};

use super::pcb::UdpPcb;
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::ifnet::IfIndex;
use crate::inet::Ends;
use crate::ip::{self, Service, ToGroup};
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
    let len = payload.len();
    let (packet, header) = begin(batch, pcb, payload, ends, len)?;
    match ends.peer().ip().is_multicast() {
        true => to_group(batch, pcb, packet, ends, link, upper(header)),
        false => route(batch, pcb, packet, ends, pcb.send.service(), upper(header)),
    }
}

/// Sends the payload to one host as datagrams of `segsz` bytes, in one packet, which the device cuts or
/// [`offload`](crate::device::offload). Routers must not fragment them: the ids of the pieces, which count on from the
/// packet's, would come again (RFC 6864 4.1).
pub(crate) fn run_merged(
    batch: &mut Batch<'_>,
    pcb: &UdpPcb,
    payload: Chain,
    ends: &Ends,
    segsz: u16,
) -> Result<(), DropReason> {
    let longest = payload.len().min(segsz.into());
    let (mut packet, header) = begin(batch, pcb, payload, ends, longest)?;
    packet.header_mut().tso_segsz = segsz;
    let service = Service {
        df: true,
        ..pcb.send.service()
    };
    route(batch, pcb, packet, ends, service, upper(header))
}

/// Bytes of the largest datagram that the path to its destination carries whole, as far as is known; none without a
/// route. A socket that forbids fragments measures its paths itself.
pub(crate) fn whole_max(batch: &Batch<'_>, pcb: &UdpPcb, ends: &Ends) -> Option<usize> {
    if network::is_local(batch.stack, ends.peer().ip()) {
        return Some(payload_max(ends));
    }
    let ifp = network::egress(batch.stack, ends.peer())?.ifp;
    let (mtu, reported) = match ends {
        Ends::V4(_) => (ifp.mtu(), None),
        Ends::V6(pair, zone) => {
            let (paths, peer) = (&batch.stack.path_mtus, pair.peer.into());
            let reported = || paths.get(IpProto::UDP, peer, *zone, batch.now);
            let measures = pcb.send.dont_fragment();
            (ifp.mtu6(), (!measures).then(reported).flatten())
        }
    };
    let mtu = reported.map_or(mtu, |path| mtu.min(path.into()));
    Some(mtu.saturating_sub(network::udp_headers_len(ends) - EtherHeader::LEN))
}

/// A packet without its headers, and UDP's header; its longest datagram has `longest` bytes.
fn begin(
    batch: &Batch<'_>,
    pcb: &UdpPcb,
    payload: Chain,
    ends: &Ends,
    longest: usize,
) -> Result<(Packet, UdpHeader), DropReason> {
    let header = header(&payload, ends);
    let Ok(packet) = build(batch, pcb, payload, ends) else {
        batch.stack.drops.count(DropReason::TxNoBufs);
        return Err(DropReason::TxNoBufs);
    };
    if let Ends::V6(pair, _) = ends {
        let (sent, len) = (&batch.stack.ip6.sent_long, UdpHeader::LEN + longest);
        sent.note(pair.peer, IpProto::UDP, pair.ports(), len);
    }
    Ok((packet, header))
}

fn upper(header: UdpHeader) -> UpperHeader<impl FnOnce(&mut [u8])> {
    UpperHeader {
        len: UdpHeader::LEN,
        emit: move |room: &mut [u8]| {
            header.emit(room);
        },
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
    service: Service,
    upper: UpperHeader<F>,
) -> Result<(), DropReason> {
    let to = ends.peer().ip();
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
pub(crate) fn is_for_many(to: IpAddr) -> bool {
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
