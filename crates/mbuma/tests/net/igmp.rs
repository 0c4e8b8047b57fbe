//! The groups of IPv4 of an interface, as multicast routers and switches hear of them, and the datagrams to them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::common::net::*;
use mbuma::socket::GroupError;
use mbuma::{AddrError, DropReason, IfIndex, SourceFilter, UdpSocket};
use wire::{
    ALL_IGMP3_ROUTERS, ALL_SUBNET_ROUTERS, ALL_SYSTEMS, GroupRecordHead, IgmpHeader, IpProto,
    Ipv4Fields, Ipv4Header, MacAddr, igmp_type,
};

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
const OTHER: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 4);
/// The option by which routers look at a packet.
const ALERT: [u8; 4] = [0x94, 4, 0, 0];
const A: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 7);
const B: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 8);
const C: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 9);

/// A record of a report of version 3: kind, group, sources. In a message of an older version the type is the kind.
type Record = (u8, Ipv4Addr, Vec<Ipv4Addr>);

fn addrs(bytes: &[u8]) -> Vec<Ipv4Addr> {
    let (addrs, rest) = bytes.as_chunks::<4>();
    assert!(rest.is_empty(), "whole addresses");
    addrs
        .iter()
        .map(|addr| Ipv4Addr::from_octets(*addr))
        .collect()
}

/// The records of a message, which is checked (RFC 9776 section 4).
fn records_in(frame: &[u8]) -> (Ipv4Addr, Vec<Record>) {
    let ip = Ipv4Header::parse(&frame[14..]).unwrap();
    assert_eq!(
        (ip.protocol(), ip.ttl(), ip.tos()),
        (IpProto::IGMP, 1, 0xc0)
    );
    assert!(ip.checksum_ok());
    assert_eq!(ip.options(), ALERT);
    assert_eq!(frame[..6], MacAddr::from_ipv4_multicast(ip.dst()).0);
    let message = &frame[14 + ip.header_len()..14 + ip.total_len()];
    let (header, body) = IgmpHeader::parse(message).unwrap();
    assert!(header.checksum_ok([body]));
    assert_eq!(header.code(), 0);
    if header.kind() != igmp_type::REPORT {
        let [group] = addrs(body)[..] else {
            panic!("one group")
        };
        let to = if header.kind() == igmp_type::LEAVE_V2 {
            ALL_SUBNET_ROUTERS
        } else {
            group
        };
        assert_eq!(ip.dst(), to);
        return (ip.src(), vec![(header.kind(), group, Vec::new())]);
    }
    assert_eq!(ip.dst(), ALL_IGMP3_ROUTERS);
    let &[0, 0, n1, n0, ref rest @ ..] = body else {
        panic!("a report")
    };
    let (mut rest, mut records) = (rest, Vec::new());
    for _ in 0..u16::from_be_bytes([n1, n0]) {
        let (head, behind) = rest.split_at(GroupRecordHead::LEN);
        let (list, behind) = behind.split_at(4 * (1 + usize::from(head[3])));
        let (group, sources) = (addrs(&list[..4])[0], addrs(&list[4..]));
        records.push((head[0], group, sources));
        rest = behind;
    }
    assert!(rest.is_empty());
    (ip.src(), records)
}

/// The records of all messages of two seconds.
fn said(lab: &Lab) -> Vec<Record> {
    let mut all = Vec::new();
    for _ in 0..20 {
        lab.poll();
        for frame in lab.all_frames() {
            let (src, records) = records_in(&frame);
            assert_eq!(src, US);
            all.extend(records);
        }
        lab.advance(Duration::from_millis(100));
    }
    all
}

fn twice(kind: u8, sources: &[Ipv4Addr]) -> Vec<Record> {
    vec![(kind, GROUP, sources.to_vec()); 2]
}

/// The fields of a message of a router's.
fn from_router(dst: Ipv4Addr) -> Ipv4Fields<'static> {
    Ipv4Fields {
        ttl: 1,
        options: &ALERT,
        ..from_peer(dst, IpProto::IGMP)
    }
}

fn message(kind: u8, code: u8, body: &[u8]) -> Vec<u8> {
    [&IgmpHeader::new(kind, code, body).to_bytes()[..], body].concat()
}

/// A query of version 3 for a group, or none, and these sources, with a limit of a second.
pub(crate) fn query(group: Ipv4Addr, sources: &[Ipv4Addr]) -> Vec<u8> {
    let mut body = group.octets().to_vec();
    body.extend([2, 125, 0, sources.len() as u8]);
    body.extend(sources.iter().flat_map(Ipv4Addr::octets));
    message(igmp_type::QUERY, 10, &body)
}

pub(crate) fn ask(lab: &Lab, dst: Ipv4Addr, query: &[u8]) {
    lab.give(&ip_frame(&from_router(dst), query));
}

pub(crate) const ANY: Ipv4Addr = Ipv4Addr::UNSPECIFIED;

fn bind(lab: &Lab, port: u16) -> UdpSocket {
    lab.stack.udp_bind((ANY, port)).unwrap()
}

/// Whether a socket gets a datagram of each of the three senders.
fn takes(lab: &Lab, socket: &UdpSocket) -> [bool; 3] {
    [A, B, C].map(|src| {
        let port = socket.local_addr().port();
        let datagram = udp(at(src, 9), at(GROUP, port), b"tick");
        let fields = Ipv4Fields {
            src,
            ..from_peer(GROUP, IpProto::UDP)
        };
        lab.give(&ip_frame(&fields, &datagram));
        socket.recv().is_ok()
    })
}

#[test]
fn a_group_of_ipv4_is_reported_when_it_is_joined_and_left() {
    // RFC 9776 sections 5.1 and 4.2: breaks if a switch that listens sends a member nothing because it heard no report,
    // a lost one is not repeated, the group of all stations is reported, or an interface without members says anything.
    let lab = Lab::plain();
    assert!(said(&lab).is_empty());
    let everyone = lab.stack.join_group(lab.iface, ALL_SYSTEMS).unwrap();
    assert!(said(&lab).is_empty());
    let member = lab.stack.join_group(lab.iface, GROUP).unwrap();
    let again = lab.stack.join_group(lab.iface, GROUP).unwrap();
    assert_eq!(said(&lab), twice(4, &[]));
    drop(again);
    assert!(said(&lab).is_empty());
    drop(member);
    assert_eq!(said(&lab), twice(3, &[]));
    drop(everyone);
    assert!(said(&lab).is_empty());
    // The stack's own link has no router.
    let before = lab.stack.poll();
    let _member = lab.stack.join_group(IfIndex::LOOPBACK, GROUP).unwrap();
    assert_eq!(lab.stack.poll(), before, "nothing is to be said later");
}

#[test]
fn an_interface_without_an_address_reports_from_none() {
    // RFC 9776 section 4.2.13: breaks if a host that waits for its address is not heard.
    let lab = Lab::plain();
    lab.stack.remove_address(lab.iface, US).unwrap();
    let member = lab.stack.join_group(lab.iface, GROUP).unwrap();
    let frames = lab.all_frames();
    assert_eq!(records_in(&frames[0]), (ANY, vec![(4, GROUP, vec![])]));
    drop(member);
    drop(lab.all_frames());
}

#[test]
fn a_member_takes_and_reports_the_senders_that_it_wants() {
    // RFC 9776 sections 3.2, 5.1 and 5.2: breaks if a program gets packets of senders that it does not want, or none of
    // those that it wants; or if a router is not told of the senders, or hears what it did not ask for.
    let lab = Lab::plain();
    let socket = bind(&lab, 7);
    assert_eq!(takes(&lab, &socket), [false; 3], "no member");
    assert_eq!(lab.dropped(DropReason::IpNotForUs), 3);
    let of = |filter| lab.stack.join_group_from(lab.iface, GROUP, filter).unwrap();
    let member = of(SourceFilter::include([A]));
    assert_eq!(takes(&lab, &socket), [true, false, false]);
    assert_eq!(lab.dropped(DropReason::UdpFiltered), 2);
    assert_eq!(said(&lab), twice(5, &[A]));
    let other = of(SourceFilter::include([B]));
    assert_eq!(said(&lab), twice(5, &[B]));
    other.set_filter(SourceFilter::exclude([A, C])).unwrap();
    assert_eq!(takes(&lab, &socket), [true, true, false]);
    assert_eq!(said(&lab), twice(4, &[C]));
    ask(&lab, ALL_SYSTEMS, &query(ANY, &[]));
    assert_eq!(said(&lab), [(2, GROUP, vec![C])]);
    ask(&lab, GROUP, &query(GROUP, &[]));
    assert_eq!(said(&lab), [(2, GROUP, vec![C])]);
    ask(&lab, GROUP, &query(GROUP, &[B, C]));
    assert_eq!(said(&lab), [(1, GROUP, vec![B])]);
    ask(&lab, US, &query(GROUP, &[]));
    assert_eq!(said(&lab), [(2, GROUP, vec![C])], "section 4.1.12");
    ask(&lab, ALL_SYSTEMS, &query(OTHER, &[]));
    assert!(said(&lab).is_empty());
    drop(member);
    assert_eq!(takes(&lab, &socket), [false, true, false]);
    assert_eq!(said(&lab), twice(6, &[A]));
    let nobody = || SourceFilter::include([] as [Ipv4Addr; 0]);
    other.set_filter(nobody()).unwrap();
    assert_eq!(takes(&lab, &socket), [false; 3]);
    assert_eq!(said(&lab), twice(3, &[]));
    drop(of(nobody()));
    ask(&lab, ALL_SYSTEMS, &query(ANY, &[]));
    drop(other);
    assert!(said(&lab).is_empty());
}

#[test]
fn each_socket_of_ipv4_takes_the_senders_of_its_own_filter() {
    // RFC 9776 section 3.2: breaks if a socket gets datagrams because another one wants them; or if a closed socket
    // stays in a group.
    let lab = Lab::plain();
    let [radio, all, idle] = [5, 6, 7].map(|port| bind(&lab, port));
    radio.join_source_group(lab.iface, GROUP, A).unwrap();
    all.join_group(lab.iface, GROUP).unwrap();
    all.block_source(lab.iface, GROUP, B).unwrap();
    let three = [&radio, &all, &idle].map(|socket| takes(&lab, socket));
    assert_eq!(
        three,
        [[true, false, false], [true, false, true], [false; 3]]
    );
    all.unblock_source(lab.iface, GROUP, B).unwrap();
    radio.leave_source_group(lab.iface, GROUP, A).unwrap();
    let two = [&radio, &all].map(|socket| takes(&lab, socket));
    assert_eq!(two, [[false; 3], [true; 3]]);
    said(&lab);
    drop((radio, all, idle));
    assert_eq!(said(&lab), twice(3, &[]));
    // What is sent to all stations needs no member.
    let socket = bind(&lab, 8);
    lab.give(&udp_frame(9, at(ALL_SYSTEMS, 8), b"tick"));
    assert!(socket.recv().is_ok());
}

#[test]
fn a_router_of_igmp_version_1_or_2_is_spoken_to_in_its_version() {
    // RFC 9776 section 7.2, RFC 2236 section 3: breaks if a switch of an older version, of which there are many, does
    // not learn of a member or of its end; or if all members of a link report, where one is enough.
    let lab = Lab::plain();
    let member = lab.stack.join_group(lab.iface, GROUP).unwrap();
    said(&lab);
    ask(&lab, ALL_SYSTEMS, &message(igmp_type::QUERY, 10, &[0; 4]));
    assert_eq!(said(&lab), [(igmp_type::REPORT_V2, GROUP, vec![])]);
    // A group that is for named senders only (RFC 4604 section 2).
    let about = message(igmp_type::QUERY, 10, &[232, 0, 0, 1]);
    ask(&lab, ALL_SYSTEMS, &about);
    assert_eq!(lab.dropped(DropReason::BadIgmp), 1);
    ask(&lab, ALL_SYSTEMS, &message(igmp_type::QUERY, 10, &[0; 4]));
    ask(
        &lab,
        GROUP,
        &message(igmp_type::REPORT_V2, 0, &GROUP.octets()),
    );
    assert!(said(&lab).is_empty(), "another member has said it");
    let other = lab.stack.join_group(lab.iface, OTHER).unwrap();
    let joined = (igmp_type::REPORT_V2, OTHER, vec![]);
    assert_eq!(said(&lab), [joined.clone(), joined]);
    drop(other);
    assert_eq!(said(&lab), [(igmp_type::LEAVE_V2, OTHER, vec![])]);
    // Version 1 has no option and no leave; its routers give ten seconds.
    let old = Ipv4Fields {
        options: &[],
        ..from_router(ALL_SYSTEMS)
    };
    lab.give(&ip_frame(&old, &message(igmp_type::QUERY, 0, &[0; 4])));
    let answer: Vec<_> = (0..5).flat_map(|_| said(&lab)).collect();
    assert_eq!(answer, [(igmp_type::REPORT_V1, GROUP, vec![])]);
    drop(member);
    assert!(said(&lab).is_empty());
}

#[test]
fn a_message_of_igmp_that_no_station_of_the_link_may_send_is_dropped() {
    // RFC 9776 sections 4, 4.1.12, 7.1 and 9.1: breaks if a host far away, or a packet that no router would look at,
    // makes hosts answer, or a damaged message is read; or if the message of a switch without an address is not.
    let lab = Lab::plain();
    let member = lab.stack.join_group(lab.iface, GROUP).unwrap();
    said(&lab);
    let good = query(ANY, &[]);
    let sender = from_router(ALL_SYSTEMS);
    let (far, plain) = (
        Ipv4Fields { ttl: 2, ..sender },
        Ipv4Fields {
            options: &[],
            ..sender
        },
    );
    let nop = Ipv4Fields {
        options: &[1, 1, 1, 0],
        ..sender
    };
    let mut damaged = good.clone();
    damaged[5] ^= 1;
    let long = |code, len| message(igmp_type::QUERY, code, &[0; 16][..len]);
    let two_sources = message(
        igmp_type::QUERY,
        10,
        &[239, 1, 2, 3, 2, 125, 0, 2, 192, 0, 2, 7],
    );
    let bad = [
        (far, good.clone()),
        (plain, good.clone()),
        (nop, good.clone()),
        (plain, long(10, 4)),
        (from_router(GROUP), good.clone()),
        (from_router(US), good.clone()),
        (sender, damaged),
        (sender, long(10, 5)),
        (sender, long(10, 7)),
        (sender, long(10, 0)),
        (sender, vec![igmp_type::QUERY, 0, 0]),
        (sender, two_sources),
        (sender, message(0x13, 0, &[0; 4])),
        (sender, message(igmp_type::REPORT_V2, 0, &[0; 3])),
    ];
    for (n, (fields, message)) in bad.iter().enumerate() {
        lab.give(&ip_frame(fields, message));
        assert_eq!(lab.dropped(DropReason::BadIgmp), n as u64 + 1, "{n}");
    }
    assert!(said(&lab).is_empty(), "no answer, and no error to a group");
    let nobody = Ipv4Fields { src: ANY, ..sender };
    lab.give(&ip_frame(&nobody, &good));
    assert_eq!(said(&lab), [(2, GROUP, vec![])]);
    let ping = icmp(wire::IcmpMessage::EchoRequest { id: 1, seq: 1 }, b"");
    let of_ping = Ipv4Fields {
        protocol: IpProto::ICMP,
        ..nobody
    };
    lab.give(&ip_frame(&of_ping, &ping));
    assert_eq!(lab.dropped(DropReason::IpBadSource), 1);
    // Of other hosts, for routers.
    for kind in [igmp_type::REPORT, igmp_type::LEAVE_V2] {
        ask(&lab, ALL_SYSTEMS, &message(kind, 0, &[0; 4]));
    }
    assert_eq!(lab.dropped(DropReason::BadIgmp), bad.len() as u64);
    drop(member);
    said(&lab);
}

#[test]
fn a_socket_that_can_not_be_in_a_group_of_ipv4_is_told_why() {
    // RFC 3678 section 4.1.3, RFC 4604 section 2: breaks if a program waits for datagrams that never come, or a group
    // has senders of the other version of IP.
    use GroupError::{BadAddress, BadSocket, SendersNeeded};
    let lab = Lab::plain();
    let socket = bind(&lab, 5);
    let group6 = Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 0, 1, 2);
    let radio6 = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);
    assert_eq!(socket.join_group(lab.iface, A), Err(BadAddress));
    assert_eq!(socket.join_group(lab.iface, group6), Err(BadSocket));
    for bad in [GROUP, ANY, Ipv4Addr::LOCALHOST, Ipv4Addr::BROADCAST] {
        let refused = socket.join_source_group(lab.iface, GROUP, bad);
        assert_eq!(refused, Err(BadAddress), "{bad}");
    }
    let refused = socket.join_source_group(lab.iface, GROUP, radio6);
    assert_eq!(refused, Err(BadAddress));
    let [one, six] = [(US.into(), 6), (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 6)];
    for other in [one, six].map(|at| lab.stack.udp_bind(at).unwrap()) {
        assert_eq!(other.join_group(lab.iface, GROUP), Err(BadSocket));
    }
    let mixed = SourceFilter::include([IpAddr::V6(radio6), A.into()]);
    for group in [IpAddr::V4(GROUP), IpAddr::V6(group6)] {
        let refused = lab.stack.join_group_from(lab.iface, group, mixed.clone());
        assert_eq!(refused.err(), Some(AddrError::BadAddress));
    }
    let member = lab.stack.join_group(lab.iface, GROUP).unwrap();
    assert_eq!(member.set_filter(mixed), Err(AddrError::BadAddress));
    drop(member);
    // Source-specific multicast.
    let named = Ipv4Addr::new(232, 0, 0, 5);
    assert_eq!(socket.join_group(lab.iface, named), Err(SendersNeeded));
    drop(lab.all_frames());
    said(&lab);
    socket.join_source_group(lab.iface, named, A).unwrap();
    assert_eq!(said(&lab), [(5, named, vec![A]), (5, named, vec![A])]);
    ask(&lab, ALL_SYSTEMS, &message(igmp_type::QUERY, 10, &[0; 4]));
    assert!(said(&lab).is_empty(), "version 2 would ask for all senders");
    drop(socket);
    drop(lab.all_frames());
}

#[test]
fn a_connection_can_not_be_made_to_a_group_that_is_joined() {
    // RFC 1122 section 4.2.3.10: breaks if a segment to a group is answered.
    let lab = Lab::plain();
    let member = lab.stack.join_group(lab.iface, GROUP).unwrap();
    said(&lab);
    lab.give(&ip_frame(&from_peer(GROUP, IpProto::TCP), &[0; 20]));
    assert_eq!(lab.dropped(DropReason::IpNotForUs), 1);
    drop(member);
    said(&lab);
}
