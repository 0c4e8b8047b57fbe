//! More points of IPv6 for each node, one test each, by its name. [`main`](crate) has the table of all points.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use crate::common::net::*;
use crate::frames6::{
    PEER6, US6, at6, frame6, from_peer6, icmp6, icmp6_frame, introduce6, introduced, lab, nd_frame,
    parse_icmp6, parse6,
};
use mbuf::{ClusterSize, Packet};
use mbuma::device::Capabilities;
use mbuma::device::memory::Pipe;
use mbuma::socket::{RecvError, SendError};
use mbuma::{
    DropReason, IcmpError, IfAddr, IfConfig, PolicyRow, PolicyTable, RouteKind, SocketError,
};
use wire::{
    ALL_NODES, AdvertFlags, Icmp6Message, IpProto, Ipv6Fields, MacAddr, NeighborMessage,
    Unreachable6, link_local_of, pseudo_header_v6, solicited_node,
};

const PING: Icmp6Message = Icmp6Message::EchoRequest { id: 5, seq: 9 };

/// A ping to us with this body.
fn ping(body: &[u8]) -> Vec<u8> {
    icmp6(PEER6, US6, PING, body)
}

#[test]
fn h1_a_header_that_contradicts_its_packet_is_dropped() {
    // Breaks if another version, or a length beyond the frame, is taken; or if what the link adds behind counts.
    let lab = introduced();
    let good = frame6(&from_peer6(IpProto::ICMPV6), &ping(b"hello"));
    let mut version = good.clone();
    version[14] = 0x50;
    lab.give(&version);
    assert_eq!(lab.dropped(DropReason::IpBadHeader), 1);
    for len in [20, good.len() - 1] {
        lab.give(&good[..len]);
    }
    assert_eq!(lab.dropped(DropReason::IpTruncated), 2);
    lab.give(&[&good[..], &[0; 6]].concat());
    let (_, body) = parse_icmp6(&parse6(&lab.frame()));
    assert_eq!(body, b"hello");
}

#[test]
fn h7_nothing_behind_the_headers_is_taken_in_silence() {
    // Breaks if a packet that says that nothing follows is answered (RFC 8200 section 4.7).
    let lab = introduced();
    lab.give(&frame6(&from_peer6(IpProto::NONE), &[]));
    lab.give(&frame6(&from_peer6(IpProto::NONE), &[1; 40]));
    assert_eq!(lab.dropped(DropReason::IpNoNextHeader), 2);
    assert!(lab.frames().is_empty());
}

#[test]
fn i5_unknown_messages_go_to_a_program_or_end() {
    // Breaks if a message of an unknown type is answered, or a program that asked for errors of that type does not hear
    // of them (RFC 4443 section 2.4 a, b).
    let lab = introduced();
    let socket = lab.stack.icmp6_bind(lab.iface, &[100]).unwrap();
    for kind in [99, 100, 200] {
        let unknown = Icmp6Message::Other {
            kind,
            code: 7,
            rest: [1, 2, 3, 4],
        };
        lab.give(&icmp6_frame(PEER6, US6, 64, unknown, b"quoted"));
    }
    assert!(lab.frames().is_empty());
    assert_eq!(lab.dropped(DropReason::IcmpUnhandled), 2);
    let heard = socket.recv().unwrap();
    assert_eq!((heard.kind, heard.code, heard.rest), (100, 7, [1, 2, 3, 4]));
    assert_eq!(heard.body.to_vec(), b"quoted");
}

#[test]
fn i5_messages_that_wait_for_a_program_are_bounded_and_pin_little() {
    // Breaks if messages that a program does not read fill memory, by their number or because each keeps the cluster
    // that it came in; or if those that find no room are not counted.
    let lab = introduced();
    let socket = lab.stack.icmp6_bind(lab.iface, &[100]).unwrap();
    let unknown = Icmp6Message::Other {
        kind: 100,
        code: 0,
        rest: [0; 4],
    };
    let frame = icmp6_frame(PEER6, US6, 64, unknown, b"small");
    for _ in 0..100 {
        let mut packet = Packet::with_cluster(&lab.pool, ClusterSize::K16, 0).unwrap();
        packet.append(&lab.pool, &frame).unwrap();
        lab.put_packet(packet);
        lab.poll();
    }
    assert_eq!(lab.dropped(DropReason::Icmp6QueueFull), 100 - 64);
    let heard: Vec<_> = std::iter::from_fn(|| socket.recv().ok()).collect();
    assert_eq!(heard.len(), 64);
    assert!(heard.iter().all(|one| one.body.pinned() <= mbuf::MSIZE));
}

#[test]
fn r10_and_r12_a_stack_with_given_addresses_asks_and_believes_no_station() {
    // Breaks if a guest can lead the gateway's packets elsewhere by an advertisement or a redirect, or the gateway
    // probes for addresses that it alone can have.
    let lab = lab();
    assert!(lab.frames().is_empty());
    introduce6(&lab);
    let before = lab.stack.routes().len();
    let guest = link_local_of(PEER_MAC);
    let of = |kind| Icmp6Message::Other {
        kind,
        code: 0,
        rest: [64, 0, 7, 8],
    };
    lab.give(&icmp6_frame(guest, ALL_NODES, 255, of(134), &[0; 8]));
    let redirect = [guest.octets(), [0x20; 16]].concat();
    lab.give(&icmp6_frame(guest, US6, 255, of(137), &redirect));
    assert_eq!(lab.stack.routes().len(), before);
    assert!(lab.frames().is_empty());
}

#[test]
fn r11_a_probe_for_our_address_is_answered_and_none_for_others() {
    // Breaks if a guest may take the gateway's address, or the gateway keeps it from having its own.
    let lab = lab();
    let none = Ipv6Addr::UNSPECIFIED;
    for (target, answers) in [(US6, 1), (PEER6, 0)] {
        let probe = NeighborMessage::solicit(target, None, Some([9; 6]));
        lab.give(&nd_frame(none, solicited_node(target), &probe));
        let frames = lab.frames();
        assert_eq!(frames.len(), answers, "{target}");
        assert!(frames.iter().all(|frame| parse6(frame).dst == ALL_NODES));
    }
}

#[test]
fn h10_and_h11_the_last_hop_takes_any_hop_limit_and_label() {
    // Breaks if a host drops a packet whose hops are used up where it is meant to be, or loses a congestion mark.
    let lab = introduced();
    for hop_limit in [0, 1] {
        let fields = Ipv6Fields {
            class: 3,
            flow_label: 0xf_ffff,
            hop_limit,
            ..from_peer6(IpProto::ICMPV6)
        };
        lab.give(&frame6(&fields, &ping(b"hello")));
        let frame = lab.frame();
        let class = frame[14] << 4 | frame[15] >> 4;
        assert_eq!(class & 0b11, 3);
        assert_eq!(parse_icmp6(&parse6(&frame)).1, b"hello");
    }
}

/// A datagram to `dst`, whose port is closed.
fn to_closed_port(src: Ipv6Addr, dst: Ipv6Addr) -> Vec<u8> {
    let mut datagram = vec![0, 9, 0, 77, 0, 8, 0, 0];
    let mut sum = pseudo_header_v6(src, dst, IpProto::UDP, 8);
    sum.add_bytes(&datagram);
    datagram[6..8].copy_from_slice(&sum.finish_nonzero().to_be_bytes());
    let fields = Ipv6Fields {
        src,
        dst,
        ..from_peer6(IpProto::UDP)
    };
    frame6(&fields, &datagram)
}

#[test]
fn i1_no_error_is_sent_about_what_must_not_have_one() {
    // Breaks if two hosts can keep each other busy with errors, or one packet to a group makes many.
    let lab = introduced();
    lab.give(&to_closed_port(PEER6, ALL_NODES));
    assert_eq!(lab.dropped(DropReason::UdpNoSocket), 1);
    let error = Icmp6Message::DestUnreachable(Unreachable6::Port);
    lab.give(&icmp6_frame(PEER6, US6, 64, error, &[0; 48]));
    let unknown = Icmp6Message::Other {
        kind: 100,
        code: 0,
        rest: [0; 4],
    };
    lab.give(&icmp6_frame(PEER6, US6, 64, unknown, &[0; 48]));
    assert!(lab.frames().is_empty());
    // To one host there is one.
    lab.give(&to_closed_port(PEER6, US6));
    assert_eq!(parse_icmp6(&parse6(&lab.frame())).0.message(), error);
}

#[test]
fn i8_an_error_reaches_the_socket_whose_datagram_it_quotes() {
    // Breaks if a program does not learn that no socket has the port, or is told by a packet that quotes another's.
    let lab = introduced();
    let socket = lab.stack.udp_bind(at6(US6, 7)).unwrap();
    socket.send_to(lab.chain(b"hello"), at6(PEER6, 9)).unwrap();
    let sent = lab.frame();
    let closed = Icmp6Message::DestUnreachable(Unreachable6::Port);
    let mut forged = sent.clone();
    forged[14 + 40 + 1] ^= 0x55;
    lab.give(&icmp6_frame(PEER6, US6, 64, closed, &forged[14..]));
    assert!(matches!(socket.recv(), Err(RecvError::WouldBlock)));
    lab.give(&icmp6_frame(PEER6, US6, 64, closed, &sent[14..]));
    let error = socket.take_error().unwrap();
    assert_eq!((error.dst, error.kind), (at6(PEER6, 9), IcmpError::Port));
}

#[test]
fn i8_an_error_about_a_segment_counts_if_it_quotes_a_sequence_number_in_flight() {
    // Breaks if a host off the path can end an attempt to connect by an error about a guessed segment (RFC 5927 4.1),
    // or if the program does not learn that no socket has the port.
    let lab = introduced();
    let stream = lab.stack.tcp_connect(at6(US6, 7), at6(PEER6, 9)).unwrap();
    let sent = lab.frame();
    let closed = Icmp6Message::DestUnreachable(Unreachable6::Port);
    for (at, is_refused) in [(14 + 40 + 1, false), (14 + 40 + 4, false), (0, true)] {
        let mut quote = sent.clone();
        quote[at] ^= 0x55;
        lab.give(&icmp6_frame(PEER6, US6, 64, closed, &quote[14..]));
        let refused = stream.error() == Some(SocketError::Refused);
        assert_eq!(refused, is_refused, "byte {at}");
    }
}

#[test]
fn n2_contradictory_messages_of_discovery_are_dropped() {
    // Breaks if a group, or a station without an address that gives one, gets an entry (RFC 4861 section 7.1).
    let lab = lab();
    let group = NeighborMessage::solicit(ALL_NODES, Some(PEER_MAC), None);
    lab.give(&nd_frame(PEER6, US6, &group));
    let probe = NeighborMessage::solicit(US6, Some(PEER_MAC), None);
    lab.give(&nd_frame(
        Ipv6Addr::UNSPECIFIED,
        solicited_node(US6),
        &probe,
    ));
    let flags = AdvertFlags {
        router: false,
        solicited: true,
        overrides: true,
    };
    let advert = NeighborMessage::advert(PEER6, PEER_MAC, flags);
    lab.give(&nd_frame(PEER6, ALL_NODES, &advert));
    assert_eq!(lab.dropped(DropReason::BadNd), 3);
    assert!(lab.frames().is_empty());
}

#[test]
fn n6_datagrams_wait_in_order_and_not_without_bound() {
    // Breaks if what waits for a neighbour comes out in another order, or takes memory without bound.
    let lab = lab();
    let socket = lab.stack.udp_bind(at6(US6, 7)).unwrap();
    for n in 0..100_u8 {
        socket.send_to(lab.chain(&[n]), at6(PEER6, 9)).unwrap();
    }
    assert_eq!(lab.frames().len(), 1, "the question");
    assert_eq!(lab.dropped(DropReason::NdQueueFull), 36);
    let flags = AdvertFlags {
        router: false,
        solicited: true,
        overrides: true,
    };
    let advert = NeighborMessage::advert(PEER6, PEER_MAC, flags);
    lab.give(&nd_frame(PEER6, US6, &advert));
    let sent = lab.frames();
    let sent = sent.iter().map(|frame| *frame.last().unwrap());
    assert!(sent.eq(36..100), "the oldest went");
}

#[test]
fn n7_a_scan_of_the_network_evicts_no_neighbour() {
    // Breaks if a host that sends to thousands of absent stations makes the stack forget those that are there (RFC
    // 6583).
    let lab = introduced();
    let socket = lab.stack.udp_bind(at6(US6, 7)).unwrap();
    for n in 0..5000_u16 {
        let absent = Ipv6Addr::new(0xfd00, 0, 0, 0, 1, 1, 1, n);
        socket.send_to(lab.chain(b"scan"), at6(absent, 9)).unwrap();
        drop(lab.packets());
    }
    socket.send_to(lab.chain(b"hello"), at6(PEER6, 9)).unwrap();
    assert_eq!(parse6(&lab.frame()).to, PEER_MAC);
    drop(socket);
    lab.advance(Duration::from_secs(10));
    drop(lab.packets());
}

#[test]
fn n12_an_address_that_moved_is_announced_to_all() {
    // Breaks if stations go on sending to where an address was (RFC 4861 section 7.2.6).
    let lab = lab();
    lab.stack.announce(lab.iface);
    let frames = lab.frames();
    let adverts: Vec<_> = frames
        .iter()
        .filter(|frame| frame[12..14] == [0x86, 0xdd])
        .collect();
    assert_eq!(adverts.len(), 2, "both addresses");
    for frame in adverts {
        let seen = parse6(frame);
        let (header, _) = parse_icmp6(&seen);
        assert_eq!(
            (seen.dst, seen.hop_limit, header.kind()),
            (ALL_NODES, 255, 136)
        );
        assert_eq!(header.rest()[0], 0x20, "override, not solicited");
    }
}

#[test]
fn n13_an_address_alone_says_nothing_of_its_neighbours() {
    // Breaks if a station is looked for on the link because its address is like ours (RFC 5942).
    let lab = Lab::new(Setup {
        addrs: vec![IfAddr::new(US6, 128)],
        ..Setup::default()
    });
    let socket = lab.stack.udp_bind(at6(US6, 7)).unwrap();
    let sent = socket.send_to(lab.chain(b"hello"), at6(PEER6, 9));
    assert_eq!(sent, Err(SendError::NoRoute));
    assert!(lab.frames().is_empty());
}

#[test]
fn a10_a_station_is_in_the_groups_of_its_addresses_and_of_its_kind() {
    // Breaks if a station is not found by its addresses, or a host takes what is for routers.
    for (is_router, heard) in [(false, 2), (true, 3)] {
        let lab = introduced();
        lab.stack.set_forwarding(is_router);
        let own = link_local_of(OUR_MAC);
        for group in [ALL_NODES, solicited_node(own), wire::ALL_ROUTERS] {
            lab.give(&icmp6_frame(PEER6, group, 64, PING, b""));
        }
        assert_eq!(lab.frames().len(), heard);
    }
}

#[test]
fn a11_a_group_has_its_ethernet_address() {
    // Breaks if stations do not hear what is sent to their group (RFC 2464 section 7).
    let lab = lab();
    let socket = lab.stack.udp_bind(at6(US6, 7)).unwrap();
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0x1122, 0x3344);
    let to = std::net::SocketAddrV6::new(group, 9, 0, lab.iface.number());
    socket.send_to(lab.chain(b"hello"), to).unwrap();
    let seen = parse6(&lab.frame());
    assert_eq!(seen.to, MacAddr([0x33, 0x33, 0x11, 0x22, 0x33, 0x44]));
    assert_eq!(seen.dst, group);
}

#[test]
fn s5_the_source_is_an_address_of_the_interface_that_it_leaves_by() {
    // Breaks if a packet leaves by one link with an address of another, to which no answer comes (RFC 6724 section 5).
    let lab = lab();
    let (ours, _far) = Pipe::pair(Capabilities::plain(1500));
    let own = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 1);
    let config = IfConfig {
        mac: Some(OUR_MAC),
        ..IfConfig::new("pipe1").with_addr(own, 64)
    };
    let second = lab.stack.attach(Arc::new(ours), config).unwrap();
    // By label and prefix the first interface's is better.
    let addr = Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, 5);
    let net = IfAddr::new(addr, 128);
    let route = RouteKind::Link(second);
    lab.stack.add_route(net, route).unwrap();
    let anywhere = at6(Ipv6Addr::UNSPECIFIED, 0);
    let stream = lab.stack.tcp_connect(anywhere, at6(addr, 80)).unwrap();
    assert_eq!(stream.local_addr().ip(), own);
    stream.abort();
    drop(stream);
    lab.stack.detach(second);
    // With the questions for the neighbour that is not there.
}

#[test]
fn s6_a_program_can_change_the_policy_table() {
    // Breaks if the table is fixed (RFC 6724 section 2.1), an interface or a socket does not hear of a change, or the
    // order of a peer's addresses does not follow it.
    let [other, far] = [9, 1].map(|n| Ipv6Addr::new(0x2001, 0xdb8, n, 0, 0, 0, 0, 1));
    let lab = Lab::new(Setup {
        addrs: vec![IfAddr::new(US6, 64), IfAddr::new(other, 64)],
        ..Setup::default()
    });
    let route = RouteKind::Link(lab.iface);
    lab.stack.add_route(IfAddr::new(far, 128), route).unwrap();
    let source = || {
        let connect = lab
            .stack
            .tcp_connect(at6(Ipv6Addr::UNSPECIFIED, 0), at6(far, 80));
        let stream = connect.unwrap();
        stream.abort();
        stream.local_addr().ip()
    };
    let order = || {
        let mut addrs = [IpAddr::V6(PEER6), IpAddr::V4(FOREIGN), IpAddr::V4(PEER)];
        lab.stack.sort_destinations(&mut addrs);
        addrs
    };
    assert_eq!(source(), other, "by its label");
    let no_route = IpAddr::V4(FOREIGN);
    assert_eq!(order(), [PEER.into(), PEER6.into(), no_route]);
    let unique = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0);
    let changed = [
        PolicyRow::new(unique, 16, 45, 7),
        PolicyRow::new(far, 128, 45, 7),
        PolicyRow::new(other, 128, 1, 9),
    ];
    let rows = lab.stack.policy_table().rows().to_vec();
    let rows = rows.into_iter().chain(changed);
    lab.stack.set_policy_table(PolicyTable::new(rows).unwrap());
    assert_eq!(source(), US6);
    assert_eq!(order(), [PEER6.into(), PEER.into(), no_route]);
    lab.stack.set_policy_table(PolicyTable::default());
    assert_eq!(source(), other);
}
