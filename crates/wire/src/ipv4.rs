//! The IPv4 header.
//!
//! Invariants of an [`Ipv4View`]: version 4, `20 <= header_len <= 60`, all header bytes present, `total_len >=
//! header_len`. The caller must check that the packet has `total_len` bytes, because it owns the chain; and it must
//! verify the checksum unless the device has.
//! Locks: none.
//! Sources: RFC 791, RFC 1122 section 3.2.1, RFC 1812 section 5.3.7 (martians), RFC 3168 (ECN), RFC 6864 (id).
//!
//! ```text
//!   0   1   2       4       6       8   9   10      12      16      20 ..60
//!  +---+---+-------+-------+-------+---+---+-------+-------+-------+--------+
//!  |4,L|tos|total  |  id   |DM frag|ttl|pro|cksum  |  src  |  dst  |options |
//!  +---+---+-------+-------+-------+---+---+-------+-------+-------+--------+
//!   L: header words of 4 bytes   D: don't fragment   M: more fragments   frag: in units of 8 bytes
//! ```

mod fields;

use core::net::Ipv4Addr;
use core::ops::Deref;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub use self::fields::Ipv4Fields;
use crate::{Checksum, IpProto, ParseError};

/// The fixed 20 bytes of an IPv4 header as they lie in the packet (RFC 791 section 3.1).
#[doc(alias = "ip")]
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Ipv4Header {
    version_ihl: u8,
    tos: u8,
    total_len: U16,
    id: U16,
    flags_frag: U16,
    ttl: u8,
    protocol: IpProto,
    checksum: U16,
    src: [u8; 4],
    dst: [u8; 4],
}

const _: () = assert!(size_of::<Ipv4Header>() == Ipv4Header::LEN);

impl Ipv4Header {
    /// Bytes in a header without options.
    pub const LEN: usize = 20;
    /// Bytes in the longest header.
    pub const LEN_MAX: usize = 60;
    /// The offset of the checksum in the header, in bytes.
    pub const CHECKSUM_OFFSET: usize = 10;

    /// The header, options included, at the front of `bytes`.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] if `bytes` end before the header does, [`ParseError::BadVersion`] if
    /// it is not version 4, [`ParseError::BadHeaderLen`] for fewer than five words,
    /// [`ParseError::BadLength`] if the total length does not even cover the header.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Ipv4View<'_>, ParseError> {
        let (header, rest) =
            Ipv4Header::ref_from_prefix(bytes).map_err(|_| ParseError::Truncated)?;
        if header.version_ihl >> 4 != 4 {
            return Err(ParseError::BadVersion);
        }
        let options_len = header
            .header_len()
            .checked_sub(Ipv4Header::LEN)
            .ok_or(ParseError::BadHeaderLen)?;
        let options = rest.get(..options_len).ok_or(ParseError::Truncated)?;
        if header.total_len() < header.header_len() {
            return Err(ParseError::BadLength);
        }
        Ok(Ipv4View { header, options })
    }

    /// The fixed part at the front of `bytes`, to be changed in place, as a fragmenting or segmenting
    /// device does with a header of this stack. After the changes comes
    /// [`Ipv4Header::fill_checksum`].
    ///
    /// # Errors
    /// [`ParseError::Truncated`] for fewer than 20 bytes.
    pub fn parse_mut(bytes: &mut [u8]) -> Result<&mut Ipv4Header, ParseError> {
        let (header, _) = Ipv4Header::mut_from_prefix(bytes).map_err(|_| ParseError::Truncated)?;
        Ok(header)
    }

    /// Bytes of header, options included, as the header says.
    #[inline]
    pub const fn header_len(&self) -> usize {
        // Four bits, so at most 60.
        ((self.version_ihl & 0x0f) as usize) << 2
    }

    /// Bytes of header and payload.
    #[inline]
    pub const fn total_len(&self) -> usize {
        self.total_len.get() as usize
    }

    /// The number that the fragments of one packet have in common.
    #[inline]
    pub const fn id(&self) -> u16 {
        self.id.get()
    }

    /// Whether the packet must not be fragmented.
    #[inline]
    pub const fn df(&self) -> bool {
        self.flags_frag.get() & FLAG_DF != 0
    }

    /// Whether more fragments follow this one.
    #[inline]
    pub const fn mf(&self) -> bool {
        self.flags_frag.get() & FLAG_MF != 0
    }

    /// Where in the whole payload this fragment begins, in bytes: a multiple of 8 up to 65528.
    #[inline]
    pub const fn frag_offset(&self) -> u16 {
        // The shift drops the three flags and is the multiplication by 8.
        self.flags_frag.get() << 3
    }

    /// Whether this is only a part of a packet.
    #[inline]
    pub const fn is_fragment(&self) -> bool {
        self.flags_frag.get() & !(FLAG_DF | FLAG_RESERVED) != 0
    }

    /// How many more hops the packet may pass.
    #[inline]
    pub const fn ttl(&self) -> u8 {
        self.ttl
    }

    /// The protocol that the packet carries.
    #[inline]
    pub const fn protocol(&self) -> IpProto {
        self.protocol
    }

    /// The whole traffic class byte.
    #[inline]
    pub const fn tos(&self) -> u8 {
        self.tos
    }

    /// The two ECN bits (RFC 3168): 0 not capable, 1 and 2 capable, 3 congestion experienced.
    #[inline]
    pub const fn ecn(&self) -> u8 {
        self.tos & 0b11
    }

    /// The header checksum field.
    #[inline]
    pub const fn checksum(&self) -> u16 {
        self.checksum.get()
    }

    /// The sender's address.
    #[inline]
    pub fn src(&self) -> Ipv4Addr {
        self.src.into()
    }

    /// The receiver's address.
    #[inline]
    pub fn dst(&self) -> Ipv4Addr {
        self.dst.into()
    }

    /// Sets the number of bytes of header and payload.
    pub fn set_total_len(&mut self, total_len: u16) {
        self.total_len = U16::new(total_len);
    }

    /// Sets the identification.
    pub fn set_id(&mut self, id: u16) {
        self.id = U16::new(id);
    }

    /// Sets the number of hops left.
    pub fn set_ttl(&mut self, ttl: u8) {
        self.ttl = ttl;
    }

    /// One hop less, and the checksum with it. Returns the new value; 0 stays 0.
    pub fn decrement_ttl(&mut self) -> u8 {
        let (old, left) = (self.ttl, self.ttl.saturating_sub(1));
        let word = |ttl: u8| u16::from_be_bytes([ttl, self.protocol.0]);
        self.update_checksum(word(old), word(left));
        self.ttl = left;
        left
    }

    /// Marks an ECN-capable packet with "congestion experienced" (RFC 3168 5), and keeps the checksum right. Returns
    /// whether it is marked now: a packet that is not ECN-capable is not changed.
    pub fn mark_ce(&mut self) -> bool {
        if self.ecn() == 0 {
            return false;
        }
        let marked = self.tos | 0b11;
        let word = |tos: u8| u16::from_be_bytes([self.version_ihl, tos]);
        self.update_checksum(word(self.tos), word(marked));
        self.tos = marked;
        true
    }

    /// The checksum after a word of the header has changed: RFC 1624 equation 3. One that was wrong stays wrong.
    fn update_checksum(&mut self, old: u16, new: u16) {
        let mut sum = Checksum::new();
        sum.add_u16(!self.checksum.get());
        sum.add_u16(!old);
        sum.add_u16(new);
        self.checksum = U16::new(sum.finish());
    }

    /// Sets the checksum field.
    pub fn set_checksum(&mut self, checksum: u16) {
        self.checksum = U16::new(checksum);
    }

    /// Whether the checksum of a whole header, options included, is right.
    #[inline]
    pub fn header_checksum_ok(header_bytes: &[u8]) -> bool {
        let mut sum = Checksum::new();
        sum.add_bytes(header_bytes);
        sum.is_valid()
    }

    /// Computes the checksum of the whole header at the front of `bytes` and puts it in its place.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] or [`ParseError::BadHeaderLen`] if the header is not all there.
    pub fn fill_checksum(bytes: &mut [u8]) -> Result<(), ParseError> {
        let header = Ipv4Header::parse_mut(bytes)?;
        header.set_checksum(0);
        let header_len = header.header_len();
        if header_len < Ipv4Header::LEN {
            return Err(ParseError::BadHeaderLen);
        }
        let mut sum = Checksum::new();
        sum.add_bytes(bytes.get(..header_len).ok_or(ParseError::Truncated)?);
        Ipv4Header::parse_mut(bytes)?.set_checksum(sum.finish());
        Ok(())
    }
}

/// A checked IPv4 header (RFC 791, RFC 1122 section 3.2.1): the fixed part, to which it dereferences, and the options.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4View<'a> {
    header: &'a Ipv4Header,
    options: &'a [u8],
}

impl<'a> Ipv4View<'a> {
    /// Where in the header the first option is that is not whole, as the pointer of a parameter problem has it; none if
    /// the options are a list of whole ones, up to the end of the header or of the list (RFC 791 section 3.1).
    #[must_use]
    pub fn bad_option(&self) -> Option<u8> {
        self.each_option(|_| {})
    }

    /// Whether the options ask each router on the way to examine the packet (RFC 2113).
    #[must_use]
    pub fn has_router_alert(&self) -> bool {
        let mut is_there = false;
        self.each_option(|option| is_there |= option == ROUTER_ALERT);
        is_there
    }

    /// Calls `see` with each whole option of more than a byte; the result is that of [`Ipv4View::bad_option`].
    fn each_option(&self, mut see: impl FnMut(&'a [u8])) -> Option<u8> {
        // The two options of a single byte.
        const END: u8 = 0;
        const NO_OPERATION: u8 = 1;
        let mut left = self.options;
        loop {
            left = match left {
                [] | [END, ..] => return None,
                [NO_OPERATION, rest @ ..] => rest,
                [_, len, ..] if *len >= 2 => match left.split_at_checked((*len).into()) {
                    Some((option, rest)) => {
                        see(option);
                        rest
                    }
                    None => break,
                },
                _ => break,
            };
        }
        // A header has 60 bytes at most.
        u8::try_from(self.header_len().saturating_sub(left.len())).ok()
    }

    /// The options, 0 to 40 bytes, padding included.
    #[inline]
    pub const fn options(&self) -> &'a [u8] {
        self.options
    }

    /// Whether the header checksum is right.
    #[inline]
    pub fn checksum_ok(&self) -> bool {
        let mut sum = Checksum::new();
        sum.add_bytes(self.header.as_bytes());
        sum.add_bytes(self.options);
        sum.is_valid()
    }

    /// Bytes of payload, as the header says.
    #[inline]
    pub const fn payload_len(&self) -> usize {
        // Parsing checked that the total covers the header; saturating only spares a panic path.
        self.header
            .total_len()
            .saturating_sub(self.header.header_len())
    }
}

impl Deref for Ipv4View<'_> {
    type Target = Ipv4Header;

    #[inline]
    fn deref(&self) -> &Ipv4Header {
        self.header
    }
}

/// The option that asks routers to examine the packet (RFC 2113 section 2.1).
const ROUTER_ALERT: [u8; 4] = [0x94, 4, 0, 0];
const FLAG_RESERVED: u16 = 0x8000;
const FLAG_DF: u16 = 0x4000;
const FLAG_MF: u16 = 0x2000;

#[cfg(test)]
mod tests;
