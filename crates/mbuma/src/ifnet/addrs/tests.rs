//! Tests of an interface's addresses.

use super::*;

fn net(addr: [u8; 4], prefix_len: u8) -> Cidr<Ipv4Addr> {
    Cidr {
        addr: addr.into(),
        prefix_len,
    }
}

#[test]
fn words_follow_the_list() {
    // Breaks if an address that was removed is found, or one that was added is not, by way of its bit or as the first.
    let own = OwnAddrs::new(vec![net([10, 0, 0, 1], 24)]);
    let (first, second) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 1, 0, 1));
    assert!(own.has(first) && !own.has(second), "both have the same bit");
    assert!(own.add(net([10, 1, 0, 1], 16)) && !own.add(net([10, 1, 0, 1], 8)));
    assert!(own.has(second) && own.is_broadcast([10, 1, 255, 255].into()));
    assert!(own.remove(first) && !own.remove(first));
    assert!(!own.has(first) && own.has(second));
    assert!(!own.is_broadcast([10, 0, 0, 255].into()));
    assert!(own.remove(second) && own.is_empty() && !own.has(second));
}

#[test]
fn groups_of_addresses_are_found() {
    // Breaks if a station that looks for an address of ours is not heard.
    let addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0x12, 0x3456);
    let own = OwnAddrs::new(vec![Cidr {
        addr,
        prefix_len: 64,
    }]);
    assert!(own.has(addr) && own.has_solicited(solicited_node(addr)));
    assert!(!own.has_solicited(wire::ALL_NODES));
    own.remove(addr);
    assert!(!own.has_solicited(solicited_node(addr)));
}

/// Breaks if a router takes the one address of a network of two, which is the other router's (RFC 6164 section 5.1).
#[test]
fn networks_of_one_or_two_have_no_routers_address() {
    let [network, addr] = [0, 1].map(|n| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n));
    let routers = |prefix_len| Cidr { addr, prefix_len }.subnet_router_anycast();
    assert_eq!([64, 126].map(routers), [Some(network); 2]);
    assert_eq!([127, 128].map(routers), [None; 2]);
}
