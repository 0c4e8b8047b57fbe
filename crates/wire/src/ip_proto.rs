//! The number of the protocol that an IP packet carries.
//!
//! Invariants: any byte is a value.
//! Locks: none.
//! Sources: IANA protocol numbers, RFC 791.

use core::fmt;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The protocol that an IP packet carries.
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
    /// Transmission Control Protocol.
    pub const TCP: IpProto = IpProto(6);
    /// User Datagram Protocol.
    pub const UDP: IpProto = IpProto(17);
}

impl fmt::Display for IpProto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            IpProto::ICMP => f.write_str("ICMP"),
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
