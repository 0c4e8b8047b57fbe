//! The header of an Ethernet II frame.
//!
//! Invariants: 14 bytes, alignment 1. Frames with an 802.3 length instead of a type parse too: their [`EtherType`] is
//! below 0x600, which no protocol has.
//! Locks: none.
//! Sources: RFC 894, IEEE 802.3 clause 3.2, RFC 7042 appendix B (types).
//!
//! ```text
//!   0           6           12      14
//!  +-----------+-----------+-------+---------- - -
//!  |    dst    |    src    | type  | payload
//!  +-----------+-----------+-------+---------- - -
//! ```

use core::fmt;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{MacAddr, ParseError, emit};

/// The protocol that an Ethernet frame carries (RFC 7042 appendix B).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EtherType(pub u16);

impl EtherType {
    /// Internet Protocol version 4.
    pub const IPV4: EtherType = EtherType(0x0800);
    /// Address Resolution Protocol.
    pub const ARP: EtherType = EtherType(0x0806);
    /// An 802.1Q tag, and the true type behind it.
    pub const VLAN: EtherType = EtherType(0x8100);
    /// Internet Protocol version 6.
    pub const IPV6: EtherType = EtherType(0x86dd);
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            EtherType::IPV4 => f.write_str("IPv4"),
            EtherType::ARP => f.write_str("ARP"),
            EtherType::VLAN => f.write_str("VLAN"),
            EtherType::IPV6 => f.write_str("IPv6"),
            EtherType(other) => write!(f, "{other:#06x}"),
        }
    }
}

impl fmt::Debug for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An Ethernet II header as it lies in the frame (RFC 894).
#[doc(alias = "ether_header")]
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct EtherHeader {
    /// The receiver's address.
    pub dst: MacAddr,
    /// The sender's address.
    pub src: MacAddr,
    ethertype: U16,
}

const _: () = assert!(size_of::<EtherHeader>() == EtherHeader::LEN);

impl EtherHeader {
    /// Bytes in the header.
    #[doc(alias = "ETHER_HDR_LEN")]
    pub const LEN: usize = 14;

    /// A header from its parts.
    pub const fn new(dst: MacAddr, src: MacAddr, ethertype: EtherType) -> EtherHeader {
        EtherHeader {
            dst,
            src,
            ethertype: U16::new(ethertype.0),
        }
    }

    /// The header at the front of `bytes`, and the bytes after it.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] for fewer than 14 bytes.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(&EtherHeader, &[u8]), ParseError> {
        EtherHeader::ref_from_prefix(bytes).map_err(|_| ParseError::Truncated)
    }

    /// The protocol that the frame carries.
    #[inline]
    pub const fn ethertype(&self) -> EtherType {
        EtherType(self.ethertype.get())
    }

    /// Writes the header to the front of `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`EtherHeader::LEN`].
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> usize {
        emit::put(out, self.as_bytes())
    }
}

#[cfg(test)]
mod tests;
