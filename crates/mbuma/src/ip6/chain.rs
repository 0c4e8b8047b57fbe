//! The extension headers of a packet for this host: their demands, and their faults.
//!
//! Invariants: at most [`HEADERS_MAX`] headers and [`BYTES_MAX`] bytes are looked at, so that no packet costs more than
//! that. Order and number are accepted as they come, but for hop-by-hop options, which are first or nowhere (RFC 8200
//! section 4.1).
//! Locks: none. Sources: RFC 8200 section 4, RFC 5095 (routing type 0), RFC 7045, RFC 7112.

use mbuf::{Packet, PullupError};
use wire::{
    IpProto, Ipv6ExtHeader, Ipv6ExtHeaders, Ipv6Header, Ipv6Option, Ipv6Options, UnknownOption,
};

use crate::drops::DropReason;

/// Extension headers of a packet at most.
const HEADERS_MAX: usize = 8;
/// Their bytes at most.
const BYTES_MAX: usize = 2048;

/// The protocol behind the headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Upper {
    pub(super) proto: IpProto,
    /// Bytes of IPv6 and extension headers.
    pub(super) header_len: usize,
    /// Where the field lies that names the protocol.
    pub(super) named_at: usize,
}

/// Why a packet goes no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChainFault {
    /// It is dropped.
    Drop(DropReason),
    /// The same, and its sender is told which byte is wrong (ICMPv6 type 4).
    Tell {
        code: u8,
        pointer: u32,
        /// Also if it was sent to many.
        to_many: bool,
    },
}

const TRUNCATED: ChainFault = ChainFault::Drop(DropReason::IpTruncated);

/// Walks the chain of a packet whose IPv6 header is contiguous and names `first`.
pub(super) fn walk(packet: &mut Packet, first: IpProto) -> Result<Upper, ChainFault> {
    let direct = Upper {
        proto: first,
        header_len: Ipv6Header::LEN,
        named_at: Ipv6Header::NEXT_OFFSET,
    };
    if !first.is_extension() {
        return Ok(direct);
    }
    let mut bytes = [0; Ipv6Header::LEN + BYTES_MAX];
    let len = packet.len().min(bytes.len());
    let (bytes, _) = bytes.split_at_mut(len);
    packet.copy_to(0, bytes);
    let upper = examine(bytes, first)?;
    packet.pullup(upper.header_len).map_err(|e| match e {
        PullupError::TooShort => TRUNCATED,
        PullupError::NoBufs => ChainFault::Drop(DropReason::NoBufs),
    })?;
    Ok(upper)
}

fn examine(bytes: &[u8], first: IpProto) -> Result<Upper, ChainFault> {
    let mut chain = Ipv6ExtHeaders::new(bytes, first, Ipv6Header::LEN, Ipv6Header::NEXT_OFFSET);
    for count in 0.. {
        let named_at = chain.named_at();
        let Some(header) = chain.next() else {
            break;
        };
        if count == HEADERS_MAX {
            return Err(ChainFault::Drop(DropReason::IpBadOptions));
        }
        examine_header(header.map_err(|_| TRUNCATED)?, named_at)?;
    }
    Ok(Upper {
        proto: chain.upper(),
        header_len: chain.upper_at(),
        named_at: chain.named_at(),
    })
}

fn examine_header(header: Ipv6ExtHeader<'_>, named_at: usize) -> Result<(), ChainFault> {
    match header.kind {
        IpProto::HOP_BY_HOP if header.at != Ipv6Header::LEN => Err(tell(1, named_at)),
        IpProto::HOP_BY_HOP | IpProto::DEST_OPTIONS => examine_options(header),
        IpProto::ROUTING => examine_routing(header),
        IpProto::FRAGMENT => Err(ChainFault::Drop(DropReason::FragmentUnsupported)),
        _ => Ok(()),
    }
}

/// A route that ends here is passed over; any other asks this host for a router's work.
fn examine_routing(header: Ipv6ExtHeader<'_>) -> Result<(), ChainFault> {
    const TYPE: usize = 2;
    const SEGMENTS_LEFT: usize = 3;
    match header.bytes.get(SEGMENTS_LEFT) {
        Some(0) => Ok(()),
        _ => Err(tell(0, header.at + TYPE)),
    }
}

fn examine_options(header: Ipv6ExtHeader<'_>) -> Result<(), ChainFault> {
    for option in Ipv6Options::new(header.bytes) {
        let option = option.map_err(|at| tell(0, header.at + at))?;
        if option.kind == Ipv6Option::ROUTER_ALERT {
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
    Ok(())
}

fn tell(code: u8, pointer: usize) -> ChainFault {
    ChainFault::Tell {
        code,
        // At most `BYTES_MAX`.
        pointer: pointer as u32,
        to_many: false,
    }
}

#[cfg(test)]
mod tests;
