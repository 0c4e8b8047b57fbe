//! The host's default route, and the interface that it goes by.
//!
//! Called by: args::pasta. Calls: /proc/net/route, netdev.
//! Locks: none. Sources: proc(5), "/proc/net/route".

use std::fs;
use std::net::Ipv4Addr;

use super::netdev::NetdevSocket;

/// Where packets go that have no better route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DefaultRoute {
    pub(crate) interface: String,
    pub(crate) gateway: Ipv4Addr,
    /// The interface's own address, and the length of its network's prefix.
    pub(crate) addr: Ipv4Addr,
    pub(crate) prefix_len: u8,
}

/// The default route of this network namespace, if it has one by a gateway.
pub(crate) fn default_route() -> Option<DefaultRoute> {
    let table = fs::read_to_string("/proc/net/route").ok()?;
    let (interface, gateway) = by_gateway(&table)?;
    let control = NetdevSocket::open().ok()?;
    Some(DefaultRoute {
        addr: control.addr(&interface).ok()?,
        prefix_len: control.prefix_len(&interface).ok()?,
        interface,
        gateway,
    })
}

/// The interface and the gateway of the default route with the least metric.
fn by_gateway(table: &str) -> Option<(String, Ipv4Addr)> {
    let rows = table.lines().skip(1).filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let (interface, to, gateway) = (words.next()?, words.next()?, words.next()?);
        let (metric, mask) = (words.nth(3)?.parse::<u32>().ok()?, words.next()?);
        // An address in network order in memory is printed as a number of the machine's own order.
        let gateway = u32::from_str_radix(gateway, 16).ok()?.to_ne_bytes();
        let default =
            u32::from_str_radix(to, 16) == Ok(0) && u32::from_str_radix(mask, 16) == Ok(0);
        (default && gateway != [0; 4]).then(|| (metric, interface.to_owned(), gateway.into()))
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
        let found = by_gateway(&table).expect("two of them");
        assert_eq!(found, ("eth0".to_owned(), Ipv4Addr::new(192, 0, 2, 1)));
        assert_eq!(by_gateway(head), None);
    }
}
