//! Multicast listener discovery: the messages by which an interface that configures itself reports its groups of IPv6.
//!
//! [`groups`](super::groups) decides when.
//!
//! Locks: none held here.
//! Sources: RFC 9777 section 5.2 and 5.3, RFC 3590.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use mbuf::{NoBufs, Packet};
use wire::{
    ALL_MLD2_ROUTERS, ALL_NODES, ALL_ROUTERS, GroupQuery, Icmp6Header, Icmp6Message, IpProto,
    Ipv6Header, Ipv6Option, Ipv6Options, Scope6, is_link_local6, mld_report, mld_type, scope6,
    solicited_node,
};

use super::groups::{QUERY_LEN_MAX, heard_query, to_bytes};
use super::link_message::LinkMessage;
use super::output;
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::ifnet::Ifnet;
use crate::ifnet::group_reports::GroupReport;
use crate::ifnet::source_filter::SourceFilter;
use crate::ip::Addressed;

/// Messages stay on the link.
const HOP_LIMIT: u8 = 1;
/// The header before each message that makes routers examine it: one option and its padding (RFC 2711).
const ALERT: [u8; 8] = [
    IpProto::ICMPV6.0,
    0,
    Ipv6Option::ROUTER_ALERT,
    2,
    0,
    0,
    Ipv6Option::PADN,
    0,
];

/// The interface has its link-local address from now on.
pub(super) fn begin_anew(batch: &Batch<'_>, ifp: &Ifnet) {
    if let Some(mld) = &ifp.mld {
        mld.begin_anew(batch.now);
    }
}

/// The groups that it is in, without those that are never reported (RFC 9777 section 6), each with the senders whose
/// packets it takes.
pub(super) fn groups(batch: &Batch<'_>, ifp: &Ifnet) -> Vec<(IpAddr, SourceFilter)> {
    let own = ifp.addrs6.list().into_iter().map(|own| own.addr);
    let probed = ifp.host6.as_ref().map(|host| host.tentative());
    let looked_for = own.chain(probed.into_iter().flatten()).map(solicited_node);
    let as_router = batch.stack.is_router_on(ifp).then_some(ALL_ROUTERS);
    let anycast = ifp.addrs6.list().into_iter();
    let anycast = anycast.filter_map(|own| own.subnet_router_anycast());
    let anycast = anycast
        .filter(|_| batch.stack.tells_of_router(ifp))
        .map(solicited_node);
    let looked_for = looked_for.chain(anycast);
    let own = looked_for.chain(as_router);
    let own = own.map(|group| (IpAddr::V6(group), SourceFilter::all()));
    let is_reported = |group: &IpAddr| match *group {
        IpAddr::V4(_) => false,
        IpAddr::V6(group) => group != ALL_NODES && scope6(group) > Scope6::Interface,
    };
    let mut all: Vec<_> = (own.chain(ifp.groups.list()))
        .filter(|(group, _)| is_reported(group))
        .collect();
    all.sort_by_key(|(group, _)| *group);
    let same = all.chunk_by(|a, b| a.0 == b.0);
    let merged = same.map(|same| {
        let filters = same.iter().map(|(_, filter)| filter);
        (same[0].0, SourceFilter::of_members(filters))
    });
    merged.filter(|(_, filter)| !filter.is_none()).collect()
}

/// Sends a message that is due.
pub(super) fn report(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, report: &GroupReport) {
    let (kind, group) = match report {
        GroupReport::Records(records) => {
            // A message has few.
            let message = mld_report(records.len() as u16);
            return send(batch, ifp, ALL_MLD2_ROUTERS, message, &to_bytes(records));
        }
        GroupReport::Listening(group, _) => (mld_type::REPORT_V1, group),
        GroupReport::Done(group) => (mld_type::DONE_V1, group),
    };
    let IpAddr::V6(group) = *group else { return };
    let message = Icmp6Message::Other {
        kind,
        code: 0,
        rest: [0; 4],
    };
    let to = match kind {
        mld_type::DONE_V1 => ALL_ROUTERS,
        _ => group,
    };
    send(batch, ifp, to, message, &group.octets());
}

/// Handles a message of type `header`; `packet` begins with its IP headers. Returns a message that is not of this
/// protocol.
pub(crate) fn input(
    batch: &mut Batch<'_>,
    packet: Packet,
    from: &Addressed<'_, Ipv6Addr>,
    header: &Icmp6Header,
) -> Option<Packet> {
    let Some(mld) = &from.ip.ifp.mld else {
        return Some(packet);
    };
    let front = packet.front().get(..from.ip.header_len).unwrap_or(&[]);
    let may = is_link_local6(from.src) && from.ip.ttl == HOP_LIMIT && has_alert(front);
    let mut body = [0; QUERY_LEN_MAX];
    let at = from.ip.header_len + Icmp6Header::LEN;
    let len = packet.len().saturating_sub(at);
    let body = &mut body[..len.min(QUERY_LEN_MAX)];
    packet.copy_to(at, body);
    let query = GroupQuery::parse_mld(header.rest(), body).ok();
    let is_whole = |query: &GroupQuery| may && header.code() == 0 && query.len() <= len;
    let Some(query) = query.filter(is_whole) else {
        batch.drop(packet, DropReason::BadMld);
        return None;
    };
    let is_proper = match (header.kind(), query.group) {
        (mld_type::REPORT_V1, Some(group)) => {
            mld.heard(batch.now, group);
            true
        }
        (mld_type::QUERY, _) => heard_query(batch, mld, &query, body),
        _ => true,
    };
    match is_proper {
        true => {
            drop(packet);
            batch.delivered();
        }
        false => batch.drop(packet, DropReason::BadMld),
    }
    None
}

/// Whether an IP header is followed by hop-by-hop options with a router alert.
fn has_alert(headers: &[u8]) -> bool {
    let Ok(ip) = Ipv6Header::parse(headers) else {
        return false;
    };
    let options = headers.get(Ipv6Header::LEN..).unwrap_or(&[]);
    let len = options
        .get(1)
        .map_or(0, |words| (usize::from(*words) + 1) * 8);
    let options = options.get(..len).unwrap_or(&[]);
    ip.next() == IpProto::HOP_BY_HOP
        && Ipv6Options::new(options)
            .flatten()
            .any(|option| option.kind == Ipv6Option::ROUTER_ALERT && option.data == [0, 0])
}

/// Sends a message from our link-local address, or from the unspecified address while there is none.
fn send(
    batch: &mut Batch<'_>,
    ifp: &Arc<Ifnet>,
    dst: Ipv6Addr,
    message: Icmp6Message,
    body: &[u8],
) {
    let own = ifp.addrs6.list().into_iter().map(|own| own.addr);
    let src = own.into_iter().find(|addr| is_link_local6(*addr));
    let src = src.unwrap_or(Ipv6Addr::UNSPECIFIED);
    let message = LinkMessage {
        src,
        dst,
        hop_limit: HOP_LIMIT,
        hop_by_hop: &ALERT,
        message,
        body,
    };
    match message.packet(&batch.stack.pool) {
        Ok(packet) => output::run6(batch, ifp, packet, dst, &mut None),
        Err(NoBufs) => batch.stack.drops.count(DropReason::TxNoBufs),
    }
}
