//! The messages that an interface sends about its groups, and the records of which they are made.
//!
//! Locks: none. Sources: RFC 9777 section 5.2, RFC 9776 section 4.2.

use std::net::IpAddr;

use wire::{GroupRecordHead, GroupRecordType, GroupVersion, IgmpHeader, Ipv4Header, Ipv6Header};

use crate::ifnet::source_filter::SOURCES_MAX;

/// Bytes of the records of a message of MLD at most: it fits the smallest MTU, behind the headers of IPv6, its options
/// and ICMPv6.
pub(super) const RECORDS6_LEN_MAX: usize = Ipv6Header::MTU_MIN as usize - Ipv6Header::LEN - 8 - 8;
/// The same for IGMP: a packet that each host and nearly each link takes whole (RFC 791 section 3.1), with an option.
const RECORDS4_LEN_MAX: usize = 576 - Ipv4Header::LEN - 4 - IgmpHeader::LEN - 4;

// A record that is not cut fits a message.
const _: () = assert!(GroupRecordHead::LEN + (SOURCES_MAX + 1) * 16 <= RECORDS6_LEN_MAX);
const _: () = assert!(GroupRecordHead::LEN + (SOURCES_MAX + 1) * 4 <= RECORDS4_LEN_MAX);

/// A message that is due.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum GroupReport {
    /// One with sources: none of them is empty.
    Records(Vec<GroupRecord>),
    /// The group has a listener, in the form of an older version.
    Listening(IpAddr, GroupVersion),
    /// The group has no listener any more.
    Done(IpAddr),
}

/// A record of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupRecord {
    pub(crate) kind: GroupRecordType,
    pub(crate) group: IpAddr,
    pub(crate) sources: Vec<IpAddr>,
}

impl GroupRecord {
    pub(super) fn len(&self) -> usize {
        let addr_len = if self.group.is_ipv4() { 4 } else { 16 };
        GroupRecordHead::LEN + addr_len * (1 + self.sources.len())
    }

    /// Bytes of the records of a message at most.
    fn room(&self) -> usize {
        match self.group {
            IpAddr::V4(_) => RECORDS4_LEN_MAX,
            IpAddr::V6(_) => RECORDS6_LEN_MAX,
        }
    }
}

/// Messages of these records, each of which fits the smallest MTU (RFC 9776 section 4.2.16).
pub(super) fn in_messages(records: Vec<GroupRecord>) -> Vec<GroupReport> {
    let mut messages: Vec<Vec<GroupRecord>> = Vec::new();
    let mut room = 0;
    for record in records {
        if record.len() > room {
            messages.push(Vec::new());
            room = record.room();
        }
        room -= record.len();
        if let Some(message) = messages.last_mut() {
            message.push(record);
        }
    }
    messages.into_iter().map(GroupReport::Records).collect()
}
