//! Addresses that come and go while the stack runs, groups that programs join, and messages of ICMPv6 that they take
//! over.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::common::net::*;
use crate::frames6::{US6, icmp6_frame, introduce6, nd_frame, parse_icmp6, parse6};
use mbuma::device::{Capabilities, tunnel};
use mbuma::socket::{BindError, Icmp6Datagram};
use mbuma::{AddrError, DropReason, Error, IfAddr, IfIndex, RouteKind, Runtime};
use wire::{
    ALL_ROUTERS, ArpPacket, EtherHeader, EtherType, Icmp6Message, IpProto, Ipv6Fields, MacAddr,
    NeighborMessage, UdpHeader, link_local_of, pseudo_header_v6, solicited_node,
};

const SECOND: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 77);

/// Whether the stack answers a ping to `addr`.
fn answers4(lab: &Lab, addr: Ipv4Addr) -> bool {
    lab.give(&arp_frame(&ArpPacket::request(PEER_MAC, PEER, addr)));
    !lab.frames().is_empty()
}

fn answers6(lab: &Lab, addr: Ipv6Addr) -> bool {
    let question = NeighborMessage::solicit(addr, Some(PEER_MAC), None);
    lab.give(&nd_frame(
        link_local_of(PEER_MAC),
        solicited_node(addr),
        &question,
    ));
    !lab.frames().is_empty()
}

#[test]
fn an_address_of_ipv4_comes_and_goes() {
    // Breaks if an added address is not announced, answered for or routed, or a removed address still is.
    let lab = Lab::plain();
    assert!(!answers4(&lab, SECOND));
    lab.stack.add_address(lab.iface, SECOND, 24).unwrap();
    let (ether, _) = EtherHeader::parse(&lab.frame())
        .map(|(e, b)| (*e, b.to_vec()))
        .unwrap();
    assert_eq!(
        (ether.dst, ether.ethertype()),
        (MacAddr::BROADCAST, EtherType::ARP)
    );
    assert!(answers4(&lab, SECOND));
    let _socket = lab.stack.udp_bind((SECOND, 9)).unwrap();
    let all = lab.stack.addresses(lab.iface);
    assert_eq!(all, [(IpAddr::V4(US), 24), (IpAddr::V4(SECOND), 24)]);
    lab.stack.remove_address(lab.iface, SECOND).unwrap();
    assert!(!answers4(&lab, SECOND) && answers4(&lab, US));
    assert_eq!(
        lab.stack.udp_bind((SECOND, 10)).unwrap_err(),
        BindError::AddrNotAvailable
    );
}

#[test]
fn routes_follow_the_addresses() {
    // Breaks if a route sends from a removed address, or has no source after the first address is added.
    let lab = Lab::plain();
    lab.stack.add_default_route(lab.iface, PEER).unwrap();
    lab.stack.remove_address(lab.iface, US).unwrap();
    let through = |net: &str| {
        let net: IfAddr = net.parse().unwrap();
        let routes = lab.stack.routes();
        routes.into_iter().find(|route| route.net == net)
    };
    assert_eq!(through("0.0.0.0/0").unwrap().src, Ipv4Addr::UNSPECIFIED);
    assert!(through("192.0.2.0/24").is_none());
    lab.stack.add_address(lab.iface, SECOND, 24).unwrap();
    assert_eq!(through("0.0.0.0/0").unwrap().src, SECOND);
    assert_eq!(
        through("192.0.2.0/24").unwrap().kind,
        RouteKind::Link(lab.iface)
    );
    assert_eq!(lab.frames().len(), 1, "the announcement");
}

#[test]
fn the_first_address_of_ipv6_turns_it_on_and_the_last_off() {
    // Breaks if an interface that gets an address of IPv6 has no link-local one, or goes on with IPv6 without any.
    let lab = Lab::plain();
    let own = link_local_of(OUR_MAC);
    assert!(!answers6(&lab, US6));
    lab.stack.add_address(lab.iface, US6, 64).unwrap();
    assert_eq!(
        parse_icmp6(&parse6(&lab.frame())).0.kind(),
        136,
        "announced"
    );
    assert!(answers6(&lab, US6) && answers6(&lab, own));
    lab.stack.remove_address(lab.iface, US6).unwrap();
    assert!(!answers6(&lab, US6) && answers6(&lab, own));
    lab.stack.remove_address(lab.iface, own).unwrap();
    assert!(!answers6(&lab, own) && answers4(&lab, US));
    let routes = lab.stack.routes();
    let mut left = routes.iter().filter(|route| route.net.addr.is_ipv6());
    assert!(left.all(|route| route.src == Ipv6Addr::LOCALHOST));
}

#[test]
fn bad_addresses_are_refused() {
    // Breaks if an interface takes an address that no host can have, or the same one twice.
    let lab = Lab::plain();
    let add = |addr: &str, len| {
        lab.stack
            .add_address(lab.iface, addr.parse::<IpAddr>().unwrap(), len)
    };
    for bad in [
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "127.0.0.2",
        "10.0.0.255",
        "::",
        "::1",
        "ff02::1",
        "::ffff:1.2.3.4",
    ] {
        assert_eq!(add(bad, 24), Err(AddrError::BadAddress), "{bad}");
    }
    assert_eq!(add("10.0.0.1", 33), Err(AddrError::BadAddress));
    assert_eq!(add(&US.to_string(), 8), Err(AddrError::Exists));
    let stack = &lab.stack;
    assert_eq!(
        stack.remove_address(lab.iface, SECOND),
        Err(AddrError::NotFound)
    );
    lab.stack
        .add_address(IfIndex::LOOPBACK, SECOND, 32)
        .unwrap();
    lab.stack.detach(lab.iface);
    assert_eq!(
        stack.add_address(lab.iface, SECOND, 24),
        Err(AddrError::NoInterface)
    );
    assert_eq!(stack.remove_address(IfIndex::LOOPBACK, SECOND), Ok(()));
}

#[test]
fn a_link_carries_the_smallest_packets_of_ip() {
    // RFC 791 3.2, RFC 8200 5: breaks if an interface comes up on a device whose MTU is too small for its addresses, or
    // gets an IPv6 address later, or if one of the smallest MTU is refused.
    let lab = |mtu, addrs: &[IfAddr]| {
        Lab::new(Setup {
            caps: Capabilities::plain(mtu),
            addrs: addrs.to_vec(),
            ..Setup::default()
        })
    };
    let addr6 = IfAddr::new(US6, 64);
    let smallest = lab(68, &[]);
    let stack = &smallest.stack;
    assert_eq!(
        stack.add_address(smallest.iface, US6, 64),
        Err(AddrError::SmallMtu)
    );
    drop(smallest);
    drop(lab(1280, &[addr6]));
    for (mtu, addrs) in [(67, &[] as &[_]), (1279, &[addr6])] {
        let refused = std::panic::catch_unwind(|| lab(mtu, addrs));
        let why = *refused.err().unwrap().downcast::<String>().unwrap();
        assert!(why.contains(&format!("Mtu({mtu})")), "{why}");
    }
    let runtime = Runtime::new().unwrap();
    let stack = runtime.stack().build().unwrap();
    let (device, _end) = tunnel::pair(stack.pool(), 67).unwrap();
    let refused = stack.add_interface(device).up();
    assert!(matches!(refused, Err(Error::Mtu(67))), "{refused:?}");
}

fn udp6(src: Ipv6Addr, dst: Ipv6Addr, port: u16) -> Vec<u8> {
    let mut datagram = vec![0; UdpHeader::LEN];
    let mut header = UdpHeader::new(9, port, 8);
    header.emit(&mut datagram);
    let mut sum = pseudo_header_v6(src, dst, IpProto::UDP, 8);
    sum.add_bytes(&datagram);
    header.set_checksum(sum.finish_nonzero());
    header.emit(&mut datagram);
    let fields = Ipv6Fields {
        next: IpProto::UDP,
        src,
        dst,
        ..Ipv6Fields::default()
    };
    crate::frames6::frame6(&fields, &datagram)
}

#[test]
fn a_group_that_was_joined_is_heard_until_its_last_member_leaves() {
    // Breaks if a DHCPv6 server hears no client, or a group is left while a member is there.
    let lab = crate::frames6::lab();
    let servers = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);
    let socket = lab.stack.udp_bind((Ipv6Addr::UNSPECIFIED, 547)).unwrap();
    let client = link_local_of(PEER_MAC);
    let heard = || {
        lab.give(&udp6(client, servers, 547));
        socket.recv().is_ok()
    };
    assert!(!heard());
    let first = lab.stack.join_group(lab.iface, servers).unwrap();
    let second = lab.stack.join_group(lab.iface, servers).unwrap();
    assert!(heard());
    drop(first);
    assert!(heard());
    drop(second);
    assert!(!heard());
    let none = lab.stack.join_group(lab.iface, US6);
    assert_eq!(none.unwrap_err(), AddrError::BadAddress);
}

fn advert(lab: &Lab, src: Ipv6Addr, dst: Ipv6Addr, rest: [u8; 4]) -> Icmp6Datagram {
    Icmp6Datagram {
        src,
        dst,
        hop_limit: 255,
        kind: 134,
        code: 0,
        rest,
        body: lab.chain(&[0; 8]),
    }
}

#[test]
fn a_program_hears_router_solicitations_and_advertises() {
    // Breaks if a program that advertises a router gets no solicitation, gets one from beyond the link, or sends an
    // invalid answer.
    let lab = crate::frames6::lab();
    introduce6(&lab);
    let socket = lab.stack.icmp6_bind(lab.iface, &[133]).unwrap();
    let taken = lab.stack.icmp6_bind(lab.iface, &[130, 133]).unwrap_err();
    assert_eq!(taken, BindError::AddrInUse);
    let member = lab.stack.join_group(lab.iface, ALL_ROUTERS).unwrap();
    let host = link_local_of(PEER_MAC);
    let solicit = Icmp6Message::Other {
        kind: 133,
        code: 0,
        rest: [0; 4],
    };
    let mut option = vec![1, 1];
    option.extend(PEER_MAC.0);
    lab.give(&icmp6_frame(host, ALL_ROUTERS, 254, solicit, &option));
    assert!(socket.recv().is_err());
    assert_eq!(lab.dropped(DropReason::BadNd), 1);
    lab.give(&icmp6_frame(host, ALL_ROUTERS, 255, solicit, &option));
    let heard = socket.recv().unwrap();
    assert_eq!(
        (heard.src, heard.dst, heard.hop_limit),
        (host, ALL_ROUTERS, 255)
    );
    assert_eq!((heard.kind, heard.code, heard.body.len()), (133, 0, 8));
    let own = link_local_of(OUR_MAC);
    let rest = [64, 0, 7, 8];
    socket.send(advert(&lab, own, wire::ALL_NODES, rest));
    let seen = parse6(&lab.frame());
    let (header, body) = parse_icmp6(&seen);
    assert_eq!(
        (seen.src, seen.dst, seen.hop_limit),
        (own, wire::ALL_NODES, 255)
    );
    assert_eq!(
        (header.kind(), header.rest(), body),
        (134, rest, vec![0; 8])
    );
    // Hosts forget a router whose advertisement has a lifetime of 0.
    let question = NeighborMessage::solicit(own, Some(PEER_MAC), None);
    let flags = || {
        lab.give(&nd_frame(host, solicited_node(own), &question));
        parse_icmp6(&parse6(&lab.frame())).0.rest()[0]
    };
    assert_eq!(flags(), 0xe0);
    drop((socket, member, heard));
    assert_eq!(flags(), 0x60);
    lab.give(&icmp6_frame(host, ALL_ROUTERS, 255, solicit, &option));
    assert_eq!(lab.dropped(DropReason::IpNotForUs), 1);
}

#[test]
fn r9_a_router_remembers_the_host_that_asked() {
    // Breaks if a router solicits a host whose solicitation has just given its link-layer address, or a station that is
    // no router remembers each host.
    let lab = crate::frames6::lab();
    let (host, own) = (link_local_of(PEER_MAC), link_local_of(OUR_MAC));
    let solicit = NeighborMessage::router_solicit(Some(PEER_MAC));
    let _member = lab.stack.join_group(lab.iface, ALL_ROUTERS).unwrap();
    lab.give(&nd_frame(host, ALL_ROUTERS, &solicit));
    let socket = lab.stack.icmp6_bind(lab.iface, &[133]).unwrap();
    let send = || socket.send(advert(&lab, own, host, [64, 0, 7, 8]));
    let kind = || parse_icmp6(&parse6(&lab.frame())).0.kind();
    send();
    assert_eq!(kind(), 135);
    lab.give(&nd_frame(host, ALL_ROUTERS, &solicit));
    assert_eq!(kind(), 134, "it waited");
    send();
    assert_eq!(kind(), 134);
}
