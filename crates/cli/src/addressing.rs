//! The addresses on the wire between the guest and the stack.
//!
//! Locks: none.

mod v6;

use std::net::Ipv4Addr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use wire::MacAddr;

pub(crate) use v6::Addressing6;

/// The stack's Ethernet address: locally administered, and the same for each guest, so that a guest that is attached
/// again finds its neighbour at the same address.
pub(crate) const STACK_MAC: MacAddr = MacAddr([0x02, b'm', b'b', b'u', b'm', b'a']);
/// Hosts of the network, as slirp4netns numbers them: an engine computes the same three.
const GATEWAY_HOST: u32 = 2;
const DNS_HOST: u32 = 3;
const GUEST_HOST: u32 = 100;
/// The longest prefix whose network has a host 100.
const PREFIX_LEN_MAX: u8 = 25;

/// The network of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Addressing {
    /// The guest's address.
    #[serde(rename = "addr")]
    pub(crate) guest: Ipv4Addr,
    /// The length of the prefix of the network of all three addresses.
    pub(crate) prefix_len: u8,
    /// The stack's address: gateway and status page.
    pub(crate) gateway: Ipv4Addr,
    /// The stack's address for names.
    pub(crate) dns: Ipv4Addr,
    /// The guest has an address of the host. It reaches the hosts of that network through the gateway too, by the
    /// host's routes.
    #[serde(skip)]
    pub(crate) routed: bool,
}

impl Addressing {
    /// 10.0.2.0/24.
    pub(crate) const DEFAULT: Addressing = Addressing::of(Ipv4Addr::new(10, 0, 2, 0), 24);

    /// The usual hosts of a network.
    const fn of(network: Ipv4Addr, prefix_len: u8) -> Addressing {
        let network = network.to_bits();
        Addressing {
            guest: Ipv4Addr::from_bits(network | GUEST_HOST),
            gateway: Ipv4Addr::from_bits(network | GATEWAY_HOST),
            dns: Ipv4Addr::from_bits(network | DNS_HOST),
            prefix_len,
            routed: false,
        }
    }
}

impl Addressing {
    /// The same network with the guest and the gateway at these addresses, where given.
    ///
    /// # Errors
    /// An address is not a host of the network, or is in use.
    pub(crate) fn placed(
        self,
        guest: Option<Ipv4Addr>,
        gateway: Option<Ipv4Addr>,
    ) -> Result<Addressing, String> {
        let hosts = u32::MAX >> self.prefix_len;
        let network = self.dns.to_bits() & !hosts;
        for addr in guest.into_iter().chain(gateway) {
            let host = addr.to_bits() ^ network;
            // The first and the last address are the network's.
            if host == 0 || host >= hosts {
                return Err(format!("{addr} is no host of the guest's network"));
            }
        }
        let placed = Addressing {
            guest: guest.unwrap_or(self.guest),
            gateway: gateway.unwrap_or(self.gateway),
            ..self
        };
        let all = [placed.guest, placed.gateway, placed.dns];
        match all[0] == all[1] || all[..2].contains(&all[2]) {
            true => Err(format!(
                "the guest, the gateway and the name server need addresses of their own: {}, {}, {}",
                all[0], all[1], all[2]
            )),
            false => Ok(placed),
        }
    }

    /// Whether it is the guest's, or one of the link that the guest may add to its interface.
    pub(crate) fn guest_may_have(&self, addr: Ipv4Addr) -> bool {
        let hosts = u32::MAX >> self.prefix_len;
        let host = addr.to_bits() & hosts;
        let on_link = !self.routed && (addr.to_bits() ^ self.gateway.to_bits()) & !hosts == 0;
        let is_host = on_link && host != 0 && host != hosts;
        addr == self.guest || is_host && ![self.gateway, self.dns].contains(&addr)
    }

    /// The prefix of the hosts on the link itself: only the gateway, if all other hosts are behind it.
    pub(crate) fn link_prefix_len(&self) -> u8 {
        match self.routed {
            true => 32,
            false => self.prefix_len,
        }
    }
}

impl FromStr for Addressing {
    type Err = String;

    /// `10.0.2.0/24`; bits behind the prefix must be zero.
    fn from_str(text: &str) -> Result<Addressing, String> {
        let parsed = text.split_once('/').and_then(|(network, len)| {
            Some((network.parse::<Ipv4Addr>().ok()?, len.parse::<u8>().ok()?))
        });
        let (network, prefix_len) = parsed.ok_or("it takes a network, as in 10.0.2.0/24")?;
        if !(1..=PREFIX_LEN_MAX).contains(&prefix_len) {
            return Err(format!(
                "the prefix must be 1 to {PREFIX_LEN_MAX} bits long"
            ));
        }
        if network.to_bits() << prefix_len != 0 {
            return Err(format!("{network} has bits behind the first {prefix_len}"));
        }
        // This network, loopback, multicast and reserved: Linux gives no interface of a guest such an address, or no
        // route.
        if matches!(network.octets()[0], 0 | 127 | 224..) {
            return Err(format!(
                "hosts cannot have addresses of {network}/{prefix_len}"
            ));
        }
        Ok(Addressing::of(network, prefix_len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_gives_its_three_hosts() {
        // Breaks when an engine, which computes the same three, looks for the gateway elsewhere.
        let network: Addressing = "192.168.77.0/24".parse().expect("a network");
        assert_eq!(network.gateway, Ipv4Addr::new(192, 168, 77, 2));
        assert_eq!(network.guest, Ipv4Addr::new(192, 168, 77, 100));
        assert_eq!("10.0.2.0/24".parse(), Ok(Addressing::DEFAULT));
        for wrong in [
            "10.0.2.1/24",
            "10.0.2.0",
            "10.0.2.0/26",
            "10.0.2.0/0",
            "0.0.0.0/8",
            "127.0.0.0/24",
            "224.0.0.0/24",
            "240.0.0.0/8",
            "x/24",
        ] {
            assert!(wrong.parse::<Addressing>().is_err(), "{wrong}");
        }
    }
}
