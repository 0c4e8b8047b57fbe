//! IPv6 on a link: neighbours, pings, errors, and TCP and UDP between two stacks. Each test is named after the point that
//! it stands for.

use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::Arc;
use std::time::Duration;

use crate::common::net::*;
use kern::{Random, Time, VirtualClock};
use mbuf::{Chain, Live};
use mbuma::device::Capabilities;
use mbuma::device::memory::Pipe;
use mbuma::{Config, DropReason, IfAddr, IfConfig, IfIndex, RouteKind, SocketError, Stack};
use wire::{
    AdvertFlags, EtherHeader, EtherType, Icmp6Header, Icmp6Message, IpProto, Ipv6Fields,
    Ipv6Header, MacAddr, NdpMessage, NeighborMessage, UdpHeader, Unreachable6, link_local_of,
    pseudo_header_v6, solicited_node,
};

pub(crate) const US6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
pub(crate) const PEER6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0x100);
const ALL_NODES: Ipv6Addr = wire::ALL_NODES;

pub(crate) fn lab() -> Lab {
    Lab::new(Setup {
        addrs6: vec![IfAddr {
            addr: US6,
            prefix_len: 64,
        }],
        ..Setup::default()
    })
}

/// A frame with this IPv6 packet, to the group or to us.
pub(crate) fn frame6(fields: &Ipv6Fields, payload: &[u8]) -> Vec<u8> {
    let fields = Ipv6Fields {
        payload_len: payload.len() as u16,
        ..*fields
    };
    let mut packet = vec![0; Ipv6Header::LEN];
    fields.emit(&mut packet);
    packet.extend_from_slice(payload);
    let mac = match fields.dst.is_multicast() {
        true => MacAddr::from_ipv6_multicast(fields.dst),
        false => OUR_MAC,
    };
    ether(mac, EtherType::IPV6, &packet)
}

pub(crate) fn icmp6(src: Ipv6Addr, dst: Ipv6Addr, message: Icmp6Message, body: &[u8]) -> Vec<u8> {
    let len = Icmp6Header::LEN + body.len();
    let pseudo = pseudo_header_v6(src, dst, IpProto::ICMPV6, len as u32);
    let mut out = vec![0; Icmp6Header::LEN];
    Icmp6Header::new(message, pseudo, [body]).emit(&mut out);
    out.extend_from_slice(body);
    out
}

pub(crate) fn icmp6_frame(
    src: Ipv6Addr,
    dst: Ipv6Addr,
    hop_limit: u8,
    message: Icmp6Message,
    body: &[u8],
) -> Vec<u8> {
    let fields = Ipv6Fields {
        next: IpProto::ICMPV6,
        hop_limit,
        src,
        dst,
        ..Ipv6Fields::default()
    };
    frame6(&fields, &icmp6(src, dst, message, body))
}

/// The header of a packet from the peer to us.
pub(crate) fn from_peer6(next: IpProto) -> Ipv6Fields {
    Ipv6Fields {
        next,
        src: PEER6,
        dst: US6,
        ..Ipv6Fields::default()
    }
}

pub(crate) fn nd_frame(src: Ipv6Addr, dst: Ipv6Addr, message: &NeighborMessage) -> Vec<u8> {
    icmp6_frame(src, dst, 255, message.message, message.body())
}

/// The fields of a frame of the stack's.
pub(crate) struct Seen6 {
    pub(crate) to: MacAddr,
    pub(crate) src: Ipv6Addr,
    pub(crate) dst: Ipv6Addr,
    pub(crate) hop_limit: u8,
    pub(crate) next: IpProto,
    pub(crate) payload: Vec<u8>,
}

pub(crate) fn parse6(frame: &[u8]) -> Seen6 {
    let (ether, packet) = EtherHeader::parse(frame).unwrap();
    assert_eq!(ether.ethertype(), EtherType::IPV6);
    let header = Ipv6Header::parse(packet).unwrap();
    let payload = packet[Ipv6Header::LEN..].to_vec();
    assert_eq!(header.payload_len(), payload.len());
    Seen6 {
        to: ether.dst,
        src: header.src(),
        dst: header.dst(),
        hop_limit: header.hop_limit(),
        next: header.next(),
        payload,
    }
}

/// The ICMPv6 message in it, its checksum checked, and its body.
pub(crate) fn parse_icmp6(seen: &Seen6) -> (Icmp6Header, Vec<u8>) {
    assert_eq!(seen.next, IpProto::ICMPV6);
    let (header, body) = Icmp6Header::parse(&seen.payload).unwrap();
    let len = seen.payload.len() as u32;
    let pseudo = pseudo_header_v6(seen.src, seen.dst, IpProto::ICMPV6, len);
    assert!(header.checksum_ok(pseudo, [body]), "ICMPv6 checksum");
    (*header, body.to_vec())
}

/// The peer asks for our address, so that we know its own.
pub(crate) fn introduce6(lab: &Lab) {
    let question = NeighborMessage::solicit(US6, Some(PEER_MAC), None);
    lab.give(&nd_frame(PEER6, solicited_node(US6), &question));
    let seen = parse6(&lab.frame());
    let (header, body) = parse_icmp6(&seen);
    let message = NdpMessage::parse(header.kind(), header.rest(), &body).unwrap();
    let NdpMessage::NeighborAdvert {
        solicited,
        overrides,
        target,
        options,
        ..
    } = message
    else {
        panic!("{message:?}");
    };
    assert!(solicited && overrides && target == US6);
    assert_eq!(options.target(), Some(OUR_MAC));
    assert_eq!((seen.to, seen.src, seen.dst), (PEER_MAC, US6, PEER6));
    assert_eq!(seen.hop_limit, 255);
}

pub(crate) fn at6(addr: Ipv6Addr, port: u16) -> SocketAddr {
    SocketAddr::from((addr, port))
}

#[test]
fn n9_a_question_is_answered() {
    // Breaks if a station that asks for our address is not answered, or not as RFC 4861 7.2.4 says.
    let lab = lab();
    introduce6(&lab);
    // The link-local address is made of the MAC, and is ours too.
    let own = link_local_of(OUR_MAC);
    let question = NeighborMessage::solicit(own, Some(PEER_MAC), None);
    lab.give(&nd_frame(PEER6, solicited_node(own), &question));
    assert_eq!(parse6(&lab.frame()).src, own);
    // Another's is not.
    let question = NeighborMessage::solicit(PEER6, Some(PEER_MAC), None);
    lab.give(&nd_frame(PEER6, US6, &question));
    assert!(lab.frames().is_empty());
    lab.done();
}

#[test]
fn n9_a_probe_for_our_address_is_answered_to_all() {
    // Breaks if a station can take an address that is ours (RFC 4862 5.4.3).
    let lab = lab();
    let probe = NeighborMessage::solicit(US6, None, Some([1; 6]));
    lab.give(&nd_frame(
        Ipv6Addr::UNSPECIFIED,
        solicited_node(US6),
        &probe,
    ));
    let seen = parse6(&lab.frame());
    let (header, _) = parse_icmp6(&seen);
    assert_eq!(seen.dst, ALL_NODES);
    assert_eq!(seen.to, MacAddr([0x33, 0x33, 0, 0, 0, 1]));
    assert_eq!(header.rest()[0], 0x20, "override, not solicited");
    lab.done();
}

#[test]
fn n1_messages_from_beyond_the_link_are_dropped() {
    // Breaks if a host elsewhere can tell us where a neighbour is.
    let lab = lab();
    let question = NeighborMessage::solicit(US6, Some(PEER_MAC), None);
    let far = icmp6_frame(PEER6, US6, 254, question.message, question.body());
    lab.give(&far);
    assert!(lab.frames().is_empty());
    assert_eq!(lab.dropped(DropReason::BadNd), 1);
    lab.done();
}

#[test]
fn n1_malformed_messages_are_dropped_whole_and_reserved_fields_are_not_looked_at() {
    // Breaks if a message with a code, without its fixed part, or with an option of no length is believed in part, or if a later
    // version of the protocol can't use the reserved field (RFC 4861 section 7.1).
    let lab = lab();
    let question = NeighborMessage::solicit(US6, Some(PEER_MAC), None);
    let body = question.body();
    let ask = |code, rest, body: &[u8]| {
        let kind = NdpMessage::NEIGHBOR_SOLICIT;
        let message = Icmp6Message::Other { kind, code, rest };
        lab.give(&icmp6_frame(PEER6, solicited_node(US6), 255, message, body));
        lab.frames().len()
    };
    let mut no_length = body.to_vec();
    no_length[17] = 0;
    let behind = [body, &[14, 0]].concat();
    for (code, body) in [
        (1, body),
        (0, &body[..15]),
        (0, &[][..]),
        (0, &body[..body.len() - 1]),
        (0, &no_length),
        (0, &behind),
    ] {
        assert_eq!(ask(code, [0; 4], body), 0, "code {code}, {body:x?}");
    }
    assert_eq!(lab.dropped(DropReason::BadNd), 6);
    // None of them made an entry: a datagram to the peer has to wait for an answer.
    let socket = lab.stack.udp_bind(at6(US6, 7)).unwrap();
    socket.send_to(lab.chain(b"hello"), at6(PEER6, 9)).unwrap();
    assert_eq!(parse6(&lab.frame()).next, IpProto::ICMPV6);
    assert_eq!(ask(0, [0xff; 4], body), 2, "the answer, and the datagram");
    drop(socket);
    lab.done();
}

#[test]
fn n3_and_n8_a_stale_neighbour_is_probed_alone_before_it_is_given_up() {
    // RFC 4861 appendix C, rows DELAY and PROBE: breaks if the first packet to a stale neighbour waits, if all stations are asked
    // at once, if probes never end, or if an answer does not end them.
    let lab = lab();
    introduce6(&lab);
    let socket = lab.stack.udp_bind(at6(US6, 7)).unwrap();
    let send = || socket.send_to(lab.chain(b"hello"), at6(PEER6, 9)).unwrap();
    // The frames of a span of seconds: the second, the protocol, and the destination.
    let within = |secs: u64| {
        let mut seen = Vec::new();
        for second in 1..=secs {
            lab.advance(Duration::from_secs(1));
            for frame in lab.frames() {
                let frame = parse6(&frame);
                assert_eq!(frame.next, IpProto::ICMPV6);
                seen.push((second, frame.dst, frame.to));
            }
        }
        seen
    };
    send();
    assert_eq!(parse6(&lab.frame()).next, IpProto::UDP);
    let probes = [5, 6, 7].map(|second| (second, PEER6, PEER_MAC));
    assert_eq!(within(6), probes[..2]);
    let flags = AdvertFlags {
        router: false,
        solicited: true,
        overrides: true,
    };
    let answer = NeighborMessage::advert(PEER6, PEER_MAC, flags);
    lab.give(&nd_frame(PEER6, US6, &answer));
    assert_eq!(within(10), []);
    // Answers are believed for 45 s at most.
    lab.advance(Duration::from_secs(46));
    send();
    assert_eq!(parse6(&lab.frame()).next, IpProto::UDP);
    assert_eq!(within(12), probes);
    // Now its Ethernet address is forgotten.
    send();
    let seen = parse6(&lab.frame());
    assert_eq!(
        (seen.next, seen.dst),
        (IpProto::ICMPV6, solicited_node(PEER6))
    );
    drop(socket);
    lab.advance(Duration::from_secs(10));
    drop(lab.packets());
    lab.done();
}

#[test]
fn n8_a_neighbour_is_asked_for_and_what_waited_goes() {
    // Breaks if a question goes to the wrong group, or a datagram is lost on the way.
    let lab = lab();
    let socket = lab.stack.udp_bind(at6(US6, 7)).unwrap();
    socket.send_to(lab.chain(b"hello"), at6(PEER6, 9)).unwrap();
    let seen = parse6(&lab.frame());
    let (header, body) = parse_icmp6(&seen);
    assert_eq!(seen.dst, solicited_node(PEER6));
    let message = NdpMessage::parse(header.kind(), header.rest(), &body).unwrap();
    let NdpMessage::NeighborSolicit { target, options } = message else {
        panic!("{message:?}");
    };
    assert_eq!((target, options.source()), (PEER6, Some(OUR_MAC)));
    let flags = AdvertFlags {
        router: false,
        solicited: true,
        overrides: true,
    };
    let answer = NeighborMessage::advert(PEER6, PEER_MAC, flags);
    lab.give(&nd_frame(PEER6, US6, &answer));
    let seen = parse6(&lab.frame());
    assert_eq!((seen.to, seen.next), (PEER_MAC, IpProto::UDP));
    let mut sum = pseudo_header_v6(US6, PEER6, IpProto::UDP, seen.payload.len() as u32);
    sum.add_bytes(&seen.payload);
    assert!(sum.is_valid(), "UDP checksum");
    assert_eq!(&seen.payload[UdpHeader::LEN..], b"hello");
    lab.done();
}

#[test]
fn n3_a_silent_neighbour_is_given_up_after_three_questions() {
    // Breaks if questions never end, or the waiting packets are kept, or their sender gets no error.
    let lab = lab();
    let socket = lab.stack.udp_bind(at6(US6, 7)).unwrap();
    socket.send_to(lab.chain(b"hello"), at6(PEER6, 9)).unwrap();
    let mut questions = lab.frames().len();
    for _ in 0..5 {
        lab.advance(Duration::from_secs(1));
        questions += lab.frames().len();
    }
    assert_eq!(questions, 3);
    assert_eq!(lab.dropped(DropReason::NdNoAnswer), 1);
    assert_eq!(
        socket.take_error().map(|error| error.dst),
        Some(at6(PEER6, 9))
    );
    lab.done();
}

#[test]
fn i7_a_ping_is_answered_from_the_address_asked() {
    // Breaks if an answer has another source, or loses bytes.
    let lab = lab();
    introduce6(&lab);
    let data = pattern_bytes(1000);
    let ping = Icmp6Message::EchoRequest { id: 5, seq: 9 };
    for (asked, from) in [(US6, US6), (ALL_NODES, US6)] {
        lab.give(&icmp6_frame(PEER6, asked, 64, ping, &data));
        let seen = parse6(&lab.frame());
        let (header, body) = parse_icmp6(&seen);
        assert_eq!((seen.src, seen.dst), (from, PEER6));
        assert_eq!(header.message(), Icmp6Message::EchoReply { id: 5, seq: 9 });
        assert_eq!(body, data);
    }
    let mut damaged = icmp6_frame(PEER6, US6, 64, ping, &data);
    *damaged.last_mut().unwrap() ^= 1;
    lab.give(&damaged);
    assert_eq!(lab.dropped(DropReason::IcmpBadChecksum), 1);
    lab.done();
}

#[test]
fn h2_an_unknown_next_header_is_told_with_its_place() {
    // Breaks if the sender does not learn of it, or the pointer is wrong (RFC 8200 section 4).
    let lab = lab();
    introduce6(&lab);
    let fields = Ipv6Fields {
        next: IpProto::DEST_OPTIONS,
        src: PEER6,
        dst: US6,
        ..Ipv6Fields::default()
    };
    lab.give(&frame6(&fields, &[250, 0, 1, 4, 0, 0, 0, 0, 1, 2, 3, 4]));
    let (header, body) = parse_icmp6(&parse6(&lab.frame()));
    let problem = Icmp6Message::ParamProblem {
        code: 1,
        pointer: 40,
    };
    assert_eq!(header.message(), problem);
    assert_eq!(body.len(), 52, "all of the packet is quoted");
    // A packet to a group causes no error.
    let to_all = Ipv6Fields {
        dst: ALL_NODES,
        ..fields
    };
    lab.give(&frame6(&to_all, &[250, 0, 1, 4, 0, 0, 0, 0]));
    assert!(lab.frames().is_empty());
    lab.done();
}

#[test]
fn a_packet_that_says_no_length_is_told() {
    // Breaks if the stack takes a packet without a length, counts none of them, or the sender does not learn of one (RFC 2675
    // section 3), at a host and at a router.
    let lab = lab();
    introduce6(&lab);
    let options: [(&[u8], Option<u32>); 4] = [
        (&[6, 0, 1, 4, 0, 0, 0, 0], Some(4)),
        (&[6, 0, 0xc2, 4, 0, 0, 0, 40], Some(44)),
        (&[6, 0, 0xc2, 4, 0, 1, 0, 0], None),
        (&[6, 0, 0xc2], None),
    ];
    const FAR6: Ipv6Addr = Ipv6Addr::new(0x2001, 0x67c, 0, 0, 0, 0, 0, 1);
    for dst in [US6, FAR6] {
        for (header, told) in options {
            let fields = Ipv6Fields {
                next: IpProto::HOP_BY_HOP,
                src: PEER6,
                dst,
                ..Ipv6Fields::default()
            };
            let mut frame = frame6(&fields, header);
            Ipv6Header::parse_mut(&mut frame[14..])
                .unwrap()
                .set_payload_len(0);
            lab.give(&frame);
            let answers = lab.frames();
            let told = told.map(|pointer| Icmp6Message::ParamProblem { code: 0, pointer });
            let answered = answers.first().map(|frame| {
                let seen = parse6(frame);
                parse_icmp6(&seen).0.message()
            });
            assert_eq!(answered, told, "{header:?} to {dst}");
        }
        lab.stack.set_forwarding(true);
    }
    assert_eq!(lab.dropped(DropReason::IpBadOptions), 4);
    assert_eq!(lab.dropped(DropReason::IpTruncated), 4);
    lab.done();
}

/// A destination options header of 320 bytes, with an option that its receiver must know or tell about.
fn long_options(next: u8) -> Vec<u8> {
    let mut bytes = vec![next, 39, 0x9e, 0];
    for pad in [253, 59] {
        bytes.extend([1, pad]);
        bytes.resize(bytes.len() + usize::from(pad), 0);
    }
    bytes
}

#[test]
fn i2_an_error_behind_long_options_is_not_answered() {
    // Breaks if a stack looks at too few bytes to see that a packet is an ICMPv6 error and answers it, or answers no packet
    // whose options are that long (RFC 4443 section 2.4 e.1).
    let lab = lab();
    introduce6(&lab);
    let fields = Ipv6Fields {
        next: IpProto::DEST_OPTIONS,
        src: PEER6,
        dst: US6,
        ..Ipv6Fields::default()
    };
    lab.give(&frame6(&fields, &long_options(6)));
    let (header, _) = parse_icmp6(&parse6(&lab.frame()));
    let problem = Icmp6Message::ParamProblem {
        code: 2,
        pointer: 42,
    };
    assert_eq!(header.message(), problem);
    let mut error = long_options(58);
    let unreachable = Icmp6Message::DestUnreachable(Unreachable6::Port);
    error.extend(icmp6(PEER6, US6, unreachable, &[0; 48]));
    lab.give(&frame6(&fields, &error));
    assert!(lab.frames().is_empty());
    lab.done();
}

#[test]
fn h3_the_bytes_of_headers_are_bounded() {
    // Breaks if a packet whose headers are longer than a host must look at costs more work than others.
    let lab = Lab::new(Setup {
        caps: Capabilities::plain(9000),
        addrs6: vec![IfAddr {
            addr: US6,
            prefix_len: 64,
        }],
        ..Setup::default()
    });
    introduce6(&lab);
    // Each has 256 bytes, and the last one may have 8 more.
    let padding = |next: IpProto, more| {
        let words = [31, 32][usize::from(more)];
        [
            &[next.0, words, 1, 252][..],
            &vec![0; 252 + 8 * usize::from(more)],
        ]
        .concat()
    };
    for (more, answers) in [(false, 1), (true, 0)] {
        let mut payload = padding(IpProto::DEST_OPTIONS, false).repeat(7);
        payload.extend(padding(IpProto(253), more));
        assert_eq!(payload.len() > 2048, more);
        payload.extend([7; 40]);
        let fields = from_peer6(IpProto::DEST_OPTIONS);
        lab.give(&frame6(&fields, &payload));
        assert_eq!(lab.frames().len(), answers);
    }
    lab.done();
}

#[test]
fn i2_an_error_quotes_as_much_as_fits_the_smallest_mtu() {
    // Breaks if an error does not fit each path, or the sender can't see which of its packets it is about.
    let lab = lab();
    introduce6(&lab);
    for len in [100, 1500 - Ipv6Header::LEN] {
        let frame = frame6(&from_peer6(IpProto(253)), &pattern_bytes(len));
        lab.give(&frame);
        let seen = parse6(&lab.frame());
        let (_, quote) = parse_icmp6(&seen);
        assert_eq!(quote, frame[14..][..quote.len()]);
        let whole = 2 * Ipv6Header::LEN + Icmp6Header::LEN + len;
        assert_eq!(Ipv6Header::LEN + seen.payload.len(), whole.min(1280));
    }
    lab.done();
}

#[test]
fn h8_impossible_sources_and_strange_destinations_are_dropped() {
    // Breaks if the stack accepts from a link a packet from a group, from this host itself, or to the loopback address.
    let lab = lab();
    introduce6(&lab);
    let ping = Icmp6Message::EchoRequest { id: 5, seq: 9 };
    let mapped = Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0x7f00, 1);
    for src in [
        ALL_NODES,
        US6,
        Ipv6Addr::LOCALHOST,
        mapped,
        Ipv6Addr::UNSPECIFIED,
    ] {
        lab.give(&icmp6_frame(src, US6, 64, ping, b""));
    }
    assert_eq!(lab.dropped(DropReason::IpBadSource), 5);
    let stranger = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0xfb);
    for dst in [
        Ipv6Addr::LOCALHOST,
        Ipv6Addr::UNSPECIFIED,
        mapped,
        stranger,
        group,
        // A reserved scope, and groups of one node, also that in which every node is.
        Ipv6Addr::new(0xff00, 0, 0, 0, 0, 0, 0, 1),
        Ipv6Addr::new(0xff01, 0, 0, 0, 0, 0, 0, 1),
        Ipv6Addr::new(0xff01, 0, 0, 0, 0, 0, 0, 0xfb),
    ] {
        lab.give(&icmp6_frame(PEER6, dst, 64, ping, b""));
    }
    assert_eq!(lab.dropped(DropReason::IpNotForUs), 8);
    assert!(lab.frames().is_empty());
    lab.done();
}

#[test]
fn h9_a_datagram_without_checksum_is_dropped() {
    // Breaks if an address that was damaged on the way makes a datagram ours (RFC 8200 8.1).
    let lab = lab();
    introduce6(&lab);
    let socket = lab.stack.udp_bind(at6(US6, 7)).unwrap();
    let mut datagram = vec![0; UdpHeader::LEN];
    UdpHeader::new(9, 7, 13).emit(&mut datagram);
    datagram.extend_from_slice(b"hello");
    let fields = Ipv6Fields {
        next: IpProto::UDP,
        src: PEER6,
        dst: US6,
        ..Ipv6Fields::default()
    };
    lab.give(&frame6(&fields, &datagram));
    assert!(socket.recv().is_err());
    assert_eq!(lab.dropped(DropReason::UdpBadChecksum), 1);
    // Bytes whose sum is zero: the sender must write ffff, and zero is still no checksum.
    datagram.truncate(UdpHeader::LEN);
    UdpHeader::new(9, 7, 10).emit(&mut datagram);
    let mut sum = pseudo_header_v6(PEER6, US6, IpProto::UDP, 10);
    sum.add_bytes(&datagram);
    datagram.extend(sum.finish().to_be_bytes());
    lab.give(&frame6(&fields, &datagram));
    assert!(socket.recv().is_err());
    assert_eq!(lab.dropped(DropReason::UdpBadChecksum), 2);
    lab.done();
}

#[test]
fn h9_a_sum_of_zero_is_sent_as_all_ones() {
    // Breaks if one datagram of 65,536 is sent as if it had no checksum (RFC 8200 8.1).
    let lab = lab();
    introduce6(&lab);
    let socket = lab.stack.udp_bind(at6(US6, 7)).unwrap();
    let sum_of = |data: [u8; 2]| {
        socket.send_to(lab.chain(&data), at6(PEER6, 9)).unwrap();
        let sent = parse6(&lab.frame()).payload;
        [sent[6], sent[7]]
    };
    // With the sum of the datagram of two zeros as its payload, a datagram has the sum 0.
    let payload = sum_of([0; 2]);
    assert_eq!(sum_of(payload), [0xff; 2]);
    drop(socket);
    lab.done();
}

#[test]
fn i3_a_closed_port_is_told() {
    // Breaks if a sender waits for an answer that can't come.
    let lab = lab();
    introduce6(&lab);
    let mut datagram = vec![0; UdpHeader::LEN];
    let mut header = UdpHeader::new(9, 7, 8);
    header.emit(&mut datagram);
    let mut sum = pseudo_header_v6(PEER6, US6, IpProto::UDP, 8);
    sum.add_bytes(&datagram);
    header.set_checksum(sum.finish_nonzero());
    header.emit(&mut datagram);
    let fields = Ipv6Fields {
        next: IpProto::UDP,
        src: PEER6,
        dst: US6,
        ..Ipv6Fields::default()
    };
    lab.give(&frame6(&fields, &datagram));
    let (header, _) = parse_icmp6(&parse6(&lab.frame()));
    let closed = Icmp6Message::DestUnreachable(Unreachable6::Port);
    assert_eq!(header.message(), closed);
    lab.done();
}

#[test]
fn without_an_address_there_is_no_ipv6() {
    // Breaks if an interface that was given no address of IPv6 takes part in it.
    let lab = Lab::plain();
    let ping = Icmp6Message::EchoRequest { id: 5, seq: 9 };
    lab.give(&icmp6_frame(PEER6, ALL_NODES, 64, ping, b""));
    assert_eq!(lab.dropped(DropReason::UnknownEtherType), 1);
    lab.done();
}

/// A router, whose second wire has these capabilities, with a host on it that is known.
struct Router6 {
    lab: Lab,
    far: Pipe,
    iface: IfIndex,
}

const FAR: Ipv6Addr = Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 9);
const FAR_US: Ipv6Addr = Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 1);
const FAR_MAC: MacAddr = MacAddr([2, 0, 0, 0, 3, 9]);

impl Router6 {
    fn new(mtu: u16) -> Self {
        let lab = Lab::new(Setup {
            caps: Capabilities::plain(9000),
            addrs6: vec![IfAddr {
                addr: US6,
                prefix_len: 64,
            }],
            tune: |config| config.forwarding = true,
            ..Setup::default()
        });
        let (ours, far) = Pipe::pair(Capabilities::plain(mtu));
        let config = IfConfig {
            mac: Some(OUR_MAC),
            verify_source: true,
            ..IfConfig::new("pipe1").with_addr(FAR_US, 64)
        };
        let iface = lab.stack.attach(Arc::new(ours), config).unwrap();
        let router = Self { lab, far, iface };
        let question = NeighborMessage::solicit(FAR_US, Some(FAR_MAC), None);
        router.give_far(&nd_frame(FAR, solicited_node(FAR_US), &question));
        let (header, _) = parse_icmp6(&router.far_frame());
        assert_eq!(header.rest()[0] & 0x80, 0x80, "a router says so");
        let peer = NeighborMessage::solicit(US6, Some(PEER_MAC), None);
        router
            .lab
            .give(&nd_frame(PEER6, solicited_node(US6), &peer));
        drop(router.lab.packets());
        router
    }

    /// Gives the router a frame by the second wire.
    fn give_far(&self, frame: &[u8]) {
        let mut tx = mbuf::Mbufq::new();
        tx.enqueue(mbuf::Packet::from_slice(&self.lab.pool, frame, 0).unwrap());
        mbuma::device::Device::transmit(&self.far, &mut tx).unwrap();
        self.lab.stack.poll_interface(self.iface, ALL).unwrap();
    }

    /// The one frame that went out on the second wire.
    fn far_frame(&self) -> Seen6 {
        let mut rx = mbuf::Mbufq::new();
        mbuma::device::Device::receive(&self.far, &mut rx, ALL).unwrap();
        let frames: Vec<_> = rx.map(|packet| packet.to_vec()).collect();
        assert_eq!(frames.len(), 1, "exactly one frame");
        parse6(&frames[0])
    }

    /// Gives the router a packet of the peer's.
    fn give(&self, dst: Ipv6Addr, hop_limit: u8, len: usize) {
        let fields = Ipv6Fields {
            next: IpProto(253),
            hop_limit,
            src: PEER6,
            dst,
            ..Ipv6Fields::default()
        };
        self.lab.give(&frame6(&fields, &pattern_bytes(len)));
    }

    /// The error that went back to the peer.
    fn error(&self) -> Icmp6Message {
        let seen = parse6(&self.lab.frame());
        assert_eq!(seen.dst, PEER6);
        parse_icmp6(&seen).0.message()
    }

    fn done(self) {
        let Self { lab, far, .. } = self;
        drop(far);
        lab.done();
    }
}

#[test]
fn r1_a_packet_is_sent_on_with_one_hop_less() {
    // Breaks if a packet is forwarded by a host, or not by a router, or changes but for its hop.
    let router = Router6::new(1500);
    router.give(FAR, 64, 100);
    let seen = router.far_frame();
    assert_eq!((seen.to, seen.src, seen.dst), (FAR_MAC, PEER6, FAR));
    assert_eq!((seen.hop_limit, seen.payload), (63, pattern_bytes(100)));
    assert_eq!(router.lab.stack.stats().forwarded, 1);
    router.lab.stack.set_forwarding(false);
    router.give(FAR, 64, 100);
    assert_eq!(router.lab.dropped(DropReason::IpNotForUs), 1);
    assert_ne!(router.iface, router.lab.iface);
    router.done();
}

#[test]
fn r1_the_sender_is_told_why_its_packet_goes_no_further() {
    // Breaks if a sender does not learn that its hops are used up, that there is no way, or the size that fits.
    let router = Router6::new(1400);
    router.give(FAR, 1, 100);
    let expired = Icmp6Message::TimeExceeded(wire::TimeExceeded::Transit);
    assert_eq!(router.error(), expired);
    router.give(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 64, 100);
    let no_route = Icmp6Message::DestUnreachable(Unreachable6::NoRoute);
    assert_eq!(router.error(), no_route);
    router.give(FAR, 64, 1400 - Ipv6Header::LEN + 1);
    assert_eq!(router.error(), Icmp6Message::PacketTooBig { mtu: 1400 });
    router.give(FAR, 64, 1400 - Ipv6Header::LEN);
    router.far_frame();
    router.done();
}

#[test]
fn h5_a_router_passes_hop_by_hop_options_on() {
    // Breaks if a packet is dropped, or changed, because hop-by-hop options stand in it (RFC 9673 section 5.2).
    let router = Router6::new(1500);
    let options = [253, 0, 0x05, 2, 0, 0, 1, 0, 7, 7];
    let fields = Ipv6Fields {
        next: IpProto::HOP_BY_HOP,
        src: PEER6,
        dst: FAR,
        ..Ipv6Fields::default()
    };
    router.lab.give(&frame6(&fields, &options));
    let seen = router.far_frame();
    assert_eq!((seen.to, seen.dst, seen.hop_limit), (FAR_MAC, FAR, 63));
    assert_eq!(seen.payload, options);
    router.done();
}

#[test]
fn r2_link_local_and_loopback_addresses_stay_where_they_are() {
    // Breaks if a packet leaves the link in which its address is valid.
    let router = Router6::new(1500);
    router.give(link_local_of(FAR_MAC), 64, 100);
    assert_eq!(router.lab.dropped(DropReason::ForwardMartian), 1);
    // A default route leads everywhere else.
    let added = router.lab.stack.add_default_route(router.iface, FAR);
    assert!(added.is_ok());
    for (n, dst) in (1..).zip([
        Ipv6Addr::LOCALHOST,
        Ipv6Addr::UNSPECIFIED,
        Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0xc000, 0x0209),
        Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 5),
        Ipv6Addr::new(0xff0e, 0, 0, 0, 0, 0, 0, 5),
    ]) {
        router.give(dst, 64, 100);
        let dropped = router.lab.dropped(DropReason::IpNotForUs);
        assert_eq!(dropped, n, "{dst}");
    }
    assert!(router.lab.frames().is_empty());
    router.give(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1), 64, 100);
    assert_eq!(router.far_frame().to, FAR_MAC, "no other frame");
    router.done();
}

#[test]
fn r3_the_sender_of_a_packet_for_beyond_its_scope_is_told() {
    // RFC 4443 3.1, code 2: breaks if a host that chose its link-local address by mistake waits for an answer.
    let router = Router6::new(1500);
    let peer = link_local_of(PEER_MAC);
    let question = NeighborMessage::solicit(US6, Some(PEER_MAC), None);
    let frame = nd_frame(peer, solicited_node(US6), &question);
    router.lab.give(&frame);
    drop(router.lab.packets());
    for (dst, told) in [(FAR, true), (link_local_of(FAR_MAC), false)] {
        let fields = Ipv6Fields {
            next: IpProto(253),
            src: peer,
            dst,
            ..Ipv6Fields::default()
        };
        router.lab.give(&frame6(&fields, &pattern_bytes(100)));
        if told {
            let seen = parse6(&router.lab.frame());
            assert_eq!((seen.to, seen.dst), (PEER_MAC, peer));
            let beyond = Icmp6Message::DestUnreachable(Unreachable6::BeyondScope);
            assert_eq!(parse_icmp6(&seen).0.message(), beyond);
        }
    }
    assert_eq!(router.lab.dropped(DropReason::ForwardMartian), 2);
    router.done();
}

#[test]
fn i3_and_r3_each_kind_of_route_has_its_error() {
    // RFC 4443 3.1, codes 0, 1 and 6: breaks if a sender can't tell a missing route from one that an administrator set, or
    // hears of a black hole.
    let router = Router6::new(1500);
    let net = |n: u128| Ipv6Addr::from_bits(0xfd02 << 112 | n << 64);
    let kinds = [
        (None, Some(Unreachable6::NoRoute)),
        (
            Some(RouteKind::Prohibit),
            Some(Unreachable6::AdminProhibited),
        ),
        (Some(RouteKind::Reject), Some(Unreachable6::Reject)),
        (Some(RouteKind::Blackhole), None),
    ];
    for (n, (kind, told)) in (0..).zip(kinds) {
        let to = IfAddr {
            addr: net(n),
            prefix_len: 64,
        };
        if let Some(kind) = kind {
            router.lab.stack.add_route6(to, kind).expect("a new one");
            let listed = router.lab.stack.routes6();
            assert!(listed.iter().any(|r| r.net == to && r.kind == kind));
        }
        router.give(Ipv6Addr::from_bits(to.addr.to_bits() | 7), 64, 100);
        match told {
            Some(why) => assert_eq!(router.error(), Icmp6Message::DestUnreachable(why)),
            None => assert!(router.lab.frames().is_empty()),
        }
    }
    let reasons = [
        (DropReason::ForwardNoRoute, 2),
        (DropReason::ForwardProhibited, 1),
        (DropReason::ForwardBlackhole, 1),
    ];
    assert!(reasons.iter().all(|&(why, n)| router.lab.dropped(why) == n));
    router.done();
}

#[test]
fn i3_the_sender_is_told_that_a_station_of_the_last_link_is_absent() {
    // RFC 4443 3.1, code 3: breaks if the sender of a packet for an absent station waits for its own timeout.
    let router = Router6::new(1500);
    let absent = Ipv6Addr::from_bits(FAR.to_bits() + 1);
    router.give(absent, 64, 100);
    for _ in 0..3 {
        assert_eq!(router.far_frame().dst, solicited_node(absent));
        assert!(router.lab.frames().is_empty());
        router.lab.advance(Duration::from_secs(1));
    }
    let why = Icmp6Message::DestUnreachable(Unreachable6::Address);
    assert_eq!(router.error(), why);
    assert_eq!(router.lab.dropped(DropReason::NdNoAnswer), 1);
    router.done();
}

#[test]
fn i1_a_router_sends_no_error_about_a_redirect() {
    // Breaks if a packet that a router must not send leads to another packet (RFC 4443 section 2.4 e.2).
    let router = Router6::new(1500);
    let nowhere = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    for (kind, errors) in [(NdpMessage::REDIRECT, 0), (128, 1)] {
        let message = Icmp6Message::Other {
            kind,
            code: 0,
            rest: [0; 4],
        };
        let frame = icmp6_frame(PEER6, nowhere, 64, message, &[0; 32]);
        router.lab.give(&frame);
        assert_eq!(router.lab.frames().len(), errors, "type {kind}");
    }
    assert_eq!(router.lab.dropped(DropReason::ForwardNoRoute), 2);
    router.done();
}

#[test]
fn i3_and_r3_a_source_address_of_another_link_is_refused() {
    // RFC 4443 3.1, code 5: breaks if a station of a link that is checked can send by another's address, or not by its own.
    let router = Router6::new(1500);
    let from = |src| Ipv6Fields {
        next: IpProto(253),
        src,
        dst: PEER6,
        ..Ipv6Fields::default()
    };
    let near = Ipv6Addr::from_bits(PEER6.to_bits() + 1);
    let question = NeighborMessage::solicit(US6, Some(PEER_MAC), None);
    let frame = nd_frame(near, solicited_node(US6), &question);
    router.lab.give(&frame);
    drop(router.lab.packets());
    router.give_far(&frame6(&from(near), &pattern_bytes(100)));
    let refused = parse6(&router.lab.frame());
    assert_eq!(refused.dst, near);
    let why = Icmp6Message::DestUnreachable(Unreachable6::SourcePolicy);
    assert_eq!(parse_icmp6(&refused).0.message(), why);
    assert_eq!(router.lab.dropped(DropReason::ForwardSource), 1);
    router.give_far(&frame6(&from(FAR), &pattern_bytes(100)));
    let passed = parse6(&router.lab.frame());
    assert_eq!((passed.src, passed.dst), (FAR, PEER6));
    router.done();
}

#[test]
fn n4_a_router_sends_at_once_to_a_station_that_advertised_itself() {
    // RFC 9131: breaks if the first packet for a new station waits for a question.
    let router = Router6::new(1500);
    let station = Ipv6Addr::from_bits(FAR.to_bits() + 1);
    let mac = MacAddr([2, 0, 0, 0, 3, 10]);
    let advert = NeighborMessage::advert(station, mac, AdvertFlags::default());
    router.give_far(&nd_frame(station, wire::ALL_ROUTERS, &advert));
    router.give(station, 64, 100);
    let passed = router.far_frame();
    assert_eq!((passed.to, passed.dst), (mac, station));
    router.done();
}

#[test]
fn r4_a_neighbour_is_told_of_the_better_first_hop() {
    // RFC 4861 8.2: breaks if a station of the link is not told of another router there, or of a destination there, or is told
    // as often as it sends; or if the packet that it sent is not sent on.
    let router = Router6::new(1500);
    let (other_mac, network) = (
        MacAddr([2, 0, 0, 0, 7, 7]),
        Ipv6Addr::from_bits(0xfd02 << 112),
    );
    let other = link_local_of(other_mac);
    let behind = Ipv6Addr::from_bits(network.to_bits() | 5);
    let route = RouteKind::Gateway(router.lab.iface, other);
    let to = IfAddr {
        addr: network,
        prefix_len: 64,
    };
    router.lab.stack.add_route6(to, route).expect("a new one");
    let near = Ipv6Addr::from_bits(US6.to_bits() ^ 0x70);
    for (addr, mac) in [(other, other_mac), (near, other_mac)] {
        let question = NeighborMessage::solicit(US6, Some(mac), None);
        router
            .lab
            .give(&nd_frame(addr, solicited_node(US6), &question));
        // A packet, and a check of the station, which is answered: it is there.
        let answer = NeighborMessage::advert(
            addr,
            mac,
            AdvertFlags {
                router: true,
                solicited: true,
                overrides: true,
            },
        );
        router.lab.give(&nd_frame(addr, US6, &answer));
    }
    drop(router.lab.packets());
    for (dst, target) in [(behind, other), (near, near)] {
        router.give(dst, 64, 1400);
        let seen: Vec<_> = router
            .lab
            .frames()
            .iter()
            .map(|frame| parse6(frame))
            .collect();
        let [redirect, passed] = &seen[..] else {
            panic!("{} frames", seen.len());
        };
        assert_eq!(
            (passed.to, passed.dst, passed.hop_limit),
            (other_mac, dst, 63)
        );
        let from = (redirect.src, redirect.dst, redirect.hop_limit);
        assert_eq!(from, (link_local_of(OUR_MAC), PEER6, 255));
        let (header, body) = parse_icmp6(redirect);
        let message = NdpMessage::parse(header.kind(), header.rest(), &body).expect("whole");
        let NdpMessage::Redirect {
            target: told,
            dst: of,
            options,
        } = message
        else {
            panic!("{message:?}");
        };
        assert_eq!((told, of, options.target()), (target, dst, Some(other_mac)));
        // The smallest MTU, with the packet as it came, its hops among it.
        assert_eq!(body.len(), 1280 - Ipv6Header::LEN - 8);
        assert_eq!((body[40], body[48 + 7]), (4, 64));
    }
    for _ in 0..1000 {
        router.give(near, 64, 100);
    }
    let told = router.lab.frames().len() - 1000;
    assert!(told < 200, "{told} redirects");
    // Not a station of the link.
    let far = Ipv6Fields {
        next: IpProto(253),
        src: FAR,
        dst: near,
        ..Ipv6Fields::default()
    };
    router.lab.give(&frame6(&far, &pattern_bytes(100)));
    assert_eq!(router.lab.frames().len(), 1);
    router.done();
}

/// Two stacks on a pipe.
struct Two {
    clock: Arc<VirtualClock>,
    ends: [(Stack, IfIndex); 2],
}

const LEFT: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
const RIGHT: Ipv6Addr = US6;

impl Two {
    fn new(caps: Capabilities) -> Self {
        let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
        let (a, b) = Pipe::pair(caps);
        let mut n = 0;
        let ends = [a, b].map(|device| {
            n += 1;
            let config = Config::new(clock.clone(), Random::from_seed(n.into()));
            let stack = Stack::new(config).unwrap();
            let addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, n);
            let config = IfConfig {
                mac: Some(MacAddr([2, 0, 0, 0, 1, n as u8])),
                ..IfConfig::new("pipe0").with_addr(addr, 64)
            };
            let index = stack.attach(Arc::new(device), config).unwrap();
            (stack, index)
        });
        Self { clock, ends }
    }

    /// Lets everything happen that takes no time, and then `ms`.
    fn run(&self, ms: u64) {
        for _ in 0..=ms {
            for _ in 0..8 {
                for (stack, index) in &self.ends {
                    while stack.poll_interface(*index, ALL).unwrap() {}
                    stack.poll();
                }
            }
            self.clock.advance(Duration::from_millis(1));
        }
    }

    fn done(self) {
        for _ in 0..400 {
            self.clock.advance(Duration::from_secs(1));
            self.run(0);
        }
        let pools = self.ends.each_ref().map(|(stack, _)| stack.pool().clone());
        for (stack, _) in &self.ends {
            let stats = stack.stats();
            let inward = stats
                .dropped
                .iter()
                .filter(|(reason, _)| !reason.is_outward());
            let dropped: u64 = inward.map(|&(_, n)| n).sum();
            assert_eq!(
                stats.received,
                stats.delivered + dropped,
                "{:?}",
                stats.dropped
            );
        }
        drop(self.ends);
        assert!(pools.iter().all(|pool| pool.live() == Live::NONE));
    }
}

/// Sends a megabyte from one end to the other.
fn transfer(caps: Capabilities, local: SocketAddr, peer: SocketAddr) {
    let two = Two::new(caps);
    let [(left, _), (right, _)] = &two.ends;
    let listener = right.tcp_listen(at6(Ipv6Addr::UNSPECIFIED, 80), 8).unwrap();
    let stream = left.tcp_connect(local, peer).unwrap();
    two.run(5);
    let accepted = listener.accept().expect("the handshake is over");
    assert_eq!(accepted.peer_addr().ip(), stream.local_addr().ip());
    let data = pattern_bytes(1 << 20);
    let (mut sent, mut got) = (0, Vec::new());
    let mut buf = vec![0; 1 << 16];
    for _ in 0..20_000 {
        if let Ok(n) = stream.send(&data[sent..]) {
            sent += n;
        }
        two.run(1);
        while let Ok(n @ 1..) = accepted.recv(&mut buf) {
            got.extend_from_slice(&buf[..n]);
        }
        if got.len() == data.len() {
            break;
        }
    }
    assert!(got == data, "{} of {} bytes", got.len(), data.len());
    let lost = left.stats().tcp.retransmitted_segments;
    assert_eq!(lost, 0, "nothing was lost");
    drop((stream, accepted, listener));
    two.done();
}

#[test]
fn tcp_over_a_device_that_does_nothing() {
    // Breaks if software cuts or sums a segment of IPv6 wrongly.
    transfer(Capabilities::plain(1500), at6(LEFT, 0), at6(RIGHT, 80));
}

#[test]
fn tcp_over_a_device_that_takes_it_whole() {
    // Breaks if a large segment is not what the peer takes in.
    transfer(
        Capabilities::whole(1500),
        at6(Ipv6Addr::UNSPECIFIED, 0),
        at6(RIGHT, 80),
    );
}

#[test]
fn s9_link_local_addresses_need_their_zone() {
    // Breaks if a connection to a link-local address takes any link, or none.
    let far = link_local_of(MacAddr([2, 0, 0, 0, 1, 2]));
    let two = Two::new(Capabilities::plain(1500));
    let (left, index) = &two.ends[0];
    let without = left.tcp_connect(at6(Ipv6Addr::UNSPECIFIED, 0), at6(far, 80));
    assert_eq!(without.err(), Some(SocketError::Unreachable));
    let zone = index.number();
    two.done();
    let with: SocketAddr = SocketAddrV6::new(far, 80, 0, zone).into();
    transfer(
        Capabilities::plain(1500),
        at6(Ipv6Addr::UNSPECIFIED, 0),
        with,
    );
}

#[test]
fn a_closed_port_refuses_and_no_route_is_told() {
    // Breaks if a refusal over IPv6 does not end a connect, or a connect to an address without a route, or to a group,
    // waits.
    let two = Two::new(Capabilities::plain(1500));
    let left = &two.ends[0].0;
    let refused = left.tcp_connect(at6(LEFT, 0), at6(RIGHT, 81)).unwrap();
    two.run(5);
    assert_eq!(refused.error(), Some(SocketError::Refused));
    let stranger = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    let unreachable = left.tcp_connect(at6(LEFT, 0), at6(stranger, 80));
    assert_eq!(unreachable.err(), Some(SocketError::Unreachable));
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let zone = two.ends[0].1.number();
    for group in [at6(group, 80), SocketAddrV6::new(group, 80, 0, zone).into()] {
        let to_many = left.tcp_connect(at6(LEFT, 0), group);
        assert_eq!(to_many.err(), Some(SocketError::Unreachable));
    }
    drop(refused);
    two.done();
}

#[test]
fn udp_both_ways_and_an_error_from_a_closed_port() {
    // Breaks if a datagram, or the error about one, finds another socket.
    let two = Two::new(Capabilities::plain(1500));
    let [(left, _), (right, _)] = &two.ends;
    let asks = left.udp_bind(at6(Ipv6Addr::UNSPECIFIED, 0)).unwrap();
    let answers = right.udp_bind(at6(Ipv6Addr::UNSPECIFIED, 53)).unwrap();
    let chain = |stack: &Stack, bytes: &[u8]| Chain::from_slice(stack.pool(), bytes).unwrap();
    asks.send_to(chain(left, b"question"), at6(RIGHT, 53))
        .unwrap();
    two.run(1);
    let question = answers.recv().unwrap();
    assert_eq!(question.src.ip(), LEFT);
    answers
        .send(chain(right, b"answer"), question.dst, question.src)
        .unwrap();
    two.run(1);
    assert_eq!(asks.recv().unwrap().payload.to_vec(), b"answer");
    drop(question);
    asks.send_to(chain(left, b"question"), at6(RIGHT, 54))
        .unwrap();
    two.run(1);
    assert_eq!(asks.take_error().unwrap().dst, at6(RIGHT, 54));
    drop((asks, answers));
    two.done();
}

#[test]
fn a_stack_talks_to_itself() {
    // Breaks if a new stack has no ::1, or solicits an address of its own on the link.
    let two = Two::new(Capabilities::plain(1500));
    let left = &two.ends[0].0;
    for addr in [Ipv6Addr::LOCALHOST, LEFT] {
        let listener = left.tcp_listen(at6(addr, 80), 8).unwrap();
        let any = at6(Ipv6Addr::UNSPECIFIED, 0);
        let stream = left.tcp_connect(any, at6(addr, 80)).unwrap();
        let accepted = listener.accept().expect("nothing was waited for");
        assert_eq!(accepted.peer_addr().ip(), addr);
        stream.send(b"hello").unwrap();
        let mut buf = [0; 16];
        assert_eq!(accepted.recv(&mut buf), Ok(5));
    }
    two.done();
}

#[test]
fn a_route_leads_through_a_gateway() {
    // Breaks if a packet to another network is sent to its own address, or a route to a link's network is taken.
    let lab = lab();
    introduce6(&lab);
    let far = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    lab.stack.add_default_route(lab.iface, PEER6).unwrap();
    let socket = lab.stack.udp_bind(at6(US6, 7)).unwrap();
    socket.send_to(lab.chain(b"hello"), at6(far, 9)).unwrap();
    let seen = parse6(&lab.frame());
    assert_eq!((seen.to, seen.dst), (PEER_MAC, far));
    let link = IfAddr {
        addr: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0),
        prefix_len: 64,
    };
    assert!(
        lab.stack
            .add_route6(link, RouteKind::Link(lab.iface))
            .is_err()
    );
    assert_eq!(lab.stack.routes6().len(), 6);
    drop(socket);
    lab.done();
}

#[test]
fn h8_a_segment_to_a_group_is_dropped_behind_options_too() {
    // Breaks if a SYN to a group is answered because options stand before it (RFC 9293 section 3.9.2.3).
    let lab = lab();
    introduce6(&lab);
    let mut syn = vec![0; 20];
    syn[..4].copy_from_slice(&[0, 9, 0, 80]);
    syn[12..14].copy_from_slice(&[0x50, 0x02]);
    let mut sum = pseudo_header_v6(PEER6, ALL_NODES, IpProto::TCP, 20);
    sum.add_bytes(&syn);
    syn[16..18].copy_from_slice(&sum.finish().to_be_bytes());
    let fields = Ipv6Fields {
        next: IpProto::DEST_OPTIONS,
        src: PEER6,
        dst: ALL_NODES,
        ..Ipv6Fields::default()
    };
    let options = [6, 0, 1, 4, 0, 0, 0, 0];
    lab.give(&frame6(&fields, &[&options[..], &syn].concat()));
    lab.give(&frame6(
        &Ipv6Fields {
            next: IpProto::TCP,
            ..fields
        },
        &syn,
    ));
    assert_eq!(lab.dropped(DropReason::IpNotForUs), 2);
    assert!(lab.frames().is_empty());
    lab.done();
}
