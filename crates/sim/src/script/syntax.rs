//! A script as values: events with their times, calls with their arguments, packets.
//!
//! The parser makes these values and the runner reads them. A value has the text's content; the runner checks whether
//! it makes sense.

use std::fmt;
use std::net::Ipv4Addr;

use super::header_field::HeaderField;
use super::options::OptionsSpec;

/// A place in a script: its line, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line(pub u32);

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A time in microseconds.
pub(super) type Micros = i64;

/// A hundred years, the longest time of a script: the stack's clock and sums of a few times can hold it.
pub(super) const TIME_MAX: Micros = 3_155_760_000_000_000;

/// When an event happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// `0.5`: after the first event's time.
    Absolute(Micros),
    /// `+0.5`: after the event before.
    Relative(Micros),
    /// `0.1~0.2`: at any time in between.
    AbsoluteRange(Micros, Micros),
    /// `+0.1~+0.2`: at any time in between, counted from the event before.
    RelativeRange(Micros, Micros),
    /// `*`: at any time.
    Any,
}

/// One line of a script.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ScriptEvent {
    /// Where it is written.
    pub(super) line: Line,
    /// When it happens.
    pub(super) when: When,
    /// `a...b`: a call that blocks until this time; relative where `when` is.
    pub(super) until: Option<Micros>,
    /// The event.
    pub(super) action: Action,
}

/// An event.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Action {
    /// A program's call.
    Call(Call),
    /// `<`: a packet comes in.
    Inject(PacketSpec),
    /// `>`: the stack must send this packet.
    Expect(PacketSpec),
    /// Words in backticks.
    Command(String),
    /// `%{ ... }%`: assertions in Python.
    Code(String),
    /// An event that needs a feature which the runner lacks: its name.
    Lacks(String),
}

/// A call and its expected outcome.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    /// Its name.
    pub(super) name: String,
    /// Its arguments.
    pub(super) args: Vec<Expr>,
    /// The expected result.
    pub(super) returns: Expr,
    /// The name of the error, such as `EAGAIN`.
    pub(super) errno: Option<String>,
}

/// An argument.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expr {
    /// `...`: anything.
    Any,
    /// A number.
    Int(i64),
    /// `"text"`.
    Text(String),
    /// A name, such as `SOL_SOCKET`.
    Name(String),
    /// `A|B`.
    Or(Vec<Expr>),
    /// `[a, b]`.
    List(Vec<Expr>),
    /// `{a, name=b}`.
    Struct(Vec<Field>),
    /// `htons(80)`.
    Apply(String, Vec<Expr>),
}

/// One entry of a structure.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    /// Its name, if it has one.
    pub(super) name: Option<String>,
    /// Its value.
    pub(super) value: Expr,
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn join(f: &mut fmt::Formatter<'_>, all: &[Expr], between: &str) -> fmt::Result {
            for (i, one) in all.iter().enumerate() {
                write!(f, "{}{one}", if i == 0 { "" } else { between })?;
            }
            Ok(())
        }
        match self {
            Self::Any => f.write_str("..."),
            Self::Int(n) => write!(f, "{n}"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Name(name) => f.write_str(name),
            Self::Or(all) => join(f, all, "|"),
            Self::List(all) => {
                f.write_str("[")?;
                join(f, all, ", ")?;
                f.write_str("]")
            }
            Self::Struct(fields) => {
                f.write_str("{")?;
                for (i, field) in fields.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    match &field.name {
                        Some(name) => write!(f, "{comma}{name}={}", field.value)?,
                        None => write!(f, "{comma}{}", field.value)?,
                    }
                }
                f.write_str("}")
            }
            Self::Apply(name, args) => {
                write!(f, "{name}(")?;
                join(f, args, ", ")?;
                f.write_str(")")
            }
        }
    }
}

/// A packet, one way or the other.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PacketSpec {
    /// The expected IP header.
    pub(super) ip: IpSpec,
    /// Source and destination port, where the script names them.
    pub(super) ports: Option<(u16, u16)>,
    /// The payload.
    pub(super) body: Body,
    /// The changes to its bytes.
    pub(super) changes: Vec<PacketChange>,
}

/// A change to the bytes of a packet, which makes it one that no sender would send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PacketChange {
    /// `rep header field value`: the field has this value.
    Replace {
        /// The field's place.
        field: HeaderField,
        /// Its value.
        value: u32,
    },
    /// Another one, as it is written.
    Other(String),
}

/// A script's description of an IP header.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct IpSpec {
    /// The ECN field.
    pub(super) ecn: Option<EcnField>,
    /// The whole traffic class byte.
    pub(super) tos: Option<u8>,
    /// The time to live.
    pub(super) ttl: Option<u8>,
}

/// The ECN field of an IP header (RFC 3168 section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EcnField {
    /// `noecn`: 00.
    NotEct,
    /// `ect1`: 01.
    Ect1,
    /// `ect0`: 10.
    Ect0,
    /// `ce`: 11.
    Ce,
    /// `ect01`: ECT(0) or ECT(1).
    Ect01,
}

impl EcnField {
    /// The two bits to send.
    pub(super) const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0,
            Self::Ect1 => 1,
            Self::Ect0 | Self::Ect01 => 2,
            Self::Ce => 3,
        }
    }

    /// Whether these bits are meant.
    pub(super) const fn allows(self, bits: u8) -> bool {
        match self {
            Self::Ect01 => bits == 1 || bits == 2,
            _ => bits == self.bits(),
        }
    }
}

/// The payload of an IP packet.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Body {
    /// A TCP segment.
    Tcp(TcpSpec),
    /// A UDP datagram of this many bytes.
    Udp(usize),
    /// An ICMP message.
    Icmp(IcmpSpec),
}

/// A TCP segment in the script's numbers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TcpSpec {
    /// The control bits: the header's byte, and AE (RFC 9768) as bit 8.
    pub(super) flags: u16,
    /// Sequence number of the first byte.
    pub(super) seq: u32,
    /// `...`: an expected segment may have any sequence number.
    pub(super) any_seq: bool,
    /// Bytes of data.
    pub(super) len: u32,
    /// Acknowledgement number.
    pub(super) ack: Option<u32>,
    /// The window field.
    pub(super) win: Option<u16>,
    /// The urgent pointer.
    pub(super) urg: Option<u16>,
    /// The options.
    pub(super) options: OptionsSpec,
}

/// An ICMP message.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct IcmpSpec {
    /// Type and code.
    pub(super) kind: (u8, u8),
    /// The MTU of a "fragmentation needed".
    pub(super) mtu: Option<u16>,
    /// The packet that it quotes; the script may leave it out if the connection has sent a packet.
    pub(super) about: Option<Quoted>,
}

/// The packet that an ICMP message quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quoted {
    /// A TCP segment with this sequence number and length.
    Tcp {
        /// Sequence number of the first byte.
        seq: u32,
        /// Bytes of data.
        len: u32,
    },
    /// A UDP datagram of this many bytes.
    Udp(usize),
}

/// A setting at the head of a script: `--name=value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    /// Where it is written.
    pub(super) line: Line,
    /// The name without the dashes.
    pub(super) name: String,
    /// The value, if there is one.
    pub(super) value: Option<String>,
}

/// The addresses that a script speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Addresses {
    /// The stack's.
    pub(super) local: Ipv4Addr,
    /// The other host's.
    pub(super) remote: Ipv4Addr,
    /// The router between them.
    pub(super) gateway: Ipv4Addr,
}
