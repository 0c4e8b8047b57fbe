//! The fields of an IPv4 header to send, and their encoding.
//!
//! Invariants: an emitted header passes [`Ipv4Header::parse`] and its checksum is right.
//! Locks: none.
//! Sources: RFC 791 section 3.1.

use core::net::Ipv4Addr;

use zerocopy::IntoBytes;
use zerocopy::network_endian::U16;

use super::{FLAG_DF, FLAG_MF, Ipv4Header};
use crate::{Checksum, IpProto, emit};

/// The fields of an IPv4 header (RFC 791 section 3.1); [`Ipv4Fields::emit`] adds version, lengths and checksum.
///
/// ```
/// use wire::{IpProto, Ipv4Fields, Ipv4Header};
/// let mut bytes = [0; 20];
/// let len = Ipv4Fields { protocol: IpProto::UDP, payload_len: 8, ..Ipv4Fields::default() }.emit(&mut bytes);
/// assert_eq!(len, 20);
/// assert_eq!(Ipv4Header::parse(&bytes).unwrap().total_len(), 28);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Fields<'a> {
    /// Traffic class, ECN bits included.
    pub tos: u8,
    /// Bytes behind the header. With the header at most 65535.
    pub payload_len: u16,
    /// The number that the fragments of one packet have in common.
    pub id: u16,
    /// Must not be fragmented.
    pub df: bool,
    /// More fragments follow.
    pub mf: bool,
    /// Where this fragment begins, in bytes: a multiple of 8.
    pub frag_offset: u16,
    /// Hops it may pass.
    pub ttl: u8,
    /// The packet is longer than the total length can say, which is then 0: for a device that cuts it into packets of
    /// their own lengths (Linux's BIG TCP).
    pub oversize: bool,
    /// The protocol that it carries.
    pub protocol: IpProto,
    /// The sender's address.
    pub src: Ipv4Addr,
    /// The receiver's address.
    pub dst: Ipv4Addr,
    /// Options, at most 40 bytes; padded with zeros (end of list) to whole words.
    pub options: &'a [u8],
}

impl Default for Ipv4Fields<'_> {
    /// All zero, but for the TTL of 64 that RFC 1700 recommends.
    fn default() -> Self {
        Ipv4Fields {
            tos: 0,
            payload_len: 0,
            id: 0,
            df: false,
            mf: false,
            frag_offset: 0,
            oversize: false,
            ttl: 64,
            protocol: IpProto::default(),
            src: Ipv4Addr::UNSPECIFIED,
            dst: Ipv4Addr::UNSPECIFIED,
            options: &[],
        }
    }
}

impl Ipv4Fields<'_> {
    /// Bytes that [`Ipv4Fields::emit`] writes.
    #[inline]
    pub fn header_len(&self) -> usize {
        // `assert` in emit bounds the options; saturating only spares a panic path.
        Ipv4Header::LEN.saturating_add(self.options.len().next_multiple_of(4))
    }

    /// Writes the header, checksum included, to the front of `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`Ipv4Fields::header_len`], if there are more than 40 bytes of
    /// options, if the fragment offset is not a multiple of 8, or if header and payload exceed 65535.
    #[inline(always)] // for most callers, most fields are known
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let header_len = self.header_len();
        assert!(
            header_len <= Ipv4Header::LEN_MAX,
            "IPv4 options exceed 40 bytes"
        );
        assert!(
            self.frag_offset & 0b111 == 0,
            "IPv4 fragment offset is not a multiple of 8"
        );
        let total_len = u16::try_from(header_len)
            .ok()
            .and_then(|len| len.checked_add(self.payload_len));
        assert!(total_len.is_some(), "IPv4 packet exceeds 65535 bytes");
        let total_len = total_len.filter(|_| !self.oversize).unwrap_or_default();
        let mut header = self.fixed_part(header_len, total_len);

        let mut sum = self.sum(&header);
        let (fixed, rest) = out.split_at_mut(Ipv4Header::LEN);
        if !self.options.is_empty() {
            self.emit_options(header_len, rest, &mut sum);
        }
        header.set_checksum(sum.finish());
        emit::put(fixed, header.as_bytes());
        header_len
    }

    /// Writes options, which few packets have, padded, and adds them to the sum.
    #[cold]
    fn emit_options(&self, header_len: usize, out: &mut [u8], sum: &mut Checksum) {
        let mut options = [0; 40];
        let (options, _) = options.split_at_mut(header_len.saturating_sub(Ipv4Header::LEN));
        options
            .iter_mut()
            .zip(self.options)
            .for_each(|(to, from)| *to = *from);
        sum.add_bytes(options);
        emit::put(out, options);
    }

    /// The sum of the fixed part's fields: of its bytes, before they are bytes.
    #[inline]
    fn sum(&self, header: &Ipv4Header) -> Checksum {
        let mut sum = Checksum::new();
        sum.add_u16(u16::from_be_bytes([header.version_ihl, header.tos]));
        sum.add_u16(header.total_len.get());
        sum.add_u16(header.id.get());
        sum.add_u16(header.flags_frag.get());
        sum.add_u16(u16::from_be_bytes([header.ttl, header.protocol.0]));
        sum.add_u32(self.src.to_bits());
        sum.add_u32(self.dst.to_bits());
        sum
    }

    #[inline]
    fn fixed_part(&self, header_len: usize, total_len: u16) -> Ipv4Header {
        let df = if self.df { FLAG_DF } else { 0 };
        let mf = if self.mf { FLAG_MF } else { 0 };
        Ipv4Header {
            // At most 15 words: `emit` asserts it.
            version_ihl: 0x40 | (header_len >> 2) as u8,
            tos: self.tos,
            total_len: U16::new(total_len),
            id: U16::new(self.id),
            flags_frag: U16::new(df | mf | (self.frag_offset >> 3)),
            ttl: self.ttl,
            protocol: self.protocol,
            checksum: U16::ZERO,
            src: self.src.octets(),
            dst: self.dst.octets(),
        }
    }
}
