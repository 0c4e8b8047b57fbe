//! The anycast address that the routers of a network have: fd00:: in the network fd00::/64.

use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use crate::common::net::*;
use crate::frames6::{
    PEER6, Seen6, US6, at6, frame6, from_peer6, icmp6_frame, introduce6, introduced, nd_frame,
    parse_icmp6, parse6,
};
use mbuma::device::Capabilities;
use mbuma::device::memory::Pipe;
use mbuma::{DropReason, IfAddr, IfConfig};
use wire::{
    ALL_NODES, Icmp6Message, IpProto, Ipv6Fields, NdpMessage, NeighborMessage, UdpHeader,
    Unreachable6, link_local_of, pseudo_header_v6, solicited_node,
};

/// The routers' address in the network of [`US6`].
pub(crate) const ROUTERS: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0);
const PING: Icmp6Message = Icmp6Message::EchoRequest { id: 5, seq: 9 };
const PONG: Icmp6Message = Icmp6Message::EchoReply { id: 5, seq: 9 };
const SECOND: Duration = Duration::from_secs(1);

fn router() -> Lab {
    let lab = introduced();
    lab.stack.set_forwarding(true);
    lab
}

/// A solicitation for the routers' address from `src`.
fn question(src: Ipv6Addr) -> Vec<u8> {
    let (mac, nonce) = match src.is_unspecified() {
        true => (None, Some([9; 6])),
        false => (Some(PEER_MAC), None),
    };
    let message = NeighborMessage::solicit(ROUTERS, mac, nonce);
    nd_frame(src, solicited_node(ROUTERS), &message)
}

/// The source and the flags of an advertisement of the routers' address.
fn advert(seen: &Seen6) -> (Ipv6Addr, [bool; 3]) {
    let (header, body) = parse_icmp6(seen);
    match NdpMessage::parse(header.kind(), header.rest(), &body).unwrap() {
        NdpMessage::NeighborAdvert {
            flags,
            target: ROUTERS,
            options,
        } if options.target() == Some(OUR_MAC) => {
            (seen.src, [flags.router, flags.solicited, flags.overrides])
        }
        message => panic!("{message:?}"),
    }
}

/// From the peer to the routers.
fn to_routers(next: IpProto) -> Ipv6Fields {
    Ipv6Fields {
        dst: ROUTERS,
        ..from_peer6(next)
    }
}

/// A datagram to the routers.
fn datagram(dst_port: u16) -> Vec<u8> {
    let mut header = UdpHeader::new(9, dst_port, UdpHeader::LEN as u16);
    let mut out = [0; UdpHeader::LEN];
    header.emit(&mut out);
    let mut sum = pseudo_header_v6(PEER6, ROUTERS, IpProto::UDP, out.len() as u32);
    sum.add_bytes(&out);
    header.set_checksum(sum.finish_nonzero());
    header.emit(&mut out);
    frame6(&to_routers(IpProto::UDP), &out)
}

fn syn() -> Vec<u8> {
    let mut syn = [0; 20];
    syn[..4].copy_from_slice(&[0, 9, 0, 80]);
    syn[12..14].copy_from_slice(&[0x50, 0x02]);
    let mut sum = pseudo_header_v6(PEER6, ROUTERS, IpProto::TCP, 20);
    sum.add_bytes(&syn);
    syn[16..18].copy_from_slice(&sum.finish().to_be_bytes());
    frame6(&to_routers(IpProto::TCP), &syn)
}

/// The one message in answer, and its source.
fn answer(lab: &Lab) -> (Ipv6Addr, Icmp6Message) {
    let seen = parse6(&lab.frame());
    assert_eq!(seen.dst, PEER6);
    (seen.src, parse_icmp6(&seen).0.message())
}

#[test]
fn n11_routers_answer_within_a_second_and_override_nothing() {
    // Breaks if all routers answer at once, if the last answer counts instead of the first, or if a router never
    // answers (RFC 4861 section 7.2.7); and if an answer comes from the anycast address.
    let lab = router();
    let (own, from_here) = (link_local_of(OUR_MAC), US6);
    for (src, to, expected) in [
        (PEER6, PEER6, (from_here, [true, true, false])),
        (
            Ipv6Addr::UNSPECIFIED,
            ALL_NODES,
            (own, [true, false, false]),
        ),
    ] {
        let begin = lab.stack.now();
        // A question that is repeated gets one answer.
        lab.give(&question(src));
        lab.give(&question(src));
        assert!(lab.frames().is_empty(), "at once");
        let at = lab.stack.next_deadline().expect("an answer waits");
        assert!(at > begin && at <= begin + SECOND);
        lab.advance(SECOND);
        let seen = parse6(&lab.frame());
        assert_eq!((seen.dst, seen.hop_limit), (to, 255));
        assert_eq!(advert(&seen), expected);
    }
}

#[test]
fn n11_only_a_router_has_the_address() {
    // Breaks if a host answers for the routers, or if a stack that became a host answers late.
    let lab = router();
    lab.give(&question(PEER6));
    lab.stack.set_forwarding(false);
    lab.advance(SECOND);
    lab.give(&question(PEER6));
    lab.give(&icmp6_frame(PEER6, ROUTERS, 64, PING, b""));
    lab.advance(SECOND);
    assert!(lab.frames().is_empty());
}

#[test]
fn n11_answers_come_from_an_address_of_one_router() {
    // Breaks if a ping, a datagram or a connection to the routers' address is not answered, or is answered from that
    // address (RFC 4443 sections 2.2 and 4.2).
    let lab = router();
    lab.give(&icmp6_frame(PEER6, ROUTERS, 64, PING, b""));
    assert_eq!(answer(&lab), (US6, PONG));
    let unreachable = |why| Icmp6Message::DestUnreachable(why);
    lab.give(&datagram(7));
    assert_eq!(answer(&lab), (US6, unreachable(Unreachable6::Port)));
    let _listener = lab.stack.tcp_listen(at6(Ipv6Addr::UNSPECIFIED, 80), 8);
    lab.give(&syn());
    assert_eq!(answer(&lab), (US6, unreachable(Unreachable6::Address)));
    let socket = lab.stack.udp_bind(at6(Ipv6Addr::UNSPECIFIED, 7)).unwrap();
    lab.give(&datagram(7));
    let asked = socket.recv().unwrap();
    assert_eq!((asked.src, asked.dst), (at6(PEER6, 9), at6(ROUTERS, 7)));
    socket.send_to(lab.chain(b"answer"), asked.src).unwrap();
    assert_eq!(parse6(&lab.frame()).src, US6);
    // No program can take it for its own, and no error is sent to it (RFC 4443 section 2.4 e.5).
    assert!(lab.stack.udp_bind(at6(ROUTERS, 8)).is_err());
    lab.give(&icmp6_frame(PEER6, US6, 64, PONG, b""));
    let from_routers = Ipv6Fields {
        src: ROUTERS,
        ..from_peer6(IpProto(253))
    };
    lab.give(&frame6(&from_routers, b"unknown"));
    assert!(lab.frames().is_empty());
}

#[test]
fn n11_a_router_is_reached_at_the_address_of_each_of_its_networks() {
    // Breaks if a router forwards packets to the routers of a network that it is in itself, or its own packets leave
    // it.
    let lab = router();
    let (ours, _far) = Pipe::pair(Capabilities::plain(1500));
    let config = IfConfig::new("pipe1").with_addr(Ipv6Addr::new(0xfd00, 0, 0, 2, 0, 0, 0, 1), 64);
    let second = lab.stack.attach(Arc::new(ours), config).unwrap();
    let there = Ipv6Addr::new(0xfd00, 0, 0, 2, 0, 0, 0, 0);
    lab.give(&icmp6_frame(PEER6, there, 64, PING, b""));
    assert_eq!(answer(&lab), (US6, PONG));
    assert_eq!(lab.stack.stats().forwarded, 0);
    let socket = lab.stack.udp_bind(at6(Ipv6Addr::UNSPECIFIED, 7)).unwrap();
    socket.send_to(lab.chain(b"hello"), at6(there, 7)).unwrap();
    lab.poll();
    assert_eq!(socket.recv().unwrap().dst, at6(there, 7));
    drop(socket);
    lab.stack.detach(second);
}

#[test]
fn n11_a_gateway_that_advertises_a_router_has_the_address() {
    // Breaks if the gateway does not answer at the routers' address of the guest's network, or a program that accepts
    // foreign packets gets packets to that address.
    let lab = Lab::new(Setup {
        accept_any: true,
        addrs: vec![IfAddr::new(US6, 64)],
        ..Setup::default()
    });
    introduce6(&lab);
    let _foreign = lab.stack.udp_bind_any(lab.iface).unwrap();
    lab.give(&question(PEER6));
    lab.advance(SECOND);
    assert!(lab.frames().is_empty(), "it advertises no router yet");
    let _adverts = lab
        .stack
        .icmp6_bind(lab.iface, &[NdpMessage::ROUTER_SOLICIT]);
    lab.give(&question(PEER6));
    lab.advance(SECOND);
    let expected = (US6, [true, true, false]);
    assert_eq!(advert(&parse6(&lab.frame())), expected);
    lab.give(&datagram(7));
    let closed = Icmp6Message::DestUnreachable(Unreachable6::Port);
    assert_eq!(answer(&lab), (US6, closed));
    assert_eq!(lab.dropped(DropReason::UdpNoSocket), 1);
}

#[test]
fn n11_a_kept_route_to_the_routers_ends_when_a_program_advertises_one() {
    // Breaks if a socket that has sent to the routers goes on sending to the link when the stack is one of them, or to
    // itself when the stack is none any more; and if a datagram to them takes the locks of its way in a wrong order.
    let lab = introduced();
    let socket = lab.stack.udp_bind(at6(Ipv6Addr::UNSPECIFIED, 7)).unwrap();
    let leaves = || {
        socket
            .send_to(lab.chain(b"hello"), at6(ROUTERS, 7))
            .unwrap();
        lab.poll();
        let left = !lab.frames().is_empty();
        assert_ne!(left, socket.recv().is_ok());
        left
    };
    assert!(leaves(), "the link is asked for the routers");
    let kinds = [NdpMessage::ROUTER_SOLICIT];
    let adverts = lab.stack.icmp6_bind(lab.iface, &kinds).unwrap();
    assert!(!leaves());
    drop(adverts);
    // The questions for the routers are repeated once a second.
    lab.advance(SECOND);
    assert!(leaves());
    drop(socket);
    (0..5).for_each(|_| lab.advance(SECOND));
    lab.frames();
}

#[test]
fn i1_no_error_goes_to_an_address_that_several_routers_have() {
    // Breaks if one packet with a forged source brings an error to whichever router is nearest (RFC 4443 section 2.4
    // e.6).
    let lab = router();
    for (src, errors) in [(ROUTERS, 0), (PEER6, 1)] {
        let fields = Ipv6Fields {
            src,
            ..from_peer6(IpProto(253))
        };
        lab.give(&frame6(&fields, &[0; 40]));
        assert_eq!(lab.frames().len(), errors, "{src}");
    }
}
