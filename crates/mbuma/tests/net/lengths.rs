//! Every length from 0 to 80 of every ethertype and protocol, random and half right: no panic, and
//! every packet that came in is delivered or dropped.

use std::net::Ipv4Addr;

use crate::common::net::*;
use crate::common::splinter::Pattern;
use kern::Random;
use mbuf::{Csum, Packet};
use mbuma::DropReason;
use wire::{
    ArpPacket, EtherType, IcmpMessage, IpProto, Ipv4Fields, Ipv4Header, TcpFields, TcpFlags,
    Unreachable, pseudo_header_v4,
};

const LENGTHS: std::ops::RangeInclusive<usize> = 0..=80;
const ROUNDS: usize = 8;

/// The surroundings while the frames come in: sockets of every kind, so that nothing ends early.
fn with_everything(pattern: Option<Pattern>, frames: impl Fn(&Lab, &mut Random)) {
    let lab = Lab::new(Setup {
        accept_any: true,
        pattern,
        ..Setup::default()
    });
    let seed = 0x5eed;
    let udp = lab.stack.udp_bind(at(US, 7)).unwrap();
    let any = lab.stack.udp_bind_any(lab.iface).unwrap();
    let echo = lab.stack.icmp_echo_any(lab.iface).unwrap();
    let _tcp = lab.stack.tcp_listen(at(US, 80), 16).unwrap();
    frames(&lab, &mut Random::from_seed(seed));
    while udp.recv().is_ok() || any.recv().is_ok() || echo.recv().is_ok() {}
}

fn shapes() -> [Option<Pattern>; 3] {
    [
        None,
        Some(Pattern::Sizes(vec![1])),
        Some(Pattern::Offsets(vec![14, 34])),
    ]
}

/// Bytes of one kind or another.
fn content(random: &mut Random, len: usize, round: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    match round {
        0 => {}
        1 => bytes.fill(0xff),
        _ => random.fill(&mut bytes),
    }
    bytes
}

/// Gives the frame three times: unchanged; with a checksum that the device verified, so that TCP and UDP read further;
/// and with ICMP's checksum corrected.
fn give(lab: &Lab, frame: &[u8]) {
    lab.give(frame);
    let mut vouched = Packet::from_slice(&lab.pool, frame, 0).unwrap();
    vouched.header_mut().csum = Csum::L4_VALID;
    lab.put_packet(vouched);
    lab.poll();
    if let Some(frame) = with_icmp_checksum(frame) {
        lab.give(&frame);
    }
    drop(lab.packets());
}

fn with_icmp_checksum(frame: &[u8]) -> Option<Vec<u8>> {
    let view = Ipv4Header::parse(frame.get(14..)?).ok()?;
    let at = 14 + view.header_len();
    if view.protocol() != IpProto::ICMP {
        return None;
    }
    let mut frame = frame.to_vec();
    frame.get_mut(at + 2..at + 4)?.fill(0);
    let sum = sum_of(&[&frame[at..]]);
    frame[at + 2..at + 4].copy_from_slice(&sum.to_be_bytes());
    Some(frame)
}

/// Breaks if a frame's payload of any type and length is not accounted for.
#[test]
fn payloads_of_every_ethertype_and_length_are_counted() {
    let types = [
        EtherType::IPV4,
        EtherType::ARP,
        EtherType::IPV6,
        EtherType::VLAN,
        EtherType(0x1234),
    ];
    for shape in shapes() {
        with_everything(shape, |lab, random| {
            for ethertype in types {
                for len in LENGTHS {
                    for round in 0..ROUNDS {
                        let frame = ether(OUR_MAC, ethertype, &content(random, len, round));
                        give(lab, &frame);
                        // The frame itself that short.
                        give(lab, &frame[..len.min(frame.len())]);
                    }
                }
            }
        });
    }
}

/// Breaks if the payload of a right IP header is not accounted for, whatever protocol it is.
#[test]
fn payloads_of_every_ip_protocol_are_counted() {
    for shape in shapes() {
        with_everything(shape, |lab, random| {
            for protocol in [IpProto::ICMP, IpProto::UDP, IpProto::TCP, IpProto(123)] {
                for len in LENGTHS {
                    for round in 0..ROUNDS {
                        let payload = content(random, len, round);
                        let dst = if round % 2 == 0 { US } else { FOREIGN };
                        give(lab, &ip_frame(&from_peer(dst, protocol), &payload));
                        // As a fragment, and behind options.
                        let (mf, id) = (random.chance(0.5), random.below(4) as u16);
                        let frag_offset = random.below(20) as u16 * 8;
                        let fields = Ipv4Fields {
                            mf,
                            id,
                            frag_offset,
                            ..from_peer(dst, protocol)
                        };
                        give(lab, &ip_frame(&fields, &payload));
                        let options = content(random, random_options_len(round), 2);
                        let fields = Ipv4Fields {
                            options: &options,
                            ..from_peer(dst, protocol)
                        };
                        give(lab, &ip_frame(&fields, &payload));
                    }
                }
            }
        });
    }
}

fn random_options_len(round: usize) -> usize {
    round * 5 % 41
}

/// Packets that are right, and longer than 80 bytes with their headers.
fn right_packets() -> Vec<Vec<u8>> {
    let data = pattern_bytes(70);
    let syn = TcpFields {
        src_port: 5,
        dst_port: 80,
        flags: TcpFlags::SYN,
        ..TcpFields::default()
    };
    let mut segment = vec![0; syn.header_len()];
    syn.emit(&mut segment);
    segment.extend_from_slice(&data);
    let mut sum = pseudo_header_v4(PEER, US, IpProto::TCP, segment.len() as u32);
    sum.add_bytes(&segment);
    segment[16..18].copy_from_slice(&sum.finish().to_be_bytes());
    let ours = Ipv4Fields {
        src: US,
        dst: PEER,
        protocol: IpProto::UDP,
        ..Ipv4Fields::default()
    };
    let quote = ip(&ours, &udp(at(US, 7), at(PEER, 9), &data));
    let unreachable = IcmpMessage::DestUnreachable(Unreachable::PortUnreachable);
    vec![
        ip(&from_peer(US, IpProto::TCP), &segment),
        ip(
            &from_peer(US, IpProto::UDP),
            &udp(at(PEER, 9), at(US, 7), &data),
        ),
        ip(
            &from_peer(FOREIGN, IpProto::UDP),
            &udp(at(PEER, 9), at(FOREIGN, 7), &data),
        ),
        ip(
            &from_peer(US, IpProto::ICMP),
            &icmp(IcmpMessage::EchoRequest { id: 1, seq: 1 }, &data),
        ),
        ip(&from_peer(US, IpProto::ICMP), &icmp(unreachable, &quote)),
    ]
}

/// Breaks if a right packet that ends early, or has one wrong bit, is not accounted for. The lengths
/// and sums of the IP header are made right again, so that what is behind it is reached.
#[test]
fn half_right_packets() {
    for shape in shapes() {
        with_everything(shape, |lab, random| {
            for right in right_packets() {
                for len in LENGTHS {
                    let mut cut = right[..len].to_vec();
                    give(lab, &ether(OUR_MAC, EtherType::IPV4, &cut));
                    if len < Ipv4Header::LEN {
                        continue;
                    }
                    Ipv4Header::parse_mut(&mut cut)
                        .unwrap()
                        .set_total_len(len as u16);
                    Ipv4Header::fill_checksum(&mut cut).unwrap();
                    give(lab, &ether(OUR_MAC, EtherType::IPV4, &cut));
                    for _ in 0..ROUNDS {
                        let mut flipped = cut.clone();
                        let bit = random.below(len as u64 * 8) as usize;
                        flipped[bit / 8] ^= 1 << (bit % 8);
                        give(lab, &ether(OUR_MAC, EtherType::IPV4, &flipped));
                        // The header length may have changed; if it can't be mended, it stays wrong.
                        if Ipv4Header::fill_checksum(&mut flipped).is_ok() {
                            give(lab, &ether(OUR_MAC, EtherType::IPV4, &flipped));
                        }
                    }
                }
            }
        });
    }
}

/// The same for ARP.
#[test]
fn half_right_arp() {
    let mut right = arp_frame(&ArpPacket::request(PEER_MAC, PEER, US));
    right.resize(14 + 80, 0);
    for shape in shapes() {
        with_everything(shape, |lab, random| {
            for len in LENGTHS {
                give(lab, &right[..14 + len]);
                for _ in 0..ROUNDS {
                    let mut flipped = right[..14 + len].to_vec();
                    let bit = random.below(flipped.len() as u64 * 8) as usize;
                    flipped[bit / 8] ^= 1 << (bit % 8);
                    give(lab, &flipped);
                }
            }
        });
    }
}

/// RFC 791 3.1, RFC 1122 3.2.2.5: breaks if a packet is taken whose options run over its header, one whose options are
/// whole is dropped, or the sender is not told of the byte, though nothing else forbids it.
#[test]
fn options_that_run_over_the_header() {
    let lab = Lab::plain();
    let socket = lab.stack.udp_bind(at(US, 7)).unwrap();
    let datagram = udp(at(PEER, 9), at(US, 7), b"data");
    for (options, told) in [
        ([7, 4, 4, 0], None),
        ([7, 5, 4, 0], Some(20)),
        ([1, 7, 1, 0], Some(21)),
    ] {
        let fields = Ipv4Fields {
            options: &options,
            ..from_peer(US, IpProto::UDP)
        };
        lab.give(&ip_frame(&fields, &datagram));
        assert_eq!(socket.recv().is_ok(), told.is_none(), "{options:?}");
        let Some(pointer) = told else {
            continue;
        };
        let frame = lab.frame();
        assert_eq!((parse(&frame).src, parse(&frame).dst), (US, PEER));
        let (message, quote) = parse_icmp(&frame);
        let problem = IcmpMessage::ParamProblem { code: 0, pointer };
        assert_eq!((message, &quote[20..24]), (problem, &options[..]));
    }
    // Not told: a later fragment, a broadcast, a packet that is for no station here.
    let options = [7, 5, 4, 0];
    let bad = Ipv4Fields {
        options: &options,
        ..from_peer(US, IpProto::UDP)
    };
    let fragment = Ipv4Fields {
        frag_offset: 64,
        ..bad
    };
    let everybody = Ipv4Fields {
        dst: Ipv4Addr::new(10, 0, 2, 255),
        ..bad
    };
    let foreign = Ipv4Fields {
        dst: FOREIGN,
        ..bad
    };
    for fields in [fragment, everybody, foreign] {
        lab.give(&ip_frame(&fields, &datagram));
        assert!(lab.frames().is_empty());
    }
    assert_eq!(lab.dropped(DropReason::IpBadOptions), 4);
    assert_eq!(lab.dropped(DropReason::IpNotForUs), 1);
}

/// Breaks if a segment from or to port 0, which no program has, or a datagram to it, is answered or reaches the socket
/// for any port. (A datagram from port 0 wants no answer, RFC 768.)
#[test]
fn nothing_is_for_port_0() {
    let lab = Lab::gateway();
    let any = lab.stack.udp_bind_any(lab.iface).unwrap();
    lab.give(&udp_frame(9, at(FOREIGN, 0), b"x"));
    assert!(any.recv().is_err());
    assert_eq!(lab.dropped(DropReason::UdpBadHeader), 1);
    for (src_port, dst_port) in [(0, 80), (5, 0)] {
        let syn = TcpFields {
            src_port,
            dst_port,
            flags: TcpFlags::SYN,
            ..TcpFields::default()
        };
        let mut segment = vec![0; syn.header_len()];
        syn.emit(&mut segment);
        let mut sum = pseudo_header_v4(PEER, US, IpProto::TCP, segment.len() as u32);
        sum.add_bytes(&segment);
        segment[16..18].copy_from_slice(&sum.finish().to_be_bytes());
        lab.give(&ip_frame(&from_peer(US, IpProto::TCP), &segment));
    }
    assert!(lab.frames().is_empty());
    assert_eq!(lab.dropped(DropReason::TcpBadHeader), 2);
}
