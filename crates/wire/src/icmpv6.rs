//! ICMP messages for IPv6.
//!
//! Invariants: every type and code has a value, so parsing fails only for too few bytes; the checksum covers the
//! pseudo-header and the payload, and is checked by the caller over its chain.
//! Locks: none.
//! Sources: RFC 4443, RFC 4861 and RFC 9777 (types).
//!
//! ```text
//!   0   1   2       4               8
//!  +---+---+-------+---------------+------------------------ - -
//!  |typ|cod|cksum  | id, seq | mtu | echo data | IP header ...
//!  +---+---+-------+---------------+------------------------ - -
//! ```

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Checksum, ParseError, TimeExceeded, emit};

/// The first eight bytes of an ICMPv6 message as they lie in the packet (RFC 4443 section 2.1).
#[doc(alias = "icmp6_hdr")]
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Icmp6Header {
    kind: u8,
    code: u8,
    checksum: U16,
    rest: [u8; 4],
}

const _: () = assert!(size_of::<Icmp6Header>() == Icmp6Header::LEN);

impl Icmp6Header {
    /// Bytes in the header.
    pub const LEN: usize = 8;
    /// The offset of the checksum in the header, in bytes.
    pub const CHECKSUM_OFFSET: usize = 2;

    /// The header at the front of `bytes`, and the bytes after it.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] for fewer than 8 bytes.
    pub fn parse(bytes: &[u8]) -> Result<(&Icmp6Header, &[u8]), ParseError> {
        Icmp6Header::ref_from_prefix(bytes).map_err(|_| ParseError::Truncated)
    }

    /// The header of `message`, its checksum computed over the pseudo-header, itself and `payload`.
    pub fn new<'a>(
        message: Icmp6Message,
        pseudo: Checksum,
        payload: impl IntoIterator<Item = &'a [u8]>,
    ) -> Icmp6Header {
        let (kind, code, rest) = message.to_parts();
        let mut header = Icmp6Header {
            kind,
            code,
            checksum: U16::ZERO,
            rest,
        };
        header.checksum = U16::new(header.sum(pseudo, payload).finish());
        header
    }

    /// The type and code, with their parameters.
    pub fn message(&self) -> Icmp6Message {
        Icmp6Message::from_parts(self.kind, self.code, self.rest)
    }

    /// The type field.
    pub const fn kind(&self) -> u8 {
        self.kind
    }

    /// The code field.
    pub const fn code(&self) -> u8 {
        self.code
    }

    /// The four bytes behind the checksum.
    pub const fn rest(&self) -> [u8; 4] {
        self.rest
    }

    /// Whether the checksum fits the pseudo-header, this header and its `payload`, given in any pieces.
    pub fn checksum_ok<'a>(
        &self,
        pseudo: Checksum,
        payload: impl IntoIterator<Item = &'a [u8]>,
    ) -> bool {
        self.sum(pseudo, payload).is_valid()
    }

    /// Writes the header to the front of `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`Icmp6Header::LEN`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        emit::put(out, self.as_bytes())
    }

    fn sum<'a>(&self, pseudo: Checksum, payload: impl IntoIterator<Item = &'a [u8]>) -> Checksum {
        let mut sum = pseudo;
        sum.add_bytes(self.as_bytes());
        for piece in payload {
            sum.add_bytes(piece);
        }
        sum
    }
}

/// The type and code of an ICMPv6 message, with their parameters (RFC 4443, RFC 4861, RFC 9777).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Icmp6Message {
    /// The packet quoted in the payload could not be delivered.
    DestUnreachable(Unreachable6),
    /// The packet quoted in the payload is longer than a link's MTU.
    PacketTooBig {
        /// That MTU.
        mtu: u32,
    },
    /// The packet quoted in the payload took too long.
    TimeExceeded(TimeExceeded),
    /// A field of the packet quoted in the payload is wrong.
    ParamProblem {
        /// 0: a field; 1: an unknown next header; 2: an unknown option; 3: a header chain that is not in the first
        /// fragment (RFC 7112).
        code: u8,
        /// Offset of the wrong byte.
        pointer: u32,
    },
    /// A ping.
    EchoRequest {
        /// Chosen by the sender, commonly one per process.
        id: u16,
        /// Counts the pings.
        seq: u16,
    },
    /// The answer to a ping.
    EchoReply {
        /// Copied from the request; commonly one per pinging process.
        id: u16,
        /// Copied from the request; counts the pings.
        seq: u16,
    },
    /// Anything else: neighbour discovery, groups, and what is not assigned.
    Other {
        /// The type field.
        kind: u8,
        /// The code field.
        code: u8,
        /// The four bytes behind the checksum.
        rest: [u8; 4],
    },
}

/// Why a destination is unreachable (RFC 4443 section 3.1): the code of an ICMPv6 type 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unreachable6 {
    /// 0: no route.
    NoRoute,
    /// 1: a filter on the way forbids it.
    AdminProhibited,
    /// 2: beyond the scope of the source address.
    BeyondScope,
    /// 3: no answer from the address on its own link.
    Address,
    /// 4: no socket at the destination has this port.
    Port,
    /// 5: the source address is not one that may send from there.
    SourcePolicy,
    /// 6: the route is a rejecting one.
    Reject,
    /// Any other code.
    Other(u8),
}

/// The first type that is not an error's (RFC 4443 section 2.1).
const FIRST_INFORMATIONAL: u8 = 128;

impl Icmp6Message {
    /// Whether this reports an error, and so must never be answered by an error (RFC 4443 section 2.4 e).
    pub fn is_error(&self) -> bool {
        self.to_parts().0 < FIRST_INFORMATIONAL
            || matches!(self, Self::Other { kind, .. } if *kind == REDIRECT)
    }

    fn from_parts(kind: u8, code: u8, rest: [u8; 4]) -> Icmp6Message {
        let [a, b, c, d] = rest;
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let word = u32::from_be_bytes(rest);
        match (kind, code) {
            (DEST_UNREACHABLE, code) => Self::DestUnreachable(Unreachable6::from_code(code)),
            // The code is ignored (RFC 4443 section 3.2).
            (PACKET_TOO_BIG, _) => Self::PacketTooBig { mtu: word },
            (TIME_EXCEEDED, 0) => Self::TimeExceeded(TimeExceeded::Transit),
            (TIME_EXCEEDED, 1) => Self::TimeExceeded(TimeExceeded::Reassembly),
            (PARAM_PROBLEM, code) => Self::ParamProblem {
                code,
                pointer: word,
            },
            (ECHO_REQUEST, 0) => Self::EchoRequest { id: high, seq: low },
            (ECHO_REPLY, 0) => Self::EchoReply { id: high, seq: low },
            _ => Self::Other { kind, code, rest },
        }
    }

    fn to_parts(self) -> (u8, u8, [u8; 4]) {
        match self {
            Self::DestUnreachable(why) => (DEST_UNREACHABLE, why.code(), [0; 4]),
            Self::PacketTooBig { mtu } => (PACKET_TOO_BIG, 0, mtu.to_be_bytes()),
            Self::TimeExceeded(TimeExceeded::Transit) => (TIME_EXCEEDED, 0, [0; 4]),
            Self::TimeExceeded(TimeExceeded::Reassembly) => (TIME_EXCEEDED, 1, [0; 4]),
            Self::ParamProblem { code, pointer } => (PARAM_PROBLEM, code, pointer.to_be_bytes()),
            Self::EchoRequest { id, seq } => (ECHO_REQUEST, 0, join(id, seq)),
            Self::EchoReply { id, seq } => (ECHO_REPLY, 0, join(id, seq)),
            Self::Other { kind, code, rest } => (kind, code, rest),
        }
    }
}

impl Unreachable6 {
    /// The code field.
    pub const fn code(self) -> u8 {
        match self {
            Self::NoRoute => 0,
            Self::AdminProhibited => 1,
            Self::BeyondScope => 2,
            Self::Address => 3,
            Self::Port => 4,
            Self::SourcePolicy => 5,
            Self::Reject => 6,
            Self::Other(code) => code,
        }
    }

    const fn from_code(code: u8) -> Self {
        match code {
            0 => Self::NoRoute,
            1 => Self::AdminProhibited,
            2 => Self::BeyondScope,
            3 => Self::Address,
            4 => Self::Port,
            5 => Self::SourcePolicy,
            6 => Self::Reject,
            code => Self::Other(code),
        }
    }
}

fn join(high: u16, low: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    [a, b, c, d]
}

const DEST_UNREACHABLE: u8 = 1;
const PACKET_TOO_BIG: u8 = 2;
const TIME_EXCEEDED: u8 = 3;
const PARAM_PROBLEM: u8 = 4;
const ECHO_REQUEST: u8 = 128;
const ECHO_REPLY: u8 = 129;
const REDIRECT: u8 = 137;

#[cfg(test)]
mod tests;
