//! The extension headers of a packet for this host: parsing, and errors in them.
//!
//! Invariants: at most [`HEADERS_MAX`] headers and [`BYTES_MAX`] bytes are parsed, which bounds the cost of a packet.
//! Headers are accepted in any order and number, except that hop-by-hop options must be first (RFC 8200 section 4.1).
//! Locks: none.
//! Sources: RFC 8200 section 4, RFC 2675 (jumbograms), RFC 5095 (routing type 0), RFC 6946 (atomic fragments), RFC
//! 7045, RFC 7112.

use mbuf::{Packet, PullupError};
use wire::{
    Icmp6Header, IpProto, Ipv6ExtHeader, Ipv6ExtHeaders, Ipv6Fragment, Ipv6Header, Ipv6Option,
    Ipv6Options, TcpHeader, UdpHeader, UnknownOption,
};

use super::input::Ipv6Info;
use crate::drops::DropReason;

/// Extension headers of a packet at most.
const HEADERS_MAX: usize = 8;
/// Their bytes at most.
const BYTES_MAX: usize = 2048;

/// The protocol after the headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Upper {
    pub(super) proto: IpProto,
    /// Bytes of IPv6 and extension headers.
    pub(super) header_len: usize,
    /// The offset of the field that names the protocol.
    pub(super) named_at: usize,
    /// The chain has a fragment header of a datagram that is not fragmented (RFC 6946).
    pub(super) is_atomic: bool,
}

/// A fragment header: its offset and its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FragmentAt {
    pub(super) at: usize,
    /// The offset of the field that names it.
    pub(super) named_at: usize,
    pub(super) header: Ipv6Fragment,
}

/// How a chain ends in one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChainEnd {
    Upper(Upper),
    /// The packet is a fragment: the rest of the chain is in the whole datagram.
    Fragment(FragmentAt),
}

/// The reason for dropping a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChainFault {
    /// It is dropped.
    Drop(DropReason),
    /// The same, and an ICMPv6 error (type 4) tells the sender which byte is wrong.
    Tell {
        code: u8,
        pointer: u32,
        /// The error is also sent if the packet was sent to a group.
        to_many: bool,
    },
}

/// A packet's bytes, and those that the IPv6 header says follow it.
#[derive(Debug, Clone, Copy)]
struct Lengths {
    packet: usize,
    payload: usize,
}

/// Where the IPv6 header says the length.
const PAYLOAD_LEN_OFFSET: usize = 4;

const TRUNCATED: ChainFault = ChainFault::Drop(DropReason::IpTruncated);

/// Walks the chain of a packet whose IPv6 header is contiguous and has these fields.
pub(super) fn walk(packet: &mut Packet, info: &Ipv6Info) -> Result<ChainEnd, ChainFault> {
    let first = info.next;
    let direct = Upper {
        proto: first,
        header_len: Ipv6Header::LEN,
        named_at: Ipv6Header::NEXT_OFFSET,
        is_atomic: false,
    };
    if !first.is_extension() {
        return Ok(ChainEnd::Upper(direct));
    }
    let mut bytes = [0; Ipv6Header::LEN + BYTES_MAX];
    let len = packet.len().min(bytes.len());
    let (bytes, _) = bytes.split_at_mut(len);
    packet.copy_to(0, bytes);
    let lens = Lengths {
        packet: packet.len(),
        payload: info.payload_len,
    };
    let end = examine(bytes, lens, first)?;
    if let ChainEnd::Upper(upper) = end {
        packet.pullup(upper.header_len).map_err(|e| match e {
            PullupError::TooShort => TRUNCATED,
            PullupError::NoBufs => ChainFault::Drop(DropReason::NoBufs),
        })?;
    }
    Ok(end)
}

/// `bytes` are the packet's first.
fn examine(bytes: &[u8], lens: Lengths, first: IpProto) -> Result<ChainEnd, ChainFault> {
    let mut chain = Ipv6ExtHeaders::new(bytes, first, Ipv6Header::LEN, Ipv6Header::NEXT_OFFSET);
    let (mut is_atomic, mut is_jumbo) = (false, false);
    for count in 0.. {
        let named_at = chain.named_at();
        let Some(header) = chain.next() else {
            break;
        };
        if count == HEADERS_MAX {
            return Err(ChainFault::Drop(DropReason::IpBadOptions));
        }
        let header = header.map_err(|_| TRUNCATED)?;
        if header.kind != IpProto::FRAGMENT {
            is_jumbo |= examine_header(header, named_at, lens)?;
            continue;
        }
        if is_jumbo {
            return Err(tell(0, header.at));
        }
        let fragment = FragmentAt {
            at: header.at,
            named_at,
            header: Ipv6Fragment::parse(header.bytes).map_err(|_| TRUNCATED)?,
        };
        if !fragment.is_atomic() {
            fragment.examine(chain, lens.packet)?;
            return Ok(ChainEnd::Fragment(fragment));
        }
        is_atomic = true;
    }
    Ok(ChainEnd::Upper(Upper {
        proto: chain.upper(),
        header_len: chain.upper_at(),
        named_at: chain.named_at(),
        is_atomic,
    }))
}

impl FragmentAt {
    fn is_atomic(&self) -> bool {
        self.header.offset == 0 && !self.header.more
    }

    /// Checks a fragment by itself; `chain` is the rest of the headers.
    fn examine(&self, chain: Ipv6ExtHeaders<'_>, packet_len: usize) -> Result<(), ChainFault> {
        const FRAGMENT_OFFSET: usize = 2;
        let start = self.at + Ipv6Fragment::LEN;
        let len = packet_len.saturating_sub(start);
        if len == 0 {
            return Err(ChainFault::Drop(DropReason::FragmentBad));
        }
        if self.header.more && !len.is_multiple_of(8) {
            return Err(tell(0, PAYLOAD_LEN_OFFSET));
        }
        let payload_len = self.at - Ipv6Header::LEN + usize::from(self.header.offset) + len;
        if payload_len > usize::from(u16::MAX) {
            return Err(tell(0, self.at + FRAGMENT_OFFSET));
        }
        if self.header.offset == 0 && !is_whole(chain, packet_len) {
            return Err(tell(3, 0));
        }
        Ok(())
    }
}

/// Whether the packet has the whole chain and the beginning of the protocol's header (RFC 7112 section 5).
fn is_whole(mut chain: Ipv6ExtHeaders<'_>, packet_len: usize) -> bool {
    if chain.any(|header| header.is_err()) {
        return false;
    }
    let least = match chain.upper() {
        IpProto::TCP => TcpHeader::LEN,
        IpProto::UDP => UdpHeader::LEN,
        IpProto::ICMPV6 => Icmp6Header::LEN,
        _ => 0,
    };
    chain.upper_at() + least <= packet_len
}

/// Returns whether the header says the packet's length.
fn examine_header(
    header: Ipv6ExtHeader<'_>,
    named_at: usize,
    lens: Lengths,
) -> Result<bool, ChainFault> {
    match header.kind {
        IpProto::HOP_BY_HOP if header.at != Ipv6Header::LEN => return Err(tell(1, named_at)),
        IpProto::HOP_BY_HOP => {
            let is_jumbo = examine_options(header, Some(lens))?;
            // RFC 2675 section 3.
            return match lens.payload == 0 && !is_jumbo {
                true => Err(tell(0, PAYLOAD_LEN_OFFSET)),
                false => Ok(is_jumbo),
            };
        }
        IpProto::DEST_OPTIONS => _ = examine_options(header, None)?,
        IpProto::ROUTING => examine_routing(header)?,
        _ => {}
    }
    Ok(false)
}

/// A routing header without segments left is ignored; with any left, this host would have to forward the packet.
fn examine_routing(header: Ipv6ExtHeader<'_>) -> Result<(), ChainFault> {
    const TYPE: usize = 2;
    const SEGMENTS_LEFT: usize = 3;
    match header.bytes.get(SEGMENTS_LEFT) {
        Some(0) => Ok(()),
        _ => Err(tell(0, header.at + TYPE)),
    }
}

/// Examines options, among which may be the packet's length where `lens` are given; returns whether it is.
fn examine_options(header: Ipv6ExtHeader<'_>, lens: Option<Lengths>) -> Result<bool, ChainFault> {
    let mut is_jumbo = false;
    for option in Ipv6Options::new(header.bytes) {
        let option = option.map_err(|at| tell(0, header.at + at))?;
        if option.kind == Ipv6Option::ROUTER_ALERT {
            continue;
        }
        if let (Ipv6Option::JUMBO, Some(lens)) = (option.kind, lens) {
            examine_jumbo(option, header.at + option.at, lens)?;
            is_jumbo = true;
            continue;
        }
        let pointer = (header.at + option.at) as u32;
        let to_many = match option.if_unknown() {
            UnknownOption::Skip => continue,
            UnknownOption::Drop => return Err(ChainFault::Drop(DropReason::IpBadOptions)),
            UnknownOption::Tell => true,
            UnknownOption::TellUnlessMulticast => false,
        };
        return Err(ChainFault::Tell {
            code: 2,
            pointer,
            to_many,
        });
    }
    Ok(is_jumbo)
}

/// Checks the length of a packet in an option at `at` (RFC 2675 section 3). Only short frames are padded, so it is
/// exact.
fn examine_jumbo(option: Ipv6Option<'_>, at: usize, lens: Lengths) -> Result<(), ChainFault> {
    const LENGTH_OFFSET: usize = 2;
    let Ok(len) = option.data.try_into().map(u32::from_be_bytes) else {
        return Err(ChainFault::Drop(DropReason::IpBadOptions));
    };
    // In Linux's order, where both are wrong.
    if u16::try_from(len).is_ok() {
        return Err(tell(0, at + LENGTH_OFFSET));
    }
    if lens.payload != 0 {
        return Err(tell(0, at));
    }
    match (len as usize).checked_add(Ipv6Header::LEN) == Some(lens.packet) {
        true => Ok(()),
        false => Err(TRUNCATED),
    }
}

fn tell(code: u8, pointer: usize) -> ChainFault {
    ChainFault::Tell {
        code,
        // At most `BYTES_MAX`.
        pointer: pointer as u32,
        to_many: false,
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
