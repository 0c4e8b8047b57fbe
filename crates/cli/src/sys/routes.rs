//! The host's default routes, and the interfaces that they go by.
//!
//! Locks: none.
//! Sources: proc(5), "/proc/net/route"; the kernel's net/ipv6/route.c (`ipv6_route_native_seq_show`).

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::if_inet6;
use super::netdev::NetdevSocket;

/// Where packets go that have no better route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DefaultRoute {
    pub(crate) interface: String,
    /// `None`: the interface has none.
    pub(crate) gateway: Option<Ipv4Addr>,
    /// The interface's own address, and the length of its network's prefix.
    pub(crate) addr: Ipv4Addr,
    pub(crate) prefix_len: u8,
}

/// The default route of this network namespace, if it has one by a gateway. With `by`: that of this interface, which
/// may have no gateway.
pub(crate) fn default_route(by: Option<&str>) -> Option<DefaultRoute> {
    let table = fs::read_to_string("/proc/net/route").ok()?;
    let (interface, gateway) = with_gateway(by_gateway(&table, by), by)?;
    let control = NetdevSocket::open().ok()?;
    Some(DefaultRoute {
        addr: control.addr(&interface).ok()?,
        prefix_len: control.prefix_len(&interface).ok()?,
        interface,
        gateway,
    })
}

/// Where IPv6 packets go that have no better route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DefaultRoute6 {
    pub(crate) interface: String,
    /// `None`: the interface has none.
    pub(crate) gateway: Option<Ipv6Addr>,
    /// A global address of the interface.
    pub(crate) addr: Ipv6Addr,
}

impl DefaultRoute6 {
    /// The gateway's address of the link, if that is its address here.
    pub(crate) fn link_gateway(&self) -> Option<Ipv6Addr> {
        self.gateway.filter(Ipv6Addr::is_unicast_link_local)
    }
}

/// The default route for IPv6 of this network namespace, if it has one by a gateway and an address that reaches the
/// world. `by` as for IPv4.
pub(crate) fn default_route6(by: Option<&str>) -> Option<DefaultRoute6> {
    let table = fs::read_to_string("/proc/net/ipv6_route").ok()?;
    let (interface, gateway) = with_gateway(by_gateway6(&table, by), by)?;
    Some(DefaultRoute6 {
        addr: if_inet6::global_addr(&interface)?,
        interface,
        gateway,
    })
}

/// What was found, or the interface alone.
fn with_gateway<G>(found: Option<(String, G)>, by: Option<&str>) -> Option<(String, Option<G>)> {
    match found {
        Some((interface, gateway)) => Some((interface, Some(gateway))),
        None => Some((by?.to_owned(), None)),
    }
}

/// A row: destination and its length, source and its length, next hop, metric, references, uses, flags, all in
/// hexadecimal; the interface.
fn by_gateway6(table: &str, by: Option<&str>) -> Option<(String, Ipv6Addr)> {
    let number = |word: &str| u32::from_str_radix(word, 16).ok();
    let rows = table.lines().filter_map(|line| {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        let [_, len, _, _, hop, metric, _, _, flags, interface] = words[..] else {
            return None;
        };
        let gateway = u32::from(libc::RTF_GATEWAY);
        let default = number(len)? == 0 && number(flags)? & gateway != 0;
        let hop = u128::from_str_radix(hop, 16).ok()?;
        let wanted = by.is_none_or(|by| by == interface);
        (default && wanted).then(|| {
            (
                number(metric),
                interface.to_owned(),
                Ipv6Addr::from_bits(hop),
            )
        })
    });
    let least = rows.min_by_key(|(metric, ..)| metric.unwrap_or(u32::MAX))?;
    Some((least.1, least.2))
}

/// The interface and the gateway of the default route with the least metric; `by`: among those of this interface.
fn by_gateway(table: &str, by: Option<&str>) -> Option<(String, Ipv4Addr)> {
    let rows = table.lines().skip(1).filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (interface, to, gateway) = (words.next()?, words.next()?, words.next()?);
        let (metric, mask) = (words.nth(3)?.parse::<u32>().ok()?, words.next()?);
        // An address in network order in memory is printed as a number of the machine's own order.
        let gateway = u32::from_str_radix(gateway, 16).ok()?.to_ne_bytes();
        let default =
            u32::from_str_radix(to, 16) == Ok(0) && u32::from_str_radix(mask, 16) == Ok(0);
        let wanted = gateway != [0; 4] && by.is_none_or(|by| by == interface);
        (default && wanted).then(|| (metric, interface.to_owned(), gateway.into()))
    });
    let least = rows.min_by_key(|(metric, ..)| *metric)?;
    Some((least.1, least.2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_route_with_the_least_metric_counts() {
        // Breaks when a guest gets the addresses of the network that its host uses less.
        let head =
            "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";
        let row = |name: &str, gateway: [u8; 4], metric: u32| {
            let gateway = u32::from_ne_bytes(gateway);
            format!("{name}\t00000000\t{gateway:08X}\t0003\t0\t0\t{metric}\t00000000\t0\t0\t0\n")
        };
        let table = format!(
            "{head}eth1\t0002000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n{}{}",
            row("wlan0", [192, 168, 1, 1], 600),
            row("eth0", [192, 0, 2, 1], 100)
        );
        let found = by_gateway(&table, None).expect("two of them");
        assert_eq!(found, ("eth0".to_owned(), Ipv4Addr::new(192, 0, 2, 1)));
        let other = by_gateway(&table, Some("wlan0")).expect("the other one");
        assert_eq!(other, ("wlan0".to_owned(), Ipv4Addr::new(192, 168, 1, 1)));
        assert_eq!(by_gateway(&table, Some("eth1")), None);
        assert_eq!(by_gateway(head, None), None);
        let none = with_gateway(by_gateway(&table, Some("eth1")), Some("eth1"));
        assert_eq!(none, Some(("eth1".to_owned(), None)));
    }

    #[test]
    fn the_default_route_of_ipv6_is_one_by_a_gateway() {
        // Breaks when the kernel's own row that refuses all packets, or a route to a network, is taken for the default.
        let zero = "0".repeat(32);
        let row = |to: &str, len: &str, hop: &str, metric: &str, flags: &str, name: &str| {
            format!("{to} {len} {zero} 00 {hop} {metric} 00000001 00000000 {flags} {name}\n")
        };
        let hop = "fe800000000000000000000000000001";
        let table = [
            row(
                "20010db8000000000000000000000000",
                "40",
                &zero,
                "00000100",
                "00000001",
                "eth0",
            ),
            row(
                &zero,
                "00",
                "fe800000000000000000000000000002",
                "00000400",
                "00000003",
                "eth1",
            ),
            row(&zero, "00", hop, "00000064", "00000003", "eth0"),
            row(&zero, "00", &zero, "ffffffff", "00200200", "lo"),
        ];
        let gateway = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
        assert_eq!(
            by_gateway6(&table.concat(), None),
            Some(("eth0".to_owned(), gateway))
        );
        assert_eq!(by_gateway6(&table[3], None), None);
    }
}
