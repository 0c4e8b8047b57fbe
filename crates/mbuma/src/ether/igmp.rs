//! IGMP: the messages by which an interface reports its groups of IPv4.
//!
//! [`groups`](super::groups) decides when. Nothing is sent before a program joins a group.
//!
//! Invariants: a message that is not taken is dropped, and counted. Locks: none held here.
//! Sources: RFC 9776 sections 4, 7.1 and 9.1 (as RFC 3376), RFC 2236 sections 2 and 9, RFC 1112 appendix I, RFC 2113.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use mbuf::{Chain, MbufPool, NoBufs, Packet};
use wire::{
    ALL_IGMP3_ROUTERS, ALL_SUBNET_ROUTERS, ALL_SYSTEMS, GroupQuery, GroupVersion, IgmpHeader,
    IpProto, Ipv4Fields, Ipv4Header, igmp_type,
};

use super::groups::{QUERY_LEN_MAX, heard_query, to_bytes};
use super::output;
use crate::batch::Batch;
use crate::drops::DropReason;
use crate::ifnet::Ifnet;
use crate::ifnet::group_reports::GroupReport;
use crate::ifnet::source_filter::SourceFilter;
use crate::ip::Addressed;

/// Messages stay on the link.
const TTL: u8 = 1;
/// Internetwork control.
const TOS: u8 = 0xc0;
/// The option that makes routers examine a message (RFC 2113).
const ALERT: [u8; 4] = [0x94, 4, 0, 0];

/// The groups that the interface is in, but for the one that is never reported, each with the senders whose packets it
/// takes.
pub(super) fn groups(ifp: &Ifnet) -> Vec<(IpAddr, SourceFilter)> {
    let mut all = ifp.groups.list();
    all.retain(|(group, _)| group.is_ipv4() && *group != ALL_SYSTEMS);
    all
}

/// Sends a message that is due.
pub(super) fn report(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, report: &GroupReport) {
    let (kind, group) = match report {
        GroupReport::Records(records) => {
            // A message has few.
            let [n1, n0] = (records.len() as u16).to_be_bytes();
            let body = [vec![0, 0, n1, n0], to_bytes(records)].concat();
            return send(batch, ifp, ALL_IGMP3_ROUTERS, igmp_type::REPORT, &body);
        }
        GroupReport::Listening(group, GroupVersion::Reports) => (igmp_type::REPORT_V1, group),
        GroupReport::Listening(group, _) => (igmp_type::REPORT_V2, group),
        GroupReport::Done(group) => (igmp_type::LEAVE_V2, group),
    };
    let IpAddr::V4(group) = *group else { return };
    let to = match kind {
        igmp_type::LEAVE_V2 => ALL_SUBNET_ROUTERS,
        _ => group,
    };
    send(batch, ifp, to, kind, &group.octets());
}

/// Takes in a packet that begins with its IP header.
#[doc(alias = "igmp_input")]
pub(crate) fn input(batch: &mut Batch<'_>, packet: Packet, from: &Addressed<'_, Ipv4Addr>) {
    match take(batch, &packet, from) {
        Some(()) => {
            drop(packet);
            batch.delivered();
        }
        None => batch.drop(packet, DropReason::BadIgmp),
    }
}

/// Handles a message; `None`: it is damaged, or none that a station of the link should send.
fn take(batch: &mut Batch<'_>, packet: &Packet, from: &Addressed<'_, Ipv4Addr>) -> Option<()> {
    let at = from.ip.header_len;
    let len = packet.len().checked_sub(at + IgmpHeader::LEN)?;
    let mut bytes = [0; IgmpHeader::LEN + QUERY_LEN_MAX];
    let bytes = &mut bytes[..IgmpHeader::LEN + len.min(QUERY_LEN_MAX)];
    packet.copy_to(at, bytes);
    let (header, body) = IgmpHeader::parse(bytes).ok()?;
    if from.ip.ttl != TTL || !header.checksum_ok(packet.segments_from(at + IgmpHeader::LEN)) {
        return None;
    }
    let reports = from.ip.ifp.igmp.as_ref();
    match header.kind() {
        igmp_type::QUERY => {
            let query = GroupQuery::parse_igmp(header.code(), body).ok()?;
            // Version 1 is older than the option.
            let may = query.version == GroupVersion::Reports || has_alert(packet, at);
            // A query about all groups goes to all stations, one about a group to its listeners or to us.
            let is_asked = query.group.is_some() || from.dst == ALL_SYSTEMS;
            if !may || !is_asked || query.len() > len {
                return None;
            }
            if !reports.is_none_or(|reports| heard_query(batch, reports, &query, body)) {
                return None;
            }
        }
        igmp_type::REPORT_V1 | igmp_type::REPORT_V2 => {
            let group = Ipv4Addr::from_octets(*body.first_chunk::<4>()?);
            if let Some(reports) = reports {
                reports.heard(batch.now, group.into());
            }
        }
        // For routers.
        igmp_type::REPORT | igmp_type::LEAVE_V2 => {}
        _ => return None,
    }
    Some(())
}

/// Whether the IP header has a router alert.
fn has_alert(packet: &Packet, header_len: usize) -> bool {
    let header = packet.front().get(..header_len).unwrap_or(&[]);
    Ipv4Header::parse(header).is_ok_and(|ip| ip.has_router_alert())
}

/// Sends a message from the interface's address, or from the unspecified one while there is none (RFC 9776 section
/// 4.2.13).
fn send(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>, dst: Ipv4Addr, kind: u8, body: &[u8]) {
    let src = ifp.source_for(dst);
    match packet(&batch.stack.pool, src, dst, kind, body) {
        Ok(packet) => output::run4(batch, ifp, packet, dst, &mut None),
        Err(NoBufs) => batch.stack.drops.count(DropReason::TxNoBufs),
    }
}

/// The packet, from its IP header on.
fn packet(
    pool: &MbufPool,
    src: Ipv4Addr,
    dst: Ipv4Addr,
    kind: u8,
    body: &[u8],
) -> Result<Packet, NoBufs> {
    let mut packet = Packet::before_chain(pool, Chain::from_slice(pool, body)?)?;
    let header = IgmpHeader::new(kind, 0, body).to_bytes();
    packet.prepend(IgmpHeader::LEN)?.copy_from_slice(&header);
    let fields = Ipv4Fields {
        tos: TOS,
        // It fits a small packet.
        payload_len: (IgmpHeader::LEN + body.len()) as u16,
        df: true,
        ttl: TTL,
        protocol: IpProto::IGMP,
        src,
        dst,
        options: &ALERT,
        ..Ipv4Fields::default()
    };
    fields.emit(packet.prepend(fields.header_len())?);
    packet.header_mut().l3_len = fields.header_len() as u8;
    Ok(packet)
}
