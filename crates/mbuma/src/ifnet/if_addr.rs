//! An address of an interface, with the prefix of its network.
//!
//! Locks: none.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use wire::is_same_prefix;

use crate::error::Error;

/// An address of IPv4, or of IPv6, with its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IfAddr<A = Ipv4Addr> {
    /// The address.
    pub addr: A,
    /// Bits of the network part: 0 to 32 for IPv4, 0 to 128 for IPv6.
    pub prefix_len: u8,
}

/// From text such as `192.0.2.2/24`.
impl FromStr for IfAddr {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text, 32).ok_or_else(|| Error::Address(text.to_owned()))
    }
}

/// From text such as `2001:db8::2/64`.
impl FromStr for IfAddr<Ipv6Addr> {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        parse(text, 128).ok_or_else(|| Error::Address(text.to_owned()))
    }
}

fn parse<A: FromStr>(text: &str, bits: u8) -> Option<IfAddr<A>> {
    let (addr, len) = text.split_once('/')?;
    Some(IfAddr {
        addr: addr.parse().ok()?,
        prefix_len: len.parse().ok().filter(|len| *len <= bits)?,
    })
}

impl IfAddr<Ipv6Addr> {
    /// Whether `other` is in the same network.
    pub fn contains(&self, other: Ipv6Addr) -> bool {
        is_same_prefix(self.addr, other, self.prefix_len)
    }

    /// The network: the address with all bits after the prefix cleared.
    pub fn network(&self) -> Ipv6Addr {
        let host = u128::MAX
            .checked_shr(u32::from(self.prefix_len))
            .unwrap_or(0);
        Ipv6Addr::from_bits(self.addr.to_bits() & !host)
    }

    /// The anycast address that each router of the network has (RFC 4291 section 2.6.1). Networks of one address or two
    /// have none (RFC 6164 section 5.1).
    pub fn subnet_router_anycast(&self) -> Option<Ipv6Addr> {
        let network = self.network();
        let exists = self.prefix_len < 127 && !network.is_unspecified() && network != self.addr;
        exists.then_some(network)
    }
}

impl IfAddr {
    /// Whether `other` is in the same network.
    pub fn contains(&self, other: Ipv4Addr) -> bool {
        let mask = u32::MAX
            .checked_shl(32 - u32::from(self.prefix_len.min(32)))
            .unwrap_or(0);
        (u32::from(self.addr) ^ u32::from(other)) & mask == 0
    }

    /// The network: the address with all bits after the prefix cleared.
    pub fn network(&self) -> Ipv4Addr {
        let host = u32::MAX
            .checked_shr(u32::from(self.prefix_len))
            .unwrap_or(0);
        Ipv4Addr::from(u32::from(self.addr) & !host)
    }

    /// The network's own broadcast address; /31 and /32 have none (RFC 3021).
    pub fn broadcast(&self) -> Option<Ipv4Addr> {
        let host = u32::MAX
            .checked_shr(u32::from(self.prefix_len))
            .unwrap_or(0);
        (self.prefix_len < 31).then(|| Ipv4Addr::from(u32::from(self.addr) | host))
    }
}
