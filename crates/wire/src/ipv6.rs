//! The IPv6 header.
//!
//! Invariants of a header that [`Ipv6Header::parse`] gave: version 6, all 40 bytes present. The caller must check that
//! the packet has `payload_len` bytes behind it, because it owns the chain. The headers behind it are in
//! [`Ipv6ExtHeaders`](crate::Ipv6ExtHeaders).
//! Locks: none.
//! Sources: RFC 8200 section 3, RFC 6437 (flow label), RFC 3168 (ECN).
//!
//! ```text
//!   0           4       6   7   8               24              40
//!  +-----------+-------+---+---+---------------+---------------+
//!  |6 class flow| len  |nxt|hop|      src      |      dst      |
//!  +-----------+-------+---+---+---------------+---------------+
//!   4, 8 and 20 bits    len: of all that follows
//! ```

use core::net::Ipv6Addr;

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{IpProto, ParseError, emit};

/// An IPv6 header as it lies in the packet (RFC 8200 section 3).
#[doc(alias = "ip6_hdr")]
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Ipv6Header {
    version_class_flow: U32,
    payload_len: U16,
    next: IpProto,
    hop_limit: u8,
    src: [u8; 16],
    dst: [u8; 16],
}

const _: () = assert!(size_of::<Ipv6Header>() == Ipv6Header::LEN);

impl Ipv6Header {
    /// Bytes in the header.
    pub const LEN: usize = 40;
    /// The offset in the header of the field that names the next header, in bytes.
    pub const NEXT_OFFSET: usize = 6;
    /// The MTU in bytes that each link has at least (RFC 8200 section 5).
    pub const MTU_MIN: u16 = 1280;

    /// The header at the front of `bytes`.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] for fewer than 40 bytes, [`ParseError::BadVersion`] if it is not version 6.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<&Ipv6Header, ParseError> {
        let (header, _) = Ipv6Header::ref_from_prefix(bytes).map_err(|_| ParseError::Truncated)?;
        match header.version_class_flow.get() >> 28 {
            6 => Ok(header),
            _ => Err(ParseError::BadVersion),
        }
    }

    /// The header at the front of `bytes`, to be changed in place.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] for fewer than 40 bytes.
    pub fn parse_mut(bytes: &mut [u8]) -> Result<&mut Ipv6Header, ParseError> {
        let (header, _) = Ipv6Header::mut_from_prefix(bytes).map_err(|_| ParseError::Truncated)?;
        Ok(header)
    }

    /// The traffic class, ECN bits included.
    #[inline]
    pub const fn class(&self) -> u8 {
        ((self.version_class_flow.get() >> 20) & 0xff) as u8
    }

    /// The flow label, 20 bits.
    #[inline]
    pub const fn flow_label(&self) -> u32 {
        self.version_class_flow.get() & FLOW_MASK
    }

    /// Bytes behind the header.
    #[inline]
    pub const fn payload_len(&self) -> usize {
        self.payload_len.get() as usize
    }

    /// The header that follows: an extension header, or the protocol above.
    #[inline]
    pub const fn next(&self) -> IpProto {
        self.next
    }

    /// Hops that it may still pass.
    #[inline]
    pub const fn hop_limit(&self) -> u8 {
        self.hop_limit
    }

    /// The sender's address.
    #[inline]
    pub const fn src(&self) -> Ipv6Addr {
        Ipv6Addr::from_octets(self.src)
    }

    /// The receiver's address.
    #[inline]
    pub const fn dst(&self) -> Ipv6Addr {
        Ipv6Addr::from_octets(self.dst)
    }

    /// Says that `len` bytes follow.
    pub fn set_payload_len(&mut self, len: u16) {
        self.payload_len = U16::new(len);
    }

    /// Sets the two ECN bits of the traffic class.
    pub fn set_ecn(&mut self, ecn: u8) {
        const ECN_MASK: u32 = 0b11 << 20;
        let rest = self.version_class_flow.get() & !ECN_MASK;
        self.version_class_flow = U32::new(rest | u32::from(ecn & 0b11) << 20);
    }

    /// Marks that the packet met congestion, if it may be marked (RFC 3168 section 5). Returns whether it was.
    pub fn mark_ce(&mut self) -> bool {
        let is_capable = self.class() & 0b11 != 0;
        if is_capable {
            self.set_ecn(0b11);
        }
        is_capable
    }

    /// Names the header that follows.
    pub fn set_next(&mut self, next: IpProto) {
        self.next = next;
    }

    /// Takes one hop away.
    pub fn decrement_hop_limit(&mut self) {
        self.hop_limit = self.hop_limit.saturating_sub(1);
    }
}

const FLOW_MASK: u32 = 0x000f_ffff;

/// The fields of an IPv6 header (RFC 8200 section 3); [`Ipv6Fields::emit`] adds the version.
///
/// ```
/// use wire::{IpProto, Ipv6Fields, Ipv6Header};
/// let mut bytes = [0; 40];
/// let fields = Ipv6Fields { next: IpProto::UDP, payload_len: 8, ..Ipv6Fields::default() };
/// assert_eq!(fields.emit(&mut bytes), 40);
/// assert_eq!(Ipv6Header::parse(&bytes).unwrap().payload_len(), 8);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Fields {
    /// Traffic class, ECN bits included.
    pub class: u8,
    /// The same for all packets of a flow, 20 bits; higher ones are ignored.
    pub flow_label: u32,
    /// Bytes behind the header.
    pub payload_len: u16,
    /// The header that follows.
    pub next: IpProto,
    /// Hops it may pass.
    pub hop_limit: u8,
    /// The sender's address.
    pub src: Ipv6Addr,
    /// The receiver's address.
    pub dst: Ipv6Addr,
}

impl Default for Ipv6Fields {
    /// All zero, but for a hop limit of 64.
    fn default() -> Self {
        Ipv6Fields {
            class: 0,
            flow_label: 0,
            payload_len: 0,
            next: IpProto::default(),
            hop_limit: 64,
            src: Ipv6Addr::UNSPECIFIED,
            dst: Ipv6Addr::UNSPECIFIED,
        }
    }
}

impl Ipv6Fields {
    /// Writes the header to the front of `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`Ipv6Header::LEN`].
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let first = 6 << 28 | u32::from(self.class) << 20 | self.flow_label & FLOW_MASK;
        let header = Ipv6Header {
            version_class_flow: U32::new(first),
            payload_len: U16::new(self.payload_len),
            next: self.next,
            hop_limit: self.hop_limit,
            src: self.src.octets(),
            dst: self.dst.octets(),
        };
        emit::put(out, header.as_bytes())
    }
}

#[cfg(test)]
mod tests;
