//! The groups of an interface that configures itself, as multicast routers and switches hear of them.

use std::net::Ipv6Addr;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use crate::common::net::*;
use crate::frames6::{at6, frame6, icmp6};
use mbuma::{AddrError, Autoconf, DropReason, SourceFilter, UdpSocket};
use wire::{
    ALL_MLD2_ROUTERS, ALL_NODES, ALL_ROUTERS, GroupRecordHead, Icmp6Header, Icmp6Message, IpProto,
    Ipv6Fields, Ipv6Header, NdpMessage, link_local_of, mld_type, pseudo_header_v6, solicited_node,
};

const GROUP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);
/// Bytes of a record that has no sources.
const RECORD_LEN: usize = GroupRecordHead::LEN + 16;
/// Hop-by-hop options that have routers look at the packet.
const ALERT: [u8; 8] = [58, 0, 5, 2, 0, 0, 1, 0];

fn host() -> Lab {
    Lab::new(Setup {
        autoconf: Some(Autoconf::default()),
        introduced: false,
        ..Setup::default()
    })
}

/// A message about groups: its source, its destination, its type, and the kinds and groups of its records, which have
/// no sources.
type Report = (Ipv6Addr, Ipv6Addr, u8, Vec<(u8, Ipv6Addr)>);

/// The messages about groups among these frames.
fn reports(frames: &[Vec<u8>]) -> Vec<Report> {
    frames
        .iter()
        .filter_map(|frame| report(&frame[14..]))
        .collect()
}

fn report(packet: &[u8]) -> Option<Report> {
    let header = Ipv6Header::parse(packet).unwrap();
    let upper = packet[Ipv6Header::LEN..].strip_prefix(&ALERT)?;
    assert_eq!(
        (header.next(), header.hop_limit()),
        (IpProto::HOP_BY_HOP, 1)
    );
    let (src, dst) = (header.src(), header.dst());
    let (icmp, body) = Icmp6Header::parse(upper).unwrap();
    let pseudo = pseudo_header_v6(src, dst, IpProto::ICMPV6, upper.len() as u32);
    assert!(icmp.checksum_ok(pseudo, [body]));
    let addr = |bytes: &[u8]| Ipv6Addr::from(<[u8; 16]>::try_from(bytes).unwrap());
    let records = match icmp.kind() {
        mld_type::REPORT => {
            let count = usize::from(u16::from_be_bytes([icmp.rest()[2], icmp.rest()[3]]));
            assert_eq!(body.len(), count * RECORD_LEN, "no sources");
            let records = body.chunks(RECORD_LEN);
            records.map(|r| (r[0], addr(&r[4..]))).collect()
        }
        _ => vec![(0, addr(body))],
    };
    Some((src, dst, icmp.kind(), records))
}

/// What is said within this time.
fn said(lab: &Lab, ms: u64) -> Vec<Report> {
    let mut all = Vec::new();
    for _ in 0..=ms / 100 {
        lab.advance(Duration::from_millis(100));
        lab.poll();
        all.extend(reports(&lab.all_frames()));
    }
    all
}

/// A query of a router's about all groups, or one, which version 1 or 2 has.
fn query(group: Option<Ipv6Addr>, is_v1: bool) -> (Icmp6Message, Vec<u8>) {
    let message = Icmp6Message::Other {
        kind: mld_type::QUERY,
        code: 0,
        rest: [0x03, 0xe8, 0, 0],
    };
    let mut body = group.unwrap_or(Ipv6Addr::UNSPECIFIED).octets().to_vec();
    body.extend(&[2, 125, 0, 0][..if is_v1 { 0 } else { 4 }]);
    (message, body)
}

fn frame(src: Ipv6Addr, hop_limit: u8, options: &[u8], query: &(Icmp6Message, Vec<u8>)) -> Vec<u8> {
    frame_to(ALL_NODES, src, hop_limit, options, query)
}

fn frame_to(
    dst: Ipv6Addr,
    src: Ipv6Addr,
    hop_limit: u8,
    options: &[u8],
    (message, body): &(Icmp6Message, Vec<u8>),
) -> Vec<u8> {
    let next = if options.is_empty() {
        IpProto::ICMPV6
    } else {
        IpProto::HOP_BY_HOP
    };
    let fields = Ipv6Fields {
        next,
        hop_limit,
        src,
        dst,
        ..Ipv6Fields::default()
    };
    let icmp = icmp6(src, dst, *message, body);
    frame6(&fields, &[options, &icmp].concat())
}

fn router() -> Ipv6Addr {
    link_local_of(PEER_MAC)
}

#[test]
fn a1_and_m1_groups_are_reported_before_their_address_is_probed_and_again_from_it() {
    // Breaks if a switch that listens drops the probes for an address because nothing was said of its group, or a
    // report has no address for ever; if a group that all hosts are in is reported, or one is not that a program joins
    // or leaves.
    let lab = host();
    let own = link_local_of(OUR_MAC);
    let group = solicited_node(own);
    let at_once = lab.all_frames();
    let first = &reports(&at_once)[0];
    assert_eq!(at_once.len(), 1, "the probe comes later");
    let joined = (4, group);
    assert_eq!(
        *first,
        (Ipv6Addr::UNSPECIFIED, ALL_MLD2_ROUTERS, 143, vec![joined])
    );
    let later = said(&lab, 5000);
    let from_it = later.iter().filter(|report| report.0 == own);
    let from_it: Vec<_> = from_it.map(|report| report.3.clone()).collect();
    assert_eq!(from_it, [vec![joined], vec![joined]]);
    let member = lab.stack.join_group(lab.iface, GROUP).unwrap();
    let again = lab.stack.join_group(lab.iface, GROUP).unwrap();
    let all: Vec<_> = said(&lab, 2000)
        .into_iter()
        .map(|report| report.3)
        .collect();
    assert_eq!(all, [[(4, GROUP)], [(4, GROUP)]]);
    drop(again);
    assert!(said(&lab, 2000).is_empty());
    drop(member);
    let all: Vec<_> = said(&lab, 2000)
        .into_iter()
        .map(|report| report.3)
        .collect();
    assert_eq!(all, [[(3, GROUP)], [(3, GROUP)]]);
}

#[test]
fn m2_questions_are_answered() {
    // Breaks if a router that asks hears nothing, hears of groups of others, or gets no answer in its own version.
    let lab = host();
    said(&lab, 5000);
    let own = link_local_of(OUR_MAC);
    let group = solicited_node(own);
    lab.give(&frame(router(), 1, &ALERT, &query(None, false)));
    assert_eq!(
        said(&lab, 2000),
        [(own, ALL_MLD2_ROUTERS, 143, vec![(2, group)])]
    );
    lab.give(&frame(router(), 1, &ALERT, &query(Some(group), false)));
    assert_eq!(
        said(&lab, 2000),
        [(own, ALL_MLD2_ROUTERS, 143, vec![(2, group)])]
    );
    lab.give(&frame(router(), 1, &ALERT, &query(Some(GROUP), false)));
    assert!(said(&lab, 2000).is_empty());
    lab.give(&frame(router(), 1, &ALERT, &query(None, true)));
    assert_eq!(said(&lab, 2000), [(own, group, 131, vec![(0, group)])]);
    let member = lab.stack.join_group(lab.iface, GROUP).unwrap();
    said(&lab, 2000);
    drop(member);
    assert_eq!(
        said(&lab, 2000),
        [(own, ALL_ROUTERS, 132, vec![(0, GROUP)])]
    );
}

#[test]
fn m4_a_question_without_senders_about_a_group_that_needs_them_is_counted() {
    // RFC 4604 section 2: breaks if an administrator can't see that a router takes such groups for others, or if the
    // host does not notice its version.
    let lab = host();
    said(&lab, 5000);
    let named = Ipv6Addr::new(0xff35, 0, 0, 0, 0, 0, 0, 1);
    for (group, is_v1, count) in [(GROUP, true, 0), (named, false, 0), (named, true, 1)] {
        lab.give(&frame(router(), 1, &ALERT, &query(Some(group), is_v1)));
        assert_eq!(lab.dropped(DropReason::BadMld), count);
    }
    drop(lab);
    let lab = host();
    said(&lab, 5000);
    lab.give(&frame(router(), 1, &ALERT, &query(Some(named), true)));
    let _member = lab.stack.join_group(lab.iface, GROUP).unwrap();
    let kinds: Vec<_> = said(&lab, 2000).iter().map(|report| report.2).collect();
    assert_eq!(kinds, [131, 131]);
}

#[test]
fn m4_a_question_that_no_router_of_the_link_asked_is_dropped() {
    // Breaks if a station far away, one without an address of the link, or a message that no router looks at makes
    // hosts answer.
    let lab = host();
    said(&lab, 5000);
    let ask = query(None, false);
    let global = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);
    for bad in [
        frame(router(), 2, &ALERT, &ask),
        frame(global, 1, &ALERT, &ask),
        frame(router(), 1, &[], &ask),
        frame(router(), 1, &[58, 0, 1, 4, 0, 0, 0, 0], &ask),
        frame(router(), 1, &ALERT, &(ask.0, vec![0; 17])),
    ] {
        lab.give(&bad);
    }
    assert_eq!(lab.dropped(DropReason::BadMld), 5);
    assert!(said(&lab, 2000).is_empty());
}

#[test]
fn m1_a_program_that_advertises_a_router_joins_the_group_of_the_routers_address() {
    // Breaks if a switch that listens drops the solicitations for the routers' address of a network, because the
    // interface said nothing of its group when the program began; or if the interface stays in the group for ever.
    let lab = host();
    let addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 7);
    lab.stack.add_address(lab.iface, addr, 64).unwrap();
    said(&lab, 5000);
    let group = solicited_node(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0));
    let records = |lab: &Lab| -> Vec<_> {
        let all = said(lab, 2000).into_iter();
        all.flat_map(|report| report.3).collect()
    };
    let socket = lab
        .stack
        .icmp6_bind(lab.iface, &[NdpMessage::ROUTER_SOLICIT]);
    assert_eq!(records(&lab), [(4, group); 2]);
    let other = lab
        .stack
        .icmp6_bind(lab.iface, &[NdpMessage::ROUTER_ADVERT]);
    assert!(records(&lab).is_empty());
    drop((socket, other));
    assert_eq!(records(&lab), [(3, group); 2]);
}

/// An empty datagram of UDP.
fn datagram(src: Ipv6Addr, dst: Ipv6Addr, port: u16) -> Vec<u8> {
    let [p1, p0] = port.to_be_bytes();
    let mut datagram = vec![0, 9, p1, p0, 0, 8, 0, 0];
    let mut sum = pseudo_header_v6(src, dst, IpProto::UDP, 8);
    sum.add_bytes(&datagram);
    datagram[6..8].copy_from_slice(&sum.finish_nonzero().to_be_bytes());
    let fields = Ipv6Fields {
        next: IpProto::UDP,
        src,
        dst,
        ..Ipv6Fields::default()
    };
    frame6(&fields, &datagram)
}

/// The records of all reports of two seconds, each of one group: kind, and sources.
fn records_of(lab: &Lab, group: Ipv6Addr) -> Vec<(u8, Vec<Ipv6Addr>)> {
    let mut all = Vec::new();
    for _ in 0..20 {
        lab.advance(Duration::from_millis(100));
        lab.poll();
        for frame in lab.all_frames() {
            let Some(upper) = frame[54..].strip_prefix(&ALERT) else {
                continue;
            };
            let (icmp, body) = Icmp6Header::parse(upper).unwrap();
            assert_eq!((icmp.kind(), icmp.rest()[3]), (mld_type::REPORT, 1));
            let (record, sources) = body.split_at(RECORD_LEN);
            assert_eq!(
                (&record[4..], usize::from(record[3])),
                (&group.octets()[..], sources.len() / 16)
            );
            let sources = sources
                .chunks(16)
                .map(|s| Ipv6Addr::from(<[u8; 16]>::try_from(s).unwrap()));
            all.push((record[0], sources.collect::<Vec<_>>()));
        }
    }
    all
}

#[test]
fn m1_and_m2_a_member_takes_and_reports_the_senders_that_it_wants() {
    // Breaks if a program gets packets of senders that it does not want, or none of those that it wants; or if a router
    // is not told of the senders, or hears what it did not ask for (RFC 9777 sections 4.2, 5.2 and 6).
    let lab = host();
    said(&lab, 5000);
    let [a, b, c] = [7, 8, 9].map(|n| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n));
    let socket = lab.stack.udp_bind(at6(Ipv6Addr::UNSPECIFIED, 7)).unwrap();
    let takes = |src: Ipv6Addr| {
        lab.give(&datagram(src, GROUP, 7));
        socket.recv().is_ok()
    };
    let records = || records_of(&lab, GROUP);
    let twice = |kind: u8, sources: &[Ipv6Addr]| vec![(kind, sources.to_vec()); 2];
    assert!(!takes(a), "no member");
    let member = lab
        .stack
        .join_group_from(lab.iface, GROUP, SourceFilter::include([a]))
        .unwrap();
    assert_eq!([a, b, c].map(takes), [true, false, false]);
    assert_eq!(records(), twice(5, &[a]));
    let other = lab
        .stack
        .join_group_from(lab.iface, GROUP, SourceFilter::include([b]))
        .unwrap();
    assert_eq!([a, b, c].map(takes), [true, true, false]);
    assert_eq!(records(), twice(5, &[b]));
    other.set_filter(SourceFilter::exclude([a, c])).unwrap();
    assert_eq!([a, b, c].map(takes), [true, true, false]);
    assert_eq!(records(), twice(4, &[c]));
    // A question about two of them, one about 65, and one that is cut short.
    let ask = |count: u8, sources: &[Ipv6Addr]| {
        let (message, mut body) = query(Some(GROUP), false);
        body[19] = count;
        body.extend(sources.iter().flat_map(Ipv6Addr::octets));
        lab.give(&frame(router(), 1, &ALERT, &(message, body)));
        records()
    };
    assert_eq!(ask(2, &[b, c]), [(1, vec![b])]);
    assert_eq!(ask(65, &[c; 65]), [(2, vec![c])]);
    assert_eq!(ask(2, &[b]), []);
    assert_eq!(lab.dropped(DropReason::BadMld), 1);
    // Filters are bounded, and an error changes nothing.
    let many = |n: u16| (0..n).map(|n| Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, n));
    let full = other.set_filter(SourceFilter::exclude(many(64)));
    assert_eq!(
        full,
        Err(AddrError::ManySources),
        "64, and the other member's"
    );
    assert_eq!([a, b, c].map(takes), [true, true, false]);
    let full = lab
        .stack
        .join_group_from(lab.iface, GROUP, SourceFilter::include(many(65)));
    assert_eq!(full.err(), Some(AddrError::ManySources));
    assert!(records().is_empty());
    drop(member);
    assert_eq!([a, b, c].map(takes), [false, true, false]);
    assert_eq!(records(), twice(6, &[a]));
    other
        .set_filter(SourceFilter::include([] as [Ipv6Addr; 0]))
        .unwrap();
    assert_eq!([a, b, c].map(takes), [false; 3]);
    assert_eq!(records(), twice(3, &[]));
    drop((other, socket));
    assert!(records().is_empty());
}

#[test]
fn m2_a_question_that_is_sent_to_the_group_reaches_a_listener_of_other_senders() {
    // RFC 9777 section 5.1.15: breaks if a router, which is not among the senders that the program wants, gets no
    // answer to its question for one group, and stops sending to the group.
    let lab = host();
    said(&lab, 5000);
    let radio = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);
    let filter = SourceFilter::include([radio]);
    let _member = lab.stack.join_group_from(lab.iface, GROUP, filter).unwrap();
    drop(records_of(&lab, GROUP));
    lab.give(&frame_to(
        GROUP,
        router(),
        1,
        &ALERT,
        &query(Some(GROUP), false),
    ));
    assert_eq!(records_of(&lab, GROUP), [(1, vec![radio])]);
}

#[test]
fn m1_each_socket_takes_the_senders_of_its_own_filter() {
    // RFC 9777 section 4.2: breaks if a socket gets datagrams because another one wants them, or a router is not told
    // what both want together; if a socket that did not join gets nothing by a membership for all; or if a closed
    // socket stays in a group.
    let lab = host();
    said(&lab, 5000);
    let [a, b, c] = [7, 8, 9].map(|n| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n));
    let bind = |port| {
        lab.stack
            .udp_bind(at6(Ipv6Addr::UNSPECIFIED, port))
            .unwrap()
    };
    let [radio, all, idle] = [5, 6, 7].map(bind);
    let takes = |socket: &UdpSocket| {
        [a, b, c].map(|src| {
            let port = socket.local_addr().port();
            lab.give(&datagram(src, GROUP, port));
            socket.recv().is_ok()
        })
    };
    let records = || {
        let mut seen = records_of(&lab, GROUP);
        seen.dedup();
        seen
    };
    let none = [false; 3];
    assert_eq!([takes(&radio), takes(&all), takes(&idle)], [none; 3]);
    radio.join_source_group(lab.iface, GROUP, a).unwrap();
    assert_eq!(records(), [(5, vec![a])]);
    assert_eq!(
        [takes(&radio), takes(&all), takes(&idle)],
        [[true, false, false], none, none]
    );
    let filtered = lab.dropped(DropReason::UdpFiltered);
    assert_eq!(
        filtered, 8,
        "of other senders, and to the sockets that are not in the group"
    );
    all.join_group(lab.iface, GROUP).unwrap();
    all.block_source(lab.iface, GROUP, a).unwrap();
    all.block_source(lab.iface, GROUP, c).unwrap();
    assert_eq!(
        records(),
        [(4, vec![]), (4, vec![c]), (6, vec![c])],
        "a is wanted by the other one"
    );
    assert_eq!(
        [takes(&radio), takes(&all), takes(&idle)],
        [[true, false, false], [false, true, false], none]
    );
    all.unblock_source(lab.iface, GROUP, a).unwrap();
    radio.join_source_group(lab.iface, GROUP, c).unwrap();
    assert_eq!(records(), [(5, vec![c])]);
    assert_eq!(
        [takes(&radio), takes(&all)],
        [[true, false, true], [true, true, false]]
    );
    // A membership is for the sockets that are not in the group, and says nothing to the others.
    let member = lab.stack.join_group(lab.iface, GROUP).unwrap();
    assert_eq!(
        [takes(&radio), takes(&all), takes(&idle)],
        [[true, false, true], [true, true, false], [true; 3]]
    );
    drop(member);
    drop(all.clone());
    assert_eq!(takes(&all), [true, true, false], "a handle is left");
    drop(all);
    assert_eq!(records(), [(3, vec![a, c])]);
    radio.leave_source_group(lab.iface, GROUP, a).unwrap();
    radio.leave_source_group(lab.iface, GROUP, c).unwrap();
    assert_eq!(records(), [(6, vec![a]), (6, vec![a, c]), (6, vec![c])]);
    assert_eq!(takes(&radio), none);
    // A group of every station reaches sockets that did not join it, and is none for those that block the sender.
    let hears = |socket: &UdpSocket| {
        lab.give(&datagram(a, ALL_NODES, socket.local_addr().port()));
        socket.recv().is_ok()
    };
    radio.join_group(lab.iface, ALL_NODES).unwrap();
    radio.block_source(lab.iface, ALL_NODES, a).unwrap();
    assert_eq!([hears(&radio), hears(&idle)], [false, true]);
    assert!(records().is_empty(), "of this group nothing is said");
}

#[test]
fn m1_a_socket_that_can_not_be_in_a_group_is_told_why() {
    // RFC 3678 section 4.1.3: breaks if a program waits for datagrams that never come.
    use mbuma::socket::GroupError::*;
    let lab = host();
    said(&lab, 5000);
    let source = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);
    let socket = lab.stack.udp_bind(at6(Ipv6Addr::UNSPECIFIED, 5)).unwrap();
    for bad in [source, Ipv6Addr::new(0xff01, 0, 0, 0, 0, 0, 0, 5)] {
        assert_eq!(socket.join_group(lab.iface, bad), Err(BadAddress));
    }
    for bad in [GROUP, Ipv6Addr::UNSPECIFIED, Ipv6Addr::LOCALHOST] {
        assert_eq!(
            socket.join_source_group(lab.iface, GROUP, bad),
            Err(BadAddress)
        );
    }
    let old = lab.stack.udp_bind((US, 5)).unwrap();
    let all = lab.stack.udp_bind_any(lab.iface).unwrap();
    for socket in [&old, &all] {
        assert_eq!(socket.join_group(lab.iface, GROUP), Err(BadSocket));
    }
    assert_eq!(socket.leave_group(lab.iface, GROUP), Err(NotMember));
    socket.join_group(lab.iface, GROUP).unwrap();
    assert_eq!(socket.join_group(lab.iface, GROUP), Err(AlreadyMember));
    assert_eq!(
        socket.join_source_group(lab.iface, GROUP, source),
        Err(OtherMode)
    );
    assert_eq!(
        socket.leave_source_group(lab.iface, GROUP, source),
        Err(OtherMode)
    );
    assert_eq!(
        socket.unblock_source(lab.iface, GROUP, source),
        Err(NotMember)
    );
    let errno = |e: mbuma::socket::GroupError| std::io::Error::from(e).kind();
    assert_eq!(errno(AlreadyMember), std::io::ErrorKind::AddrInUse);
    assert_eq!(errno(NotMember), std::io::ErrorKind::AddrNotAvailable);
    socket.leave_group(lab.iface, GROUP).unwrap();
    socket.join_group(lab.iface, GROUP).unwrap();
    drop((old, all));
    let iface = lab.iface;
    lab.stack.detach(iface);
    assert_eq!(socket.leave_group(iface, GROUP), Err(NoInterface));
    // A socket may outlive the interface of its group.
    drop(socket);
}

#[test]
fn m1_a_group_of_source_specific_multicast_is_joined_for_named_senders_alone() {
    // Breaks if a program waits for datagrams that routers never send it, or a report asks them for all senders of such
    // a group (RFC 4604 section 2).
    use mbuma::socket::GroupError::{OtherMode, SendersNeeded};
    let lab = host();
    said(&lab, 5000);
    let group = Ipv6Addr::new(0xff3e, 0, 0, 0, 0, 0, 0x8000, 1);
    // With the prefix of a network behind it (RFC 3306) it is any other group.
    let other = Ipv6Addr::new(0xff3e, 0x40, 0x2001, 0xdb8, 0, 0, 0, 1);
    let radio = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 7);
    let socket = lab.stack.udp_bind(at6(Ipv6Addr::UNSPECIFIED, 5)).unwrap();
    assert_eq!(socket.join_group(lab.iface, group), Err(SendersNeeded));
    let refused = lab.stack.join_group(lab.iface, group).err();
    assert_eq!(refused, Some(AddrError::SendersNeeded));
    assert!(said(&lab, 2000).is_empty());
    socket.join_source_group(lab.iface, group, radio).unwrap();
    assert_eq!(socket.block_source(lab.iface, group, radio), Err(OtherMode));
    let filter = SourceFilter::include([radio]);
    let member = lab.stack.join_group_from(lab.iface, group, filter).unwrap();
    let refused = member.set_filter(SourceFilter::exclude([radio]));
    assert_eq!(refused, Err(AddrError::SendersNeeded));
    let mut records = records_of(&lab, group);
    records.dedup();
    assert_eq!(records, [(5, vec![radio])]);
    drop(member);
    drop(records_of(&lab, group));
    socket.join_group(lab.iface, other).unwrap();
    assert!(!said(&lab, 2000).is_empty());
    drop(socket);
    drop(lab.all_frames());
}

#[test]
fn m1_changes_by_several_threads_are_all_said() {
    // Breaks if the thread that is last to report has an older list than another, so that a router never hears of a
    // group.
    let lab = host();
    said(&lab, 5000);
    let group = |n: u16| Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, n);
    for round in 0..50 {
        let start = Arc::new(Barrier::new(3));
        let join = |n: u16| {
            let (stack, iface, start) = (lab.stack.clone(), lab.iface, Arc::clone(&start));
            std::thread::spawn(move || {
                start.wait();
                for _ in 0..20 {
                    drop(stack.join_group(iface, group(n)).unwrap());
                }
                stack.join_group(iface, group(n)).unwrap()
            })
        };
        let members: Vec<_> = (1..4).map(join).collect();
        let members: Vec<_> = members.into_iter().map(|t| t.join().unwrap()).collect();
        drop(lab.all_frames());
        said(&lab, 2000);
        lab.give(&frame(router(), 1, &ALERT, &query(None, false)));
        let answers = said(&lab, 1500);
        let mut answered: Vec<_> = answers.iter().flat_map(|report| report.3.clone()).collect();
        answered.retain(|(_, group)| *group != solicited_node(link_local_of(OUR_MAC)));
        answered.sort_unstable();
        let expected: Vec<_> = (1..4).map(|n| (2, group(n))).collect();
        assert_eq!(answered, expected, "round {round}");
        drop(members);
    }
}
