//! A router of IPv6: forwarding, its errors, and redirects. Each test is named after its point.

use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use crate::common::net::*;
use crate::frames6::*;
use mbuma::device::Capabilities;
use mbuma::device::memory::Pipe;
use mbuma::{DropReason, IfAddr, IfConfig, IfIndex, RouteKind};
use wire::{
    AdvertFlags, Icmp6Message, IpProto, Ipv6Fields, Ipv6Header, MacAddr, NdpMessage,
    NeighborMessage, Unreachable6, link_local_of, solicited_node,
};

/// A router, whose second wire has these capabilities, with a host on it that is known.
struct Router6 {
    /// It goes before the lab, which checks that no buffer is left.
    far: Pipe,
    lab: Lab,
    iface: IfIndex,
}

const FAR: Ipv6Addr = Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 9);
const FAR_US: Ipv6Addr = Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 1);
const FAR_MAC: MacAddr = MacAddr([2, 0, 0, 0, 3, 9]);

impl Router6 {
    fn new(mtu: u16) -> Self {
        let lab = Lab::new(Setup {
            caps: Capabilities::plain(9000),
            addrs: vec![IfAddr::new(US6, 64)],
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
}

#[test]
fn i3_and_r3_each_kind_of_route_has_its_error() {
    // RFC 4443 3.1, codes 0, 1 and 6: breaks if a sender can't tell a missing route from one that an administrator set,
    // or hears of a black hole.
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
        let to = IfAddr::new(net(n), 64);
        if let Some(kind) = kind {
            router.lab.stack.add_route(to, kind).expect("a new one");
            let listed = router.lab.stack.routes();
            assert!(listed.iter().any(|r| r.net == to && r.kind == kind));
        }
        router.give(Ipv6Addr::from_bits(net(n).to_bits() | 7), 64, 100);
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
}

#[test]
fn i3_and_r3_a_source_address_of_another_link_is_refused() {
    // RFC 4443 3.1, code 5: breaks if a station of a link that is checked can send by another's address, or not by its
    // own.
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
}

#[test]
fn r4_a_neighbour_is_told_of_the_better_first_hop() {
    // RFC 4861 8.2: breaks if a station of the link is not told of another router there, or of a destination there, or
    // is told as often as it sends; or if the packet that it sent is not sent on.
    let router = Router6::new(1500);
    let (other_mac, network) = (
        MacAddr([2, 0, 0, 0, 7, 7]),
        Ipv6Addr::from_bits(0xfd02 << 112),
    );
    let other = link_local_of(other_mac);
    let behind = Ipv6Addr::from_bits(network.to_bits() | 5);
    let route = RouteKind::Gateway(router.lab.iface, other.into());
    let to = IfAddr::new(network, 64);
    router.lab.stack.add_route(to, route).expect("a new one");
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
    // A station behind another router asks that router, and a router is known by its link-local address (RFC 4861 8.1).
    let elsewhere = Ipv6Addr::from_bits(0xfd03 << 112);
    let to = IfAddr::new(elsewhere, 64);
    let route = RouteKind::Gateway(router.lab.iface, near.into());
    router.lab.stack.add_route(to, route).expect("a new one");
    for (src, dst) in [(behind, near), (PEER6, elsewhere)] {
        let fields = Ipv6Fields {
            next: IpProto(253),
            src,
            dst,
            ..Ipv6Fields::default()
        };
        router.lab.give(&frame6(&fields, &pattern_bytes(100)));
        assert_eq!(parse6(&router.lab.frame()).dst, dst);
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
}
