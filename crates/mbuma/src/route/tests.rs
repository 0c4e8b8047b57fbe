use std::net::Ipv4Addr;
use std::time::Duration;

use super::*;
use crate::device::Capabilities;
use crate::device::memory::Pipe;
use crate::ifnet::IfConfig;
use crate::inet::policy_table::AddressPolicy;
use crate::neighbour::{NeighbourLimits, Tables};
use wire::{MacAddr, is_same_subnet};

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

fn interface(index: u32, addrs: &[(Ipv4Addr, u8)]) -> Arc<Ifnet> {
    let config = IfConfig::new(format!("pipe{index}"));
    let config = addrs
        .iter()
        .fold(config, |config, &(addr, len)| config.with_addr(addr, len));
    let device = Arc::new(Pipe::pair(Capabilities::plain(1500)).0);
    Arc::new(Ifnet::new(
        IfIndex(index),
        config,
        MacAddr::ZERO,
        vec![device],
        Tables::new(NeighbourLimits::default(), Duration::ZERO),
        Arc::new(AddressPolicy::new()),
    ))
}

fn table() -> Routes<Ipv4Addr> {
    let routes = Routes::new();
    let (a, b) = (interface(11, &[(A, 24)]), interface(12, &[(B, 8)]));
    routes.add_default(&b, Ipv4Addr::new(10, 9, 9, 9), false);
    routes.add_connected(&b, &b.addrs.list());
    routes.add_connected(&a, &a.addrs.list());
    routes
}

fn to(routes: &Routes<Ipv4Addr>, dst: [u8; 4]) -> Option<(u32, Ipv4Addr, Ipv4Addr, bool)> {
    let route = routes.lookup(dst.into())?;
    Some((route.ifp.index.0, route.next_hop, route.src, route.local))
}

/// Breaks if a shorter prefix wins over a longer one that was added later.
#[test]
fn longest_prefix_wins() {
    let routes = table();
    let near = Ipv4Addr::new(10, 0, 2, 100);
    assert_eq!(to(&routes, near.octets()), Some((11, near, A, false)));
    let far = Ipv4Addr::new(10, 0, 3, 100);
    assert_eq!(to(&routes, far.octets()), Some((12, far, B, false)));
    let gateway = Ipv4Addr::new(10, 9, 9, 9);
    assert_eq!(to(&routes, [192, 0, 2, 1]), Some((12, gateway, B, false)));
}

proptest::proptest! {
    /// Breaks if a look-up in a sorted table finds another route than a look at each entry, in the order in which they
    /// were added: the longest prefix, and of equal ones the program's before a router's, and then the first.
    #[test]
    fn a_look_up_finds_what_a_look_at_each_entry_finds(
        nets in proptest::collection::vec((0u32..64, 24u8..=32, proptest::bool::ANY), 0..40),
        removed in proptest::collection::vec(proptest::bool::ANY, 40),
        dsts in proptest::collection::vec(0u32..64, 8),
    ) {
        let ifp = interface(1, &[]);
        let routes = Routes::new();
        let mut model: Vec<(Cidr<Ipv4Addr>, bool, Ipv4Addr)> = Vec::new();
        for (n, (addr, prefix_len, learnt)) in nets.into_iter().enumerate() {
            // The networks differ in the last six bits of the address; of shorter prefixes there are many equal ones.
            let mut net = Cidr { addr: Ipv4Addr::from_bits(0x0a00_0000 | addr), prefix_len };
            net.addr = net.network();
            // The gateway tells which entry was found.
            let gateway = Ipv4Addr::from_bits(0x0b00_0000 | n as u32);
            let entry = Entry {
                net,
                ifp: Arc::clone(&ifp),
                gateway: Some(gateway),
                src: A,
                local: false,
                refusal: None,
                pinned: false,
                learnt,
            };
            let is_new = !model.iter().any(|&(other, l, _)| (other, l) == (net, learnt));
            let expected = if is_new { Ok(()) } else { Err(RouteError::Exists) };
            proptest::prop_assert_eq!(routes.set(entry, false), expected);
            if is_new {
                model.push((net, learnt, gateway));
            }
        }
        for (&(net, ..), _) in model.clone().iter().zip(&removed).filter(|&(_, &removed)| removed) {
            // The first one in the table's order: the program's.
            let its = |learnt| model.iter().position(|&(other, l, _)| (other, l) == (net, learnt));
            let at = its(false).or_else(|| its(true));
            proptest::prop_assert_eq!(routes.unset(net).is_ok(), at.is_some());
            at.map(|at| model.remove(at));
        }
        for dst in dsts {
            let dst = Ipv4Addr::from_bits(0x0a00_0000 | dst);
            let its = model.iter().filter(|(net, ..)| is_same_subnet(net.addr, dst, net.prefix_len));
            let best = its.max_by_key(|(net, learnt, _)| (net.prefix_len, !learnt));
            let found = routes.lookup(dst).map(|route| route.next_hop);
            proptest::prop_assert_eq!(found, best.map(|&(.., gateway)| gateway));
        }
    }
}

/// Breaks if packets to ourselves leave on a wire.
#[test]
fn own_addresses_are_local() {
    let routes = table();
    assert_eq!(to(&routes, A.octets()), Some((11, A, A, true)));
    assert!(routes.is_local(A) && routes.is_local(B));
    // The second has the bit of A.
    for other in [100, 64 + 2] {
        assert!(!routes.is_local(Ipv4Addr::new(10, 0, 2, other)));
    }
    // An address with a prefix of 32 is on no network.
    let alone = Routes::new();
    let c = interface(13, &[(A, 32)]);
    alone.add_connected(&c, &c.addrs.list());
    assert_eq!(to(&alone, A.octets()), Some((13, A, A, true)));
    assert_eq!(to(&alone, [10, 0, 2, 3]), None);
}

/// Breaks if the source of each packet from a neighbour whose address ends in 1 is looked up under the lock, because
/// loopback's does.
#[test]
fn loopback_makes_no_address_look_like_ours() {
    let routes = Routes::new();
    let lo = interface(1, &[(Ipv4Addr::LOCALHOST, 8)]);
    routes.add_connected(&lo, &lo.addrs.list());
    assert!(routes.is_local(Ipv4Addr::LOCALHOST));
    assert_eq!(routes.own_bits.load(Ordering::Relaxed), 0);
}

/// Breaks if routes outlive their interface.
#[test]
fn routes_go_with_their_interface() {
    let routes = table();
    routes.remove_interface(IfIndex(12));
    assert_eq!(to(&routes, [192, 0, 2, 1]), None);
    assert!(!routes.is_local(B) && routes.is_local(A));
}

/// Breaks if a broadcast leaves by an interface that does not have its source address.
#[test]
fn groups_leave_where_their_source_is() {
    let routes = table();
    let to_all = |src| routes.lookup_group(src, Ipv4Addr::BROADCAST).unwrap();
    assert_eq!(to_all(A).ifp.index, IfIndex(11));
    assert_eq!(to_all(B).ifp.index, IfIndex(12));
    let unknown = to_all(Ipv4Addr::UNSPECIFIED);
    assert_eq!(
        (unknown.ifp.index, unknown.next_hop),
        (IfIndex(12), Ipv4Addr::BROADCAST)
    );
    assert!(!unknown.local);
}

/// Breaks if a kept route outlives a change of the table, or is looked up again although the table is unchanged.
#[test]
fn a_kept_route_is_good_until_the_table_changes() {
    let routes = table();
    let mut cache = RouteCache::default();
    let dst = Ipv4Addr::new(10, 0, 2, 100);
    let looks = std::cell::Cell::new(0);
    let mut route = || {
        let find = || {
            looks.set(looks.get() + 1);
            routes.lookup(dst)
        };
        cache.v4(&routes, find).map(|route| route.ifp.index)
    };
    assert_eq!((route(), route()), (Some(IfIndex(11)), Some(IfIndex(11))));
    assert_eq!(looks.get(), 1);
    routes.remove_interface(IfIndex(11));
    assert_eq!(route(), Some(IfIndex(12)), "by the shorter prefix");
    routes.remove_interface(IfIndex(12));
    assert_eq!((route(), looks.get()), (None, 3));
}

/// Breaks if an idle connection or socket keeps a detached interface, and with it the device.
#[test]
fn no_socket_keeps_an_interface_that_is_gone() {
    let clock = Arc::new(kern::VirtualClock::new(kern::Time::from_secs(1)));
    let config = crate::Config::new(clock, kern::Random::from_seed(1));
    let stack = crate::Stack::new(config).unwrap();
    let config = IfConfig::new("pipe0").with_addr(A, 24);
    let device = Arc::new(Pipe::pair(Capabilities::plain(1500)).0);
    let index = stack.attach(device, config).unwrap();
    let ifp = Arc::downgrade(&stack.0.interface(index).unwrap());
    let any = std::net::SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    let peer = std::net::SocketAddrV4::new(Ipv4Addr::new(10, 0, 2, 9), 80);
    let stream = stack.tcp_connect(any, peer).unwrap();
    let socket = stack.udp_bind(any).unwrap();
    socket.send_to(mbuf::Chain::new(), peer).unwrap();
    assert_eq!(ifp.strong_count(), 5, "the list, two routes, two kept");
    stack.detach(index);
    assert_eq!(ifp.strong_count(), 0);
    drop((stream, socket));
    stack.poll();
    assert_eq!(stack.pool().live(), mbuf::Live::NONE);
}
