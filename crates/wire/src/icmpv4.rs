//! ICMP messages for IPv4.
//!
//! Invariants: every type and code has a value, so parsing fails only for too few bytes; the checksum covers the
//! payload and is checked by the caller over its chain.
//! Locks: none.
//! Sources: RFC 792, RFC 1122 section 3.2.2, RFC 1191 section 4 (MTU), RFC 1812 section 5.2.7.
//!
//! ```text
//!   0   1   2       4               8
//!  +---+---+-------+---------------+------------------------ - -
//!  |typ|cod|cksum  | id, seq | mtu | echo data | IP header + 8
//!  +---+---+-------+---------------+------------------------ - -
//! ```

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Checksum, ParseError, emit};

/// The first eight bytes of an ICMP message as they lie in the packet (RFC 792).
#[doc(alias = "icmp")]
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct IcmpHeader {
    kind: u8,
    code: u8,
    checksum: U16,
    rest: [u8; 4],
}

const _: () = assert!(size_of::<IcmpHeader>() == IcmpHeader::LEN);

impl IcmpHeader {
    /// Bytes in the header.
    pub const LEN: usize = 8;
    /// The offset of the checksum in the header, in bytes.
    pub const CHECKSUM_OFFSET: usize = 2;

    /// The header at the front of `bytes`, and the bytes after it.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] for fewer than 8 bytes.
    pub fn parse(bytes: &[u8]) -> Result<(&IcmpHeader, &[u8]), ParseError> {
        IcmpHeader::ref_from_prefix(bytes).map_err(|_| ParseError::Truncated)
    }

    /// The header of `message`, its checksum computed over header and `payload`.
    pub fn new<'a>(
        message: IcmpMessage,
        payload: impl IntoIterator<Item = &'a [u8]>,
    ) -> IcmpHeader {
        let (kind, code, rest) = message.to_parts();
        let mut header = IcmpHeader {
            kind,
            code,
            checksum: U16::ZERO,
            rest,
        };
        header.checksum = U16::new(header.sum(payload).finish());
        header
    }

    /// The type and code, with their parameters.
    pub fn message(&self) -> IcmpMessage {
        IcmpMessage::from_parts(self.kind, self.code, self.rest)
    }

    /// The type field.
    pub const fn kind(&self) -> u8 {
        self.kind
    }

    /// The code field.
    pub const fn code(&self) -> u8 {
        self.code
    }

    /// Whether the checksum fits this header and its `payload`, given in any pieces.
    pub fn checksum_ok<'a>(&self, payload: impl IntoIterator<Item = &'a [u8]>) -> bool {
        self.sum(payload).is_valid()
    }

    /// Writes the header to the front of `out` and returns its length.
    ///
    /// # Panics
    /// If `out` is shorter than [`IcmpHeader::LEN`].
    pub fn emit(&self, out: &mut [u8]) -> usize {
        emit::put(out, self.as_bytes())
    }

    fn sum<'a>(&self, payload: impl IntoIterator<Item = &'a [u8]>) -> Checksum {
        let mut sum = Checksum::new();
        sum.add_bytes(self.as_bytes());
        for piece in payload {
            sum.add_bytes(piece);
        }
        sum
    }
}

/// The type and code of an ICMP message, with their parameters (RFC 792, RFC 1122 section 3.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IcmpMessage {
    /// The answer to a ping.
    EchoReply {
        /// Copied from the request; commonly one per pinging process.
        id: u16,
        /// Copied from the request; counts the pings.
        seq: u16,
    },
    /// A ping.
    EchoRequest {
        /// Chosen by the sender, commonly one per process.
        id: u16,
        /// Counts the pings.
        seq: u16,
    },
    /// The packet quoted in the payload could not be delivered.
    DestUnreachable(Unreachable),
    /// The packet quoted in the payload took too long.
    TimeExceeded(TimeExceeded),
    /// A field of the packet quoted in the payload is wrong.
    ParamProblem {
        /// 0: the pointer says where; 1: an option is missing; 2: bad length.
        code: u8,
        /// Offset of the wrong byte, for code 0.
        pointer: u8,
    },
    /// Anything else, and unassigned codes of the types above except "unreachable".
    Other {
        /// The type field.
        kind: u8,
        /// The code field.
        code: u8,
        /// The four bytes behind the checksum.
        rest: [u8; 4],
    },
}

/// Why a destination is unreachable (RFC 792, RFC 1812 section 5.2.7): the code of an ICMP type 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unreachable {
    /// 0: no route to the network.
    NetUnreachable,
    /// 1: the host does not answer on its own network.
    HostUnreachable,
    /// 2: the destination does not have this protocol.
    ProtocolUnreachable,
    /// 3: no socket at the destination has this port.
    PortUnreachable,
    /// 4: too large for the next link, and fragmenting was forbidden.
    FragNeeded {
        /// MTU of that link (RFC 1191); zero from routers that do not tell.
        mtu: u16,
    },
    /// 5: the source route cannot be followed.
    SourceRouteFailed,
    /// 9: communication with the network is prohibited.
    NetProhibited,
    /// 10: communication with the host is prohibited.
    HostProhibited,
    /// 13: a filter on the way forbids it (RFC 1812).
    AdminProhibited,
    /// Any other code.
    Other(u8),
}

/// Which time was exceeded (RFC 792): the code of an ICMP type 11.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeExceeded {
    /// 0: the packet passed as many hops as its TTL allowed.
    Transit,
    /// 1: not all fragments came in time.
    Reassembly,
}

impl IcmpMessage {
    /// Whether this reports an error, and so must never be answered by an error (RFC 1122 3.2.2).
    pub fn is_error(&self) -> bool {
        match self {
            IcmpMessage::DestUnreachable(_)
            | IcmpMessage::TimeExceeded(_)
            | IcmpMessage::ParamProblem { .. } => true,
            IcmpMessage::EchoReply { .. } | IcmpMessage::EchoRequest { .. } => false,
            IcmpMessage::Other { kind, .. } => {
                matches!(
                    *kind,
                    DEST_UNREACHABLE | SOURCE_QUENCH | REDIRECT | TIME_EXCEEDED | PARAM_PROBLEM
                )
            }
        }
    }

    /// Writes the eight header bytes, checksum over `payload` included, and returns their number. The
    /// payload itself stays where it is.
    ///
    /// # Panics
    /// If `out` is shorter than [`IcmpHeader::LEN`].
    pub fn emit<'a>(self, out: &mut [u8], payload: impl IntoIterator<Item = &'a [u8]>) -> usize {
        IcmpHeader::new(self, payload).emit(out)
    }

    fn from_parts(kind: u8, code: u8, rest: [u8; 4]) -> IcmpMessage {
        let [a, b, c, d] = rest;
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        match (kind, code) {
            (ECHO_REPLY, 0) => IcmpMessage::EchoReply { id: high, seq: low },
            (ECHO_REQUEST, 0) => IcmpMessage::EchoRequest { id: high, seq: low },
            (DEST_UNREACHABLE, code) => {
                IcmpMessage::DestUnreachable(Unreachable::from_code(code, low))
            }
            (TIME_EXCEEDED, 0) => IcmpMessage::TimeExceeded(TimeExceeded::Transit),
            (TIME_EXCEEDED, 1) => IcmpMessage::TimeExceeded(TimeExceeded::Reassembly),
            (PARAM_PROBLEM, 0..=2) => IcmpMessage::ParamProblem { code, pointer: a },
            _ => IcmpMessage::Other { kind, code, rest },
        }
    }

    fn to_parts(self) -> (u8, u8, [u8; 4]) {
        match self {
            IcmpMessage::EchoReply { id, seq } => (ECHO_REPLY, 0, join(id, seq)),
            IcmpMessage::EchoRequest { id, seq } => (ECHO_REQUEST, 0, join(id, seq)),
            IcmpMessage::DestUnreachable(why) => (DEST_UNREACHABLE, why.code(), join(0, why.mtu())),
            IcmpMessage::TimeExceeded(TimeExceeded::Transit) => (TIME_EXCEEDED, 0, [0; 4]),
            IcmpMessage::TimeExceeded(TimeExceeded::Reassembly) => (TIME_EXCEEDED, 1, [0; 4]),
            IcmpMessage::ParamProblem { code, pointer } => {
                (PARAM_PROBLEM, code, [pointer, 0, 0, 0])
            }
            IcmpMessage::Other { kind, code, rest } => (kind, code, rest),
        }
    }
}

impl Unreachable {
    /// The code field.
    pub const fn code(self) -> u8 {
        match self {
            Unreachable::NetUnreachable => 0,
            Unreachable::HostUnreachable => 1,
            Unreachable::ProtocolUnreachable => 2,
            Unreachable::PortUnreachable => 3,
            Unreachable::FragNeeded { .. } => 4,
            Unreachable::SourceRouteFailed => 5,
            Unreachable::NetProhibited => 9,
            Unreachable::HostProhibited => 10,
            Unreachable::AdminProhibited => 13,
            Unreachable::Other(code) => code,
        }
    }

    const fn from_code(code: u8, mtu: u16) -> Unreachable {
        match code {
            0 => Unreachable::NetUnreachable,
            1 => Unreachable::HostUnreachable,
            2 => Unreachable::ProtocolUnreachable,
            3 => Unreachable::PortUnreachable,
            4 => Unreachable::FragNeeded { mtu },
            5 => Unreachable::SourceRouteFailed,
            9 => Unreachable::NetProhibited,
            10 => Unreachable::HostProhibited,
            13 => Unreachable::AdminProhibited,
            code => Unreachable::Other(code),
        }
    }

    const fn mtu(self) -> u16 {
        match self {
            Unreachable::FragNeeded { mtu } => mtu,
            _ => 0,
        }
    }
}

fn join(high: u16, low: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
    [a, b, c, d]
}

// Types of RFC 792. Source quench and redirect are known only in order not to be answered.
const ECHO_REPLY: u8 = 0;
const DEST_UNREACHABLE: u8 = 3;
const SOURCE_QUENCH: u8 = 4;
const REDIRECT: u8 = 5;
const ECHO_REQUEST: u8 = 8;
const TIME_EXCEEDED: u8 = 11;
const PARAM_PROBLEM: u8 = 12;

#[cfg(test)]
mod tests;
