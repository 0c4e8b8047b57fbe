//! The headers of a packet of IPv6 that is longer than its payload length can say, with the jumbo payload option.
//!
//! ```text
//!   | Ethernet | IPv6, length 0, next: TCP        |               | TCP ...   in the stack
//!   | Ethernet | IPv6, length 0, next: hop-by-hop | jumbo option  | TCP ...   outside
//! ```
//!
//! Inside of the stack such a packet has no option, as IPv4's has none: code that cuts packets handles both versions
//! alike. Linux before 7.0 asks for the option, and so do programs that read captures.
//!
//! Locks: none. Sources: RFC 2675 section 2; Linux 5.19 to 6.19, `ipv6_has_hopopt_jumbo`: to cut the packet, it looks
//! for the option in this place only.

use mbuf::Packet;
use wire::{EtherHeader, IpProto, Ipv6Header, Ipv6Jumbo};

/// The headers up to TCP's.
#[derive(Debug)]
pub(super) struct JumboFront([u8; Self::LEN]);

impl JumboFront {
    /// Bytes that it has more than what it replaces.
    pub(super) const ADDED: u16 = Ipv6Jumbo::LEN as u16;
    /// Bytes of the frame that it replaces.
    const REPLACED: usize = EtherHeader::LEN + Ipv6Header::LEN;
    const LEN: usize = Self::REPLACED + Ipv6Jumbo::LEN;

    /// That of a frame, if it carries such a packet.
    #[inline]
    pub(super) fn of(frame: &Packet) -> Option<Self> {
        let payload_len = frame.len().checked_sub(Self::REPLACED)?;
        match u16::try_from(payload_len) {
            Ok(_) => None,
            Err(_) => Self::with_len(frame, payload_len + Ipv6Jumbo::LEN),
        }
    }

    fn with_len(frame: &Packet, len: usize) -> Option<Self> {
        let mut bytes = [0; Self::LEN];
        let (front, option) = bytes.split_at_mut(Self::REPLACED);
        frame.copy_to(0, front);
        let (_, ip) = front.split_at_mut(EtherHeader::LEN);
        let header = Ipv6Header::parse(ip).ok()?;
        let next = header.next();
        if header.payload_len() != 0 || next.is_extension() {
            return None;
        }
        // A frame is shorter than 4 GiB.
        Ipv6Jumbo::new(next, len as u32).emit(option);
        Ipv6Header::parse_mut(ip)
            .ok()?
            .set_next(IpProto::HOP_BY_HOP);
        Some(Self(bytes))
    }

    /// The bytes of a frame, behind these headers if it has them.
    pub(super) fn pieces<'a>(
        front: &'a Option<Self>,
        frame: &'a Packet,
    ) -> impl Iterator<Item = &'a [u8]> {
        let bytes = front.as_ref().map(|front| &front.0[..]);
        let replaced = front.as_ref().map_or(0, |_| Self::REPLACED);
        bytes.into_iter().chain(frame.segments_from(replaced))
    }
}
