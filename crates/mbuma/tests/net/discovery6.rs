//! Neighbour discovery by a host: questions, answers, and the end of an entry. Each test is named after its point.

use std::net::Ipv6Addr;
use std::time::Duration;

use crate::common::net::*;
use crate::frames6::*;
use kern::Random;
use mbuma::{Config, DropReason, IfAddr};
use wire::{
    AdvertFlags, Icmp6Message, IpProto, MacAddr, NdpMessage, NeighborMessage, UdpHeader,
    link_local_of, pseudo_header_v6, solicited_node,
};

#[test]
fn n9_a_question_is_answered() {
    // Breaks if a station that asks for our address is not answered, or not as RFC 4861 7.2.4 says.
    let lab = introduced();
    // The link-local address is made of the MAC, and is ours too.
    let own = link_local_of(OUR_MAC);
    let question = NeighborMessage::solicit(own, Some(PEER_MAC), None);
    lab.give(&nd_frame(PEER6, solicited_node(own), &question));
    assert_eq!(parse6(&lab.frame()).src, own);
    // Another's is not.
    let question = NeighborMessage::solicit(PEER6, Some(PEER_MAC), None);
    lab.give(&nd_frame(PEER6, US6, &question));
    assert!(lab.frames().is_empty());
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
}

#[test]
fn n9_an_answer_to_one_station_reaches_no_other() {
    // Breaks if a station makes us send to all others, or to a group, by the Ethernet address that it says it has.
    let lab = lab();
    for mac in [
        MacAddr::BROADCAST,
        MacAddr([0x33, 0x33, 0, 0, 0, 1]),
        MacAddr::ZERO,
    ] {
        let question = NeighborMessage::solicit(US6, Some(mac), None);
        lab.give(&nd_frame(PEER6, solicited_node(US6), &question));
        // Only a question for the station itself.
        for frame in lab.frames() {
            let seen = parse6(&frame);
            assert_eq!(
                (parse_icmp6(&seen).0.kind(), seen.dst),
                (135, solicited_node(PEER6))
            );
        }
    }
    for mac in [MacAddr::BROADCAST, MacAddr([0x33, 0x33, 0, 0, 0, 1])] {
        let flags = AdvertFlags {
            router: false,
            solicited: true,
            overrides: true,
        };
        let answer = NeighborMessage::advert(PEER6, mac, flags);
        lab.give(&nd_frame(PEER6, US6, &answer));
        assert!(lab.frames().is_empty());
    }
    let question = NeighborMessage::solicit(US6, Some(PEER_MAC), None);
    lab.give(&nd_frame(PEER6, solicited_node(US6), &question));
    let answers = lab.frames();
    assert_eq!(answers.len(), 4, "three waited");
    assert!(answers.iter().all(|frame| parse6(frame).to == PEER_MAC));
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
}

#[test]
fn n1_malformed_messages_are_dropped_whole_and_reserved_fields_are_not_looked_at() {
    // Breaks if a message with a code, without its fixed part, or with an option of no length is believed in part, or
    // if a later version of the protocol can't use the reserved field (RFC 4861 section 7.1).
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
}

#[test]
fn n3_and_n8_a_stale_neighbour_is_probed_alone_before_it_is_given_up() {
    // RFC 4861 appendix C, rows DELAY and PROBE: breaks if the first packet to a stale neighbour waits, if all stations
    // are asked at once, if probes never end, or if an answer does not end them.
    let lab = introduced();
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
    let answer = NeighborMessage::advert(PEER6, PEER_MAC, ANSWER);
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
}

#[test]
fn n3_each_interface_believes_answers_for_a_time_of_its_own() {
    // Breaks if all hosts of a link probe their router at once, or believe it for less than half or for more than one
    // and a half times the 30 s of RFC 4861 section 6.3.2.
    let seeds: [fn(&mut Config); 6] = [
        |config| config.random = Random::from_seed(1),
        |config| config.random = Random::from_seed(2),
        |config| config.random = Random::from_seed(3),
        |config| config.random = Random::from_seed(4),
        |config| config.random = Random::from_seed(5),
        |config| config.random = Random::from_seed(6),
    ];
    let mut times = Vec::new();
    for tune in seeds {
        let lab = Lab::new(Setup {
            addrs: vec![IfAddr::new(US6, 64)],
            tune,
            ..Setup::default()
        });
        let socket = lab.stack.udp_bind(at6(US6, 7)).unwrap();
        let send = || socket.send_to(lab.chain(b"hello"), at6(PEER6, 9)).unwrap();
        send();
        let answer = NeighborMessage::advert(PEER6, PEER_MAC, ANSWER);
        lab.give(&nd_frame(PEER6, US6, &answer));
        // A packet each second: the first after the time begins a probe, which asks 5 s later.
        let asks = |frame: &Vec<u8>| parse6(frame).next == IpProto::ICMPV6;
        drop(lab.frames());
        let asked = (1..60).find(|_| {
            lab.advance(Duration::from_secs(1));
            send();
            lab.frames().iter().any(asks)
        });
        let reachable = asked.expect("it is probed") - 5;
        assert!((15..=46).contains(&reachable), "{reachable} s");
        times.push(reachable);
        drop(socket);
        lab.advance(Duration::from_secs(10));
        drop(lab.packets());
    }
    times.sort_unstable();
    times.dedup();
    assert!(times.len() > 3, "{times:?}");
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
    let answer = NeighborMessage::advert(PEER6, PEER_MAC, ANSWER);
    lab.give(&nd_frame(PEER6, US6, &answer));
    let seen = parse6(&lab.frame());
    assert_eq!((seen.to, seen.next), (PEER_MAC, IpProto::UDP));
    let mut sum = pseudo_header_v6(US6, PEER6, IpProto::UDP, seen.payload.len() as u32);
    sum.add_bytes(&seen.payload);
    assert!(sum.is_valid(), "UDP checksum");
    assert_eq!(&seen.payload[UdpHeader::LEN..], b"hello");
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
}
