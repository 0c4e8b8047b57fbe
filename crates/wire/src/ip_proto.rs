//! The number of the protocol that an IP packet carries.
//!
//! Invariants: any byte is a value.
//! Locks: none.
//! Sources: IANA protocol numbers, RFC 791.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The protocol that an IP packet carries (IANA's protocol numbers).
#[derive(
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(transparent)]
pub struct IpProto(pub u8);

impl IpProto {
    /// Internet Control Message Protocol.
    pub const ICMP: IpProto = IpProto(1);
    /// Internet Group Management Protocol.
    pub const IGMP: IpProto = IpProto(2);
    /// Hop-by-hop options of IPv6.
    pub const HOP_BY_HOP: IpProto = IpProto(0);
    /// Routing header of IPv6.
    pub const ROUTING: IpProto = IpProto(43);
    /// Fragment header of IPv6.
    pub const FRAGMENT: IpProto = IpProto(44);
    /// Authentication header.
    pub const AH: IpProto = IpProto(51);
    /// Internet Control Message Protocol for IPv6.
    pub const ICMPV6: IpProto = IpProto(58);
    /// Nothing follows an IPv6 header.
    pub const NONE: IpProto = IpProto(59);
    /// Destination options of IPv6.
    pub const DEST_OPTIONS: IpProto = IpProto(60);
    /// Mobility header of IPv6 (RFC 6275).
    pub const MOBILITY: IpProto = IpProto(135);
    /// Host Identity Protocol (RFC 7401).
    pub const HIP: IpProto = IpProto(139);
    /// Shim6 (RFC 5533).
    pub const SHIM6: IpProto = IpProto(140);
    /// Transmission Control Protocol.
    pub const TCP: IpProto = IpProto(6);
    /// User Datagram Protocol.
    pub const UDP: IpProto = IpProto(17);
}

impl fmt::Display for IpProto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            IpProto::ICMP => f.write_str("ICMP"),
            IpProto::IGMP => f.write_str("IGMP"),
            IpProto::ICMPV6 => f.write_str("ICMPv6"),
            IpProto::TCP => f.write_str("TCP"),
            IpProto::UDP => f.write_str("UDP"),
            IpProto(other) => write!(f, "protocol {other}"),
        }
    }
}

impl fmt::Debug for IpProto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
