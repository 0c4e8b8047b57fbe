#![doc = include_str!("../README.md")]
//! # The headers
//!
//! | file | header | bytes | sources |
//! |---|---|---|---|
//! | `mac` | [`MacAddr`] | 6 | IEEE 802, RFC 7042 |
//! | `ether` | [`EtherHeader`], [`EtherType`] | 14 | RFC 894 |
//! | `arp` | [`ArpPacket`] | 28 | RFC 826, RFC 5227 |
//! | `ipv4` | [`Ipv4Header`], [`Ipv4View`], [`Ipv4Fields`] | 20 to 60 | RFC 791, RFC 1122, RFC 3168 |
//! | `ip_proto` | [`IpProto`] | 1 | RFC 791 |
//! | `ipv4_addr` | [`is_martian_source`] and its like | | RFC 1122, RFC 1812 |
//! | `icmpv4` | [`IcmpHeader`], [`IcmpMessage`] | 8 | RFC 792, RFC 1191 |
//! | `igmp`, `mld`, `group_query` | [`IgmpHeader`], [`GroupQuery`] | 4 and more | RFC 9776, RFC 9777 |
//! | `udp` | [`UdpHeader`] | 8 | RFC 768 |
//! | `tcp` | [`TcpHeader`], [`TcpView`], [`TcpFields`], [`TcpOptions`], [`AccEcnOption`], [`TcpFlags`] | 20 to 60 | RFC 9293, RFC 7323, RFC 2018 |
//! | `dhcp4` | [`Dhcp4Header`], [`Dhcp4Options`], [`Dhcp4Writer`] | 240 and options | RFC 2131, RFC 2132 |
//! | `dhcp6` | [`Dhcp6Header`], [`Dhcp6Options`], [`Dhcp6Writer`] | 4 and options | RFC 9915, RFC 3646 |
//! | `seq` | [`SeqNum`] | 4 | RFC 9293 section 3.4 |
//! | `checksum` | [`Checksum`], [`pseudo_header_v4`] | 2 | RFC 1071 |
//!
//! A TCP segment over IPv4 in an Ethernet frame, with the usual timestamps:
//!
//! ```text
//!  0              14                      34                      54          66
//! +--------------+-----------------------+-----------------------+-----------+---------- - -
//! | EtherHeader  | Ipv4Header            | TcpHeader             | options   | data
//! +--------------+-----------------------+-----------------------+-----------+---------- - -
//!                 Ipv4Header::parse ->    TcpHeader::parse ->
//!                 Ipv4View                TcpView
//! ```
//!
//! The shape is the same everywhere. `X::parse(bytes)` looks at the front of a slice and gives either
//! the header in place, as a reference into the packet, or a [`ParseError`]; where a header has options it
//! gives a view that dereferences to the fixed part. Going out, a value of the fields is written by
//! `emit(&mut bytes)`, which returns the length written.
//!
//! Invariants: no received byte can make this crate panic, which the lints below enforce; only an output buffer that
//! is too short, which is the caller's mistake, fails an assertion. Header bytes are contiguous in the slice: the
//! caller pulls them up first. The caller must also check fields that depend on the length of the whole packet,
//! because it owns the chain. No function allocates. Locks: none.
//!
//! `unsafe`: [`Checksum`] calls code for vectors that the CPU has (`checksum/wide`), with the feature `std` on x86-64.
#![deny(clippy::missing_errors_doc)]
#![no_std]
#![deny(unsafe_code)]
// Tests may index and unwrap: a panic there is a failed test.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

#[cfg(any(test, feature = "std"))]
extern crate std;

mod arp;
mod checksum;
mod dhcp4;
mod dhcp6;
mod emit;
mod error;
mod ether;
mod group_query;
mod icmpv4;
mod icmpv6;
mod igmp;
mod ip_proto;
mod ipv4;
mod ipv4_addr;
mod ipv6;
mod ipv6_addr;
mod ipv6_ext;
mod mac;
mod mld;
mod ndp;
mod seq;
mod tcp;
mod udp;

pub use self::arp::{ArpOp, ArpPacket};
pub use self::checksum::{Checksum, pseudo_header_v4, pseudo_header_v6};
pub use self::dhcp4::{Dhcp4Header, Dhcp4Options, Dhcp4Type, Dhcp4Writer, dhcp4_option};
pub use self::dhcp6::{
    Dhcp6Association, Dhcp6Header, Dhcp6Options, Dhcp6Type, Dhcp6Writer, dhcp6_option,
    dhcp6_status, duid_of,
};
pub use self::error::ParseError;
pub use self::ether::{EtherHeader, EtherType};
pub use self::group_query::{GroupQuery, GroupRecordHead, GroupRecordType, GroupVersion};
pub use self::icmpv4::{IcmpHeader, IcmpMessage, TimeExceeded, Unreachable};
pub use self::icmpv6::{Icmp6Header, Icmp6Message, Unreachable6};
pub use self::igmp::{ALL_IGMP3_ROUTERS, ALL_SUBNET_ROUTERS, ALL_SYSTEMS, IgmpHeader, igmp_type};
pub use self::ip_proto::IpProto;
pub use self::ipv4::{Ipv4Fields, Ipv4Header, Ipv4View};
pub use self::ipv4_addr::{
    is_martian_destination, is_martian_source, is_same_subnet, is_source_specific4,
    is_subnet_broadcast,
};
pub use self::ipv6::{Ipv6Fields, Ipv6Header};
pub use self::ipv6_addr::{
    ALL_NODES, ALL_ROUTERS, Scope6, is_link_local6, is_martian_destination6, is_martian_source6,
    is_same_prefix, is_source_specific6, link_local_of, needs_zone, scope6, solicited_node,
    translated_ipv4, wraps_ipv4,
};
pub use self::ipv6_ext::{
    Ipv6ExtHeader, Ipv6ExtHeaders, Ipv6Fragment, Ipv6Jumbo, Ipv6Option, Ipv6Options, UnknownOption,
};
pub use self::mac::{MacAddr, MacAddrParseError};
pub use self::mld::{ALL_MLD2_ROUTERS, mld_report, mld_type};
pub use self::ndp::{
    AdvertFlags, NdpMessage, NdpOption, NdpOptions, NeighborMessage, PrefixInfo, RedirectBody,
    RouterAdvert,
};
pub use self::seq::SeqNum;
pub use self::tcp::{
    AccEcnOption, SackBlock, SackBlocks, TcpFields, TcpFlags, TcpHeader, TcpOptions, TcpView,
};
pub use self::udp::UdpHeader;
