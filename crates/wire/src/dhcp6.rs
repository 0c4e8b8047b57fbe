//! DHCP messages for IPv6.
//!
//! Invariants: a parsed message's options are whole: none reaches past the end. Options inside of an option are read
//! apart, with [`Dhcp6Options::parse`].
//! Locks: none.
//! Sources: RFC 9915 sections 8 and 21 (as RFC 8415), RFC 3646 (name servers).
//!
//! ```text
//!   0     1             4       6       8
//!  +-----+-------------+-------+-------+--------- - -
//!  |kind | transaction | code  | len   | value
//!  +-----+-------------+-------+-------+--------- - -
//! ```

use core::net::Ipv6Addr;

use crate::{MacAddr, ParseError, emit};

/// The kind of a message between a client and a server (RFC 9915 section 7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are the field's")]
pub enum Dhcp6Type {
    Solicit = 1,
    Advertise = 2,
    Request = 3,
    Confirm = 4,
    Renew = 5,
    Rebind = 6,
    Reply = 7,
    Release = 8,
    Decline = 9,
    Reconfigure = 10,
    InformationRequest = 11,
}

impl Dhcp6Type {
    /// The kind with this number; none for a message of relay agents, or an unknown one.
    pub const fn from_number(number: u8) -> Option<Dhcp6Type> {
        Some(match number {
            1 => Dhcp6Type::Solicit,
            2 => Dhcp6Type::Advertise,
            3 => Dhcp6Type::Request,
            4 => Dhcp6Type::Confirm,
            5 => Dhcp6Type::Renew,
            6 => Dhcp6Type::Rebind,
            7 => Dhcp6Type::Reply,
            8 => Dhcp6Type::Release,
            9 => Dhcp6Type::Decline,
            10 => Dhcp6Type::Reconfigure,
            11 => Dhcp6Type::InformationRequest,
            _ => return None,
        })
    }
}

/// Codes of options (section 21, and those named).
pub mod dhcp6_option {
    /// The client's DUID.
    pub const CLIENT_ID: u16 = 1;
    /// The server's DUID.
    pub const SERVER_ID: u16 = 2;
    /// Addresses that are leased: an identifier, T1, T2, and options.
    pub const IA_NA: u16 = 3;
    /// An address inside of [`IA_NA`]: the address, two lifetimes, and options.
    pub const IA_ADDR: u16 = 5;
    /// The codes that the client wants.
    pub const OPTION_REQUEST: u16 = 6;
    /// Why something was refused.
    pub const STATUS_CODE: u16 = 13;
    /// A request that may be answered by a lease at once.
    pub const RAPID_COMMIT: u16 = 14;
    /// Name servers (RFC 3646).
    pub const DNS_SERVERS: u16 = 23;
    /// Domains to search in (RFC 3646).
    pub const DOMAIN_LIST: u16 = 24;
    /// Prefixes that are delegated: an identifier, T1, T2, and options.
    pub const IA_PD: u16 = 25;
    /// Seconds until a client without a lease asks again.
    pub const REFRESH_TIME: u16 = 32;
}

/// Values of [`dhcp6_option::STATUS_CODE`] (section 21.13).
pub mod dhcp6_status {
    /// It is done.
    pub const SUCCESS: u16 = 0;
    /// There is no address for this.
    pub const NO_ADDRS_AVAIL: u16 = 2;
    /// The server does not know of this lease.
    pub const NO_BINDING: u16 = 3;
    /// The address is not one of this link.
    pub const NOT_ON_LINK: u16 = 4;
    /// There is no prefix for this.
    pub const NO_PREFIX_AVAIL: u16 = 6;
}

/// The first four bytes of a message (RFC 9915 section 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dhcp6Header {
    /// Its kind.
    pub kind: Dhcp6Type,
    /// The transaction, which the client chose.
    pub transaction: [u8; 3],
}

impl Dhcp6Header {
    /// Bytes up to the first option.
    pub const LEN: usize = 4;

    /// The header at the front of `bytes`, and the options behind it.
    ///
    /// # Errors
    /// [`ParseError::Truncated`] if it is too short, [`ParseError::Unsupported`] for a kind that is none of these,
    /// [`ParseError::BadLength`] if an option reaches past the end.
    pub fn parse(bytes: &[u8]) -> Result<(Dhcp6Header, Dhcp6Options<'_>), ParseError> {
        let (&[kind, a, b, c], options) = bytes.split_first_chunk().ok_or(ParseError::Truncated)?;
        let kind = Dhcp6Type::from_number(kind).ok_or(ParseError::Unsupported)?;
        let header = Dhcp6Header {
            kind,
            transaction: [a, b, c],
        };
        Ok((header, Dhcp6Options::parse(options)?))
    }
}

/// The options of a message, or inside of an option, in their order (RFC 9915 section 21). All are whole.
#[derive(Clone, Copy, Debug)]
pub struct Dhcp6Options<'a>(&'a [u8]);

impl<'a> Dhcp6Options<'a> {
    /// The options in `bytes`.
    ///
    /// # Errors
    /// [`ParseError::BadLength`] if one reaches past the end.
    pub fn parse(bytes: &'a [u8]) -> Result<Dhcp6Options<'a>, ParseError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = split(rest).ok_or(ParseError::BadLength)?.1;
        }
        Ok(Dhcp6Options(bytes))
    }

    /// The value of the first option with this code.
    pub fn get(&self, code: u16) -> Option<&'a [u8]> {
        let mut options = *self;
        options.find(|(c, _)| *c == code).map(|(_, value)| value)
    }
}

impl<'a> Iterator for Dhcp6Options<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        let (option, rest) = split(self.0)?;
        self.0 = rest;
        Some(option)
    }
}

/// The first option, and the bytes behind it.
#[expect(clippy::type_complexity, reason = "an option, and the rest")]
fn split(bytes: &[u8]) -> Option<((u16, &[u8]), &[u8])> {
    let (&[c1, c0, l1, l0], rest) = bytes.split_first_chunk()?;
    let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([l1, l0])))?;
    Some(((u16::from_be_bytes([c1, c0]), value), rest))
}

/// The value of an [`dhcp6_option::IA_NA`] or [`dhcp6_option::IA_PD`] (RFC 9915 section 21).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Dhcp6Association<'a> {
    /// Its identifier, which the client chose.
    pub id: [u8; 4],
    /// The options inside of it.
    pub options: Dhcp6Options<'a>,
}

impl<'a> Dhcp6Association<'a> {
    /// Bytes before the options: the identifier, T1 and T2.
    pub const LEN: usize = 12;

    /// The association in the value of an option.
    ///
    /// # Errors
    /// [`ParseError::Truncated`], or [`ParseError::BadLength`] if an option inside of it reaches past the end.
    pub fn parse(value: &'a [u8]) -> Result<Dhcp6Association<'a>, ParseError> {
        let (&[a, b, c, d, ..], options) = value
            .split_first_chunk::<{ Dhcp6Association::LEN }>()
            .ok_or(ParseError::Truncated)?;
        Ok(Dhcp6Association {
            id: [a, b, c, d],
            options: Dhcp6Options::parse(options)?,
        })
    }

    /// The addresses in it.
    pub fn addrs(&self) -> impl Iterator<Item = Ipv6Addr> + use<'a> {
        let addrs = self
            .options
            .filter(|(code, _)| *code == dhcp6_option::IA_ADDR);
        addrs.filter_map(|(_, value)| Some(Ipv6Addr::from_octets(*value.first_chunk()?)))
    }
}

/// A DUID made of an Ethernet address alone (section 11.4), which is the same after a restart.
pub fn duid_of(mac: MacAddr) -> [u8; 10] {
    let MacAddr([a, b, c, d, e, f]) = mac;
    [0, 3, 0, 1, a, b, c, d, e, f]
}

/// Writes a message into a buffer (RFC 9915).
#[derive(Debug)]
pub struct Dhcp6Writer<'a> {
    out: &'a mut [u8],
    len: usize,
}

impl<'a> Dhcp6Writer<'a> {
    /// Begins a message with `header`, which may become as long as `out`.
    ///
    /// # Panics
    /// If `out` has no room for the header.
    pub fn new(out: &'a mut [u8], header: &Dhcp6Header) -> Dhcp6Writer<'a> {
        let [a, b, c] = header.transaction;
        let len = emit::put(out, &[header.kind as u8, a, b, c]);
        Dhcp6Writer { out, len }
    }

    /// Adds an option; false, and nothing is added, if it has no room.
    pub fn put(&mut self, code: u16, value: &[u8]) -> bool {
        self.put_with(code, value, |_| true)
    }

    /// Adds an option with the options inside of it, which `inside` adds behind `value`; false, and nothing is added,
    /// if one has no room.
    pub fn put_with(
        &mut self,
        code: u16,
        value: &[u8],
        inside: impl FnOnce(&mut Dhcp6Writer<'_>) -> bool,
    ) -> bool {
        let Some((head, body)) = self
            .out
            .get_mut(self.len..)
            .and_then(|rest| rest.split_first_chunk_mut::<4>())
        else {
            return false;
        };
        if body.len() < value.len() {
            return false;
        }
        let len = emit::put(body, value);
        let mut writer = Dhcp6Writer { out: body, len };
        let fits = inside(&mut writer);
        let Ok(len) = u16::try_from(writer.len) else {
            return false;
        };
        let ([c1, c0], [l1, l0]) = (code.to_be_bytes(), len.to_be_bytes());
        *head = [c1, c0, l1, l0];
        if fits {
            self.len = self.len.saturating_add(4).saturating_add(usize::from(len));
        }
        fits
    }

    /// The length of the message.
    pub fn finish(self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests;
