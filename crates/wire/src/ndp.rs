//! Messages of neighbour discovery, and their options.
//!
//! Invariants: a parsed message's options are whole: each has a length that is not 0 and does not reach past the end.
//! An option of a known kind that is too short for its fields counts as an unknown one.
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

use crate::ParseError;

mod options;
mod sent;

pub use options::{NdpOption, NdpOptions, PrefixInfo};
pub use sent::{AdvertFlags, NeighborMessage, RedirectBody};

/// A message of neighbour discovery, behind the ICMP header (RFC 4861 section 4).
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
        /// The flags.
        flags: AdvertFlags,
        /// The address of the sender that it tells about.
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

/// A router's description of itself (RFC 4861 section 4.2).
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
                    flags: AdvertFlags::from_bits(flags),
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

#[cfg(test)]
mod tests;
