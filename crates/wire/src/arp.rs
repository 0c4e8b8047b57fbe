//! The ARP packet that binds an IPv4 address to an Ethernet address.
//!
//! Invariants: only Ethernet and IPv4; a parsed packet is a request or a reply. Bytes behind the 28 are Ethernet
//! padding and are ignored.
//! Locks: none.
//! Sources: RFC 826, RFC 5227 (announcements).
//!
//! ```text
//!   0       2       4   5   6       8           14      18          24      28
//!  +-------+-------+---+---+-------+-----------+-------+-----------+-------+
//!  | htype | ptype |hln|pln|  op   | sender mac| s. ip | target mac| t. ip |
//!  +-------+-------+---+---+-------+-----------+-------+-----------+-------+
//! ```

use core::net::Ipv4Addr;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{EtherType, MacAddr, ParseError, emit};

/// Whether an ARP packet asks or answers (RFC 826).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum ArpOp {
    /// Asks for the MAC address of an IP address.
    Request = 1,
    /// The sender has it.
    Reply = 2,
}

/// An ARP packet for IPv4 over Ethernet (RFC 826, RFC 5227).
#[doc(alias = "arphdr")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ArpPacket {
    /// Request or reply.
    pub op: ArpOp,
    /// Ethernet address of the sender.
    pub sender_mac: MacAddr,
    /// IPv4 address of the sender; unspecified in a probe (RFC 5227).
    pub sender_ip: Ipv4Addr,
    /// Ethernet address of the target; zero in a request.
    pub target_mac: MacAddr,
    /// IPv4 address of the target.
    pub target_ip: Ipv4Addr,
}

impl ArpPacket {
    /// Bytes in the packet.
    pub const LEN: usize = 28;

    /// Asks for the MAC address of `target_ip`.
    pub const fn request(
        sender_mac: MacAddr,
        sender_ip: Ipv4Addr,
        target_ip: Ipv4Addr,
    ) -> ArpPacket {
        ArpPacket {
            op: ArpOp::Request,
            sender_mac,
            sender_ip,
            target_mac: MacAddr::ZERO,
            target_ip,
        }
    }

    /// Tells the target that `sender_mac` has `sender_ip`.
    pub const fn reply(
        sender_mac: MacAddr,
        sender_ip: Ipv4Addr,
        target_mac: MacAddr,
        target_ip: Ipv4Addr,
    ) -> ArpPacket {
        ArpPacket {
            op: ArpOp::Reply,
            sender_mac,
            sender_ip,
            target_mac,
            target_ip,
        }
    }

    /// Announces to the link that `mac` has `ip`: a request for one's own address (RFC 5227 2.3).
    pub const fn gratuitous(mac: MacAddr, ip: Ipv4Addr) -> ArpPacket {
        ArpPacket::request(mac, ip, ip)
    }

    /// The packet at the front of `bytes`.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] for fewer than 28 bytes; [`ParseError::Unsupported`] for another link
    /// or network protocol or another operation; [`ParseError::BadLength`] for address lengths that
    /// are not those of Ethernet and IPv4.
    pub fn parse(bytes: &[u8]) -> Result<ArpPacket, ParseError> {
        let (raw, _) = ArpLayout::ref_from_prefix(bytes).map_err(|_| ParseError::Truncated)?;
        if raw.htype.get() != HTYPE_ETHERNET || raw.ptype.get() != EtherType::IPV4.0 {
            return Err(ParseError::Unsupported);
        }
        if raw.hlen != HLEN || raw.plen != PLEN {
            return Err(ParseError::BadLength);
        }
        let op = match raw.op.get() {
            1 => ArpOp::Request,
            2 => ArpOp::Reply,
            _ => return Err(ParseError::Unsupported),
        };
        Ok(ArpPacket {
            op,
            sender_mac: raw.sender_mac,
            sender_ip: raw.sender_ip.into(),
            target_mac: raw.target_mac,
            target_ip: raw.target_ip.into(),
        })
    }

    /// Writes the packet to the front of `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`ArpPacket::LEN`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let raw = ArpLayout {
            htype: U16::new(HTYPE_ETHERNET),
            ptype: U16::new(EtherType::IPV4.0),
            hlen: HLEN,
            plen: PLEN,
            op: U16::new(self.op as u16),
            sender_mac: self.sender_mac,
            sender_ip: self.sender_ip.octets(),
            target_mac: self.target_mac,
            target_ip: self.target_ip.octets(),
        };
        emit::put(out, raw.as_bytes())
    }
}

/// The 28 bytes as drawn above. Private: [`ArpPacket`] has the checked meaning of the fields.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct ArpLayout {
    htype: U16,
    ptype: U16,
    hlen: u8,
    plen: u8,
    op: U16,
    sender_mac: MacAddr,
    sender_ip: [u8; 4],
    target_mac: MacAddr,
    target_ip: [u8; 4],
}

const _: () = assert!(size_of::<ArpLayout>() == ArpPacket::LEN);

/// Hardware type 1 is Ethernet (IANA ARP parameters).
const HTYPE_ETHERNET: u16 = 1;
const HLEN: u8 = 6;
const PLEN: u8 = 4;

#[cfg(test)]
mod tests;
