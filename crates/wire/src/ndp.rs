//! Messages of neighbour discovery, and their options.
//!
//! Invariants: a parsed message's options are whole: each has a length that is not 0 and does not reach past the end. An
//! option of a known kind that is too short for its fields counts as an unknown one.
//! Locks: none.
//! Sources: RFC 4861 section 4, RFC 4191 section 2.3 (routes), RFC 8106 section 5 (name servers), RFC 7527 (nonce).
//!
//! ```text
//!   0   1   2       4               8                      24
//!  +---+---+-------+---------------+----------------------+---+---+------- - -
//!  |typ|cod|cksum  | flags         | target address       |kin|len| option
//!  +---+---+-------+---------------+----------------------+---+---+------- - -
//!   len: in units of 8 bytes, with kind and length itself
//! ```

use core::net::Ipv6Addr;

use crate::{Icmp6Message, MacAddr, ParseError};

/// A message of neighbour discovery, behind the ICMP header.
#[derive(Clone, Copy, Debug)]
pub enum NdpMessage<'a> {
    /// Asks for routers.
    RouterSolicit {
        /// The options.
        options: NdpOptions<'a>,
    },
    /// A router advertises itself.
    RouterAdvert(RouterAdvert, NdpOptions<'a>),
    /// Asks for the station that has an address.
    NeighborSolicit {
        /// That address.
        target: Ipv6Addr,
        /// The options.
        options: NdpOptions<'a>,
    },
    /// A station advertises its address.
    NeighborAdvert {
        /// It is a router.
        router: bool,
        /// It was asked.
        solicited: bool,
        /// The receiver forgets an older address.
        overrides: bool,
        /// That address.
        target: Ipv6Addr,
        /// The options.
        options: NdpOptions<'a>,
    },
    /// A router names a better first hop.
    Redirect {
        /// The better first hop.
        target: Ipv6Addr,
        /// For packets to this address.
        dst: Ipv6Addr,
        /// The options.
        options: NdpOptions<'a>,
    },
}

/// A router's description of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouterAdvert {
    /// The hop limit for hosts; 0: not given.
    pub hop_limit: u8,
    /// Addresses are to be had by DHCPv6.
    pub managed: bool,
    /// Other configuration is.
    pub other: bool,
    /// Its lifetime as a default router, in seconds; 0: it is none.
    pub lifetime: u16,
    /// The time for which a neighbour counts as reachable, in milliseconds; 0: not given.
    pub reachable_ms: u32,
    /// The time between two solicitations, in milliseconds; 0: not given.
    pub retrans_ms: u32,
}

/// An option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdpOption<'a> {
    /// The sender's Ethernet address.
    SourceLinkAddr(MacAddr),
    /// The target's Ethernet address.
    TargetLinkAddr(MacAddr),
    /// A prefix of the link.
    Prefix(PrefixInfo),
    /// The link's MTU.
    Mtu(u32),
    /// Distinguishes our solicitations from those of other stations.
    Nonce(&'a [u8]),
    /// Name servers.
    Rdnss {
        /// In seconds.
        lifetime: u32,
        /// Addresses of 16 bytes each.
        servers: &'a [[u8; 16]],
    },
    /// Anything else.
    Other {
        /// Its number.
        kind: u8,
        /// The bytes behind its length.
        body: &'a [u8],
    },
}

/// A router's description of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixInfo {
    /// Its bits.
    pub prefix_len: u8,
    /// All its addresses are on the link.
    pub on_link: bool,
    /// Hosts make addresses from it.
    pub autonomous: bool,
    /// In seconds; all bits set: for ever.
    pub valid_s: u32,
    /// The same, for new connections.
    pub preferred_s: u32,
    /// The prefix; bits behind it are to be ignored.
    pub prefix: Ipv6Addr,
}

/// The options of a message, which are whole.
#[derive(Clone, Copy, Debug)]
pub struct NdpOptions<'a>(&'a [u8]);

impl<'a> NdpMessage<'a> {
    /// The type of a router solicitation.
    pub const ROUTER_SOLICIT: u8 = 133;
    /// The type of a router advertisement.
    pub const ROUTER_ADVERT: u8 = 134;
    /// The type of a neighbour solicitation.
    pub const NEIGHBOR_SOLICIT: u8 = 135;
    /// The type of a neighbour advertisement.
    pub const NEIGHBOR_ADVERT: u8 = 136;
    /// The type of a redirect.
    pub const REDIRECT: u8 = 137;

    /// Whether it is a type of neighbour discovery.
    pub const fn is_kind(kind: u8) -> bool {
        matches!(kind, Self::ROUTER_SOLICIT..=Self::REDIRECT)
    }

    /// The message of type `kind` with these four bytes behind the checksum, and `body` behind those.
    ///
    /// # Errors
    /// [`ParseError::Unsupported`] for a type that is none of these, [`ParseError::Truncated`] if it is too short,
    /// [`ParseError::BadLength`] if an option has a length of 0 or reaches past the end: the whole message is void then
    /// (RFC 4861 section 6.1, 7.1).
    pub fn parse(kind: u8, rest: [u8; 4], body: &'a [u8]) -> Result<Self, ParseError> {
        let [flags, second, ..] = rest;
        match kind {
            Self::ROUTER_SOLICIT => Ok(Self::RouterSolicit {
                options: NdpOptions::parse(body)?,
            }),
            Self::ROUTER_ADVERT => {
                let (&[r0, r1, r2, r3, t0, t1, t2, t3], options) =
                    body.split_first_chunk().ok_or(ParseError::Truncated)?;
                let [_, _, l1, l0] = rest;
                let advert = RouterAdvert {
                    hop_limit: flags,
                    managed: second & 0x80 != 0,
                    other: second & 0x40 != 0,
                    lifetime: u16::from_be_bytes([l1, l0]),
                    reachable_ms: u32::from_be_bytes([r0, r1, r2, r3]),
                    retrans_ms: u32::from_be_bytes([t0, t1, t2, t3]),
                };
                Ok(Self::RouterAdvert(advert, NdpOptions::parse(options)?))
            }
            Self::NEIGHBOR_SOLICIT => {
                let (target, options) = address(body)?;
                let options = NdpOptions::parse(options)?;
                Ok(Self::NeighborSolicit { target, options })
            }
            Self::NEIGHBOR_ADVERT => {
                let (target, options) = address(body)?;
                Ok(Self::NeighborAdvert {
                    router: flags & 0x80 != 0,
                    solicited: flags & 0x40 != 0,
                    overrides: flags & 0x20 != 0,
                    target,
                    options: NdpOptions::parse(options)?,
                })
            }
            Self::REDIRECT => {
                let (target, body) = address(body)?;
                let (dst, options) = address(body)?;
                Ok(Self::Redirect {
                    target,
                    dst,
                    options: NdpOptions::parse(options)?,
                })
            }
            _ => Err(ParseError::Unsupported),
        }
    }
}

fn address(bytes: &[u8]) -> Result<(Ipv6Addr, &[u8]), ParseError> {
    let (addr, rest) = bytes
        .split_first_chunk::<16>()
        .ok_or(ParseError::Truncated)?;
    Ok((Ipv6Addr::from_octets(*addr), rest))
}

impl<'a> NdpOptions<'a> {
    /// The options in `bytes`, each of which must be whole.
    fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = split(rest).ok_or(ParseError::BadLength)?.1;
        }
        Ok(Self(bytes))
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = NdpOption<'a>> + use<'a> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let (option, behind) = split(rest)?;
            rest = behind;
            Some(NdpOption::of(option))
        })
    }

    /// The sender's Ethernet address, if given.
    pub fn source(&self) -> Option<MacAddr> {
        self.iter().find_map(|option| match option {
            NdpOption::SourceLinkAddr(mac) => Some(mac),
            _ => None,
        })
    }

    /// The target's Ethernet address, if given.
    pub fn target(&self) -> Option<MacAddr> {
        self.iter().find_map(|option| match option {
            NdpOption::TargetLinkAddr(mac) => Some(mac),
            _ => None,
        })
    }

    /// The link's MTU, if given.
    pub fn mtu(&self) -> Option<u32> {
        self.iter().find_map(|option| match option {
            NdpOption::Mtu(mtu) => Some(mtu),
            _ => None,
        })
    }

    /// The nonce, if there is one.
    pub fn nonce(&self) -> Option<&'a [u8]> {
        self.iter().find_map(|option| match option {
            NdpOption::Nonce(nonce) => Some(nonce),
            _ => None,
        })
    }
}

/// The first option, and the bytes behind it.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let &[_, words] = bytes.first_chunk::<2>()?;
    let len = usize::from(words).saturating_mul(8);
    (len != 0).then(|| bytes.split_at_checked(len)).flatten()
}

const SOURCE_LINK_ADDR: u8 = 1;
const TARGET_LINK_ADDR: u8 = 2;
const PREFIX: u8 = 3;
const REDIRECTED_HEADER: u8 = 4;
const MTU: u8 = 5;
const NONCE: u8 = 14;
const RDNSS: u8 = 25;

impl<'a> NdpOption<'a> {
    /// The option in `bytes`, which has at least 8.
    fn of(bytes: &'a [u8]) -> Self {
        let kind = bytes.first().copied().unwrap_or(0);
        let body = bytes.get(2..).unwrap_or(&[]);
        Self::known(kind, body).unwrap_or(Self::Other { kind, body })
    }

    fn known(kind: u8, body: &'a [u8]) -> Option<Self> {
        match kind {
            SOURCE_LINK_ADDR => Some(Self::SourceLinkAddr(MacAddr(*body.first_chunk()?))),
            TARGET_LINK_ADDR => Some(Self::TargetLinkAddr(MacAddr(*body.first_chunk()?))),
            PREFIX => PrefixInfo::parse(body).map(Self::Prefix),
            MTU => {
                let &[_, _, a, b, c, d] = body.first_chunk()?;
                Some(Self::Mtu(u32::from_be_bytes([a, b, c, d])))
            }
            NONCE => Some(Self::Nonce(body)),
            RDNSS => {
                let (&[_, _, a, b, c, d], rest) = body.split_first_chunk()?;
                // Half an address at the end voids the option (RFC 8106 section 5.3.1).
                let (servers, rest) = rest.as_chunks::<16>();
                (rest.is_empty() && !servers.is_empty()).then_some(Self::Rdnss {
                    lifetime: u32::from_be_bytes([a, b, c, d]),
                    servers,
                })
            }
            _ => None,
        }
    }
}

impl PrefixInfo {
    /// Puts it as the body of an option, without bits behind the prefix (RFC 4861 section 4.6.2).
    fn put(&self, out: &mut [u8]) -> Option<usize> {
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        let flags = bit(self.on_link, 0x80) | bit(self.autonomous, 0x40);
        let behind = u128::MAX.checked_shr(u32::from(self.prefix_len));
        let network = self.prefix.to_bits() & !behind.unwrap_or(0);
        put_body(
            out,
            &[
                &[self.prefix_len, flags],
                &self.valid_s.to_be_bytes(),
                &self.preferred_s.to_be_bytes(),
                &[0; 4],
                &network.to_be_bytes(),
            ],
        )
    }

    fn parse(body: &[u8]) -> Option<Self> {
        let (&[prefix_len, flags], rest) = body.split_first_chunk()?;
        let (&valid, rest) = rest.split_first_chunk::<4>()?;
        let (&preferred, rest) = rest.split_first_chunk::<4>()?;
        let (_, rest) = rest.split_first_chunk::<4>()?;
        (prefix_len <= 128).then_some(Self {
            prefix_len,
            on_link: flags & 0x80 != 0,
            autonomous: flags & 0x40 != 0,
            valid_s: u32::from_be_bytes(valid),
            preferred_s: u32::from_be_bytes(preferred),
            prefix: Ipv6Addr::from_octets(*rest.first_chunk()?),
        })
    }
}

impl RouterAdvert {
    /// The four bytes of the advertisement behind the ICMP checksum.
    pub fn rest(&self) -> [u8; 4] {
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        let [l1, l0] = self.lifetime.to_be_bytes();
        let flags = bit(self.managed, 0x80) | bit(self.other, 0x40);
        [self.hop_limit, flags, l1, l0]
    }

    /// Writes all behind [those](RouterAdvert::rest), and returns its length; none if it has no room, or an option is
    /// longer than one may be.
    pub fn emit(&self, options: &[NdpOption<'_>], out: &mut [u8]) -> Option<usize> {
        let fixed = out.first_chunk_mut::<8>()?;
        let ([a, b, c, d], [e, f, g, h]) = (
            self.reachable_ms.to_be_bytes(),
            self.retrans_ms.to_be_bytes(),
        );
        *fixed = [a, b, c, d, e, f, g, h];
        let mut len = fixed.len();
        for option in options {
            len = len.checked_add(option.emit(out.get_mut(len..)?)?)?;
        }
        Some(len)
    }
}

impl NdpOption<'_> {
    /// Writes the option, with zeros behind it up to a multiple of 8 bytes, and returns its length.
    fn emit(&self, out: &mut [u8]) -> Option<usize> {
        let (kind, len) = match self {
            Self::SourceLinkAddr(mac) => (SOURCE_LINK_ADDR, put_body(out, &[&mac.0])?),
            Self::TargetLinkAddr(mac) => (TARGET_LINK_ADDR, put_body(out, &[&mac.0])?),
            Self::Prefix(prefix) => (PREFIX, prefix.put(out)?),
            Self::Mtu(mtu) => (MTU, put_body(out, &[&[0; 2], &mtu.to_be_bytes()])?),
            Self::Nonce(nonce) => (NONCE, put_body(out, &[nonce])?),
            Self::Rdnss { lifetime, servers } => {
                let parts: [&[u8]; 3] = [&[0; 2], &lifetime.to_be_bytes(), servers.as_flattened()];
                (RDNSS, put_body(out, &parts)?)
            }
            Self::Other { kind, body } => (*kind, put_body(out, &[body])?),
        };
        let words = u8::try_from(len.checked_div(8)?).ok()?;
        *out.first_chunk_mut()? = [kind, words];
        Some(len)
    }
}

/// Puts the body of an option behind its kind and length, and zeros behind that, and returns the length of all.
fn put_body(out: &mut [u8], parts: &[&[u8]]) -> Option<usize> {
    let mut at = 2_usize;
    for part in parts {
        let end = at.checked_add(part.len())?;
        out.get_mut(at..end)?.copy_from_slice(part);
        at = end;
    }
    let len = at.checked_next_multiple_of(8)?;
    out.get_mut(at..len)?.fill(0);
    Some(len)
}

/// The longest body of a message that [`NeighborMessage`] writes: a target and two options.
const BODY_MAX: usize = 16 + 8 + 8;

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
        let message = Icmp6Message::Other {
            kind: NdpMessage::NEIGHBOR_SOLICIT,
            code: 0,
            rest: [0; 4],
        };
        let source = source.map(|mac| (SOURCE_LINK_ADDR, mac.0));
        let nonce = nonce.map(|nonce| (NONCE, nonce));
        Self::new(message, target, source.or(nonce))
    }

    /// Asks for routers. `source`: the sender's Ethernet address, unless it has no address yet.
    pub fn router_solicit(source: Option<MacAddr>) -> Self {
        let message = Icmp6Message::Other {
            kind: NdpMessage::ROUTER_SOLICIT,
            code: 0,
            rest: [0; 4],
        };
        let mut body = [0; BODY_MAX];
        let mut len = 0;
        if let (Some(MacAddr([a, b, c, d, e, f])), Some(place)) =
            (source, body.first_chunk_mut::<8>())
        {
            *place = [SOURCE_LINK_ADDR, 1, a, b, c, d, e, f];
            len = 8;
        }
        Self { message, body, len }
    }

    /// Advertises that `target` is at `mac`.
    pub fn advert(target: Ipv6Addr, mac: MacAddr, flags: AdvertFlags) -> Self {
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        let flags =
            bit(flags.router, 0x80) | bit(flags.solicited, 0x40) | bit(flags.overrides, 0x20);
        let message = Icmp6Message::Other {
            kind: NdpMessage::NEIGHBOR_ADVERT,
            code: 0,
            rest: [flags, 0, 0, 0],
        };
        Self::new(message, target, Some((TARGET_LINK_ADDR, mac.0)))
    }

    fn new(message: Icmp6Message, target: Ipv6Addr, option: Option<(u8, [u8; 6])>) -> Self {
        let mut body = [0; BODY_MAX];
        let (addr, rest) = body.split_at_mut(16);
        addr.copy_from_slice(&target.octets());
        let mut len = 16;
        if let (Some((kind, [a, b, c, d, e, f])), Some(place)) =
            (option, rest.first_chunk_mut::<8>())
        {
            *place = [kind, 1, a, b, c, d, e, f];
            len = 24;
        }
        Self { message, body, len }
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

    /// Says that `target` is the better first hop for `dst`; `mac`: its Ethernet address, if that is known. `quote`: the front
    /// of the packet that it is about, from its IPv6 header on.
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

#[cfg(test)]
mod tests;
