//! Messages of neighbour discovery to be sent.

use core::net::Ipv6Addr;

use super::NdpMessage;
use super::options::{NdpOption, REDIRECTED_HEADER, put_body};
use crate::{Icmp6Message, MacAddr};

/// The longest body of a message that [`NeighborMessage`] writes: a target and an option.
const BODY_MAX: usize = 16 + 8;

/// A neighbour solicitation or advertisement to be sent.
#[derive(Clone, Copy, Debug)]
pub struct NeighborMessage {
    /// The ICMP message.
    pub message: Icmp6Message,
    body: [u8; BODY_MAX],
    len: usize,
}

impl NeighborMessage {
    /// Asks for the station that has `target`. `source`: the sender's Ethernet address, unless it has no address yet;
    /// then `nonce` tells this solicitation from another's.
    pub fn solicit(target: Ipv6Addr, source: Option<MacAddr>, nonce: Option<[u8; 6]>) -> Self {
        let source = source.map(NdpOption::SourceLinkAddr);
        let option = source.or(nonce.as_ref().map(|nonce| NdpOption::Nonce(nonce)));
        Self::new(NdpMessage::NEIGHBOR_SOLICIT, 0, Some(target), option)
    }

    /// Asks for routers. `source`: the sender's Ethernet address, unless it has no address yet.
    pub fn router_solicit(source: Option<MacAddr>) -> Self {
        let option = source.map(NdpOption::SourceLinkAddr);
        Self::new(NdpMessage::ROUTER_SOLICIT, 0, None, option)
    }

    /// Advertises that `target` is at `mac`.
    pub fn advert(target: Ipv6Addr, mac: MacAddr, flags: AdvertFlags) -> Self {
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        let flags =
            bit(flags.router, 0x80) | bit(flags.solicited, 0x40) | bit(flags.overrides, 0x20);
        let option = Some(NdpOption::TargetLinkAddr(mac));
        Self::new(NdpMessage::NEIGHBOR_ADVERT, flags, Some(target), option)
    }

    fn new(kind: u8, flags: u8, target: Option<Ipv6Addr>, option: Option<NdpOption<'_>>) -> Self {
        let mut body = [0; BODY_MAX];
        let mut len = 0;
        if let (Some(target), Some(place)) = (target, body.first_chunk_mut()) {
            *place = target.octets();
            len = place.len();
        }
        // There is room for it.
        let place = body.get_mut(len..).unwrap_or(&mut []);
        let option_len = option.and_then(|option| option.emit(place)).unwrap_or(0);
        Self {
            message: Icmp6Message::Other {
                kind,
                code: 0,
                rest: [flags, 0, 0, 0],
            },
            body,
            len: len.saturating_add(option_len),
        }
    }

    /// The bytes behind the ICMP header.
    pub fn body(&self) -> &[u8] {
        self.body.get(..self.len).unwrap_or(&[])
    }
}

/// All behind the ICMP header of a redirect to be sent (RFC 4861 section 4.5).
#[derive(Clone, Copy, Debug)]
pub struct RedirectBody<'a> {
    target: Ipv6Addr,
    dst: Ipv6Addr,
    mac: Option<MacAddr>,
    quote: &'a [u8],
}

impl<'a> RedirectBody<'a> {
    /// Bytes at most: the whole packet fits the smallest MTU.
    pub const LEN_MAX: usize = 1280 - 40 - 8;
    /// Bytes of the quote at most, behind two addresses and the fronts of two options.
    pub const QUOTE_MAX: usize = RedirectBody::LEN_MAX - 32 - 8 - 8;

    /// Says that `target` is the better first hop for `dst`; `mac`: its Ethernet address, if that is known. `quote`:
    /// the front of the packet that it is about, from its IPv6 header on.
    pub const fn new(
        target: Ipv6Addr,
        dst: Ipv6Addr,
        mac: Option<MacAddr>,
        quote: &'a [u8],
    ) -> Self {
        Self {
            target,
            dst,
            mac,
            quote,
        }
    }

    /// Writes it, and returns its length; none if it has no room.
    pub fn emit(&self, out: &mut [u8]) -> Option<usize> {
        let (addrs, options) = out.split_at_mut_checked(32)?;
        let (target, dst) = addrs.split_at_mut_checked(16)?;
        target.copy_from_slice(&self.target.octets());
        dst.copy_from_slice(&self.dst.octets());
        let mac = self.mac.map(NdpOption::TargetLinkAddr);
        let mut len = match mac {
            Some(mac) => mac.emit(options)?,
            None => 0,
        };
        let place = options.get_mut(len..)?;
        let quoted = put_body(place, &[&[0; 6], self.quote])?;
        let words = u8::try_from(quoted.checked_div(8)?).ok()?;
        *place.first_chunk_mut()? = [REDIRECTED_HEADER, words];
        len = len.checked_add(quoted)?;
        len.checked_add(32)
    }
}

/// The flags of a neighbour advertisement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdvertFlags {
    /// The sender is a router.
    pub router: bool,
    /// It was asked.
    pub solicited: bool,
    /// The receiver forgets an older address.
    pub overrides: bool,
}

impl AdvertFlags {
    pub(super) fn from_bits(bits: u8) -> Self {
        Self {
            router: bits & 0x80 != 0,
            solicited: bits & 0x40 != 0,
            overrides: bits & 0x20 != 0,
        }
    }
}
