//! Frames of IPv6 that were damaged at random, to a host, a host that configures itself, a router and a gateway.
//!
//! `HOSTILE_FRAMES` is how many frames each gets:
//! `HOSTILE_FRAMES=1000000 cargo test --release -p mbuma --test net hostile6`.

use std::net::Ipv6Addr;
use std::time::Duration;

use crate::common::net::*;
use crate::frames6::{PEER6, US6, frame6, from_peer6, icmp6, icmp6_frame, nd_frame};
use kern::Random;
use mbuma::{Autoconf, IfAddr};
use wire::{
    ALL_NODES, AdvertFlags, Icmp6Header, Icmp6Message, IpProto, Ipv6Fields, Ipv6Fragment,
    Ipv6Header, NdpMessage, NeighborMessage, Unreachable6, link_local_of, mld_type,
    pseudo_header_v6, solicited_node,
};

const FRAMES: u64 = 3000;

/// Frames that each make the stack do something.
fn honest() -> Vec<Vec<u8>> {
    let router = link_local_of(PEER_MAC);
    let other = |kind, rest| Icmp6Message::Other {
        kind,
        code: 0,
        rest,
    };
    let solicit = NeighborMessage::solicit(US6, Some(PEER_MAC), None);
    let probe = NeighborMessage::solicit(US6, None, Some([7; 6]));
    let flags = AdvertFlags {
        router: true,
        solicited: true,
        overrides: true,
    };
    let advert = NeighborMessage::advert(PEER6, PEER_MAC, flags);
    let prefix = [
        &[3, 4, 64, 0xc0][..],
        &[0, 1, 0, 0, 0, 1, 0, 0],
        &[0; 4],
        &US6.octets(),
    ]
    .concat();
    let router_advert = [&[0; 8][..], &prefix, &[1, 1, 2, 0, 0, 0, 0, 100]].concat();
    let redirect = [router.octets(), [0x20; 16]].concat();
    let ping = Icmp6Message::EchoRequest { id: 5, seq: 9 };
    let quoted = icmp6(
        US6,
        PEER6,
        Icmp6Message::EchoReply { id: 5, seq: 9 },
        &[1; 32],
    );
    let quoted = frame6(
        &Ipv6Fields {
            src: US6,
            dst: PEER6,
            ..from_peer6(IpProto::ICMPV6)
        },
        &quoted,
    );
    let too_big = Icmp6Message::PacketTooBig { mtu: 1280 };
    let unreachable = Icmp6Message::DestUnreachable(Unreachable6::Port);
    let query = [&Ipv6Addr::UNSPECIFIED.octets()[..], &[2, 125, 0, 0]].concat();
    let query = icmp6(
        router,
        ALL_NODES,
        other(mld_type::QUERY, [0, 1, 0, 0]),
        &query,
    );
    let alert = [&[58, 0, 5, 2, 0, 0, 1, 0][..], &query].concat();
    let mut fragment = vec![0; Ipv6Fragment::LEN];
    let header = Ipv6Fragment {
        next: IpProto::UDP,
        offset: 0,
        more: true,
        id: 7,
    };
    header.emit(&mut fragment);
    fragment.extend([0, 9, 0, 7, 0, 24, 1, 2]);
    fragment.extend([5; 16]);
    let options = [
        17, 1, 1, 4, 0, 0, 0, 0, 0x1e, 2, 1, 1, 0x9e, 2, 0, 0, 0, 9, 0, 7, 0, 8, 0, 0,
    ];
    let route = [17, 2, 0, 1, 0, 0, 0, 0]
        .into_iter()
        .chain([9; 24])
        .collect::<Vec<u8>>();
    let mut syn = vec![
        0, 9, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 4, 0, 0, 0, 0, 0,
    ];
    let mut sum = pseudo_header_v6(PEER6, US6, IpProto::TCP, 20);
    sum.add_bytes(&syn);
    syn[16..18].copy_from_slice(&sum.finish().to_be_bytes());
    vec![
        icmp6_frame(PEER6, US6, 64, ping, &pattern_bytes(64)),
        icmp6_frame(PEER6, ALL_NODES, 64, ping, b"all"),
        nd_frame(PEER6, solicited_node(US6), &solicit),
        nd_frame(Ipv6Addr::UNSPECIFIED, solicited_node(US6), &probe),
        nd_frame(PEER6, US6, &advert),
        icmp6_frame(
            router,
            ALL_NODES,
            255,
            other(NdpMessage::ROUTER_ADVERT, [64, 0, 7, 8]),
            &router_advert,
        ),
        icmp6_frame(
            router,
            wire::ALL_ROUTERS,
            255,
            other(NdpMessage::ROUTER_SOLICIT, [0; 4]),
            &[],
        ),
        icmp6_frame(
            router,
            US6,
            255,
            other(NdpMessage::REDIRECT, [0; 4]),
            &redirect,
        ),
        icmp6_frame(PEER6, US6, 64, too_big, &quoted[14..]),
        icmp6_frame(PEER6, US6, 64, unreachable, &quoted[14..]),
        frame6(
            &Ipv6Fields {
                src: router,
                dst: ALL_NODES,
                hop_limit: 1,
                ..from_peer6(IpProto::HOP_BY_HOP)
            },
            &alert,
        ),
        frame6(&from_peer6(IpProto::FRAGMENT), &fragment),
        frame6(&from_peer6(IpProto::DEST_OPTIONS), &options),
        frame6(&from_peer6(IpProto::ROUTING), &route),
        frame6(&from_peer6(IpProto::TCP), &syn),
    ]
}

/// Damages some bytes behind the Ethernet header, or the length; the checksum is right in half of the messages of
/// ICMPv6.
fn damage(frame: &mut Vec<u8>, random: &mut Random) {
    const IP: usize = 14;
    for _ in 0..random.below(4) {
        let at = IP + random.below((frame.len() - IP) as u64) as usize;
        frame[at] = match random.below(3) {
            0 => random.below(256) as u8,
            1 => [0, 1, 0x3f, 0x40, 0x80, 0xfe, 0xff][random.below(7) as usize],
            _ => frame[at] ^ 1 << random.below(8),
        };
    }
    match random.below(8) {
        0 => frame.truncate(IP + random.below((frame.len() - IP) as u64) as usize),
        1 => frame.extend(vec![0; random.below(64) as usize]),
        _ => {}
    }
    let icmp = IP + Ipv6Header::LEN;
    let is_icmp = frame.len() >= icmp + Icmp6Header::LEN && frame[IP + 6] == IpProto::ICMPV6.0;
    if is_icmp && random.below(2) == 0 {
        let header = Ipv6Header::parse(&frame[IP..]);
        let Ok((src, dst, len)) = header.map(|ip| (ip.src(), ip.dst(), ip.payload_len())) else {
            return;
        };
        let end = frame.len().min(icmp + len);
        if end >= icmp + Icmp6Header::LEN {
            frame[icmp + 2..icmp + 4].fill(0);
            let mut sum = pseudo_header_v6(src, dst, IpProto::ICMPV6, (end - icmp) as u32);
            sum.add_bytes(&frame[icmp..end]);
            let sum = sum.finish().to_be_bytes();
            frame[icmp + 2..icmp + 4].copy_from_slice(&sum);
        }
    }
}

/// Gives a stack damaged frames, of which it makes no more bytes than they have.
fn attack(lab: Lab, seed: u64) {
    let frames = std::env::var("HOSTILE_FRAMES")
        .ok()
        .and_then(|n| n.parse().ok());
    let (honest, mut random) = (honest(), Random::from_seed(seed));
    let (mut given, mut sent) = (0, 0);
    drop(lab.all_frames());
    for n in 0..frames.unwrap_or(FRAMES) {
        let mut frame = honest[random.below(honest.len() as u64) as usize].clone();
        damage(&mut frame, &mut random);
        given += frame.len();
        // So the limits of errors are no bound, and neighbours are asked for again.
        lab.advance(Duration::from_millis(10));
        lab.give(&frame);
        sent += lab.all_frames().iter().map(Vec::len).sum::<usize>();
        assert!(
            sent <= given + 2000,
            "{sent} bytes for {given} after frame {n}"
        );
    }
    for _ in 0..100 {
        lab.advance(Duration::from_secs(1));
        drop(lab.all_frames());
    }
}

fn with_address() -> Setup {
    Setup {
        addrs: vec![IfAddr::new(US6, 64)],
        ..Setup::default()
    }
}

#[test]
fn a_host_survives_damaged_frames_and_sends_no_more_than_it_gets() {
    // Breaks if received bytes make a host panic, keep a buffer, lose count of a packet, or send more than it received.
    for seed in 0..4 {
        attack(Lab::new(with_address()), seed);
    }
}

#[test]
fn a_host_that_configures_itself_survives_damaged_frames() {
    // The same: breaks also if routers that do not exist leave a host that sends without end.
    for seed in 10..14 {
        let setup = Setup {
            autoconf: Some(Autoconf::default()),
            ..with_address()
        };
        attack(Lab::new(setup), seed);
    }
}

#[test]
fn a_router_and_a_gateway_survive_damaged_frames() {
    // The same: breaks also if one packet makes a router send several.
    for seed in 20..22 {
        let lab = Lab::new(with_address());
        lab.stack.set_forwarding(true);
        attack(lab, seed);
        let gateway = Setup {
            accept_any: true,
            ..with_address()
        };
        attack(Lab::new(gateway), seed);
    }
}
