//! IPv4's part of [reassembly](crate::ip::reassemble): the checks of a fragment, and the header of a whole datagram.
//!
//! Locks: none. Sources: RFC 791 section 3.2, RFC 3168 section 5.3.

use std::net::{IpAddr, Ipv4Addr};

use mbuf::{Chain, MbufPool, NoBufs, Packet};
use wire::{IpProto, Ipv4Fields, Ipv4Header};

use super::input::Ipv4Info;
use crate::drops::DropReason;
use crate::ip::QUOTE_MAX;
use crate::ip::datagram::{Fragment, before_payload};

/// The fields that the fragments of one datagram have in common (RFC 791 section 2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FragmentKey {
    src: Ipv4Addr,
    dst: Ipv4Addr,
    proto: IpProto,
    id: u16,
}

impl Fragment for Ipv4Info {
    type Key = FragmentKey;
    const LENIENT: bool = true;
    const QUOTE_MAX: usize = QUOTE_MAX;

    fn key(&self, _: u32) -> FragmentKey {
        FragmentKey {
            src: self.src,
            dst: self.dst,
            proto: self.proto,
            id: self.id,
        }
    }

    fn sender(key: FragmentKey) -> IpAddr {
        key.src.into()
    }

    fn start(&self) -> usize {
        usize::from(self.frag_offset)
    }

    fn header_len(&self) -> usize {
        self.header_len
    }

    fn more(&self) -> bool {
        self.mf
    }

    fn ecn(&self) -> u8 {
        self.tos & 0b11
    }

    fn whole(
        self,
        pool: &MbufPool,
        header: &[u8],
        ecn: u8,
        payload: Chain,
    ) -> Result<(Packet, Self), DropReason> {
        // The fragment at 0 may have more options than the others, for which the limit was checked.
        let total_len = header.len() + payload.len();
        if total_len > usize::from(u16::MAX) {
            return Err(DropReason::FragmentBad);
        }
        let tos = self.tos & !0b11 | ecn;
        let fields = Ipv4Fields {
            tos,
            // Checked with the whole.
            payload_len: payload.len() as u16,
            id: self.id,
            ttl: self.ttl,
            protocol: self.proto,
            src: self.src,
            dst: self.dst,
            options: header.get(Ipv4Header::LEN..).unwrap_or(&[]),
            ..Ipv4Fields::default()
        };
        let mut packet = before_payload(pool, payload)?;
        let room = packet.prepend(fields.header_len());
        fields.emit(room.map_err(|NoBufs| DropReason::NoBufs)?);
        let info = Self {
            total_len,
            tos,
            mf: false,
            frag_offset: 0,
            ..self
        };
        Ok((packet, info))
    }
}

/// Checks a fragment by itself: it must not be empty, end in the middle of 8 bytes unless it is the
/// last, or reach past the largest datagram (the "ping of death").
pub(super) fn check_fragment(info: &Ipv4Info) -> Result<(), DropReason> {
    let len = info.total_len - info.header_len;
    let end = usize::from(info.frag_offset) + len;
    let ragged = info.mf && !len.is_multiple_of(8);
    if len == 0 || ragged || info.header_len + end > usize::from(u16::MAX) {
        return Err(DropReason::FragmentBad);
    }
    Ok(())
}
