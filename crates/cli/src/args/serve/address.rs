//! The addresses of a server that is no gateway: of `mbuma serve`, and of each side of `mbuma relay`.
//!
//! Invariants: an address is a host of its network, and so is its neighbour's, another one. A next hop is of a version
//! of IP in which there is an address.
//! Locks: none.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::addressing::{Addressing, Addressing6};
use crate::args::families::{FamilyOpts, MTU_MIN_V6};

/// An address, its network, and its neighbour: the first other host of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerAddress {
    V4(Addressing),
    V6(Addressing6),
}

/// The next hops to other networks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NextHops {
    pub(crate) v4: Option<Ipv4Addr>,
    pub(crate) v6: Option<Ipv6Addr>,
}

/// The addresses of an interface, one of each version of IP that it has, and the next hops from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServerAddresses {
    v4: Option<Addressing>,
    v6: Option<Addressing6>,
    pub(crate) next_hops: NextHops,
}

impl ServerAddresses {
    /// The usual ones in another namespace: the gateway's.
    pub(super) const INSIDE: ServerAddresses = ServerAddresses {
        v4: Some(Addressing {
            guest: Ipv4Addr::new(10, 0, 2, 1),
            dns: Addressing::DEFAULT.gateway,
            ..Addressing::DEFAULT
        }),
        v6: Some(of_network6(Addressing6::DEFAULT.gateway, 64)),
        next_hops: NextHops { v4: None, v6: None },
    };

    /// These addresses and next hops.
    ///
    /// # Errors
    /// Two are of one version of IP, or there is a next hop without an address.
    pub(crate) fn of(all: &[ServerAddress], gateways: &[IpAddr]) -> Result<Self, String> {
        let (mut v4, mut v6, mut next_hops) = (None, None, NextHops::default());
        for address in all {
            let again = match *address {
                ServerAddress::V4(address) => v4.replace(address).is_some(),
                ServerAddress::V6(address) => v6.replace(address).is_some(),
            };
            if again {
                return Err("one address of IPv4 and one of IPv6 at most".to_owned());
            }
        }
        for gateway in gateways {
            let (has_address, again) = match *gateway {
                IpAddr::V4(addr) => (v4.is_some(), next_hops.v4.replace(addr).is_some()),
                IpAddr::V6(addr) => (v6.is_some(), next_hops.v6.replace(addr).is_some()),
            };
            if again || !has_address {
                return Err(format!(
                    "gateway {gateway}: one for each version of IP in which there is an address"
                ));
            }
        }
        Ok(ServerAddresses { v4, v6, next_hops })
    }

    /// The same addresses with these next hops.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub(super) fn with_next_hops(self, gateways: &[IpAddr]) -> Result<Self, String> {
        let v4 = self.v4.map(ServerAddress::V4);
        let all: Vec<_> = v4
            .into_iter()
            .chain(self.v6.map(ServerAddress::V6))
            .collect();
        ServerAddresses::of(&all, gateways)
    }

    /// The addresses themselves.
    pub(crate) fn addrs(&self) -> Vec<IpAddr> {
        let v4 = self.v4.map(|v4| IpAddr::from(v4.gateway));
        let v6 = self.v6.map(|v6| IpAddr::from(v6.gateway));
        v4.into_iter().chain(v6).collect()
    }

    /// Whether an interface with this MTU can have them.
    ///
    /// # Errors
    /// It is too small for IPv6.
    pub(super) fn check(&self, mtu: u16) -> Result<(), String> {
        match self.v6 {
            Some(_) if mtu < MTU_MIN_V6 => Err(format!(
                "IPv6 needs an MTU of at least {MTU_MIN_V6}, not {mtu}"
            )),
            _ => Ok(()),
        }
    }

    /// The same in the words of `attach`.
    pub(crate) fn families(&self) -> (Addressing, FamilyOpts) {
        let families = FamilyOpts::of(self.v4.is_some(), self.v6);
        (self.v4.unwrap_or(Addressing::DEFAULT), families)
    }

    /// Whether there is a way to `to`.
    pub(crate) fn reaches(&self, to: IpAddr) -> bool {
        match to {
            IpAddr::V4(to) => {
                let near = |v4: Addressing| wire::is_same_subnet(to, v4.gateway, v4.prefix_len);
                self.next_hops.v4.is_some() || self.v4.is_some_and(near)
            }
            IpAddr::V6(to) => {
                let near = |v6: Addressing6| v6.contains(to);
                self.next_hops.v6.is_some() || self.v6.is_some_and(near)
            }
        }
    }
}

/// `addr`, and its neighbour.
fn of_network(addr: Ipv4Addr, prefix_len: u8) -> Addressing {
    let network = addr.to_bits() & (u32::MAX << (32 - prefix_len));
    // A network of two has no address for itself (RFC 3021).
    let first = network + u32::from(prefix_len < 31);
    let neighbour = first + u32::from(first == addr.to_bits());
    Addressing {
        guest: Ipv4Addr::from_bits(neighbour),
        gateway: addr,
        dns: addr,
        prefix_len,
        routed: false,
    }
}

/// The same.
const fn of_network6(addr: Ipv6Addr, prefix_len: u8) -> Addressing6 {
    let network = addr.to_bits() & (u128::MAX << (128 - prefix_len));
    // The first address is the routers', but in a network of two (RFC 6164).
    let first = network + (prefix_len < 127) as u128;
    let neighbour = first + (first == addr.to_bits()) as u128;
    Addressing6 {
        guest: Ipv6Addr::from_bits(neighbour),
        gateway: addr,
        dns: None,
        // The stack makes its own of its Ethernet address: another server in the same bridge has another.
        link_gateway: addr,
        prefix_len,
        ..Addressing6::DEFAULT
    }
}

impl FromStr for ServerAddress {
    type Err = String;

    /// `192.0.2.2/24`, `2001:db8::2/64`
    fn from_str(text: &str) -> Result<ServerAddress, String> {
        let parsed = text
            .split_once('/')
            .and_then(|(addr, len)| Some((addr.parse::<IpAddr>().ok()?, len.parse::<u8>().ok()?)));
        let (addr, prefix_len) = parsed
            .ok_or("it takes an address and a prefix, as in 192.0.2.2/24 or 2001:db8::2/64")?;
        if addr.is_loopback() || addr.is_multicast() || addr.is_unspecified() {
            return Err(format!("{addr} is no address of a host"));
        }
        match addr {
            IpAddr::V4(addr) => v4(addr, prefix_len).map(ServerAddress::V4),
            IpAddr::V6(addr) => v6(addr, prefix_len).map(ServerAddress::V6),
        }
    }
}

fn v4(addr: Ipv4Addr, prefix_len: u8) -> Result<Addressing, String> {
    if !(1..=31).contains(&prefix_len) {
        return Err("its prefix is 1 to 31 bits, so that there is a neighbour".to_owned());
    }
    let hosts = u32::MAX >> prefix_len;
    let host = addr.to_bits() & hosts;
    if prefix_len < 31 && (host == 0 || host == hosts) {
        return Err(format!(
            "{addr} is the network itself, or its broadcast address"
        ));
    }
    Ok(of_network(addr, prefix_len))
}

fn v6(addr: Ipv6Addr, prefix_len: u8) -> Result<Addressing6, String> {
    if !(1..=127).contains(&prefix_len) {
        return Err("its prefix is 1 to 127 bits, so that there is a neighbour".to_owned());
    }
    if addr.is_unicast_link_local() || addr.to_ipv4_mapped().is_some() {
        return Err(format!(
            "{addr}: link-local and IPv4-mapped addresses are not served"
        ));
    }
    let host = addr.to_bits() & (u128::MAX >> prefix_len);
    if prefix_len < 127 && host == 0 {
        return Err(format!("{addr} is that of its network's routers"));
    }
    Ok(of_network6(addr, prefix_len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_neighbour() {
        // Breaks when the interface gets the server's own address, or one that is no host's.
        for (text, neighbour) in [
            ("192.0.2.2/24", "192.0.2.1"),
            ("192.0.2.1/24", "192.0.2.2"),
            ("192.0.2.9/29", "192.0.2.10"),
            ("192.0.2.4/31", "192.0.2.5"),
            ("192.0.2.5/31", "192.0.2.4"),
            ("10.1.2.3/8", "10.0.0.1"),
            ("2001:db8::2/64", "2001:db8::1"),
            ("2001:db8::1/64", "2001:db8::2"),
            ("2001:db8::5:1/48", "2001:db8::1"),
            ("2001:db8::4/127", "2001:db8::5"),
            ("2001:db8::5/127", "2001:db8::4"),
        ] {
            let guest = match text.parse().expect(text) {
                ServerAddress::V4(v4) => IpAddr::from(v4.guest),
                ServerAddress::V6(v6) => IpAddr::from(v6.guest),
            };
            assert_eq!(guest.to_string(), neighbour, "{text}");
        }
        for wrong in [
            "192.0.2.0/24",
            "192.0.2.255/24",
            "192.0.2.1",
            "192.0.2.1/32",
            "127.0.0.1/8",
            "x/24",
            "192.0.2.1/0",
            "2001:db8::/64",
            "2001:db8::1/128",
            "2001:db8::1/0",
            "fe80::1/64",
            "ff02::1/64",
            "::1/64",
            "::/64",
            "::ffff:192.0.2.1/96",
        ] {
            assert!(wrong.parse::<ServerAddress>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_interface_has_one_address_of_a_version() {
        // Breaks when an address or a next hop is forgotten because another one follows, or a server that another
        // network's clients can't reach is started without a word.
        let all = |list: &[&str]| -> Vec<ServerAddress> {
            list.iter().map(|text| text.parse().expect(text)).collect()
        };
        let hops = |list: &[&str]| -> Vec<IpAddr> {
            list.iter().map(|text| text.parse().expect(text)).collect()
        };
        let both = all(&["2001:db8::2/64", "192.0.2.2/24"]);
        let of = ServerAddresses::of(&both, &hops(&["fe80::1"])).expect("one of each");
        assert_eq!(of.addrs(), hops(&["192.0.2.2", "2001:db8::2"]));
        for (to, reached) in [
            ("192.0.2.9", true),
            ("192.0.3.9", false),
            ("2001:db8::9", true),
            ("2001:db8:1::9", true),
        ] {
            assert_eq!(of.reaches(to.parse().expect(to)), reached, "{to}");
        }
        let near = ServerAddresses::of(&both, &[]).expect("one of each");
        assert!(!near.reaches("2001:db8:1::9".parse().expect("an address")));
        let inside = ServerAddresses::INSIDE;
        assert_eq!(inside.addrs(), hops(&["10.0.2.2", "fd00::2"]));
        let usual = all(&["10.0.2.2/24", "fd00::2/64"]);
        assert_eq!(ServerAddresses::of(&usual, &[]), Ok(inside));
        let v4 = &both[1..];
        assert!(ServerAddresses::of(&[v4, v4].concat(), &[]).is_err());
        assert!(ServerAddresses::of(v4, &hops(&["fe80::1"])).is_err());
        assert!(ServerAddresses::of(v4, &hops(&["192.0.2.1", "192.0.2.3"])).is_err());
    }
}
