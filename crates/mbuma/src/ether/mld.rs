//! Multicast listener discovery: an interface that configures itself reports its groups, so that switches and routers
//! send it the packets to these groups.
//!
//! The decisions are in [`ifnet::mld`](crate::ifnet::mld).
//!
//! Locks: none held here.
//! Sources: RFC 9777 section 5.2 and 5.3, RFC 3590.

use std::net::Ipv6Addr;
use std::sync::Arc;

use kern::Random;
use mbuf::{NoBufs, Packet};
use wire::{
    ALL_MLD2_ROUTERS, ALL_NODES, ALL_ROUTERS, Icmp6Header, Icmp6Message, IpProto, Ipv6Header,
    Ipv6Option, Ipv6Options, MldQuery, MldRecord, Scope6, is_link_local6, scope6, solicited_node,
};

use super::link_message::LinkMessage;
use super::output;
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::ifnet::Ifnet;
use crate::ifnet::mld::{GroupRecord, MldReport};
use crate::ifnet::source_filter::{SOURCES_MAX, SourceFilter};
use crate::ip::Addressed;
use crate::state::SHARED_TIMERS_CPU;

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

/// Reports a change of the interface's addresses or joined groups.
pub(crate) fn groups_changed(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>) {
    if let Some(mld) = &ifp.mld {
        mld.set_groups(batch.now, || groups(batch, ifp));
        run_timers(batch, ifp);
        batch.kick(SHARED_TIMERS_CPU);
    }
}

/// The interface has its link-local address from now on.
pub(super) fn begin_anew(batch: &Batch<'_>, ifp: &Ifnet) {
    if let Some(mld) = &ifp.mld {
        mld.begin_anew(batch.now);
    }
}

/// The groups that it is in, without those that are never reported (RFC 9777 section 6), each with the senders whose packets it
/// takes.
fn groups(batch: &Batch<'_>, ifp: &Ifnet) -> Vec<(Ipv6Addr, SourceFilter)> {
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
    let own = own.map(|group| (group, SourceFilter::all()));
    let mut all: Vec<_> = (own.chain(ifp.groups.list()))
        .filter(|(group, _)| *group != ALL_NODES && scope6(*group) > Scope6::Interface)
        .collect();
    all.sort_by_key(|(group, _)| *group);
    let same = all.chunk_by(|a, b| a.0 == b.0);
    let merged = same.map(|same| {
        let filters = same.iter().map(|(_, filter)| filter);
        (same[0].0, SourceFilter::of_members(filters))
    });
    merged.filter(|(_, filter)| !filter.is_none()).collect()
}

/// Sends the messages that are due.
pub(crate) fn run_timers(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>) {
    let Some(mld) = ifp.mld.as_ref().filter(|_| !ifp.is_gone()) else {
        return;
    };
    let mut random = batch.stack.random(Random::fork);
    for report in mld.run_timers(batch.now, &mut random) {
        let (kind, group) = match &report {
            MldReport::Records(records) => {
                let bytes: Vec<u8> = records.iter().flat_map(to_bytes).collect();
                // A message has few.
                let message = MldRecord::report(records.len() as u16);
                send(batch, ifp, ALL_MLD2_ROUTERS, message, &bytes);
                continue;
            }
            MldReport::Listening(group) => (MldQuery::REPORT_V1, group),
            MldReport::Done(group) => (MldQuery::DONE_V1, group),
        };
        let message = Icmp6Message::Other {
            kind,
            code: 0,
            rest: [0; 4],
        };
        let to = if kind == MldQuery::DONE_V1 {
            ALL_ROUTERS
        } else {
            *group
        };
        send(batch, ifp, to, message, &group.octets());
    }
}

fn to_bytes(record: &GroupRecord) -> Vec<u8> {
    let head = MldRecord {
        kind: record.kind,
        group: record.group,
        // As many as fit a message.
        source_count: record.sources.len() as u16,
    };
    let sources = record.sources.iter().flat_map(Ipv6Addr::octets);
    head.to_bytes().into_iter().chain(sources).collect()
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
    let mut body = [0; MldQuery::LEN_V2 + 16 * SOURCES_MAX];
    let at = from.ip.header_len + Icmp6Header::LEN;
    let len = packet.len().saturating_sub(at);
    let body = &mut body[..len.min(MldQuery::LEN_V2 + 16 * SOURCES_MAX)];
    packet.copy_to(at, body);
    let query = MldQuery::parse(header.rest(), body).ok();
    let is_whole = |query: &MldQuery| may && header.code() == 0 && query.len() <= len;
    let Some(query) = query.filter(is_whole) else {
        batch.drop(packet, DropReason::BadMld);
        return None;
    };
    match (header.kind(), query.group) {
        (MldQuery::REPORT_V1, Some(group)) => mld.heard(batch.now, group),
        (MldQuery::KIND, _) => {
            let mut random = batch.stack.random(Random::fork);
            // An answer about all sources is right for any query, and more than these are not remembered.
            let sources: Vec<_> = match usize::from(query.source_count) {
                0..=SOURCES_MAX => query.sources(body).collect(),
                _ => Vec::new(),
            };
            mld.queried(batch.now, &query, &sources, &mut random);
            batch.kick(SHARED_TIMERS_CPU);
        }
        _ => {}
    }
    drop(packet);
    batch.delivered();
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
