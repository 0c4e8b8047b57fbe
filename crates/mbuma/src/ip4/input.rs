//! IP packets that arrived: checked, found to be for us, reassembled, delivered.
//!
//! The steps, each a function: [`parse`] the header, decide whether the addresses are [`admit`]ted,
//! wait for the other fragments, [`deliver`].
//!
//! A stack is a host unless it is told to forward. It is a host also on an interface where it answers for every address
//! (`accept_any`): it terminates connections itself. Its only duty of a router there is to report packets whose TTL has
//! expired, so that a traceroute shows it.
//!
//! An option that is cut off makes the packet invalid (RFC 1122 3.2.1.8), and its sender gets an error (RFC 1122
//! 3.2.2.5). Otherwise options are ignored: a source route that ends here is harmless, and one that goes on would need
//! forwarding.
//!
//! Invariants: each packet ends delivered, forwarded, dropped or in reassembly. Locks: none.
//! Sources: RFC 791, RFC 1122 section 3.2.1, RFC 1812 section 5.3.

use std::net::Ipv4Addr;
use std::sync::Arc;

use mbuf::{Csum, Packet, PullupError};
use wire::{ALL_SYSTEMS, IpProto, Ipv4Header, Ipv4View, ParseError, is_martian_source};

use super::forward;
use super::reassemble::check_fragment;
use crate::batch::Batch;
use crate::config::Protocol;
use crate::dispatch;
use crate::drops::DropReason;
use crate::ifnet::Ifnet;
use crate::ip::{Addressed, DestScope, IcmpError, Received};
use crate::netisr::Arrival;
use crate::protosw;

/// The fields of a received packet's header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ipv4Info {
    pub(super) header_len: usize,
    pub(super) total_len: usize,
    pub(super) tos: u8,
    pub(super) ttl: u8,
    pub(super) id: u16,
    pub(super) df: bool,
    pub(super) mf: bool,
    pub(super) frag_offset: u16,
    pub(super) proto: IpProto,
    pub(super) src: Ipv4Addr,
    pub(super) dst: Ipv4Addr,
    /// The offset of an option that is cut off.
    pub(super) bad_option: Option<u8>,
}

impl Ipv4Info {
    fn new(view: &Ipv4View<'_>) -> Self {
        Self {
            header_len: view.header_len(),
            total_len: view.total_len(),
            tos: view.tos(),
            ttl: view.ttl(),
            id: view.id(),
            df: view.df(),
            mf: view.mf(),
            frag_offset: view.frag_offset(),
            proto: view.protocol(),
            src: view.src(),
            dst: view.dst(),
            bad_option: view.bad_option(),
        }
    }

    pub(super) fn is_fragment(&self) -> bool {
        self.mf || self.frag_offset != 0
    }
}

/// The decision about a packet by its addresses.
enum Admission {
    Ours(DestScope),
    /// For another host: forward it.
    Forward,
    Drop(DropReason),
    /// Dropped, and its sender gets an error.
    Refuse(DropReason, IcmpError),
}

/// Handles a packet that begins with its IP header.
#[doc(alias = "ip_input")]
pub(crate) fn run(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, mut packet: Packet, arrival: Arrival) {
    let info = match parse(&mut packet) {
        Ok(info) => info,
        Err(reason) => return batch.drop(packet, reason),
    };
    // Bytes beyond the total length are the link's padding.
    packet.truncate(info.total_len);
    let admission = admit(batch, ifp, &info, arrival);
    if let (Some(pointer), Admission::Ours(_) | Admission::Forward) = (info.bad_option, &admission)
    {
        batch.stack.drops.count(DropReason::IpBadOptions);
        return protosw::param_problem4(batch, packet, pointer);
    }
    let scope = match admission {
        Admission::Ours(scope) => scope,
        Admission::Forward => return forward::run(batch, ifp, packet, &info),
        Admission::Drop(reason) => return batch.drop(packet, reason),
        Admission::Refuse(reason, kind) => return refuse(batch, packet, reason, kind),
    };
    if !info.is_fragment() {
        return deliver(batch, ifp, packet, &info, scope);
    }
    if let Err(reason) = check_fragment(&info) {
        return batch.drop(packet, reason);
    }
    if let Some((whole, info)) = batch.stack.ip4.reassembly.add(batch, packet, &info) {
        batch.stack.received.inc();
        if let Some(whole) = dispatch::redispatch(batch, Protocol::Ip4, whole, arrival) {
            deliver(batch, ifp, whole, &info, scope);
        }
    }
}

/// Checks the header by itself (RFC 1122 3.2.1: version, checksum, lengths).
fn parse(packet: &mut Packet) -> Result<Ipv4Info, DropReason> {
    let trusted = packet.header().csum.contains(Csum::IP_VALID);
    let len = packet.len();
    let fixed = pullup(packet, Ipv4Header::LEN)?;
    let header_len = fixed.first().map_or(0, |b| usize::from(b & 0x0f) * 4);
    let bytes = match header_len {
        ..=Ipv4Header::LEN => fixed,
        _ => pullup(packet, header_len)?,
    };
    let view = Ipv4Header::parse(bytes).map_err(|e| match e {
        ParseError::Truncated => DropReason::IpTruncated,
        _ => DropReason::IpBadHeader,
    })?;
    if !trusted && !view.checksum_ok() {
        return Err(DropReason::IpBadChecksum);
    }
    if view.total_len() > len {
        return Err(DropReason::IpTruncated);
    }
    Ok(Ipv4Info::new(&view))
}

fn pullup(packet: &mut Packet, len: usize) -> Result<&[u8], DropReason> {
    packet.pullup(len).map_err(|e| match e {
        PullupError::TooShort => DropReason::IpTruncated,
        PullupError::NoBufs => DropReason::NoBufs,
    })
}

/// Whether a packet between these addresses may come in by this interface, and whether it is for us.
fn admit(batch: &Batch<'_>, ifp: &Ifnet, info: &Ipv4Info, arrival: Arrival) -> Admission {
    if !may_send(batch, ifp, info, arrival) {
        return Admission::Drop(DropReason::IpBadSource);
    }
    if let Some(scope) = group_scope(ifp, info.dst) {
        return match info.proto {
            // A connection has two ends (RFC 1122 4.2.3.10).
            IpProto::TCP => Admission::Drop(DropReason::IpNotForUs),
            _ => Admission::Ours(scope),
        };
    }
    // A unicast packet in a multicast frame is an error (RFC 1122 3.3.6).
    let is_misaddressed = arrival == Arrival::Group || info.dst.is_multicast();
    if is_misaddressed || info.dst.is_unspecified() {
        return Admission::Drop(DropReason::IpNotForUs);
    }
    if info.dst.is_loopback() && arrival != Arrival::Loopback {
        return Admission::Drop(DropReason::IpNotForUs);
    }
    if ifp.owns(info.dst) || batch.stack.routes.is_local(info.dst) {
        return Admission::Ours(DestScope::Local);
    }
    if !ifp.accept_any && batch.stack.ip4.forwards() && arrival == Arrival::Unicast {
        return Admission::Forward;
    }
    if !ifp.accept_any || wire::is_martian_destination(info.dst) {
        return Admission::Drop(DropReason::IpNotForUs);
    }
    if info.ttl <= 1 {
        return Admission::Refuse(DropReason::IpTtlExceeded, IcmpError::TimeExceeded);
    }
    Admission::Ours(DestScope::Foreign)
}

/// The scope of a broadcast or group address, if this stack is among its stations. UDP drops the datagrams of senders
/// that no program wants.
fn group_scope(ifp: &Ifnet, dst: Ipv4Addr) -> Option<DestScope> {
    if ifp.is_broadcast(dst) {
        return Some(DestScope::Broadcast);
    }
    (dst.is_multicast() && is_member(ifp, dst)).then_some(DestScope::Group)
}

/// Whether the interface is in a group: in that of all stations, or, by a program, in another one.
pub(super) fn is_member(ifp: &Ifnet, group: Ipv4Addr) -> bool {
    group == ALL_SYSTEMS || ifp.groups.has(group.into())
}

/// Whether the source address is valid (RFC 1122 3.2.1.3): no group, no broadcast, and none of our own addresses unless
/// the packet comes from ourselves. A host without an address may only send broadcasts, by UDP (RFC 2131 4.1), and
/// messages about groups (RFC 9776 section 4.2.13), as a switch without one does.
fn may_send(batch: &Batch<'_>, ifp: &Ifnet, info: &Ipv4Info, arrival: Arrival) -> bool {
    if arrival == Arrival::Loopback {
        return true;
    }
    if info.src.is_unspecified() {
        return match info.proto {
            IpProto::UDP => ifp.is_broadcast(info.dst),
            proto => proto == IpProto::IGMP && info.dst.is_multicast(),
        };
    }
    if info.src.is_loopback() && ifp.route_localnet {
        // Only an address with a route through this interface: all others of 127/8 are ours.
        return batch.stack.routes.leads_through(ifp.index, info.src);
    }
    !is_martian_source(info.src)
        && !ifp.is_broadcast(info.src)
        && !batch.stack.routes.is_local(info.src)
}

/// Drops a packet and sends an error to its sender.
#[cold]
pub(super) fn refuse(batch: &mut Batch<'_>, packet: Packet, reason: DropReason, kind: IcmpError) {
    batch.stack.drops.count(reason);
    protosw::icmp_error(batch, packet, kind);
}

/// Hands a whole datagram to the protocol above.
fn deliver(
    batch: &mut Batch<'_>,
    ifp: &Arc<Ifnet>,
    mut packet: Packet,
    info: &Ipv4Info,
    scope: DestScope,
) {
    // At most 60.
    packet.header_mut().l3_len = info.header_len as u8;
    let ip = Received {
        ifp,
        scope,
        header_len: info.header_len,
        tos: info.tos,
        ttl: info.ttl,
    };
    let from = Addressed {
        ip,
        src: info.src,
        dst: info.dst,
    };
    if let Err(packet) = protosw::deliver4(batch, packet, info.proto, &from) {
        refuse(
            batch,
            packet,
            DropReason::IpUnknownProtocol,
            IcmpError::Protocol,
        );
    }
}
