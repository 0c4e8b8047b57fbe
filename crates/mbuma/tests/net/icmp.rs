//! Pings and errors over a wire that the test holds the other end of.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::common::net::*;
use crate::frames6::*;
use mbuma::socket::RecvError;
use mbuma::{DropReason, IcmpError, IfAddr};
use wire::{
    Icmp6Message, IcmpMessage, IpProto, Ipv4Fields, Ipv4Header, MacAddr, TimeExceeded, Unreachable,
};

/// Breaks if the answer to a ping has other bytes, or another source than the pinged address.
#[test]
fn a_ping_is_answered_with_its_bytes_from_its_address() {
    for len in [0, 1, 56, 1472] {
        let lab = Lab::plain();
        let data = pattern_bytes(len);
        lab.give(&ping_frame(US, 77, 3, &data));
        let frame = lab.frame();
        let seen = parse(&frame);
        assert_eq!((seen.src, seen.dst, seen.ttl), (US, PEER, 64));
        assert_eq!(
            parse_icmp(&frame),
            (IcmpMessage::EchoReply { id: 77, seq: 3 }, data)
        );
    }
}

/// Breaks if a broadcast ping is answered, or a damaged one.
#[test]
fn broadcast_and_damaged_pings_get_no_answer() {
    let lab = Lab::plain();
    let everybody = Ipv4Addr::new(10, 0, 2, 255);
    let message = icmp(IcmpMessage::EchoRequest { id: 1, seq: 1 }, b"hello");
    let packet = ip(&from_peer(everybody, IpProto::ICMP), &message);
    lab.give(&ether(MacAddr::BROADCAST, wire::EtherType::IPV4, &packet));
    assert_eq!(lab.dropped(DropReason::IcmpUnhandled), 1);
    let mut damaged = ping_frame(US, 1, 1, b"hello");
    *damaged.last_mut().unwrap() ^= 1;
    lab.give(&damaged);
    assert_eq!(lab.dropped(DropReason::IcmpBadChecksum), 1);
    assert!(lab.frames().is_empty());
}

/// Breaks if a stack that must not answer pings does, or the socket that took over foreign ones gets none.
#[test]
fn pings_get_no_answer_if_the_stack_is_told_so() {
    let lab = Lab::new(Setup {
        accept_any: true,
        addrs: vec![IfAddr::new(US6, 64)],
        tune: |config| config.echo_replies = false,
        ..Setup::default()
    });
    lab.give(&ping_frame(US, 77, 3, b"anybody there?"));
    let ping6 = Icmp6Message::EchoRequest { id: 77, seq: 3 };
    for to in [US6, ALL_NODES] {
        lab.give(&icmp6_frame(PEER6, to, 64, ping6, b"anybody there?"));
    }
    assert_eq!(lab.dropped(DropReason::IcmpUnhandled), 3);
    let echoes = lab.stack.icmp_echo_any(lab.iface).unwrap();
    lab.give(&ping_frame(FOREIGN, 5, 2, b"answer me"));
    assert!(echoes.recv().is_ok());
    assert!(lab.frames().is_empty());
}

/// Breaks if pings to foreign addresses are answered by the stack itself, or don't reach the socket that took
/// them over, or come back wrong.
#[test]
fn foreign_pings_go_to_the_interceptor() {
    let lab = Lab::gateway();
    lab.give(&ping_frame(FOREIGN, 5, 1, b"nobody listens"));
    assert_eq!(lab.dropped(DropReason::IcmpUnhandled), 1);

    let echoes = lab.stack.icmp_echo_any(lab.iface).unwrap();
    assert!(
        lab.stack.icmp_echo_any(lab.iface).is_err(),
        "one an interface"
    );
    lab.give(&ping_frame(FOREIGN, 5, 2, b"answer me"));
    lab.give(&ping_frame(US, 5, 3, b"this one is yours"));
    assert_eq!(
        parse_icmp(&lab.frame()).0,
        IcmpMessage::EchoReply { id: 5, seq: 3 }
    );

    let mut echo = echoes.recv().unwrap();
    assert!(matches!(echoes.recv(), Err(RecvError::WouldBlock)));
    assert_eq!(
        (echo.src, echo.dst, echo.id, echo.seq, echo.ttl),
        (PEER.into(), FOREIGN.into(), 5, 2, 64)
    );
    echoes.reply(&echo, lab.chain(b"answer me"));
    let frame = lab.frame();
    assert_eq!((parse(&frame).src, parse(&frame).dst), (FOREIGN, PEER));
    let answer = (
        IcmpMessage::EchoReply { id: 5, seq: 2 },
        b"answer me".to_vec(),
    );
    assert_eq!(parse_icmp(&frame), answer);

    // Refused: the error comes from the gateway and quotes the ping, bit for bit.
    echoes.refuse(&echo, IcmpError::Host);
    let frame = lab.frame();
    assert_eq!((parse(&frame).src, parse(&frame).dst), (US, PEER));
    let (message, quote) = parse_icmp(&frame);
    assert_eq!(
        message,
        IcmpMessage::DestUnreachable(Unreachable::HostUnreachable)
    );
    assert_eq!(quote, ping_frame(FOREIGN, 5, 2, b"answer me")[14..]);
    // Larger than any packet that can arrive: no error is sent.
    for len in [65_508, 65_530, 131_071] {
        echo.payload = lab.chain(&pattern_bytes(len));
        echoes.refuse(&echo, IcmpError::Host);
    }
    assert!(lab.frames().is_empty());

    drop((echo, echoes));
    lab.give(&ping_frame(FOREIGN, 5, 4, b"nobody again"));
    assert_eq!(lab.dropped(DropReason::IcmpUnhandled), 2);
}

/// Breaks if a datagram to a closed port is not refused, or the error does not quote its header and
/// as much as fits 576 bytes.
#[test]
fn port_unreachable_quotes_the_datagram() {
    for len in [0, 8, 520, 521, 1400] {
        let lab = Lab::plain();
        let frame = udp_frame(4000, at(US, 9), &pattern_bytes(len));
        lab.give(&frame);
        let answer = lab.frame();
        assert_eq!((parse(&answer).src, parse(&answer).dst), (US, PEER));
        let (message, quote) = parse_icmp(&answer);
        assert_eq!(
            message,
            IcmpMessage::DestUnreachable(Unreachable::PortUnreachable)
        );
        let original = &frame[14..];
        assert_eq!(quote, original[..original.len().min(548)]);
        assert!(answer.len() - 14 <= 576);
        assert_eq!(lab.dropped(DropReason::UdpNoSocket), 1);
    }
}

/// Breaks if errors answer what RFC 1122 3.2.2 says must never be answered.
#[test]
fn errors_are_not_sent_about() {
    let lab = Lab::plain();
    let to = at(US, 9);
    let datagram = udp(at(PEER, 1), to, b"closed");
    let fields = from_peer(US, IpProto::UDP);
    // ...a fragment other than the first,
    let unknown = Ipv4Fields {
        protocol: IpProto(200),
        ..fields
    };
    let later = Ipv4Fields {
        frag_offset: 64,
        ..unknown
    };
    lab.give(&ip_frame(&later, b"12345678"));
    lab.advance(Duration::from_secs(31));
    // ...an ICMP error,
    let quote = ip(
        &Ipv4Fields {
            src: US,
            dst: PEER,
            ..fields
        },
        &datagram,
    );
    let error = icmp(
        IcmpMessage::DestUnreachable(Unreachable::PortUnreachable),
        &quote,
    );
    lab.give(&ip_frame(&from_peer(US, IpProto::ICMP), &error));
    // ...a broadcast, on the link or on the network,
    let everybody = Ipv4Addr::new(10, 0, 2, 255);
    let many = ip(
        &Ipv4Fields {
            dst: everybody,
            ..fields
        },
        &udp(at(PEER, 1), at(everybody, 9), b""),
    );
    lab.give(&ether(MacAddr::BROADCAST, wire::EtherType::IPV4, &many));
    let one = ip(&fields, &datagram);
    lab.give(&ether(MacAddr::BROADCAST, wire::EtherType::IPV4, &one));
    // ...a source that is not one host.
    for src in [
        Ipv4Addr::UNSPECIFIED,
        Ipv4Addr::new(127, 0, 0, 1),
        everybody,
        US,
    ] {
        lab.give(&ip_frame(
            &Ipv4Fields { src, ..fields },
            &udp(at(src, 1), to, b""),
        ));
    }
    assert!(lab.frames().is_empty());
    // But an unknown protocol is answered.
    lab.give(&ip_frame(&unknown, b"12345678"));
    let (message, _) = parse_icmp(&lab.frame());
    assert_eq!(
        message,
        IcmpMessage::DestUnreachable(Unreachable::ProtocolUnreachable)
    );
}

/// Breaks if two routers can answer each other's errors for ever: an ICMP error whose hops are used up here is
/// dropped in silence (RFC 1122 3.2.2), where a ping is answered.
#[test]
fn no_error_is_sent_about_an_error() {
    let lab = Lab::gateway();
    let fields = Ipv4Fields {
        ttl: 1,
        ..from_peer(FOREIGN, IpProto::ICMP)
    };
    let quote = ip(
        &from_peer(US, IpProto::UDP),
        &udp(at(PEER, 1), at(US, 9), b""),
    );
    let errors = [
        IcmpMessage::DestUnreachable(Unreachable::PortUnreachable),
        IcmpMessage::TimeExceeded(TimeExceeded::Transit),
    ];
    for error in errors {
        lab.give(&ip_frame(&fields, &icmp(error, &quote)));
        assert!(lab.frames().is_empty(), "{error:?}");
    }
    // One too short to say what it is may be an error.
    lab.give(&ip_frame(&fields, &[3, 3]));
    assert!(lab.frames().is_empty());
    let ping = icmp(IcmpMessage::EchoRequest { id: 1, seq: 1 }, b"");
    lab.give(&ip_frame(&fields, &ping));
    let (message, _) = parse_icmp(&lab.frame());
    assert_eq!(message, IcmpMessage::TimeExceeded(TimeExceeded::Transit));
}

/// Breaks if a flood of bad packets becomes a flood of errors, or if errors stop for good after one.
#[test]
fn errors_are_limited() {
    let bad = Ipv4Fields {
        options: &[7, 5, 4, 0],
        ..from_peer(US, IpProto::UDP)
    };
    let closed = udp_frame(4000, at(US, 9), b"");
    for frame in [closed, ip_frame(&bad, b"12345678")] {
        limited(&frame);
    }
}

/// Gives the stack the frame, which causes an error, again and again.
fn limited(frame: &[u8]) {
    let lab = Lab::new(Setup {
        tune: |c| c.icmp_errors_per_s = 100,
        ..Setup::default()
    });
    for _ in 0..1000 {
        lab.give(frame);
    }
    let first = lab.frames().len();
    assert!((1..=11).contains(&first), "{first} errors at once");
    assert_eq!(
        lab.dropped(DropReason::IcmpRateLimited),
        1000 - first as u64
    );
    let mut later = 0;
    for _ in 0..1000 {
        lab.advance(Duration::from_millis(1));
        lab.give(frame);
        later += lab.frames().len();
    }
    assert!((95..=105).contains(&later), "{later} errors in a second");
}

/// Breaks if a traceroute does not find the gateway, or if hops count for packets that end here.
#[test]
fn hops_are_used_up_on_the_way_through() {
    let lab = Lab::gateway();
    let fields = Ipv4Fields {
        ttl: 1,
        ..from_peer(FOREIGN, IpProto::UDP)
    };
    let frame = ip_frame(&fields, &udp(at(PEER, 1), at(FOREIGN, 33434), b"probe"));
    lab.give(&frame);
    let answer = lab.frame();
    assert_eq!(parse(&answer).src, US);
    let (message, quote) = parse_icmp(&answer);
    assert_eq!(message, IcmpMessage::TimeExceeded(TimeExceeded::Transit));
    assert_eq!(quote, frame[14..]);
    let message = icmp(IcmpMessage::EchoRequest { id: 1, seq: 1 }, b"");
    lab.give(&ip_frame(
        &Ipv4Fields {
            ttl: 1,
            ..from_peer(US, IpProto::ICMP)
        },
        &message,
    ));
    assert_eq!(
        parse_icmp(&lab.frame()).0,
        IcmpMessage::EchoReply { id: 1, seq: 1 }
    );
}

/// Breaks if pings that the socket's program does not read fill memory, or those that find no room are not counted.
#[test]
fn pings_that_wait_are_bounded() {
    let lab = Lab::gateway();
    let echoes = lab.stack.icmp_echo_any(lab.iface).unwrap();
    for seq in 0..300 {
        lab.give(&ping_frame(FOREIGN, 5, seq, b"x"));
    }
    assert_eq!(lab.dropped(DropReason::EchoQueueFull), 300 - 256);
    assert_eq!(std::iter::from_fn(|| echoes.recv().ok()).count(), 256);
}

/// Breaks if the sender of a datagram never hears that it was refused, or if the payload of a later fragment is taken
/// for ports, by which the program that wrote it chooses the socket that gets the error.
#[test]
fn errors_reach_the_udp_socket() {
    let lab = Lab::plain();
    let socket = lab.stack.udp_bind(at(US, 1000)).unwrap();
    socket.send_to(lab.chain(b"hello"), at(PEER, 9)).unwrap();
    let sent = lab.frame();
    let quote = &sent[14..14 + Ipv4Header::LEN + 8];
    let error = icmp(
        IcmpMessage::DestUnreachable(Unreachable::PortUnreachable),
        quote,
    );
    lab.give(&ip_frame(&from_peer(US, IpProto::ICMP), &error));
    let heard = socket.take_error().unwrap();
    assert_eq!(
        (heard.src, heard.dst, heard.kind),
        (at(US, 1000).into(), at(PEER, 9).into(), IcmpError::Port)
    );
    let mut later = quote.to_vec();
    later[7] = 64;
    let unreachable = IcmpMessage::DestUnreachable(Unreachable::HostUnreachable);
    let error = icmp(unreachable, &later);
    lab.give(&ip_frame(&from_peer(US, IpProto::ICMP), &error));
    assert!(socket.take_error().is_none());
}
