//! An interface reports the groups that it is in, so that switches and routers send it the packets to these groups:
//! those of IPv4 by IGMP, those of IPv6 by multicast listener discovery.
//!
//! The decisions are in [`ifnet::group_reports`](crate::ifnet::group_reports); [`igmp`] and [`mld`] have the messages.
//!
//! Locks: none held here.
//! Sources: RFC 9776 section 4.2, RFC 9777 section 5.2 (records).

use std::iter;
use std::net::IpAddr;
use std::sync::Arc;

use kern::Random;
use wire::{GroupQuery, GroupRecordHead, GroupVersion};

use super::{igmp, mld};
use crate::batch::Batch;
use crate::ifnet::Ifnet;
use crate::ifnet::group_reports::{GroupRecord, GroupReports};
use crate::ifnet::groups::is_source_specific;
use crate::ifnet::source_filter::SOURCES_MAX;
use crate::state::SHARED_TIMERS_CPU;

/// Bytes of a query that are read at most, from its group on.
pub(super) const QUERY_LEN_MAX: usize = 20 + 16 * SOURCES_MAX;

/// Reports a change of the interface's addresses or joined groups.
pub(crate) fn changed(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>) {
    if let Some(reports) = &ifp.igmp {
        reports.set_groups(batch.now, || igmp::groups(ifp));
    }
    if let Some(reports) = &ifp.mld {
        reports.set_groups(batch.now, || mld::groups(batch, ifp));
    }
    run_timers(batch, ifp);
    batch.wake_for_timer(SHARED_TIMERS_CPU);
}

/// Sends the messages that are due.
pub(crate) fn run_timers(batch: &mut Batch<'_>, ifp: &Arc<Ifnet>) {
    for is_igmp in [true, false] {
        let reports = if is_igmp { &ifp.igmp } else { &ifp.mld };
        let is_due = |reports: &&GroupReports| reports.deadline().is_some_and(|at| at <= batch.now);
        let Some(reports) = reports.as_ref().filter(is_due).filter(|_| !ifp.is_gone()) else {
            continue;
        };
        let mut random = batch.stack.random(Random::fork);
        for report in reports.run_timers(batch.now, &mut random) {
            match is_igmp {
                true => igmp::report(batch, ifp, &report),
                false => mld::report(batch, ifp, &report),
            }
        }
    }
}

/// A router asks; `body` has the bytes of the query from its group on. Returns whether it may ask so: one that can't
/// name the senders of a group of source-specific multicast has another idea of these groups than its hosts, which
/// should be seen (RFC 4604 section 2).
#[must_use]
pub(super) fn heard_query(
    batch: &mut Batch<'_>,
    reports: &GroupReports,
    query: &GroupQuery,
    body: &[u8],
) -> bool {
    // An answer about all sources is right for any query, and more than these are not remembered.
    let sources: Vec<_> = match usize::from(query.source_count) {
        0..=SOURCES_MAX => query.sources(body).collect(),
        _ => Vec::new(),
    };
    let mut random = batch.stack.random(Random::fork);
    reports.queried(batch.now, query, &sources, &mut random);
    batch.wake_for_timer(SHARED_TIMERS_CPU);
    let is_older = query.version != GroupVersion::Sources;
    !(is_older && query.group.is_some_and(is_source_specific))
}

/// The records as they are in a report.
pub(super) fn to_bytes(records: &[GroupRecord]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        let head = GroupRecordHead {
            kind: record.kind,
            // As many as fit a message.
            source_count: record.sources.len() as u16,
        };
        bytes.extend(head.to_bytes());
        for addr in iter::once(&record.group).chain(&record.sources) {
            match addr {
                IpAddr::V4(addr) => bytes.extend(addr.octets()),
                IpAddr::V6(addr) => bytes.extend(addr.octets()),
            }
        }
    }
    bytes
}
