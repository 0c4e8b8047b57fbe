//! The IPv6 addresses on the wire between the guest and the stack.
//!
//! Locks: none.
//! Sources: RFC 4193 (unique local addresses).

use std::net::Ipv6Addr;
use std::str::FromStr;

use serde::Serialize;

/// Hosts of the network: the same last numbers as in IPv4.
const GATEWAY_HOST: u128 = 2;
const DNS_HOST: u128 = 3;
const GUEST_HOST: u128 = 0x100;
/// The only length of a prefix on a link with interface identifiers of 64 bits (RFC 4291 section 2.5.1).
const PREFIX_LEN: u8 = 64;
/// The network of the link itself.
const LINK_LOCAL: u128 = 0xfe80 << 112;

/// The IPv6 network of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Addressing6 {
    /// The guest's address.
    #[serde(rename = "addr6")]
    pub(crate) guest: Ipv6Addr,
    /// The length of the network's prefix.
    #[serde(rename = "prefix_len6")]
    pub(crate) prefix_len: u8,
    /// The stack's address: gateway and status page.
    #[serde(rename = "gateway6")]
    pub(crate) gateway: Ipv6Addr,
    /// The stack's address for names, if it has one.
    #[serde(rename = "dns6")]
    pub(crate) dns: Option<Ipv6Addr>,
    /// The stack's address on the link, which is the guest's next hop.
    #[serde(skip)]
    pub(crate) link_gateway: Ipv6Addr,
    /// The guest's address on the link.
    #[serde(skip)]
    pub(crate) link_guest: Ipv6Addr,
    /// The guest has an address of the host. It reaches the hosts of that network through the gateway too, by the
    /// host's routes.
    #[serde(skip)]
    pub(crate) routed: bool,
}

impl Addressing6 {
    /// fd00::/64. Unique local addresses, because programs prefer IPv4 over them (RFC 6724 section 2.1): so a host
    /// without IPv6 costs a guest nothing.
    pub(crate) const DEFAULT: Addressing6 =
        Addressing6::of(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0));

    /// The stack's usual address on the link.
    pub(crate) const LINK_GATEWAY: Ipv6Addr = Ipv6Addr::from_bits(LINK_LOCAL | GATEWAY_HOST);
    /// The first guest's.
    const LINK_GUEST: Ipv6Addr = Ipv6Addr::from_bits(LINK_LOCAL | GUEST_HOST);
    /// The usual hosts of a network.
    pub(crate) const fn of(network: Ipv6Addr) -> Addressing6 {
        let network = network.to_bits();
        Addressing6 {
            guest: Ipv6Addr::from_bits(network | GUEST_HOST),
            gateway: Ipv6Addr::from_bits(network | GATEWAY_HOST),
            dns: Some(Ipv6Addr::from_bits(network | DNS_HOST)),
            link_gateway: Addressing6::LINK_GATEWAY,
            link_guest: Addressing6::LINK_GUEST,
            routed: false,
            prefix_len: PREFIX_LEN,
        }
    }

    /// The network's first address.
    pub(crate) fn prefix(&self) -> Ipv6Addr {
        Ipv6Addr::from_bits(self.gateway.to_bits() & (u128::MAX << (128 - self.prefix_len)))
    }

    /// The same network for guest `number`, counted from 0.
    pub(crate) fn for_guest(self, number: u32) -> Addressing6 {
        let behind = |addr: Ipv6Addr| Ipv6Addr::from_bits(addr.to_bits() | u128::from(number));
        Addressing6 {
            guest: behind(self.guest),
            link_guest: behind(self.link_guest),
            ..self
        }
    }

    /// A guest with an address of the host, and the host's own gateway, of the link or of any network.
    pub(crate) fn shared(guest: Ipv6Addr, gateway: Ipv6Addr, dns: Option<Ipv6Addr>) -> Addressing6 {
        let on_link = gateway.is_unicast_link_local();
        Addressing6 {
            guest,
            prefix_len: PREFIX_LEN,
            gateway,
            dns,
            link_gateway: if on_link {
                gateway
            } else {
                Addressing6::LINK_GATEWAY
            },
            link_guest: Addressing6::LINK_GUEST,
            routed: true,
        }
    }

    /// The same network with the guest and the gateway at these addresses, where given.
    ///
    /// # Errors
    /// An address is not a host of the network, or is in use; or the guest has an address of the host.
    pub(crate) fn placed(
        self,
        guest: Option<Ipv6Addr>,
        gateway: Option<Ipv6Addr>,
    ) -> Result<Addressing6, String> {
        for addr in guest.into_iter().chain(gateway) {
            // The network's first address is its routers' (RFC 4291 section 2.6.1).
            if !self.contains(addr) || addr == self.prefix() {
                return Err(format!("{addr} is no host of the guest's network"));
            }
        }
        let placed = Addressing6 {
            guest: guest.unwrap_or(self.guest),
            gateway: gateway.unwrap_or(self.gateway),
            ..self
        };
        let taken = placed.guest == placed.gateway
            || [placed.guest, placed.gateway]
                .map(Some)
                .contains(&placed.dns);
        match taken {
            true => Err(
                "the guest, the gateway and the name server need IPv6 addresses of their own"
                    .to_owned(),
            ),
            false => Ok(placed),
        }
    }

    /// Whether `addr` is in a network that consists of the guest and the stack.
    pub(crate) fn contains(&self, addr: Ipv6Addr) -> bool {
        !self.routed && wire::is_same_prefix(addr, self.gateway, self.prefix_len)
    }

    /// Whether it is the guest's, or one of the link that the guest may add to its interface.
    pub(crate) fn guest_may_have(&self, addr: Ipv6Addr) -> bool {
        let own = [
            self.prefix(),
            self.gateway,
            self.dns.unwrap_or(self.gateway),
        ];
        addr == self.guest || self.contains(addr) && !own.contains(&addr)
    }

    /// The guest's next hop to all other hosts: a gateway of the host's own, wherever its address is.
    pub(crate) fn next_hop(&self) -> Ipv6Addr {
        match self.routed {
            true => self.gateway,
            false => self.link_gateway,
        }
    }

    /// The prefix of the hosts on the link itself: none if all hosts are behind the gateway.
    pub(crate) fn link_prefix_len(&self) -> u8 {
        match self.routed {
            true => 128,
            false => self.prefix_len,
        }
    }
}

impl FromStr for Addressing6 {
    type Err = String;

    /// `fd00::/64`: a network that hosts may have addresses of; bits behind the prefix must be zero.
    fn from_str(text: &str) -> Result<Addressing6, String> {
        let parsed = text.split_once('/').and_then(|(network, len)| {
            Some((network.parse::<Ipv6Addr>().ok()?, len.parse::<u8>().ok()?))
        });
        let (network, prefix_len) = parsed.ok_or("it takes a network, as in fd00::/64")?;
        if prefix_len != PREFIX_LEN {
            return Err(format!("the prefix must be {PREFIX_LEN} bits long"));
        }
        if network.to_bits() << PREFIX_LEN != 0 {
            return Err(format!("{network} has bits behind the first {PREFIX_LEN}"));
        }
        // Global unicast, or unique local.
        if !matches!(network.octets()[0], 0x20..=0x3f | 0xfc..=0xfd) {
            return Err(format!(
                "hosts cannot have addresses of {network}/{prefix_len}"
            ));
        }
        Ok(Addressing6::of(network))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_ipv6_gives_its_three_hosts() {
        // Breaks when a guest looks for its gateway elsewhere, or gets a network that leads to the host's loopback or
        // link.
        let network: Addressing6 = "fd12:3456:789a::/64".parse().expect("a network");
        assert_eq!(network.gateway.to_string(), "fd12:3456:789a::2");
        assert_eq!(network.dns, "fd12:3456:789a::3".parse().ok());
        assert_eq!(network.guest.to_string(), "fd12:3456:789a::100");
        assert_eq!("fd00::/64".parse(), Ok(Addressing6::DEFAULT));
        let next = network.for_guest(27);
        assert_eq!(next.guest.to_string(), "fd12:3456:789a::11b");
        assert_eq!(next.link_guest.to_string(), "fe80::11b");
        assert!(network.contains(network.guest) && !network.contains(Addressing6::DEFAULT.guest));
        for wrong in [
            "fd00::1/64",
            "fd00::/48",
            "fe80::/64",
            "::/64",
            "ff02::/64",
            "10.0.2.0/24",
            "x",
        ] {
            assert!(wrong.parse::<Addressing6>().is_err(), "{wrong}");
        }
    }
}
