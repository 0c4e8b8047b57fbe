//! IPv6 packets that arrived: checked, found to be for us, reassembled, delivered.
//!
//! [`protosw`] calls this file, and hands its datagrams to the protocols above. The steps: [`parse`] the header, decide
//! whether the addresses are [`admit`]ted, walk the [`chain`], wait for the other fragments, [`deliver`].
//!
//! Invariants: each packet ends delivered, forwarded or dropped. Locks: none.
//! Sources: RFC 8200 sections 3 and 4, RFC 4291 section 2.5, RFC 4007 (zones).

use std::net::Ipv6Addr;
use std::sync::Arc;

use mbuf::{Packet, PullupError};
use wire::{
    ALL_NODES, ALL_ROUTERS, Icmp6Message, IpProto, Ipv6Header, ParseError, is_link_local6,
    is_martian_destination6, is_martian_source6,
};

use super::chain::{self, ChainEnd, ChainFault, Upper};
use super::forward;
use super::reassemble::{Fragment6, is_discovery};
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
pub(crate) struct Ipv6Info {
    pub(super) class: u8,
    pub(super) payload_len: usize,
    pub(super) next: IpProto,
    pub(super) hop_limit: u8,
    pub(super) src: Ipv6Addr,
    pub(super) dst: Ipv6Addr,
}

impl Ipv6Info {
    /// Whether the length is in a jumbo payload option (RFC 2675).
    fn is_jumbo(&self) -> bool {
        self.payload_len == 0 && self.next == IpProto::HOP_BY_HOP
    }
}

/// The decision about a packet whose addresses are valid.
enum Admitted {
    Here(DestScope),
    /// For another host: forward it.
    Forward,
}

/// Handles a packet that begins with its IPv6 header.
#[doc(alias = "ip6_input")]
pub(crate) fn run(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, mut packet: Packet, arrival: Arrival) {
    let info = match parse(&mut packet) {
        Ok(info) => info,
        Err(reason) => return batch.drop(packet, reason),
    };
    // Bytes beyond the payload are the link's padding.
    if !info.is_jumbo() {
        packet.truncate(Ipv6Header::LEN + info.payload_len);
    }
    let scope = match admit(batch, ifp, &info, arrival) {
        Ok(Admitted::Here(scope)) => scope,
        Ok(Admitted::Forward) => {
            // Its length is in an option, which must be right.
            if info.is_jumbo()
                && let Err(fault) = chain::walk(&mut packet, &info)
            {
                return refuse(batch, packet, fault);
            }
            return forward::run(batch, ifp, packet, &info);
        }
        Err(reason) => return batch.drop(packet, reason),
    };
    if scope == DestScope::Foreign && info.hop_limit <= 1 {
        batch.stack.drops.count(DropReason::IpTtlExceeded);
        return protosw::icmp_error(batch, packet, IcmpError::TimeExceeded);
    }
    match chain::walk(&mut packet, &info) {
        Ok(ChainEnd::Upper(upper)) => deliver(batch, ifp, packet, &info, upper, scope),
        Ok(ChainEnd::Fragment(place)) => {
            let fragment = Fragment6 { info, place };
            reassemble(batch, ifp, packet, &fragment, (scope, arrival));
        }
        Err(fault) => refuse(batch, packet, fault),
    }
}

/// Drops a packet for a fault of its headers, and sends an error to its sender if the fault asks for one.
fn refuse(batch: &mut Batch<'_>, packet: Packet, fault: ChainFault) {
    match fault {
        ChainFault::Drop(reason) => batch.drop(packet, reason),
        ChainFault::Tell {
            code,
            pointer,
            to_many,
        } => {
            batch.stack.drops.count(DropReason::IpBadOptions);
            let message = Icmp6Message::ParamProblem { code, pointer };
            protosw::param_problem6(batch, packet, message, to_many);
        }
    }
}

/// Adds a fragment to its datagram, which is delivered once it is whole.
fn reassemble(
    batch: &mut Batch<'_>,
    ifp: &Arc<Ifnet>,
    packet: Packet,
    fragment: &Fragment6,
    (scope, arrival): (DestScope, Arrival),
) {
    let stack = batch.stack;
    let Some((mut whole, fragment)) = stack.ip6.reassembly.add(batch, packet, fragment) else {
        return;
    };
    stack.received.inc();
    let info = fragment.info;
    let upper = match chain::walk(&mut whole, &info) {
        Ok(ChainEnd::Upper(upper)) => upper,
        // A fragment of a fragment.
        Ok(ChainEnd::Fragment(_)) => return batch.drop(whole, DropReason::FragmentBad),
        Err(fault) => return refuse(batch, whole, fault),
    };
    if is_discovery(&whole, upper.proto, upper.header_len) {
        return batch.drop(whole, DropReason::BadNd);
    }
    if let Some(whole) = dispatch::redispatch(batch, Protocol::Ip6, whole, arrival) {
        deliver(batch, ifp, whole, &info, upper, scope);
    }
}

/// Checks the header by itself.
fn parse(packet: &mut Packet) -> Result<Ipv6Info, DropReason> {
    let len = packet.len();
    let bytes = packet.pullup(Ipv6Header::LEN).map_err(|e| match e {
        PullupError::TooShort => DropReason::IpTruncated,
        PullupError::NoBufs => DropReason::NoBufs,
    })?;
    let header = Ipv6Header::parse(bytes).map_err(|e| match e {
        ParseError::Truncated => DropReason::IpTruncated,
        _ => DropReason::IpBadHeader,
    })?;
    if Ipv6Header::LEN + header.payload_len() > len {
        return Err(DropReason::IpTruncated);
    }
    Ok(Ipv6Info {
        class: header.class(),
        payload_len: header.payload_len(),
        next: header.next(),
        hop_limit: header.hop_limit(),
        src: header.src(),
        dst: header.dst(),
    })
}

/// Whether a packet between these addresses may come in by this interface, and whether it is for us.
fn admit(
    batch: &Batch<'_>,
    ifp: &Ifnet,
    info: &Ipv6Info,
    arrival: Arrival,
) -> Result<Admitted, DropReason> {
    let (src, dst) = (info.src, info.dst);
    if !may_send(batch, ifp, info, arrival) {
        return Err(DropReason::IpBadSource);
    }
    if dst.is_multicast() {
        return match is_member(batch, ifp, dst) {
            true => Ok(Admitted::Here(DestScope::Group)),
            false => Err(DropReason::IpNotForUs),
        };
    }
    let looped = arrival == Arrival::Loopback;
    // A unicast packet in a multicast frame is an error.
    if arrival == Arrival::Group || (is_martian_destination6(dst) && !looped) {
        return Err(DropReason::IpNotForUs);
    }
    // A link-local address must be this interface's own. A global one may also be another interface's.
    let ours = match is_link_local6(dst) {
        true => ifp.owns6(dst),
        false => ifp.owns6(dst) || batch.stack.routes6.is_local(dst),
    };
    if ours {
        return Ok(Admitted::Here(DestScope::Local));
    }
    if batch.stack.takes_anycast6(ifp, dst) {
        return Ok(Admitted::Here(DestScope::Anycast));
    }
    if batch.stack.is_router_on(ifp) && arrival == Arrival::Unicast {
        return Ok(Admitted::Forward);
    }
    let foreign = ifp.accept_any && !is_link_local6(dst) && !is_link_local6(src);
    foreign
        .then_some(Admitted::Here(DestScope::Foreign))
        .ok_or(DropReason::IpNotForUs)
}

/// Whether the source address is valid. A station without an address may only send ICMPv6 to groups, as
/// neighbour discovery does (RFC 4291 section 2.5.2).
fn may_send(batch: &Batch<'_>, ifp: &Ifnet, info: &Ipv6Info, arrival: Arrival) -> bool {
    let src = info.src;
    if arrival == Arrival::Loopback {
        return !src.is_multicast();
    }
    if src.is_unspecified() {
        return info.next == IpProto::ICMPV6 && info.dst.is_multicast();
    }
    !is_martian_source6(src) && !ifp.owns6(src) && !batch.stack.routes6.is_local(src)
}

/// The groups that a station is in: its [own](is_own_group), and those that programs joined, for any sender: a router's
/// query for listeners of one group is sent to that group, and the router is none of the group's senders (RFC 9777
/// section 5.1.15). UDP drops the datagrams that no program wants.
pub(super) fn is_member(batch: &Batch<'_>, ifp: &Ifnet, group: Ipv6Addr) -> bool {
    is_own_group(batch, ifp, group) || ifp.groups.has(group.into())
}

/// The groups that a station is in without a program: all nodes, all routers if it is one, the solicited-node groups of
/// its addresses (RFC 4291 section 2.8), anycast ones included.
pub(crate) fn is_own_group(batch: &Batch<'_>, ifp: &Ifnet, group: Ipv6Addr) -> bool {
    let all = group == ALL_NODES || (group == ALL_ROUTERS && batch.stack.is_router_on(ifp));
    let probed = || {
        ifp.host6
            .as_ref()
            .is_some_and(|host| host.has_solicited(group))
    };
    let anycast = || ifp.addrs6.has_solicited_router(group) && batch.stack.tells_of_router(ifp);
    all || ifp.addrs6.has_solicited(group) || probed() || anycast()
}

/// Hands a datagram to the protocol above.
fn deliver(
    batch: &mut Batch<'_>,
    ifp: &Arc<Ifnet>,
    packet: Packet,
    info: &Ipv6Info,
    upper: Upper,
    scope: DestScope,
) {
    if upper.proto == IpProto::NONE {
        return drop_silently(batch, packet);
    }
    if upper.is_atomic && is_discovery(&packet, upper.proto, upper.header_len) {
        return batch.drop(packet, DropReason::BadNd);
    }
    // A connection has two ends (RFC 9293 section 3.9.2.3).
    if upper.proto == IpProto::TCP && scope == DestScope::Group {
        return batch.drop(packet, DropReason::IpNotForUs);
    }
    // Nor can an answer come from an address that other routers have too.
    if upper.proto == IpProto::TCP && scope == DestScope::Anycast {
        batch.stack.drops.count(DropReason::IpNotForUs);
        return protosw::icmp_error(batch, packet, IcmpError::Host);
    }
    let from = Addressed {
        ip: Received {
            ifp,
            scope,
            header_len: upper.header_len,
            tos: info.class,
            ttl: info.hop_limit,
        },
        src: info.src,
        dst: info.dst,
    };
    if let Err(packet) = protosw::deliver6(batch, packet, upper.proto, &from) {
        batch.stack.drops.count(DropReason::IpUnknownProtocol);
        let message = Icmp6Message::ParamProblem {
            code: 1,
            // At most the bytes of a chain.
            pointer: upper.named_at as u32,
        };
        protosw::param_problem6(batch, packet, message, false);
    }
}

/// "No next header": the datagram carries nothing for any protocol (RFC 8200 section 4.7).
fn drop_silently(batch: &Batch<'_>, packet: Packet) {
    batch.drop(packet, DropReason::IpNoNextHeader);
}
