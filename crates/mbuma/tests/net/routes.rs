//! Routes that are added, listed and deleted, and what packets do then.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::common::net::*;
use mbuma::{DropReason, IfAddr, IfIndex, RouteError, RouteKind};
use wire::{IpProto, Ipv4Fields, pseudo_header_v4};

fn net4(addr: [u8; 4], prefix_len: u8) -> IfAddr {
    IfAddr::new(addr, prefix_len)
}

/// Breaks if a packet does not take the most precise route that there is now.
#[test]
fn the_most_precise_route() {
    let lab = Lab::plain();
    let stack = &lab.stack;
    let socket = stack.udp_bind(at(Ipv4Addr::UNSPECIFIED, 9)).unwrap();
    let sent = || socket.send_to(lab.chain(b"x"), at(FOREIGN, 9)).is_ok();
    assert!(!sent());
    stack.add_default_route(lab.iface, PEER).unwrap();
    assert!(sent() && lab.frame().len() > 14);
    let all = net4([198, 51, 0, 0], 16);
    let some = net4([198, 51, 100, 0], 24);
    let one = net4([198, 51, 100, 7], 32);
    stack.add_route(all, RouteKind::Blackhole).unwrap();
    assert!(!sent(), "the sender hears of it here");
    let gateway = RouteKind::Gateway(lab.iface, PEER.into());
    stack.add_route(some, gateway).unwrap();
    assert!(sent() && parse(&lab.frame()).ether.dst == PEER_MAC);
    stack.add_route(one, RouteKind::Reject).unwrap();
    assert!(!sent());
    stack.delete_route(one).unwrap();
    // On the link itself: it is asked for.
    stack.add_route(one, RouteKind::Link(lab.iface)).unwrap();
    assert!(sent());
    let frame = lab.frame();
    assert_eq!(&frame[12..14], [8, 6], "an ARP request");
    for net in [one, some, all] {
        stack.delete_route(net).unwrap();
    }
    assert!(sent() && parse(&lab.frame()).ether.dst == PEER_MAC);
}

/// Breaks if a sender keeps a route that was replaced, another route goes with it, or a refused change takes the former
/// route away.
#[test]
fn a_route_is_replaced_in_one_step() {
    let lab = Lab::plain();
    let stack = &lab.stack;
    let socket = stack.udp_bind(at(Ipv4Addr::UNSPECIFIED, 9)).unwrap();
    let sent = || socket.send_to(lab.chain(b"x"), at(FOREIGN, 9)).is_ok();
    let all = net4([0, 0, 0, 0], 0);
    let gateway = RouteKind::Gateway(lab.iface, PEER.into());
    stack.replace_route(all, gateway).unwrap();
    assert!(sent() && parse(&lab.frame()).ether.dst == PEER_MAC);
    let count = stack.routes().len();
    stack.replace_route(all, RouteKind::Reject).unwrap();
    assert!(!sent(), "the socket keeps no route that was replaced");
    let ours = RouteKind::Gateway(lab.iface, US.into());
    assert_eq!(stack.replace_route(all, ours), Err(RouteError::BadGateway));
    assert!(!sent(), "the former one stays");
    stack.replace_route(all, gateway).unwrap();
    assert!(sent() && parse(&lab.frame()).ether.dst == PEER_MAC);
    assert_eq!(stack.routes().len(), count);
    // One that belongs to an address stays beside it, and comes first.
    let own = net4([10, 0, 2, 0], 24);
    stack.replace_route(own, RouteKind::Reject).unwrap();
    assert_eq!(stack.routes().len(), count + 1);
    assert!(socket.send_to(lab.chain(b"x"), at(PEER, 9)).is_ok());
}

/// Breaks if a route to a single host makes that host's address our own: its packets would be dropped as forged, and
/// those for it taken in.
#[test]
fn a_route_to_a_host_leaves_its_address_to_it() {
    for kind in [
        |iface| RouteKind::Gateway(iface, PEER.into()),
        RouteKind::Link,
    ] {
        let lab = Lab::plain();
        let one = net4(FOREIGN.octets(), 32);
        lab.stack.add_route(one, kind(lab.iface)).unwrap();
        let socket = lab.stack.udp_bind(at(Ipv4Addr::UNSPECIFIED, 7)).unwrap();
        let give = |src, dst| {
            let fields = Ipv4Fields {
                src,
                ..from_peer(dst, IpProto::UDP)
            };
            lab.give(&ip_frame(&fields, &udp(at(src, 9), at(dst, 7), b"x")));
            socket.recv().ok().map(|got| got.src)
        };
        assert_eq!(give(FOREIGN, US), Some(at(FOREIGN, 9).into()));
        assert_eq!(give(PEER, FOREIGN), None);
        assert!(lab.stack.udp_bind(at(FOREIGN, 8)).is_err());
        lab.frames();
    }
}

/// Breaks if a neighbour's loopback can't be reached although the program has allowed it; or can without that, or if
/// more of 127/8 than allowed may send to us.
#[test]
fn a_neighbours_loopback() {
    const HOME: Ipv4Addr = Ipv4Addr::LOCALHOST;
    const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
    for route_localnet in [true, false] {
        let lab = Lab::new(Setup {
            route_localnet,
            ..Setup::default()
        });
        let link = RouteKind::Gateway(lab.iface, PEER.into());
        lab.stack.add_route(net4(HOME.octets(), 32), link).unwrap();
        let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
        let sent = socket.send_from(lab.chain(b"hello"), at(US, 7), at(HOME, 9));
        match route_localnet {
            true => {
                sent.unwrap();
                let frame = lab.frame();
                assert_eq!(parse(&frame).ether.dst, PEER_MAC);
                assert_eq!(parse_udp(&frame).1, at(HOME, 9));
            }
            false => assert!(lab.frames().is_empty(), "{sent:?}"),
        }
        let give = |src| {
            let fields = Ipv4Fields {
                src,
                ..from_peer(US, IpProto::UDP)
            };
            lab.give(&ip_frame(&fields, &udp(at(src, 9), at(US, 7), b"x")));
            socket.recv().is_ok()
        };
        assert_eq!(give(HOME), route_localnet);
        assert!(!give(OTHER), "of ours");
        // Nothing from a link is for our own loopback.
        lab.give(&udp_frame(9, at(HOME, 7), b"x"));
        assert!(socket.recv().is_err());
    }
}

/// Breaks if the list hides a route, or shows what is not there.
#[test]
fn the_list_of_routes_is_complete_and_true() {
    let lab = Lab::plain();
    let stack = &lab.stack;
    let net = net4([198, 51, 100, 0], 24);
    let gateway = RouteKind::Gateway(lab.iface, PEER.into());
    stack.add_route(net, gateway).unwrap();
    stack.add_default_route(lab.iface, PEER).unwrap();
    let shown: Vec<_> = stack
        .routes()
        .iter()
        .map(|r| (r.net, r.kind, r.local, r.pinned))
        .collect();
    let link = RouteKind::Link(lab.iface);
    let lo = RouteKind::Link(IfIndex::LOOPBACK);
    let own = IfAddr::new(US, 32);
    let expected = [
        (own, link, true, true),
        (net4([127, 0, 0, 1], 32), lo, true, true),
        (net4([10, 0, 2, 0], 24), link, false, true),
        (net, gateway, false, false),
        (net4([127, 0, 0, 0], 8), lo, true, true),
        (net4([0, 0, 0, 0], 0), gateway, false, false),
        (IfAddr::new(Ipv6Addr::LOCALHOST, 128), lo, true, true),
    ];
    assert_eq!(shown, expected);
    stack.detach(lab.iface);
    assert_eq!(stack.routes().len(), 3, "what is left is the loopback's");
}

/// Breaks if the stack accepts a route that can't work, or deletes one that belongs to an address.
#[test]
fn impossible_routes_are_refused_and_those_of_addresses_stay() {
    let lab = Lab::plain();
    let stack = &lab.stack;
    let net = net4([198, 51, 100, 0], 24);
    let link = RouteKind::Link(lab.iface);
    let add = |net, kind| stack.add_route(net, kind);
    assert_eq!(
        add(net4([1, 2, 3, 4], 24), link),
        Err(RouteError::BadNetwork)
    );
    assert_eq!(
        add(net4([1, 2, 3, 4], 33), link),
        Err(RouteError::BadNetwork)
    );
    for gateway in [
        US,
        Ipv4Addr::UNSPECIFIED,
        Ipv4Addr::LOCALHOST,
        Ipv4Addr::BROADCAST,
        Ipv4Addr::new(10, 0, 2, 255),
        Ipv4Addr::new(224, 0, 0, 1),
    ] {
        let kind = RouteKind::Gateway(lab.iface, gateway.into());
        assert_eq!(add(net, kind), Err(RouteError::BadGateway), "{gateway}");
        let added = stack.add_default_route(lab.iface, gateway);
        assert_eq!(added, Err(RouteError::BadGateway), "{gateway}");
    }
    let added = stack.add_default_route(lab.iface, Ipv6Addr::LOCALHOST);
    assert_eq!(added, Err(RouteError::BadGateway));
    let other_version = RouteKind::Gateway(lab.iface, "fe80::1".parse().unwrap());
    assert_eq!(add(net, other_version), Err(RouteError::BadGateway));
    for on_each_link in ["fe80::/64", "ff02::/16"] {
        let added = add(on_each_link.parse().unwrap(), link);
        assert_eq!(added, Err(RouteError::BadNetwork), "{on_each_link}");
    }
    let added = stack.add_default_route(IfIndex::LOOPBACK, PEER);
    assert_eq!(added, Err(RouteError::NoInterface));
    let lo = RouteKind::Link(IfIndex::LOOPBACK);
    assert_eq!(add(net, lo), Err(RouteError::NoInterface));
    assert_eq!(add(net, link), Ok(()));
    assert_eq!(add(net, RouteKind::Reject), Err(RouteError::Exists));
    for net in [net4([10, 0, 2, 0], 24), net4([127, 0, 0, 0], 8)] {
        assert_eq!(stack.delete_route(net), Err(RouteError::NotFound));
    }
    assert_eq!(stack.delete_route(net), Ok(()));
    assert_eq!(stack.delete_route(net), Err(RouteError::NotFound));
    stack.detach(lab.iface);
    assert_eq!(add(net, link), Err(RouteError::NoInterface));
    let added = stack.add_default_route(lab.iface, PEER);
    assert_eq!(added, Err(RouteError::NoInterface));
}

/// Breaks if a SYN whose sender no route leads to is held for a decision: a gateway would open a connection of the host
/// for it, although no answer can reach the sender. Or if one with a route is not.
#[test]
fn a_syn_without_a_route_back_is_not_held() {
    let lab = Lab::gateway();
    let interceptor = lab.stack.tcp_intercept(lab.iface, 8).unwrap();
    let give = |src| {
        let mut syn = [0; 20];
        syn[..4].copy_from_slice(&[0, 9, 0, 80]);
        syn[12..14].copy_from_slice(&[0x50, 0x02]);
        let mut sum = pseudo_header_v4(src, FOREIGN, IpProto::TCP, syn.len() as u32);
        sum.add_bytes(&syn);
        syn[16..18].copy_from_slice(&sum.finish().to_be_bytes());
        let fields = Ipv4Fields {
            src,
            ..from_peer(FOREIGN, IpProto::TCP)
        };
        lab.give(&ip_frame(&fields, &syn));
        interceptor.next().map(|held| held.peer_addr().ip())
    };
    assert_eq!(give(Ipv4Addr::new(203, 0, 113, 9)), None);
    assert_eq!(lab.dropped(DropReason::TcpNoRouteBack), 1);
    assert_eq!(give(PEER), Some(PEER.into()));
    lab.frames();
}

/// Breaks if an interface whose device failed for good is still used, or keeps a route that a program adds: a route by
/// another interface would never be taken.
#[test]
fn an_interface_whose_device_failed_has_no_routes() {
    let mut lab = Lab::plain();
    lab.fail_device();
    let stack = &lab.stack;
    let socket = stack.udp_bind(at(US, 9)).unwrap();
    let send = || socket.send_to(&b"x"[..], at(PEER, 9));
    send().unwrap();
    stack.add_default_route(lab.iface, PEER).unwrap();
    let left = stack.routes();
    assert!(
        left.iter().all(|route| route.net.prefix_len > 0),
        "{left:?}"
    );
}
