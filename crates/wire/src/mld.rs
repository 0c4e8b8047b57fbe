//! Messages of multicast listener discovery but queries, which [`GroupQuery`](crate::GroupQuery) reads.
//!
//! Invariants, locks: none.
//! Sources: RFC 9777 section 5 (version 2, as RFC 3810), RFC 2710 section 3 (version 1).

use core::net::Ipv6Addr;

use crate::Icmp6Message;

/// The group of all routers that speak version 2: reports are sent to it.
pub const ALL_MLD2_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

/// The types of the messages (RFC 9777 section 5, RFC 2710 section 3).
pub mod mld_type {
    /// A query.
    pub const QUERY: u8 = 130;
    /// A report of version 1.
    pub const REPORT_V1: u8 = 131;
    /// A message of version 1 that the last listener has left.
    pub const DONE_V1: u8 = 132;
    /// A report of version 2.
    pub const REPORT: u8 = 143;
}

/// The message of a report of version 2 before its `count` records.
pub fn mld_report(count: u16) -> Icmp6Message {
    let [c1, c0] = count.to_be_bytes();
    Icmp6Message::Other {
        kind: mld_type::REPORT,
        code: 0,
        rest: [0, 0, c1, c0],
    }
}
