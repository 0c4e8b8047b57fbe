//! An address of an interface, with the prefix of its network.
//!
//! Locks: none.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use wire::{is_same_prefix, is_same_subnet};

use super::addrs::LocalAddr;
use crate::error::Error;

/// An address of either version of IP, with the prefix of its network; or a network, whose bits after the prefix are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IfAddr {
    /// The address.
    pub addr: IpAddr,
    /// Bits of the network part: 0 to 32 for IPv4, 0 to 128 for IPv6.
    pub prefix_len: u8,
}

/// The same of one version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cidr<A> {
    pub(crate) addr: A,
    pub(crate) prefix_len: u8,
}

/// From text such as `192.0.2.2/24` or `2001:db8::2/64`.
impl FromStr for IfAddr {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parsed = text.split_once('/').and_then(|(addr, len)| {
            let addr: IpAddr = addr.parse().ok()?;
            let bits = if addr.is_ipv4() { 32 } else { 128 };
            let len = len.parse().ok().filter(|len| *len <= bits)?;
            Some(Self::new(addr, len))
        });
        parsed.ok_or_else(|| Error::Address(text.to_owned()))
    }
}

impl IfAddr {
    /// This address, in a network with a prefix of so many bits.
    pub fn new(addr: impl Into<IpAddr>, prefix_len: u8) -> Self {
        Self {
            addr: addr.into(),
            prefix_len,
        }
    }

    /// Whether `other` is in the same network.
    pub fn contains(&self, other: IpAddr) -> bool {
        match (self.addr, other) {
            (IpAddr::V4(addr), IpAddr::V4(other)) => is_same_subnet(addr, other, self.prefix_len),
            (IpAddr::V6(addr), IpAddr::V6(other)) => is_same_prefix(addr, other, self.prefix_len),
            _ => false,
        }
    }

    /// Those of one version of IP.
    pub(crate) fn of_version<A: LocalAddr>(all: &[Self]) -> Vec<Cidr<A>> {
        let its = |net: &Self| {
            let prefix_len = net.prefix_len;
            A::of(net.addr).map(|addr| Cidr { addr, prefix_len })
        };
        all.iter().filter_map(its).collect()
    }
}

impl Cidr<Ipv6Addr> {
    /// The network: the address with all bits after the prefix cleared.
    pub(crate) fn network(&self) -> Ipv6Addr {
        let host = u128::MAX
            .checked_shr(u32::from(self.prefix_len))
            .unwrap_or(0);
        Ipv6Addr::from_bits(self.addr.to_bits() & !host)
    }

    /// The anycast address that each router of the network has (RFC 4291 section 2.6.1). Networks of one address or two
    /// have none (RFC 6164 section 5.1).
    pub(crate) fn subnet_router_anycast(&self) -> Option<Ipv6Addr> {
        let network = self.network();
        let exists = self.prefix_len < 127 && !network.is_unspecified() && network != self.addr;
        exists.then_some(network)
    }
}

impl Cidr<Ipv4Addr> {
    /// The network: the address with all bits after the prefix cleared.
    pub(crate) fn network(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.addr.to_bits() & !self.host_bits())
    }

    /// The network's own broadcast address; /31 and /32 have none (RFC 3021).
    pub(crate) fn broadcast(&self) -> Option<Ipv4Addr> {
        (self.prefix_len < 31).then(|| Ipv4Addr::from_bits(self.addr.to_bits() | self.host_bits()))
    }

    fn host_bits(&self) -> u32 {
        u32::MAX
            .checked_shr(u32::from(self.prefix_len))
            .unwrap_or(0)
    }
}
