//! The header of IGMP's messages: how hosts of IPv4 tell routers and switches of their groups.
//!
//! Invariants: the checksum covers the header and all behind it, and is checked by the caller over its chain. Locks:
//! none.
//! Sources: RFC 9776 section 4 (version 3, as RFC 3376), RFC 2236 section 2 (version 2), RFC 1112 appendix I (version
//! 1).
//!
//! ```text
//!   0    1     2       4
//!  +----+-----+-------+----------------------------------------------------- - -
//!  |type|delay| cksum | a query: see GroupQuery; a report of versions 1 and 2, a leave: group
//!  +----+-----+-------+ a report of version 3: 0 (2 bytes), n records (2 bytes), records
//! ```

use core::net::Ipv4Addr;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Checksum, ParseError};

/// The group of all stations of a link, which is never reported (RFC 1112 section 4).
pub const ALL_SYSTEMS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// The group of all routers of a link, which hear of the end of a listener (RFC 2236 section 9).
pub const ALL_SUBNET_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 2);
/// The group of all routers that speak version 3: reports are sent to it.
pub const ALL_IGMP3_ROUTERS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 22);

/// The types of the messages (RFC 9776 section 4).
pub mod igmp_type {
    /// A query of any version.
    pub const QUERY: u8 = 0x11;
    /// A report of version 1.
    pub const REPORT_V1: u8 = 0x12;
    /// A report of version 2.
    pub const REPORT_V2: u8 = 0x16;
    /// A message of version 2 that a listener has left.
    pub const LEAVE_V2: u8 = 0x17;
    /// A report of version 3.
    pub const REPORT: u8 = 0x22;
}

/// The first four bytes of an IGMP message as they lie in the packet (RFC 9776 section 4).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct IgmpHeader {
    kind: u8,
    code: u8,
    checksum: U16,
}

const _: () = assert!(size_of::<IgmpHeader>() == IgmpHeader::LEN);

impl IgmpHeader {
    /// Bytes in the header.
    pub const LEN: usize = 4;

    /// The header at the front of `bytes`, and the bytes after it.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] for fewer than 4 bytes.
    pub fn parse(bytes: &[u8]) -> Result<(&IgmpHeader, &[u8]), ParseError> {
        IgmpHeader::ref_from_prefix(bytes).map_err(|_| ParseError::Truncated)
    }

    /// The header of a message of this type, with its checksum over itself and `body`.
    pub fn new(kind: u8, code: u8, body: &[u8]) -> IgmpHeader {
        let mut header = IgmpHeader {
            kind,
            code,
            checksum: U16::ZERO,
        };
        header.checksum = U16::new(header.sum([body]).finish());
        header
    }

    /// The type field.
    pub const fn kind(&self) -> u8 {
        self.kind
    }

    /// The byte behind the type: the delay of a query.
    pub const fn code(&self) -> u8 {
        self.code
    }

    /// Whether the checksum is right over this header and the bytes behind it, which may be in pieces.
    pub fn checksum_ok<'a>(&self, body: impl IntoIterator<Item = &'a [u8]>) -> bool {
        self.sum(body).is_valid()
    }

    fn sum<'a>(&self, body: impl IntoIterator<Item = &'a [u8]>) -> Checksum {
        let mut sum = Checksum::new();
        sum.add_bytes(self.as_bytes());
        body.into_iter().for_each(|piece| sum.add_bytes(piece));
        sum
    }

    /// The header as it is in a packet.
    pub fn to_bytes(self) -> [u8; IgmpHeader::LEN] {
        let [c1, c0] = self.checksum.get().to_be_bytes();
        [self.kind, self.code, c1, c0]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::vec::Vec;

    use super::*;

    proptest! {
        /// Breaks if a message that is sent would not be taken, or a byte that changed on the way is not noticed.
        #[test]
        fn a_header_is_read_as_it_is_written(
            kind: u8,
            code: u8,
            body in prop::collection::vec(any::<u8>(), 1..80),
            at: prop::sample::Index,
            flip in 1_u8..,
        ) {
            let header = IgmpHeader::new(kind, code, &body);
            let mut message: Vec<u8> = header.to_bytes().into_iter().chain(body.iter().copied()).collect();
            let (read, behind) = IgmpHeader::parse(&message).expect("it is whole");
            prop_assert_eq!((read, behind), (&header, &body[..]));
            let (front, back) = behind.split_at(at.index(body.len()));
            prop_assert!(read.checksum_ok([front, back]));
            let at = at.index(message.len());
            message[at] ^= flip;
            let (read, behind) = IgmpHeader::parse(&message).expect("it is whole");
            prop_assert!(!read.checksum_ok([behind]));
        }
    }

    #[test]
    fn a_short_header_is_refused() {
        // Breaks if the bytes behind the end are read.
        for len in 0..IgmpHeader::LEN {
            assert_eq!(
                IgmpHeader::parse(&[0x11; 4][..len]),
                Err(ParseError::Truncated)
            );
        }
    }
}
