//! DHCP messages for IPv4, which are BOOTP's with options.
//!
//! Invariants: a parsed message has the magic cookie, and is for Ethernet. Options are walked within the bytes that
//! there are; one whose length points behind them ends the walk.
//! Locks: none.
//! Sources: RFC 951, RFC 2131, RFC 2132.
//!
//! ```text
//!   0   1   2   3   4       8     10      12      16      20      24      28         44      108    236    240
//!  +---+---+---+---+-------+-----+-------+-------+-------+-------+-------+----------+-------+------+------+---- - -
//!  |op |hty|hln|hop| xid   |secs | flags |ciaddr |yiaddr |siaddr |giaddr | chaddr   | sname | file |cookie| options
//!  +---+---+---+---+-------+-----+-------+-------+-------+-------+-------+----------+-------+------+------+---- - -
//! ```

use core::net::Ipv4Addr;

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{MacAddr, ParseError, emit};

/// The fixed part of a message, with the magic cookie (RFC 2131 section 2).
#[doc(alias = "bootp")]
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Dhcp4Header {
    op: u8,
    htype: u8,
    hlen: u8,
    hops: u8,
    xid: U32,
    secs: U16,
    flags: U16,
    ciaddr: [u8; 4],
    yiaddr: [u8; 4],
    siaddr: [u8; 4],
    giaddr: [u8; 4],
    chaddr: [u8; 16],
    sname: [u8; 64],
    file: [u8; 128],
    cookie: U32,
}

const _: () = assert!(size_of::<Dhcp4Header>() == Dhcp4Header::LEN);

/// Says that options follow (RFC 2131 section 3).
const COOKIE: u32 = 0x6382_5363;
const OP_REQUEST: u8 = 1;
const OP_REPLY: u8 = 2;
const HTYPE_ETHERNET: u8 = 1;

/// The kind of a message: the value of option 53 (RFC 2132 section 9.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are the field's")]
pub enum Dhcp4Type {
    Discover = 1,
    Offer = 2,
    Request = 3,
    Decline = 4,
    Ack = 5,
    Nak = 6,
    Release = 7,
    Inform = 8,
}

impl Dhcp4Type {
    /// The kind with this number.
    pub const fn from_number(number: u8) -> Option<Dhcp4Type> {
        Some(match number {
            1 => Dhcp4Type::Discover,
            2 => Dhcp4Type::Offer,
            3 => Dhcp4Type::Request,
            4 => Dhcp4Type::Decline,
            5 => Dhcp4Type::Ack,
            6 => Dhcp4Type::Nak,
            7 => Dhcp4Type::Release,
            8 => Dhcp4Type::Inform,
            _ => return None,
        })
    }
}

/// Numbers of options (RFC 2132, and those named).
pub mod dhcp4_option {
    /// Subnet mask.
    pub const SUBNET_MASK: u8 = 1;
    /// Routers, the preferred one first.
    pub const ROUTER: u8 = 3;
    /// Name servers, the preferred one first.
    pub const DNS: u8 = 6;
    /// The client's name.
    pub const HOST_NAME: u8 = 12;
    /// The client's domain.
    pub const DOMAIN_NAME: u8 = 15;
    /// The interface's MTU in bytes.
    pub const INTERFACE_MTU: u8 = 26;
    /// The broadcast address.
    pub const BROADCAST: u8 = 28;
    /// The address that the client asks for.
    pub const REQUESTED_ADDRESS: u8 = 50;
    /// The time of the lease, in seconds.
    pub const LEASE_TIME: u8 = 51;
    /// The kind of the message.
    pub const MESSAGE_TYPE: u8 = 53;
    /// The server's address.
    pub const SERVER_ID: u8 = 54;
    /// The options that the client wants, in its order of preference.
    pub const PARAMETER_LIST: u8 = 55;
    /// The largest message that the client takes, with the IP and UDP headers.
    pub const MESSAGE_SIZE_MAX: u8 = 57;
    /// Seconds until the client asks its server again (T1).
    pub const RENEWAL_TIME: u8 = 58;
    /// Seconds until the client asks any server (T2).
    pub const REBINDING_TIME: u8 = 59;
    /// The client's identifier, which a reply repeats (RFC 6842).
    pub const CLIENT_ID: u8 = 61;
    /// A request that may be answered by a lease at once (RFC 4039).
    pub const RAPID_COMMIT: u8 = 80;
    /// Domains to search in (RFC 3397).
    pub const DOMAIN_SEARCH: u8 = 119;
    pub(super) const PAD: u8 = 0;
    pub(super) const END: u8 = 255;
}

impl Dhcp4Header {
    /// Bytes up to the first option.
    pub const LEN: usize = 240;
    /// The smallest message that each BOOTP program takes (RFC 1542 section 2.1), without the IP and UDP headers.
    pub const MESSAGE_MIN: usize = 300;

    /// The header of a client's message at the front of `bytes`, and its options.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] for fewer than 240 bytes; [`ParseError::Unsupported`] for a reply, another link than
    /// Ethernet, or a message without the magic cookie.
    pub fn parse_request(bytes: &[u8]) -> Result<(&Dhcp4Header, Dhcp4Options<'_>), ParseError> {
        Dhcp4Header::parse(bytes, OP_REQUEST)
    }

    /// The header of a server's message at the front of `bytes`, and its options.
    ///
    /// # Errors
    /// As [`Dhcp4Header::parse_request`], with [`ParseError::Unsupported`] for a request.
    pub fn parse_reply(bytes: &[u8]) -> Result<(&Dhcp4Header, Dhcp4Options<'_>), ParseError> {
        Dhcp4Header::parse(bytes, OP_REPLY)
    }

    fn parse(bytes: &[u8], op: u8) -> Result<(&Dhcp4Header, Dhcp4Options<'_>), ParseError> {
        let parsed = Dhcp4Header::ref_from_prefix(bytes);
        let (header, options) = parsed.map_err(|_| ParseError::Truncated)?;
        let is_ethernet = header.htype == HTYPE_ETHERNET && usize::from(header.hlen) == 6;
        if header.op != op || !is_ethernet || header.cookie.get() != COOKIE {
            return Err(ParseError::Unsupported);
        }
        Ok((header, Dhcp4Options(options)))
    }

    /// A client's message.
    pub fn request(xid: u32, mac: MacAddr) -> Dhcp4Header {
        let MacAddr([a, b, c, d, e, f]) = mac;
        Dhcp4Header {
            op: OP_REQUEST,
            htype: HTYPE_ETHERNET,
            hlen: 6,
            hops: 0,
            xid: U32::new(xid),
            secs: U16::ZERO,
            flags: U16::ZERO,
            ciaddr: [0; 4],
            yiaddr: [0; 4],
            siaddr: [0; 4],
            giaddr: [0; 4],
            chaddr: [a, b, c, d, e, f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            sname: [0; 64],
            file: [0; 128],
            cookie: U32::new(COOKIE),
        }
    }

    /// The reply to this message, with `your` address for its client: the fields that RFC 2131 table 3 takes from the
    /// request are the same.
    pub fn reply(&self, your: Ipv4Addr) -> Dhcp4Header {
        Dhcp4Header {
            op: OP_REPLY,
            hops: 0,
            secs: U16::ZERO,
            yiaddr: your.octets(),
            siaddr: [0; 4],
            sname: [0; 64],
            file: [0; 128],
            ..*self
        }
    }

    /// This header, of a client that has this address.
    pub fn with_client_addr(self, addr: Ipv4Addr) -> Dhcp4Header {
        Dhcp4Header {
            ciaddr: addr.octets(),
            ..self
        }
    }

    /// The transaction, which the client chose.
    pub const fn xid(&self) -> u32 {
        self.xid.get()
    }

    /// The address that the client has and answers for; unspecified if it has none.
    pub const fn client_addr(&self) -> Ipv4Addr {
        Ipv4Addr::from_octets(self.ciaddr)
    }

    /// The client's address, in a reply.
    pub const fn your_addr(&self) -> Ipv4Addr {
        Ipv4Addr::from_octets(self.yiaddr)
    }

    /// The relay agent that passed the message on; unspecified if there was none.
    pub const fn relay_addr(&self) -> Ipv4Addr {
        Ipv4Addr::from_octets(self.giaddr)
    }

    /// The client's Ethernet address.
    pub const fn client_mac(&self) -> MacAddr {
        let [a, b, c, d, e, f, ..] = self.chaddr;
        MacAddr([a, b, c, d, e, f])
    }
}

/// The options of a message, walked in their order. One that comes twice is not joined (RFC 3396): a server's questions
/// fit in one.
#[derive(Clone, Copy, Debug)]
pub struct Dhcp4Options<'a>(&'a [u8]);

impl<'a> Dhcp4Options<'a> {
    /// The value of the first option with this number.
    pub fn get(&self, number: u8) -> Option<&'a [u8]> {
        let mut options = *self;
        options.find(|(n, _)| *n == number).map(|(_, value)| value)
    }

    /// The value of the first option with this number, as an address.
    pub fn addr(&self, number: u8) -> Option<Ipv4Addr> {
        let octets = self.get(number)?.first_chunk::<4>()?;
        Some(Ipv4Addr::from_octets(*octets))
    }

    /// The value of the first option with this number, as a number of 16 bits.
    pub fn u16(&self, number: u8) -> Option<u16> {
        self.get(number)?
            .first_chunk::<2>()
            .map(|b| u16::from_be_bytes(*b))
    }

    /// The kind of the message; none for a message of BOOTP's, or of an unknown kind.
    pub fn message_type(&self) -> Option<Dhcp4Type> {
        let number = self.get(dhcp4_option::MESSAGE_TYPE)?.first()?;
        Dhcp4Type::from_number(*number)
    }
}

impl<'a> Iterator for Dhcp4Options<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        while let [dhcp4_option::PAD, rest @ ..] = self.0 {
            self.0 = rest;
        }
        let (number, len, rest) = match self.0 {
            [dhcp4_option::END, ..] | [] | [_] => return None,
            [number, len, rest @ ..] => (*number, usize::from(*len), rest),
        };
        let (value, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((number, value))
    }
}

/// Writes a message into a buffer (RFC 2131).
#[derive(Debug)]
pub struct Dhcp4Writer<'a> {
    out: &'a mut [u8],
    len: usize,
}

impl<'a> Dhcp4Writer<'a> {
    /// Begins a message with `header`, which may become as long as `out`.
    ///
    /// # Panics
    /// If `out` has no room for the header.
    pub fn new(out: &'a mut [u8], header: &Dhcp4Header) -> Dhcp4Writer<'a> {
        let len = emit::put(out, header.as_bytes());
        Dhcp4Writer { out, len }
    }

    /// Adds an option; false if it has no room, or is longer than 255 bytes.
    pub fn put(&mut self, number: u8, value: &[u8]) -> bool {
        let Ok(len) = u8::try_from(value.len()) else {
            return false;
        };
        // One byte is kept for the end.
        let [number_at, len_at, rest @ .., _] = self.out.get_mut(self.len..).unwrap_or_default()
        else {
            return false;
        };
        if rest.len() < value.len() {
            return false;
        }
        (*number_at, *len_at) = (number, len);
        emit::put(rest, value);
        self.len = self.len.saturating_add(value.len()).saturating_add(2);
        true
    }

    /// Ends the message, and gives its length: at least [`Dhcp4Header::MESSAGE_MIN`] where there is room.
    pub fn finish(self) -> usize {
        let rest = self.out.get_mut(self.len..).unwrap_or_default();
        let Some((end, padding)) = rest.split_first_mut() else {
            return self.len;
        };
        *end = dhcp4_option::END;
        let len = self.len.saturating_add(1);
        let missing = Dhcp4Header::MESSAGE_MIN
            .saturating_sub(len)
            .min(padding.len());
        padding.iter_mut().take(missing).for_each(|b| *b = 0);
        len.saturating_add(missing)
    }
}

#[cfg(test)]
mod tests;
