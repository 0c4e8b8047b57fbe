//! IPv6's part of [reassembly](crate::ip::reassemble): the headers of a whole datagram.
//!
//! ```text
//!   | IPv6, options .. | fragment header | 1st part |    | .. | fragment header | 2nd part |
//!            \_____________                  \______                                \
//!   | IPv6, options .., next header of the first | 1st part | 2nd part |
//! ```
//!
//! Locks: none. Sources: RFC 8200 section 4.5, RFC 5722, RFC 3168 section 5.3.

use std::net::{IpAddr, Ipv6Addr};

use mbuf::{Chain, MbufPool, NoBufs, Packet};
use wire::{IpProto, Ipv6Fragment, Ipv6Header, needs_zone};

use super::chain::FragmentAt;
use super::input::Ipv6Info;
use crate::drops::DropReason;
use crate::ip::datagram::{Fragment, before_payload};

/// A fragment of a datagram of IPv6.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fragment6 {
    pub(super) info: Ipv6Info,
    pub(super) place: FragmentAt,
}

/// The fields that the fragments of one datagram have in common (RFC 8200 section 4.5), on one link if need be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FragmentKey6 {
    src: Ipv6Addr,
    dst: Ipv6Addr,
    zone: u32,
    id: u32,
}

impl Fragment for Fragment6 {
    type Key = FragmentKey6;
    const LENIENT: bool = false;
    const QUOTE_MAX: usize = Ipv6Header::MTU_MIN as usize;

    fn key(&self, iface: u32) -> FragmentKey6 {
        let (src, dst) = (self.info.src, self.info.dst);
        let zoned = needs_zone(src) || needs_zone(dst);
        FragmentKey6 {
            src,
            dst,
            zone: if zoned { iface } else { 0 },
            id: self.place.header.id,
        }
    }

    fn sender(key: FragmentKey6) -> IpAddr {
        key.src.into()
    }

    fn start(&self) -> usize {
        usize::from(self.place.header.offset)
    }

    fn header_len(&self) -> usize {
        self.place.at + Ipv6Fragment::LEN
    }

    fn more(&self) -> bool {
        self.place.header.more
    }

    fn ecn(&self) -> u8 {
        self.info.class & 0b11
    }

    fn whole(
        mut self,
        pool: &MbufPool,
        header: &[u8],
        ecn: u8,
        payload: Chain,
    ) -> Result<(Packet, Self), DropReason> {
        // The first fragment may have more headers than the others, for which the limit was checked.
        let payload_len = self.place.at - Ipv6Header::LEN + payload.len();
        let Ok(len) = u16::try_from(payload_len) else {
            return Err(DropReason::FragmentBad);
        };
        let next = self.place.header.next;
        let mut packet = before_payload(pool, payload)?;
        let room = packet.prepend(self.place.at);
        let room = room.map_err(|NoBufs| DropReason::NoBufs)?;
        room.copy_from_slice(header.get(..self.place.at).ok_or(DropReason::FragmentBad)?);
        let named = room.get_mut(self.place.named_at);
        *named.ok_or(DropReason::FragmentBad)? = next.0;
        let ip = Ipv6Header::parse_mut(room).map_err(|_| DropReason::FragmentBad)?;
        ip.set_payload_len(len);
        ip.set_ecn(ecn);
        self.info.class = self.info.class & !0b11 | ecn;
        self.info.payload_len = payload_len;
        if self.place.named_at == Ipv6Header::NEXT_OFFSET {
            self.info.next = next;
        }
        Ok((packet, self))
    }
}

/// Whether a message of neighbour discovery begins at `at` of `packet`: such a message must not be fragmented (RFC 6980
/// section 5).
pub(super) fn is_discovery(packet: &Packet, proto: IpProto, at: usize) -> bool {
    let mut kind = [0];
    proto == IpProto::ICMPV6 && packet.copy_to(at, &mut kind) && wire::NdpMessage::is_kind(kind[0])
}
