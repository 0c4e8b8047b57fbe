//! An interface that configures itself as a host of IPv6. Each test is named after the point that it stands for; those
//! of lifetimes and bounds are beside the code.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use crate::common::net::*;
use crate::frames6::{CLAIM, PEER6, Seen6, US6, at6, icmp6_frame, nd_frame, parse_icmp6, parse6};
use mbuf::{Mbufq, Packet};
use mbuma::device::memory::Pipe;
use mbuma::device::{Capabilities, Device};
use mbuma::{Autoconf, DropReason, IfAddr, IfConfig, RouteKind, TemporaryPolicy};
use wire::{
    ALL_NODES, ALL_ROUTERS, AdvertFlags, Icmp6Message, MacAddr, NdpMessage, NeighborMessage,
    link_local_of, solicited_node,
};

const ROUTER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 5, 1]);
const PREFIX: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 0);

fn host(addrs: Vec<IfAddr>) -> Lab {
    Lab::new(Setup {
        addrs,
        autoconf: Some(Autoconf {
            secret: [7; 16],
            ..Autoconf::default()
        }),
        ..Setup::default()
    })
}

fn given() -> Vec<IfAddr> {
    vec![IfAddr::new(US6, 64)]
}

/// The frames of IPv6 that the stack sends within this time.
fn after(lab: &Lab, ms: u64) -> Vec<Seen6> {
    let mut seen = Vec::new();
    for _ in 0..ms / 100 {
        lab.advance(Duration::from_millis(100));
        lab.poll();
        seen.extend(lab.frames().iter().map(|frame| parse6(frame)));
    }
    seen
}

/// The addresses for which a host probes in these.
fn probed(seen: &[Seen6]) -> Vec<Ipv6Addr> {
    let probes = seen.iter().filter(|seen| seen.src.is_unspecified());
    let target = |seen: &Seen6| {
        let (header, body) = parse_icmp6(seen);
        assert_eq!(seen.hop_limit, 255);
        match NdpMessage::parse(header.kind(), header.rest(), &body).unwrap() {
            NdpMessage::NeighborSolicit { target, options } => {
                assert_eq!(seen.dst, solicited_node(target));
                assert!(options.source().is_none() && options.nonce().is_some());
                Some(target)
            }
            _ => None,
        }
    };
    probes.filter_map(target).collect()
}

/// Whether there is a default route.
fn has_default(lab: &Lab) -> bool {
    let routes = lab.stack.routes();
    routes.iter().any(|route| route.net.prefix_len == 0)
}

fn has(lab: &Lab, addr: Ipv6Addr) -> bool {
    let all = lab.stack.addresses(lab.iface);
    all.iter().any(|(own, _)| *own == IpAddr::V6(addr))
}

fn router() -> Ipv6Addr {
    link_local_of(ROUTER_MAC)
}

/// An advertisement of a router with this lifetime, and of [`PREFIX`] with these.
fn advert(lifetime: u16, preferred: u32, valid: u32) -> Vec<u8> {
    advert_with(64, lifetime, (preferred, valid), &[])
}

/// The same with a hop limit, and with more options.
fn advert_with(
    hop_limit: u8,
    lifetime: u16,
    (preferred, valid): (u32, u32),
    options: &[u8],
) -> Vec<u8> {
    let options = [&prefix_option(PREFIX, preferred, valid)[..], options].concat();
    advert_of(ROUTER_MAC, hop_limit, lifetime, &options)
}

/// The option of a prefix of 64 bits, on the link and for addresses.
fn prefix_option(prefix: Ipv6Addr, preferred: u32, valid: u32) -> Vec<u8> {
    let times = [valid.to_be_bytes(), preferred.to_be_bytes(), [0; 4]];
    [
        &[3, 4, 64, 0xc0][..],
        times.as_flattened(),
        &prefix.octets(),
    ]
    .concat()
}

/// An advertisement of the router that has this Ethernet address.
fn advert_of(mac: MacAddr, hop_limit: u8, lifetime: u16, options: &[u8]) -> Vec<u8> {
    let [l1, l0] = lifetime.to_be_bytes();
    let message = Icmp6Message::Other {
        kind: NdpMessage::ROUTER_ADVERT,
        code: 0,
        rest: [hop_limit, 0, l1, l0],
    };
    let mut body = vec![0; 8];
    body.extend([1, 1]);
    body.extend(mac.0);
    body.extend(options);
    icmp6_frame(link_local_of(mac), ALL_NODES, 255, message, &body)
}

#[test]
fn s7_new_connections_begin_from_a_temporary_address_unless_told_otherwise() {
    // A9 and S7: breaks if peers can follow a host by its stable address, if that can't be turned off, or if the host
    // does not answer for both addresses.
    for prefer in [true, false] {
        let mut policy = TemporaryPolicy::default();
        policy.prefer = prefer;
        let lab = Lab::new(Setup {
            addrs: Vec::new(),
            autoconf: Some(Autoconf {
                dad_transmits: 0,
                secret: [7; 16],
                temporary: Some(policy),
                ..Autoconf::default()
            }),
            ..Setup::default()
        });
        lab.give(&advert(1800, 10_000, 20_000));
        let all = lab.stack.addresses(lab.iface);
        let in_prefix = |addr: &Ipv6Addr| addr.segments()[..4] == PREFIX.segments()[..4];
        let learnt = all.iter().filter_map(|(own, _)| match own {
            IpAddr::V6(own) => Some(*own).filter(in_prefix),
            IpAddr::V4(_) => None,
        });
        let [stable, temporary] = learnt.collect::<Vec<_>>()[..] else {
            panic!("{all:?}")
        };
        drop(lab.frames());
        let any = at6(Ipv6Addr::UNSPECIFIED, 7);
        let socket = lab.stack.udp_bind(any).unwrap();
        let far = at6("2001:db8:9::1".parse().unwrap(), 9);
        socket.send_to(lab.chain(b"to a stranger"), far).unwrap();
        let expected = if prefer { temporary } else { stable };
        assert_eq!(parse6(&lab.frame()).src, expected);
        for own in [stable, temporary] {
            let question = NeighborMessage::solicit(own, Some(ROUTER_MAC), None);
            lab.give(&nd_frame(router(), solicited_node(own), &question));
            assert_eq!(parse6(&lab.frame()).src, own);
        }
    }
}

#[test]
fn a2_an_optimistic_address_is_used_while_it_is_probed_for() {
    // RFC 4429: breaks if a host waits for its probes before it speaks, tells others an address that another station
    // may have, asks for neighbours from it, or keeps it when another station has it.
    let autoconf = Autoconf {
        optimistic: true,
        secret: [7; 16],
        ..Autoconf::default()
    };
    let lab = Lab::new(Setup {
        addrs: Vec::new(),
        autoconf: Some(autoconf),
        ..Setup::default()
    });
    lab.give(&advert(1800, 1000, 2000));
    let all = lab.stack.addresses(lab.iface);
    let learnt = all.iter().find_map(|(own, _)| match own {
        IpAddr::V6(own) if own.segments()[..4] == PREFIX.segments()[..4] => Some(*own),
        _ => None,
    });
    let learnt = learnt.expect("used at once");
    drop(lab.frames());
    let (far, near) = (
        "2001:db8:9::1".parse().unwrap(),
        PREFIX | Ipv6Addr::from_bits(0x77),
    );
    let socket = lab.stack.udp_bind(at6(learnt, 7)).unwrap();
    socket
        .send_to(lab.chain(b"by the router"), at6(far, 9))
        .unwrap();
    let sent = parse6(&lab.frame());
    assert_eq!((sent.to, sent.src, sent.dst), (ROUTER_MAC, learnt, far));
    // A neighbour that is not known is not asked for yet.
    socket.send_to(lab.chain(b"later"), at6(near, 9)).unwrap();
    assert!(lab.frames().is_empty());
    let question = NeighborMessage::solicit(learnt, Some(ROUTER_MAC), None);
    lab.give(&nd_frame(router(), solicited_node(learnt), &question));
    let (header, _) = parse_icmp6(&parse6(&lab.frame()));
    assert_eq!(
        (header.kind(), header.rest()[0] & 0x60),
        (NdpMessage::NEIGHBOR_ADVERT, 0x40)
    );
    let seen = after(&lab, 2500);
    assert!(probed(&seen).contains(&learnt), "probed for all the same");
    let asks = |seen: &Seen6| seen.dst == solicited_node(near) && !seen.src.is_unspecified();
    assert!(seen.iter().any(asks), "the neighbour is asked for now");
    lab.give(&nd_frame(router(), solicited_node(learnt), &question));
    let (header, _) = parse_icmp6(&parse6(&lab.frame()));
    assert_eq!(header.rest()[0] & 0x60, 0x60, "like any other address");
    drop(socket);
    drop(lab);
    // Another station has it.
    let lab = Lab::new(Setup {
        addrs: Vec::new(),
        autoconf: Some(autoconf),
        ..Setup::default()
    });
    lab.give(&advert(1800, 1000, 2000));
    assert!(has(&lab, learnt));
    let answer = NeighborMessage::advert(learnt, PEER_MAC, AdvertFlags::default());
    lab.give(&nd_frame(PEER6, ALL_NODES, &answer));
    assert!(!has(&lab, learnt), "gone");
}

#[test]
fn s5_5_the_source_is_of_a_prefix_that_the_next_hop_advertises() {
    // RFC 6724 rule 5.5, RFC 8028: breaks if a packet for one provider's router comes from an address of the other's,
    // which that router may drop; the longest prefix in common would choose it here.
    let lab = host(Vec::new());
    let (other_mac, far) = (
        MacAddr([2, 0, 0, 0, 5, 2]),
        "2001:db8:0:3::9".parse().unwrap(),
    );
    let other_prefix: Ipv6Addr = "2001:db8:ff::".parse().unwrap();
    for (mac, prefix) in [(ROUTER_MAC, PREFIX), (other_mac, other_prefix)] {
        let option = prefix_option(prefix, 1000, 2000);
        lab.give(&advert_of(mac, 64, 1800, &option));
    }
    after(&lab, 3000);
    for (mac, prefix) in [(ROUTER_MAC, PREFIX), (other_mac, other_prefix)] {
        let to = IfAddr::new(far, 128);
        let way = RouteKind::Gateway(lab.iface, link_local_of(mac).into());
        lab.stack.add_route(to, way).unwrap();
        let anywhere = at6(Ipv6Addr::UNSPECIFIED, 0);
        let stream = lab.stack.tcp_connect(anywhere, at6(far, 80)).unwrap();
        let syn = parse6(&lab.frame());
        assert_eq!((syn.to, syn.dst), (mac, far));
        assert_eq!(syn.src.segments()[..4], prefix.segments()[..4], "by {mac}");
        stream.abort();
        drop(stream);
        drop(lab.frames());
        lab.stack.delete_route(to).unwrap();
    }
}

#[test]
fn a2_an_address_is_probed_for_before_it_is_used() {
    // Breaks if a host takes an address without a probe, answers for a tentative one, or never gets it.
    let lab = host(given());
    let question = NeighborMessage::solicit(US6, Some(PEER_MAC), None);
    lab.give(&nd_frame(PEER6, solicited_node(US6), &question));
    assert!(lab.frames().is_empty() && !has(&lab, US6));
    assert!(lab.stack.udp_bind(at6(US6, 7)).is_err());
    let mut targets = probed(&after(&lab, 1000));
    targets.sort_unstable();
    assert_eq!(targets, [US6, link_local_of(OUR_MAC)]);
    after(&lab, 1100);
    assert!(has(&lab, US6) && has(&lab, link_local_of(OUR_MAC)));
    lab.give(&nd_frame(PEER6, solicited_node(US6), &question));
    assert_eq!(parse6(&lab.frame()).src, US6);
}

#[test]
fn a3_an_address_that_another_station_has_or_probes_for_is_not_taken() {
    // Breaks if two stations have one address after probing.
    let answer = NeighborMessage::advert(US6, PEER_MAC, CLAIM);
    let probe = NeighborMessage::solicit(US6, None, Some([9; 6]));
    let unspecified = Ipv6Addr::UNSPECIFIED;
    for claim in [
        nd_frame(PEER6, ALL_NODES, &answer),
        nd_frame(unspecified, solicited_node(US6), &probe),
    ] {
        let lab = host(given());
        after(&lab, 1000);
        lab.give(&claim);
        after(&lab, 3000);
        assert!(!has(&lab, US6) && has(&lab, link_local_of(OUR_MAC)));
    }
    // Two stations with one Ethernet address.
    let lab = host(given());
    let own = link_local_of(OUR_MAC);
    let answer = NeighborMessage::advert(own, PEER_MAC, CLAIM);
    after(&lab, 1000);
    lab.give(&nd_frame(PEER6, ALL_NODES, &answer));
    assert!(after(&lab, 10_000).is_empty());
    assert_eq!(lab.stack.addresses(lab.iface).len(), 1, "IPv4's alone");
}

#[test]
fn a3_a_host_whose_address_of_the_link_is_taken_forgets_its_routers() {
    // Breaks if addresses, routes or neighbours that a host learnt stay where IPv6 is off (RFC 4862 section 5.4.5).
    let lab = host(given());
    let before = lab.stack.routes().len();
    lab.give(&advert(1800, 100, 1000));
    assert_eq!(lab.stack.routes().len(), before + 2);
    let own = link_local_of(OUR_MAC);
    let answer = NeighborMessage::advert(own, PEER_MAC, CLAIM);
    lab.give(&nd_frame(PEER6, ALL_NODES, &answer));
    assert_eq!(lab.stack.routes().len(), before);
    lab.give(&advert(1800, 100, 1000));
    assert!(after(&lab, 10_000).is_empty());
    assert_eq!(lab.stack.routes().len(), before);
    assert_eq!(lab.stack.addresses(lab.iface).len(), 1, "IPv4's alone");
}

#[test]
fn routes_of_the_program_outlive_those_of_routers() {
    // Breaks if the end of a router's prefix, of the router or of a redirect takes away a route that a program added,
    // or goes before it.
    let lab = host(Vec::new());
    after(&lab, 5000);
    let by_program = RouteKind::Gateway(lab.iface, link_local_of(PEER_MAC).into());
    let [net, default] = ["2001:db8:0:1::/64", "::/0"].map(|net| net.parse().unwrap());
    let kind = |net: IfAddr| {
        let routes = lab.stack.routes();
        let found = routes.iter().filter(|route| route.net == net);
        found.map(|route| route.kind).collect::<Vec<_>>()
    };
    lab.give(&advert(1800, 100, 1000));
    let [link, router] = [
        RouteKind::Link(lab.iface),
        RouteKind::Gateway(lab.iface, router().into()),
    ];
    assert_eq!((kind(net), kind(default)), (vec![link], vec![router]));
    lab.stack.add_route(net, by_program).unwrap();
    lab.stack.add_route(default, by_program).unwrap();
    lab.stack
        .add_default_route(lab.iface, crate::autoconf::router())
        .unwrap();
    assert_eq!(kind(net), [by_program, link]);
    assert_eq!(kind(default), [by_program, router, router]);
    lab.give(&advert(0, 0, 0));
    assert_eq!(
        (kind(net), kind(default)),
        (vec![by_program], vec![by_program, router])
    );
    lab.stack.delete_route(net).unwrap();
    after(&lab, 3000);
}

#[test]
fn r5_a_router_believes_no_other_router_and_says_that_it_is_one() {
    // Breaks if a stack that forwards takes routes from advertisements, or its neighbours do not learn that it does.
    let lab = host(given());
    after(&lab, 5000);
    let before = lab.stack.routes().len();
    let question = NeighborMessage::solicit(US6, Some(PEER_MAC), None);
    let is_router = || {
        lab.give(&nd_frame(PEER6, solicited_node(US6), &question));
        parse_icmp6(&parse6(&lab.frame())).0.rest()[0] & 0x80 != 0
    };
    lab.stack.set_forwarding(true);
    lab.give(&advert(1800, 100, 1000));
    assert_eq!((lab.stack.routes().len(), is_router()), (before, true));
    lab.stack.set_forwarding(false);
    lab.give(&advert(1800, 100, 1000));
    assert_eq!((lab.stack.routes().len(), is_router()), (before + 2, false));
}

#[test]
fn p4_the_mtu_and_the_hops_that_a_router_names_are_used() {
    // Breaks if a host sends what its link does not carry, or believes in an MTU that no link has.
    let lab = host(given());
    after(&lab, 5000);
    let socket = lab.stack.udp_bind(at6(US6, 7)).unwrap();
    let question = NeighborMessage::solicit(US6, Some(PEER_MAC), None);
    lab.give(&nd_frame(PEER6, solicited_node(US6), &question));
    drop(lab.frames());
    let sent = || {
        socket
            .send_to(lab.chain(&[0; 1400]), at6(PEER6, 9))
            .unwrap();
        let frames = lab.frames();
        (frames.len(), parse6(&frames[0]).hop_limit)
    };
    assert_eq!(sent(), (1, 64));
    let tells = |hops, mtu: u32| {
        let option = [&[5, 1, 0, 0][..], &mtu.to_be_bytes()].concat();
        lab.give(&advert_with(hops, 0, (0, 0), &option));
    };
    tells(0, 1279);
    tells(0, 9000);
    assert_eq!(sent(), (1, 64));
    tells(33, 1300);
    assert_eq!(sent(), (2, 33));
    tells(0, 1500);
    assert_eq!(sent(), (1, 33));
}

#[test]
fn a4_our_own_probe_that_comes_back_is_no_duplicate() {
    // Breaks if a loop on the link leaves a host without addresses (RFC 7527).
    let lab = host(given());
    let mut frames = Vec::new();
    for _ in 0..10 {
        lab.advance(Duration::from_millis(100));
        frames.extend(lab.frames());
    }
    assert_eq!(frames.len(), 2);
    frames.iter().for_each(|frame| lab.give(frame));
    after(&lab, 2000);
    assert!(has(&lab, US6) && has(&lab, link_local_of(OUR_MAC)));
}

#[test]
fn r_routers_are_asked_for_and_believed() {
    // Breaks if a host finds no router, takes no address of its prefix, or keeps either for ever (RFC 4861 section
    // 6.3).
    let lab = host(Vec::new());
    let asked = after(&lab, 5000);
    let solicit = asked.iter().find(|seen| seen.dst == ALL_ROUTERS).unwrap();
    let (header, body) = parse_icmp6(solicit);
    let message = NdpMessage::parse(header.kind(), header.rest(), &body).unwrap();
    let NdpMessage::RouterSolicit { options } = message else {
        panic!("{message:?}");
    };
    assert_eq!(
        (solicit.src, options.source()),
        (link_local_of(OUR_MAC), Some(OUR_MAC))
    );
    lab.give(&advert(1800, 100, 1000));
    let learnt = probed(&after(&lab, 1000))[0];
    after(&lab, 1100);
    assert!(has(&lab, learnt));
    let routes = lab.stack.routes();
    let kind = |net: &str| {
        let net: IfAddr = net.parse().unwrap();
        routes
            .iter()
            .find(|route| route.net == net)
            .map(|route| route.kind)
    };
    assert_eq!(
        kind("::/0"),
        Some(RouteKind::Gateway(lab.iface, router().into()))
    );
    assert_eq!(kind("2001:db8:0:1::/64"), Some(RouteKind::Link(lab.iface)));
    // Its Ethernet address came with the advertisement.
    let far = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 1);
    let socket = lab.stack.udp_bind(at6(learnt, 7)).unwrap();
    socket.send_to(lab.chain(b"hello"), at6(far, 9)).unwrap();
    let sent = parse6(&lab.frame());
    assert_eq!((sent.to, sent.dst), (ROUTER_MAC, far));
    drop(socket);
    lab.advance(Duration::from_secs(1001));
    drop(lab.frames());
    assert!(!has(&lab, learnt));
    lab.give(&advert(0, 0, 0));
    assert!(!has_default(&lab));
}

#[test]
fn r_routers_are_told_of_a_new_address() {
    // RFC 9131 6.1.2: breaks if the first packet to a new address waits at the router for a question; if a router is
    // told an address before it may be used, or twice; or if an older entry is overridden.
    for optimistic in [false, true] {
        let lab = Lab::new(Setup {
            addrs: Vec::new(),
            autoconf: Some(Autoconf {
                optimistic,
                secret: [7; 16],
                ..Autoconf::default()
            }),
            ..Setup::default()
        });
        let seen = after(&lab, 3000);
        assert!(told(&seen).is_empty(), "that of the link is no router's");
        lab.give(&advert(1800, 1000, 2000));
        let at_once: Vec<_> = lab.frames().iter().map(|frame| parse6(frame)).collect();
        let later = after(&lab, 3000);
        let learnt = probed(&at_once).into_iter().chain(probed(&later)).next();
        let learnt = learnt.expect("it is probed for");
        assert!(has(&lab, learnt));
        let expected: [&[Ipv6Addr]; 2] = match optimistic {
            true => [&[learnt], &[]],
            false => [&[], &[learnt]],
        };
        assert_eq!([&told(&at_once)[..], &told(&later)[..]], expected);
    }
}

/// The addresses of which the routers are told in these.
fn told(seen: &[Seen6]) -> Vec<Ipv6Addr> {
    let adverts = seen.iter().filter(|seen| seen.dst == ALL_ROUTERS);
    let target = |seen: &Seen6| {
        let (header, body) = parse_icmp6(seen);
        match NdpMessage::parse(header.kind(), header.rest(), &body).unwrap() {
            NdpMessage::NeighborAdvert {
                target, options, ..
            } => {
                assert_eq!((seen.src, seen.hop_limit), (target, 255));
                assert_eq!(header.rest()[0], 0, "no flag");
                assert_eq!(options.target(), Some(OUR_MAC));
                Some(target)
            }
            _ => None,
        }
    };
    adverts.filter_map(target).collect()
}

#[test]
fn n1_advertisements_that_are_not_of_a_router_on_the_link_are_dropped() {
    // Breaks if a station beyond the link, or one with a global source address, can lead a host's packets to itself.
    let lab = host(Vec::new());
    after(&lab, 5000);
    let mut far = advert(1800, 100, 1000);
    far[14 + 7] = 254;
    lab.give(&far);
    let message = Icmp6Message::Other {
        kind: NdpMessage::ROUTER_ADVERT,
        code: 0,
        rest: [64, 0, 7, 8],
    };
    lab.give(&icmp6_frame(PEER6, ALL_NODES, 255, message, &[0; 8]));
    assert_eq!(lab.dropped(DropReason::BadNd), 2);
    assert!(!has_default(&lab));
}

#[test]
fn n10_the_first_hop_alone_may_redirect() {
    // Breaks if any station can lead packets to itself, or a redirect of the router does not count (RFC 4861 section
    // 8.1).
    let lab = host(Vec::new());
    let (ours, other) = Pipe::pair(Capabilities::plain(1500));
    let config = IfConfig {
        autoconf: Some(Autoconf::default()),
        mac: Some(MacAddr([2, 0, 0, 0, 0, 3])),
        ..IfConfig::new("pipe1")
    };
    let link = lab.stack.attach(Arc::new(ours), config).unwrap();
    after(&lab, 5000);
    lab.give(&advert(1800, 5000, 5000));
    let learnt = probed(&after(&lab, 1000))[0];
    after(&lab, 1100);
    let far = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 1);
    let better = link_local_of(PEER_MAC);
    let redirect_to = |target: Ipv6Addr, from: Ipv6Addr| {
        let message = Icmp6Message::Other {
            kind: NdpMessage::REDIRECT,
            code: 0,
            rest: [0; 4],
        };
        let mut body = [target.octets(), far.octets()].concat();
        body.extend([2, 1]);
        body.extend(PEER_MAC.0);
        icmp6_frame(from, learnt, 255, message, &body)
    };
    let redirect = |from| redirect_to(better, from);
    let socket = lab.stack.udp_bind(at6(learnt, 7)).unwrap();
    let goes_to = || {
        socket.send_to(lab.chain(b"hello"), at6(far, 9)).unwrap();
        parse6(&lab.frame()).to
    };
    lab.give(&redirect(better));
    assert_eq!((goes_to(), lab.dropped(DropReason::BadNd)), (ROUTER_MAC, 1));
    // The better hop has an address of the link, or is the destination itself.
    lab.give(&redirect_to(PEER6, router()));
    assert_eq!((goes_to(), lab.dropped(DropReason::BadNd)), (ROUTER_MAC, 2));
    // The router's address on another link is another station's.
    let mut frame = redirect(router());
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 3]);
    let mut tx = Mbufq::new();
    tx.enqueue(Packet::from_slice(&lab.pool, &frame, 0).unwrap());
    other.transmit(&mut tx).unwrap();
    lab.stack.poll_interface(link, ALL).unwrap();
    assert_eq!((goes_to(), lab.dropped(DropReason::BadNd)), (ROUTER_MAC, 3));
    lab.give(&redirect(router()));
    assert_eq!(goes_to(), PEER_MAC);
    // Nor does it count when that hop is silent (section 7.3.3).
    after(&lab, 9000);
    lab.give(&advert(1800, 5000, 5000));
    assert_eq!(goes_to(), ROUTER_MAC);
}

#[test]
fn n9_a_router_that_becomes_a_host_gets_no_packets() {
    // Breaks if packets still go by a station that announced that it is no router (RFC 4861 section 7.2.5), or if an
    // announcement that must not count does so.
    let lab = host(given());
    after(&lab, 5000);
    lab.give(&advert(1800, 5000, 5000));
    let has_router = || {
        let routes = lab.stack.routes();
        routes.iter().any(|route| route.net.prefix_len == 0)
    };
    let says = |mac, overrides| {
        let flags = AdvertFlags {
            router: false,
            solicited: false,
            overrides,
        };
        lab.give(&nd_frame(
            router(),
            ALL_NODES,
            &NeighborMessage::advert(router(), mac, flags),
        ));
    };
    says(PEER_MAC, false);
    assert!(has_router());
    says(ROUTER_MAC, false);
    assert!(!has_router());
    after(&lab, 2000);
}

#[test]
fn r6_a_router_that_does_not_answer_gives_way_to_another() {
    // Breaks if packets are lost at a dead router for the rest of its lifetime (RFC 4861 section 6.3.6).
    let lab = host(Vec::new());
    after(&lab, 5000);
    lab.give(&advert(1800, 5000, 5000));
    lab.give(&advert_of(PEER_MAC, 64, 1800, &[]));
    let learnt = probed(&after(&lab, 1000))[0];
    after(&lab, 1100);
    let socket = lab.stack.udp_bind(at6(learnt, 7)).unwrap();
    let goes_to = || {
        let far = Ipv6Addr::new(0x2001, 0xdb8, 9, 0, 0, 0, 0, 1);
        socket.send_to(lab.chain(b"hello"), at6(far, 9)).unwrap();
        parse6(&lab.frame()).to
    };
    assert_eq!(goes_to(), ROUTER_MAC);
    after(&lab, 9000);
    assert_eq!(goes_to(), PEER_MAC);
    // Silent as well: the first one has its turn again.
    after(&lab, 9000);
    lab.give(&advert(1800, 5000, 5000));
    assert_eq!(goes_to(), ROUTER_MAC);
}

#[test]
fn r5_an_interface_whose_device_failed_learns_no_routes() {
    // Breaks if what the device received before it failed leaves routes by an interface that sends no more.
    let mut lab = host(given());
    lab.fail_device();
    for _ in 0..100 {
        lab.advance(Duration::from_millis(100));
    }
    let stack = &lab.stack;
    let advert = Packet::from_slice(stack.pool(), &advert(1800, 10_000, 20_000), 0).unwrap();
    let before = stack.stats().received;
    stack.input(lab.iface, advert);
    assert_eq!(stack.stats().received, before + 1);
    let left = stack.routes();
    let mut left6 = left.iter().filter(|route| route.net.addr.is_ipv6());
    assert!(left6.all(|route| route.local), "{left:?}");
}
