//! Input of IPv6 by a host: headers, addresses, checksums, pings and errors. Each test is named after its point.

use std::net::Ipv6Addr;

use crate::common::net::*;
use crate::frames6::*;
use mbuma::device::Capabilities;
use mbuma::{DropReason, IfAddr};
use wire::{
    Icmp6Header, Icmp6Message, IpProto, Ipv6Fields, Ipv6Header, UdpHeader, Unreachable6,
    pseudo_header_v6,
};

#[test]
fn i7_a_ping_is_answered_from_the_address_asked() {
    // Breaks if an answer has another source, or loses bytes.
    let lab = introduced();
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
}

#[test]
fn a_gateway_answers_for_no_address_of_a_link() {
    // RFC 4291 2.5.6: breaks if an interface that accepts any address takes packets from or to link-local addresses,
    // which its program would send on to the host's links.
    let lab = Lab::new(Setup {
        accept_any: true,
        addrs: vec![IfAddr::new(US6, 64)],
        ..Setup::default()
    });
    let far = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    let near = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 77);
    for (src, dst, refused) in [(PEER6, far, 0), (PEER6, near, 1), (near, far, 2)] {
        let fields = Ipv6Fields {
            next: IpProto(253),
            src,
            dst,
            ..Ipv6Fields::default()
        };
        lab.give(&frame6(&fields, b"12345678"));
        assert_eq!(lab.dropped(DropReason::IpNotForUs), refused, "{src} {dst}");
    }
}

#[test]
fn h2_an_unknown_next_header_is_told_with_its_place() {
    // Breaks if the sender does not learn of it, or the pointer is wrong (RFC 8200 section 4).
    let lab = introduced();
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
}

#[test]
fn a_packet_that_says_no_length_is_told() {
    // Breaks if the stack takes a packet without a length, counts none of them, or the sender does not learn of one
    // (RFC 2675 section 3), at a host and at a router.
    let lab = introduced();
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
    // Breaks if a stack looks at too few bytes to see that a packet is an ICMPv6 error and answers it, or answers no
    // packet whose options are that long (RFC 4443 section 2.4 e.1).
    let lab = introduced();
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
}

#[test]
fn h4_and_i1_an_unknown_option_to_a_group_is_told_if_it_asks_for_that() {
    // Breaks if a host can't find out which stations of a group lack an option, or one packet to a group makes many
    // errors though its option asks for none (RFC 4443 section 2.4 e.3, RFC 8200 section 4.2).
    let lab = introduced();
    for (dst, kind, told) in [
        (ALL_NODES, 0x9e, true),
        (ALL_NODES, 0xde, false),
        (ALL_NODES, 0x5e, false),
        (US6, 0xde, true),
    ] {
        let fields = Ipv6Fields {
            dst,
            ..from_peer6(IpProto::DEST_OPTIONS)
        };
        lab.give(&frame6(&fields, &[59, 0, 1, 0, kind, 2, 0, 0]));
        let answers = lab.frames();
        assert_eq!(answers.len(), usize::from(told), "{kind:x} to {dst}");
        for frame in &answers {
            let seen = parse6(frame);
            let problem = Icmp6Message::ParamProblem {
                code: 2,
                pointer: 44,
            };
            assert_eq!(parse_icmp6(&seen).0.message(), problem);
            assert_eq!((seen.src, seen.dst), (US6, PEER6));
        }
    }
    assert_eq!(lab.dropped(DropReason::IpBadOptions), 4);
}

#[test]
fn h3_the_bytes_of_headers_are_bounded() {
    // Breaks if a packet whose headers are longer than a host must look at costs more work than others.
    let lab = Lab::new(Setup {
        caps: Capabilities::plain(9000),
        addrs: vec![IfAddr::new(US6, 64)],
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
}

#[test]
fn i2_an_error_quotes_as_much_as_fits_the_smallest_mtu() {
    // Breaks if an error does not fit each path, or the sender can't see which of its packets it is about.
    let lab = introduced();
    for len in [100, 1500 - Ipv6Header::LEN] {
        let frame = frame6(&from_peer6(IpProto(253)), &pattern_bytes(len));
        lab.give(&frame);
        let seen = parse6(&lab.frame());
        let (_, quote) = parse_icmp6(&seen);
        assert_eq!(quote, frame[14..][..quote.len()]);
        let whole = 2 * Ipv6Header::LEN + Icmp6Header::LEN + len;
        assert_eq!(Ipv6Header::LEN + seen.payload.len(), whole.min(1280));
    }
}

#[test]
fn h8_impossible_sources_and_strange_destinations_are_dropped() {
    // Breaks if the stack accepts from a link a packet from a group, from this host itself, or to the loopback address.
    let lab = introduced();
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
}

#[test]
fn h9_a_datagram_without_checksum_is_dropped() {
    // Breaks if an address that was damaged on the way makes a datagram ours (RFC 8200 8.1).
    let lab = introduced();
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
}

#[test]
fn h9_a_sum_of_zero_is_sent_as_all_ones() {
    // Breaks if one datagram of 65,536 is sent as if it had no checksum (RFC 8200 8.1).
    let lab = introduced();
    let socket = lab.stack.udp_bind(at6(US6, 7)).unwrap();
    let sum_of = |data: [u8; 2]| {
        socket.send_to(lab.chain(&data), at6(PEER6, 9)).unwrap();
        let sent = parse6(&lab.frame()).payload;
        [sent[6], sent[7]]
    };
    // With the sum of the datagram of two zeros as its payload, a datagram has the sum 0.
    let payload = sum_of([0; 2]);
    assert_eq!(sum_of(payload), [0xff; 2]);
}

#[test]
fn i3_a_closed_port_is_told() {
    // Breaks if a sender waits for an answer that can't come.
    let lab = introduced();
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
}

#[test]
fn without_an_address_there_is_no_ipv6() {
    // Breaks if an interface that was given no address of IPv6 takes part in it.
    let lab = Lab::plain();
    let ping = Icmp6Message::EchoRequest { id: 5, seq: 9 };
    lab.give(&icmp6_frame(PEER6, ALL_NODES, 64, ping, b""));
    assert_eq!(lab.dropped(DropReason::UnknownEtherType), 1);
}

#[test]
fn h8_a_segment_to_a_group_is_dropped_behind_options_too() {
    // Breaks if a SYN to a group is answered because options stand before it (RFC 9293 section 3.9.2.3).
    let lab = introduced();
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
}
