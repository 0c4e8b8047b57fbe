//! Errors to the sender of a packet, and answers to pings.
//!
//! Invariants: an error is never sent about an ICMP error, a broadcast or group, a fragment other
//! than the first, or a source that is not one host (RFC 1122 3.2.2); so no two hosts can keep each
//! other busy with errors.
//! Locks: none. Sources: RFC 792, RFC 1122 section 3.2.2, RFC 1812 section 4.3.2.

use std::net::Ipv4Addr;

use mbuf::{Chain, MbufPool, NoBufs, Packet};
use wire::{
    IcmpHeader, IcmpMessage, IpProto, Ipv4Fields, Ipv4Header, Ipv6Fields, Ipv6Header, TimeExceeded,
    Unreachable, is_martian_source,
};

use crate::batch::Batch;
use crate::drops::DropReason;
use crate::inet::Ends;
use crate::ip::{self, IcmpError, QUOTE_MAX, Service};
use crate::ip4;
use crate::protosw;
use crate::route::Route;

/// Precedence "internetwork control" for errors (RFC 1812 4.3.2.5).
const TOS_ERROR: u8 = 0xc0;

/// Sends an error to the sender of `original`, which begins with its IP header.
#[doc(alias = "icmp_error")]
pub(crate) fn error(batch: &mut Batch<'_>, original: Packet, kind: IcmpError) {
    tell(batch, original, kind.to_message());
}

/// Reports to the sender of `original` that its TTL or its time for reassembly is over.
pub(crate) fn time_exceeded(batch: &mut Batch<'_>, original: Packet, what: TimeExceeded) {
    tell(batch, original, IcmpMessage::TimeExceeded(what));
}

/// Reports to the sender of `original` which byte of its header is wrong (RFC 1122 section 3.2.2.5).
pub(crate) fn param_problem(batch: &mut Batch<'_>, original: Packet, pointer: u8) {
    tell(
        batch,
        original,
        IcmpMessage::ParamProblem { code: 0, pointer },
    );
}

fn tell(batch: &mut Batch<'_>, mut original: Packet, message: IcmpMessage) {
    let Some((of, route)) = may_tell(batch, &mut original) else {
        return;
    };
    // If the packet was sent to an address of ours, the error comes from that address. The same holds for a foreign
    // address for which this stack answers: traceroute waits for a "port unreachable" from that host.
    let own = batch.stack.routes.is_local(of.dst);
    let for_host = route.ifp.accept_any && is_of_the_host(message);
    let from = if own || for_host { of.dst } else { route.src };
    if from.is_unspecified() {
        return;
    }
    if !batch.stack.icmp.admit_error(batch.now) {
        return batch.stack.drops.count(DropReason::IcmpRateLimited);
    }
    original.truncate(QUOTE_MAX);
    let to = ip::Send {
        src: from,
        dst: of.src,
        service: Service {
            tos: TOS_ERROR,
            ..Service::of(IpProto::ICMP)
        },
    };
    send(batch, message, original.into_chain(), &to);
}

/// Whether the error comes from the destination itself and not from a router (RFC 1122 3.2.2.1).
fn is_of_the_host(message: IcmpMessage) -> bool {
    matches!(
        message,
        IcmpMessage::DestUnreachable(
            Unreachable::PortUnreachable | Unreachable::ProtocolUnreachable
        )
    )
}

/// The addresses of the packet.
struct OriginalAddrs {
    src: Ipv4Addr,
    dst: Ipv4Addr,
}

/// Whether an error about this packet is allowed, and the route to its sender.
fn may_tell(batch: &Batch<'_>, original: &mut Packet) -> Option<(OriginalAddrs, Route<Ipv4Addr>)> {
    let fixed = original.pullup(Ipv4Header::LEN).ok()?;
    let header_len = fixed.first().map_or(0, |b| usize::from(b & 0x0f) * 4);
    let view = Ipv4Header::parse(original.pullup(header_len).ok()?).ok()?;
    let ends = OriginalAddrs {
        src: view.src(),
        dst: view.dst(),
    };
    let (first, is_icmp) = (view.frag_offset() == 0, view.protocol() == IpProto::ICMP);
    if !first || (is_icmp && is_error(original, header_len)) {
        return None;
    }
    // Input takes packets from loopback addresses only where they are a host's: ours, or a neighbour's.
    let martian = is_martian_source(ends.src) && !ends.src.is_loopback();
    if ends.src.is_unspecified() || martian || ends.dst.is_multicast() {
        return None;
    }
    let route = batch.stack.routes.lookup(ends.src)?;
    let many = route.ifp.is_broadcast(ends.dst) || route.ifp.is_broadcast(ends.src);
    (!many).then_some((ends, route))
}

/// Whether an ICMP packet is itself an error; one that is too short to tell counts as an error.
fn is_error(original: &Packet, header_len: usize) -> bool {
    let mut bytes = [0; IcmpHeader::LEN];
    if !original.copy_to(header_len, &mut bytes) {
        return true;
    }
    IcmpHeader::parse(&bytes).map_or(true, |(header, _)| header.message().is_error())
}

/// The part of a packet that an error quotes; the packet itself is gone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Original<'a> {
    /// The ends of its flow as we see them; the peer sent it.
    pub(crate) ends: Ends,
    pub(crate) proto: IpProto,
    pub(crate) ttl: u8,
    /// Bytes after its IP header.
    pub(crate) len: u16,
    /// The first of them.
    pub(crate) front: &'a [u8],
}

impl Original<'_> {
    /// `len` as a length after an IP header, if one packet can be that long.
    pub(crate) fn len_of(ends: &Ends, len: usize) -> Option<u16> {
        let len = u16::try_from(len).ok()?;
        let ip = match ends {
            Ends::V4(_) => Ipv4Header::LEN as u16,
            // It does not count its own header.
            Ends::V6(..) => 0,
        };
        len.checked_add(ip).map(|_| len)
    }

    /// The packet's IP header, and the known bytes after it.
    fn rebuild(&self, pool: &MbufPool) -> Result<Packet, NoBufs> {
        match &self.ends {
            Ends::V4(pair) => {
                let fields = Ipv4Fields {
                    payload_len: self.len,
                    ttl: self.ttl,
                    protocol: self.proto,
                    src: pair.peer,
                    dst: pair.local,
                    ..Ipv4Fields::default()
                };
                let mut packet = Packet::from_slice(pool, self.front, Ipv4Header::LEN)?;
                fields.emit(packet.prepend(Ipv4Header::LEN)?);
                Ok(packet)
            }
            Ends::V6(pair, zone) => {
                let fields = Ipv6Fields {
                    payload_len: self.len,
                    hop_limit: self.ttl,
                    next: self.proto,
                    src: pair.peer,
                    dst: pair.local,
                    ..Ipv6Fields::default()
                };
                let mut packet = Packet::from_slice(pool, self.front, Ipv6Header::LEN)?;
                fields.emit(packet.prepend(Ipv6Header::LEN)?);
                packet.header_mut().iface = *zone;
                Ok(packet)
            }
        }
    }
}

/// Sends an error about a packet of which only the ends and the protocol's header are known.
pub(crate) fn error_about(
    batch: &mut Batch<'_>,
    ends: Ends,
    proto: IpProto,
    header: &[u8],
    kind: IcmpError,
) {
    let fields = Ipv4Fields::default();
    let len = header.len().min(QUOTE_MAX) as u16;
    error_about_original(
        batch,
        &Original {
            ends,
            proto,
            ttl: fields.ttl,
            len,
            front: header,
        },
        kind,
    );
}

/// Sends an error about a packet whose headers were removed already.
pub(crate) fn error_about_original(
    batch: &mut Batch<'_>,
    original: &Original<'_>,
    kind: IcmpError,
) {
    match original.rebuild(&batch.stack.pool) {
        Ok(packet) => protosw::icmp_error(batch, packet, kind),
        Err(NoBufs) => batch.stack.drops.count(DropReason::TxNoBufs),
    }
}

/// Sends a message. The result is counted; no caller needs it.
#[doc(alias = "icmp_send")]
pub(crate) fn send(
    batch: &mut Batch<'_>,
    message: IcmpMessage,
    payload: Chain,
    to: &ip::Send<Ipv4Addr>,
) {
    match build(batch, message, payload) {
        Ok(packet) => {
            let _counted: Result<(), DropReason> = ip4::output::run(batch, packet, to, None);
        }
        Err(NoBufs) => batch.stack.drops.count(DropReason::TxNoBufs),
    }
}

fn build(batch: &Batch<'_>, message: IcmpMessage, payload: Chain) -> Result<Packet, NoBufs> {
    let header = IcmpHeader::new(message, payload.segments());
    let mut packet = Packet::before_chain(&batch.stack.pool, payload)?;
    header.emit(packet.prepend(IcmpHeader::LEN)?);
    Ok(packet)
}
