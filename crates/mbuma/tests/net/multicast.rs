//! Datagrams that sockets send to groups, of both versions of IP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::num::NonZeroU8;
use std::sync::Arc;

use crate::common::net::*;
use crate::frames6::{US6, lab, parse6};
use mbuf::Mbufq;
use mbuma::device::memory::Pipe;
use mbuma::device::{Capabilities, Device};
use mbuma::socket::{GroupError, SendError};
use mbuma::{DropReason, IfConfig, IfIndex, UdpSocket};
use wire::{ALL_NODES, ALL_SYSTEMS, IpProto, link_local_of};

const PORT: u16 = 5004;
const ANY: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    IpAddr::V6(Ipv6Addr::UNSPECIFIED),
];
const OURS: [IpAddr; 2] = [IpAddr::V4(US), IpAddr::V6(US6)];
const LOCALHOST: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];
/// Groups that exist on more than one link.
const GROUPS: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(239, 1, 2, 3)),
    IpAddr::V6(Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 1, 2)),
];
/// The addresses of the second interface.
const SECOND: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(10, 0, 3, 2)),
    IpAddr::V6(Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 2)),
];

fn bind(lab: &Lab, addr: IpAddr, port: u16) -> UdpSocket {
    lab.stack.udp_bind((addr, port)).unwrap()
}

/// A socket that sends to groups by the lab's interface.
fn sender(lab: &Lab, version: usize) -> UdpSocket {
    let socket = bind(lab, ANY[version], 0);
    socket.set_multicast_interface(Some(lab.iface)).unwrap();
    socket
}

/// A datagram, or a fragment of one, that was sent: its source, destination and remaining hops.
type Sent = (IpAddr, IpAddr, u8);

fn sent_by(peer: &Pipe) -> Vec<Sent> {
    let with_class = sent_with_class(peer).into_iter();
    with_class.map(|(sent, _)| sent).collect()
}

/// The same, with the traffic class of each.
fn sent_with_class(peer: &Pipe) -> Vec<(Sent, u8)> {
    let mut rx = Mbufq::new();
    peer.receive(&mut rx, ALL).unwrap();
    let frames = rx.map(|packet| packet.to_vec());
    let udp = frames.filter_map(|frame| match frame[12..14] {
        [0x86, 0xdd] => {
            let seen = parse6(&frame);
            let is_data = seen.next == IpProto::UDP || seen.next == IpProto::FRAGMENT;
            let sent = (seen.src.into(), seen.dst.into(), seen.hop_limit);
            is_data.then_some((sent, seen.class))
        }
        _ => {
            let seen = parse(&frame);
            let sent = (seen.src.into(), seen.dst.into(), seen.ttl);
            (seen.proto == IpProto::UDP).then_some((sent, seen.tos))
        }
    });
    udp.collect()
}

/// The next datagram of a socket: its source, destination and remaining hops, if there is one.
fn taken(socket: &UdpSocket) -> Option<Sent> {
    let datagram = socket.recv().ok()?;
    assert_eq!(datagram.payload.to_vec(), b"tick");
    Some((datagram.src.ip(), datagram.dst.ip(), datagram.ttl))
}

/// Packets that were dropped.
fn dropped(lab: &Lab) -> Vec<(DropReason, u64)> {
    let mut dropped = lab.stack.stats().dropped;
    dropped.retain(|(_, count)| *count != 0);
    dropped
}

#[test]
fn members_in_the_stack_get_what_it_sends_to_a_group() {
    // RFC 1112 section 6.1, RFC 3493 section 5.2: breaks if a member misses the datagrams of its own host, or gets
    // those that their sender keeps from it or its filter refuses; if a host that has no member takes them in; or if
    // other hosts get none or two.
    for version in [0, 1] {
        let (lab, group, us) = (lab(), GROUPS[version], OURS[version]);
        let (sender, member) = (sender(&lab, version), bind(&lab, ANY[version], PORT));
        let send = || sender.send_to(b"tick", (group, PORT)).unwrap();
        let once = [(us, group, 1)];
        send();
        assert_eq!((taken(&member), sent_by(&lab.peer)), (None, once.to_vec()));
        assert_eq!(dropped(&lab), []);
        member.join_group(lab.iface, group).unwrap();
        send();
        assert_eq!((taken(&member), taken(&member)), (Some(once[0]), None));
        assert_eq!((taken(&sender), sent_by(&lab.peer)), (None, once.to_vec()));
        assert!(sender.multicast_loop());
        sender.set_multicast_loop(false);
        send();
        assert_eq!((taken(&member), sent_by(&lab.peer)), (None, once.to_vec()));
        // A member of its own group.
        member.set_multicast_interface(Some(lab.iface)).unwrap();
        member.send_to(b"tick", (group, PORT)).unwrap();
        assert_eq!(taken(&member), Some(once[0]));
        member.block_source(lab.iface, group, us).unwrap();
        member.send_to(b"tick", (group, PORT)).unwrap();
        assert_eq!(taken(&member), None);
        assert_eq!(dropped(&lab), [(DropReason::UdpFiltered, 1)]);
    }
}

#[test]
fn every_station_is_in_the_group_of_all() {
    // Breaks if a datagram to all stations of a link does not reach the sending one.
    let all: [SocketAddr; 2] = [
        (ALL_SYSTEMS, PORT).into(),
        SocketAddrV6::new(ALL_NODES, PORT, 0, lab().iface.number()).into(),
    ];
    for version in [0, 1] {
        let lab = lab();
        let (sender, other) = (sender(&lab, version), bind(&lab, ANY[version], PORT));
        sender.send_to(b"tick", all[version]).unwrap();
        let from = [US.into(), link_local_of(OUR_MAC).into()];
        let expected = (from[version], all[version].ip(), 1);
        assert_eq!(taken(&other), Some(expected));
        assert_eq!(sent_by(&lab.peer), [expected]);
    }
}

#[test]
fn datagrams_to_groups_live_one_hop_unless_told_otherwise() {
    // RFC 1112 section 6.1, RFC 3493 section 5.2: breaks if routers forward a datagram whose sender did not ask for
    // that, if it gets less far than its sender asked for, or leaves the stack with no hop; or if an option for groups
    // changes other datagrams.
    let unicast: [IpAddr; 2] = [PEER.into(), crate::frames6::PEER6.into()];
    for version in [0, 1] {
        let (lab, group, us) = (lab(), GROUPS[version], OURS[version]);
        crate::frames6::introduce6(&lab);
        let (sender, member) = (sender(&lab, version), bind(&lab, ANY[version], PORT));
        member.join_group(lab.iface, group).unwrap();
        assert_eq!(sender.multicast_ttl(), 1);
        for (ttl, frames) in [(7, 1), (0, 0), (255, 1)] {
            sender.set_multicast_ttl(ttl);
            sender.send_to(b"tick", (group, PORT)).unwrap();
            assert_eq!(taken(&member), Some((us, group, ttl)));
            assert_eq!(sent_by(&lab.peer), vec![(us, group, ttl); frames]);
        }
        sender.send_to(b"tick", (unicast[version], PORT)).unwrap();
        assert_eq!(sent_by(&lab.peer), [(us, unicast[version], 64)]);
    }
}

#[test]
fn datagrams_have_the_hops_and_the_class_that_were_set() {
    // RFC 1122 section 4.1.4: breaks if an option is lost on a kept way, for a group or for a receiver in the stack, if
    // one that was taken back stays, or if the hops change datagrams to groups.
    let unicast: [IpAddr; 2] = [PEER.into(), crate::frames6::PEER6.into()];
    for version in [0, 1] {
        let (lab, group, us) = (lab(), GROUPS[version], OURS[version]);
        crate::frames6::introduce6(&lab);
        let (sender, member) = (sender(&lab, version), bind(&lab, ANY[version], PORT));
        member.join_group(lab.iface, group).unwrap();
        for (ttl, class) in [(0, 0), (0, 0xb8), (3, 0xb9), (255, 0), (0, 0)] {
            let ttl = NonZeroU8::new(ttl);
            sender.set_ttl(ttl);
            sender.set_traffic_class(class);
            assert_eq!((sender.ttl(), sender.traffic_class()), (ttl, class));
            for _ in 0..2 {
                sender.send_to(b"tick", (unicast[version], PORT)).unwrap();
            }
            let sent = (us, unicast[version], ttl.map_or(64, NonZeroU8::get));
            assert_eq!(sent_with_class(&lab.peer), [(sent, class); 2]);
            sender.send_to(b"tick", (group, PORT)).unwrap();
            assert_eq!(sent_with_class(&lab.peer), [((us, group, 1), class)]);
            let datagram = member.recv().unwrap();
            assert_eq!((datagram.ttl, datagram.traffic_class), (1, class));
        }
    }
}

#[test]
fn datagrams_to_groups_leave_by_the_chosen_interface() {
    // RFC 3493 section 5.2: breaks if a datagram leaves by another interface than the program chose, or from another's
    // address; if a choice lasts longer than the interface; or if without a choice neither the bound address nor the
    // default route decides.
    for version in [0, 1] {
        let (lab, group, us) = (lab(), GROUPS[version], OURS[version]);
        let (ours, peer) = Pipe::pair(Capabilities::plain(1500));
        let config = IfConfig::new("pipe1")
            .with_addr(Ipv4Addr::new(10, 0, 3, 2), 24)
            .with_addr(Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 2), 64);
        let second = lab.stack.attach(Arc::new(ours), config).unwrap();
        let by = || (sent_by(&lab.peer), sent_by(&peer));
        let from = |addr| vec![(addr, group, 1)];
        let socket = bind(&lab, ANY[version], 0);
        let send = || socket.send_to(b"tick", (group, PORT));
        assert_eq!(send(), Err(SendError::NoRoute));
        lab.stack.add_default_route(lab.iface, PEER).unwrap();
        let gateway = crate::frames6::PEER6;
        lab.stack.add_default_route(lab.iface, gateway).unwrap();
        send().unwrap();
        assert_eq!(by(), (from(us), vec![]));
        assert_eq!(socket.multicast_interface(), None);
        socket.set_multicast_interface(Some(second)).unwrap();
        assert_eq!(socket.multicast_interface(), Some(second));
        send().unwrap();
        assert_eq!(by(), (vec![], from(SECOND[version])));
        if let IpAddr::V6(group) = group {
            let zoned = SocketAddrV6::new(group, PORT, 0, lab.iface.number());
            socket.send_to(b"tick", zoned).unwrap();
            assert_eq!(by(), (from(us), vec![]));
        }
        // By the link of the bound address; or, by choice, by another.
        let bound = bind(&lab, SECOND[version], 0);
        bound.send_to(b"tick", (group, PORT)).unwrap();
        assert_eq!(by(), (vec![], from(SECOND[version])));
        bound.set_multicast_interface(Some(lab.iface)).unwrap();
        bound.send_to(b"tick", (group, PORT)).unwrap();
        assert_eq!(by(), (from(SECOND[version]), vec![]));
        lab.stack.detach(second);
        assert_eq!(send(), Err(SendError::NoRoute));
        let gone = socket.set_multicast_interface(Some(second));
        assert_eq!(gone, Err(GroupError::NoInterface));
        socket.set_multicast_interface(None).unwrap();
        send().unwrap();
        assert_eq!(sent_by(&lab.peer), from(us));
    }
}

#[test]
fn lo0_leads_to_members_in_the_stack_alone() {
    // Breaks if programs of one stack can't talk to each other by a group without a link, or what they say leaves the
    // stack.
    for version in [0, 1] {
        let (lab, group) = (lab(), GROUPS[version]);
        let member = bind(&lab, ANY[version], PORT);
        member.join_group(IfIndex::LOOPBACK, group).unwrap();
        let chosen = bind(&lab, ANY[version], 0);
        let lo0 = Some(IfIndex::LOOPBACK);
        chosen.set_multicast_interface(lo0).unwrap();
        let bound = bind(&lab, LOCALHOST[version], 0);
        for socket in [&chosen, &bound] {
            socket.send_to(b"tick", (group, PORT)).unwrap();
            let expected = (LOCALHOST[version], group, 1);
            assert_eq!(taken(&member), Some(expected));
        }
        chosen.set_multicast_loop(false);
        chosen.send_to(b"tick", (group, PORT)).unwrap();
        assert_eq!(taken(&member), None);
        // A member on another link; and a source that no link may see.
        sender(&lab, version)
            .send_to(b"tick", (group, PORT))
            .unwrap();
        assert_eq!(taken(&member), None);
        assert_eq!(sent_by(&lab.peer), [(OURS[version], group, 1)]);
        bound.set_multicast_interface(Some(lab.iface)).unwrap();
        let refused = bound.send_to(b"tick", (group, PORT));
        assert_eq!(refused, Err(SendError::NoRoute));
        assert_eq!(sent_by(&lab.peer), []);
        let lo = lab.stack.stats().loopback;
        assert_eq!(lo.input.packets(), lo.output.packets());
    }
}

#[test]
fn a_large_datagram_reaches_members_whole() {
    // Breaks if members in the stack wait for fragments, or other hosts get no fragments.
    for version in [0, 1] {
        let (lab, group) = (lab(), GROUPS[version]);
        let (sender, member) = (sender(&lab, version), bind(&lab, ANY[version], PORT));
        member.join_group(lab.iface, group).unwrap();
        let data = pattern_bytes(65_000);
        sender.send_to(lab.chain(&data), (group, PORT)).unwrap();
        assert_eq!(member.recv().unwrap().payload.to_vec(), data);
        let frames = sent_by(&lab.peer);
        assert_eq!(frames, vec![(OURS[version], group, 1); frames.len()]);
        assert!(frames.len() >= 65_000 / 1500);
    }
}
