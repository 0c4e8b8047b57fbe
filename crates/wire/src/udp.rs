//! The UDP header.
//!
//! Invariants: a parsed header's length field is at least 8. The caller must check that the packet has that many
//! bytes, because it owns the chain.
//! Locks: none.
//! Sources: RFC 768, RFC 1122 section 4.1.3.
//!
//! ```text
//!   0       2       4       6       8
//!  +-------+-------+-------+-------+------- - -
//!  |src prt|dst prt|length |cksum  | payload
//!  +-------+-------+-------+-------+------- - -
//! ```

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{ParseError, emit};

/// A UDP header as it lies in the packet (RFC 768).
#[doc(alias = "udphdr")]
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct UdpHeader {
    src_port: U16,
    dst_port: U16,
    len: U16,
    checksum: U16,
}

const _: () = assert!(size_of::<UdpHeader>() == UdpHeader::LEN);

impl UdpHeader {
    /// Bytes in the header.
    pub const LEN: usize = 8;
    /// The offset of the checksum in the header, in bytes, for devices that fill it in.
    pub const CHECKSUM_OFFSET: usize = 6;

    /// A header whose checksum is zero, which means "none". `len` counts header and payload.
    pub const fn new(src_port: u16, dst_port: u16, len: u16) -> UdpHeader {
        UdpHeader {
            src_port: U16::new(src_port),
            dst_port: U16::new(dst_port),
            len: U16::new(len),
            checksum: U16::ZERO,
        }
    }

    /// The header at the front of `bytes`, and the rest.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] for fewer than 8 bytes, [`ParseError::BadLength`] for a length field
    /// below 8.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(&UdpHeader, &[u8]), ParseError> {
        let (header, rest) =
            UdpHeader::ref_from_prefix(bytes).map_err(|_| ParseError::Truncated)?;
        if usize::from(header.len()) < UdpHeader::LEN {
            return Err(ParseError::BadLength);
        }
        Ok((header, rest))
    }

    /// The header at the front of `bytes`, to be changed in place.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] for fewer than 8 bytes.
    pub fn parse_mut(bytes: &mut [u8]) -> Result<&mut UdpHeader, ParseError> {
        let (header, _) = UdpHeader::mut_from_prefix(bytes).map_err(|_| ParseError::Truncated)?;
        Ok(header)
    }

    /// Port of the sender; zero if it wants no answer.
    #[inline]
    pub const fn src_port(&self) -> u16 {
        self.src_port.get()
    }

    /// Port of the receiver.
    #[inline]
    pub const fn dst_port(&self) -> u16 {
        self.dst_port.get()
    }

    /// Bytes of header and payload.
    #[inline]
    #[expect(
        clippy::len_without_is_empty,
        reason = "a field of the header, not a container's length"
    )]
    pub const fn len(&self) -> u16 {
        self.len.get()
    }

    /// The checksum field.
    #[inline]
    pub const fn checksum(&self) -> u16 {
        self.checksum.get()
    }

    /// Whether the sender computed a checksum: zero means that it did not (IPv4 only).
    #[inline]
    pub const fn has_checksum(&self) -> bool {
        self.checksum.get() != 0
    }

    /// Sets the checksum field. A computed checksum comes from [`Checksum::finish_nonzero`].
    ///
    /// [`Checksum::finish_nonzero`]: crate::Checksum::finish_nonzero
    pub fn set_checksum(&mut self, checksum: u16) {
        self.checksum = U16::new(checksum);
    }

    /// Sets the length field, which counts header and payload.
    pub fn set_len(&mut self, len: u16) {
        self.len = U16::new(len);
    }

    /// Writes the header to the front of `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`UdpHeader::LEN`].
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> usize {
        emit::put(out, self.as_bytes())
    }
}

#[cfg(test)]
mod tests;
