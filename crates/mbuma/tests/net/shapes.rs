//! Nothing may depend on how a packet's bytes are spread over its mbufs: every input runs again with
//! the packet in pieces of 1, 2 and 3 bytes and cut at each header boundary, with the same result.

use std::net::Ipv4Addr;

use crate::common::net::*;
use crate::common::splinter::Pattern;
use mbuma::socket::{EchoSocket, UdpSocket};
use mbuma::{DropReason, TcpListener};
use wire::{
    ArpPacket, EtherType, IcmpMessage, IpProto, Ipv4Fields, SeqNum, TcpFields, TcpFlags, TcpHeader,
    TcpOptions, Unreachable, pseudo_header_v4,
};

/// All results of an input.
#[derive(Debug, PartialEq)]
struct Outcome {
    sent: Vec<Vec<u8>>,
    read: Vec<Vec<u8>>,
    delivered: u64,
    dropped: Vec<(DropReason, u64)>,
}

struct Sockets {
    udp: UdpSocket,
    any: UdpSocket,
    echo: EchoSocket,
    tcp: TcpListener,
}

impl Sockets {
    fn new(lab: &Lab) -> Self {
        Self {
            udp: lab.stack.udp_bind(at(US, 7)).unwrap(),
            any: lab.stack.udp_bind_any(lab.iface).unwrap(),
            echo: lab.stack.icmp_echo_any(lab.iface).unwrap(),
            tcp: lab.stack.tcp_listen(at(US, 80), 4).unwrap(),
        }
    }

    fn read(&self) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        for socket in [&self.udp, &self.any] {
            while let Ok(d) = socket.recv() {
                out.push(format!("{} {} {}", d.src, d.dst, d.ttl).into_bytes());
                out.push(d.payload.to_vec());
            }
            while let Some(e) = socket.take_error() {
                out.push(format!("{e:?}").into_bytes());
            }
        }
        while let Ok(e) = self.echo.recv() {
            out.push(format!("{} {} {} {} {}", e.src, e.dst, e.id, e.seq, e.ttl).into_bytes());
            out.push(e.payload.to_vec());
        }
        while let Ok(stream) = self.tcp.accept() {
            let mut buf = [0; 4096];
            while let Ok(n @ 1..) = stream.recv(&mut buf) {
                out.push(buf[..n].to_vec());
            }
        }
        out
    }
}

/// Runs one input and returns all its results.
fn run(input: fn(&Lab, &mut Vec<Vec<u8>>), pattern: Option<Pattern>) -> Outcome {
    let lab = Lab::new(Setup {
        accept_any: true,
        pattern,
        ..Setup::default()
    });
    let sockets = Sockets::new(&lab);
    let mut sent = Vec::new();
    input(&lab, &mut sent);
    sent.extend(lab.frames());
    let read = sockets.read();
    drop(sockets);
    sent.extend(lab.frames());
    let stats = lab.stack.stats();
    drop(lab);
    Outcome {
        sent,
        read,
        delivered: stats.delivered,
        dropped: stats.dropped,
    }
}

fn arp(lab: &Lab, _: &mut Vec<Vec<u8>>) {
    lab.give(&arp_frame(&ArpPacket::request(PEER_MAC, PEER, US)));
    lab.give(&arp_frame(&ArpPacket::gratuitous(PEER_MAC, PEER)));
    lab.give(&arp_frame(&ArpPacket::gratuitous(PEER_MAC, US)));
    let mut long = arp_frame(&ArpPacket::request(PEER_MAC, PEER, US));
    long.resize(60, 0);
    lab.give(&long);
}

fn pings(lab: &Lab, _: &mut Vec<Vec<u8>>) {
    for len in [0, 1, 56, 1000] {
        lab.give(&ping_frame(US, 1, len, &pattern_bytes(usize::from(len))));
        lab.give(&ping_frame(
            FOREIGN,
            1,
            len,
            &pattern_bytes(usize::from(len)),
        ));
    }
    let mut damaged = ping_frame(US, 1, 1, b"hello");
    *damaged.last_mut().unwrap() ^= 1;
    lab.give(&damaged);
    // A short frame that the link filled up.
    let mut padded = ping_frame(US, 9, 9, b"");
    padded.resize(60, 0xee);
    lab.give(&padded);
}

fn errors(lab: &Lab, _: &mut Vec<Vec<u8>>) {
    let datagram = udp(at(US, 7), at(PEER, 9), b"what we sent");
    let sent = ip(
        &Ipv4Fields {
            src: US,
            dst: PEER,
            protocol: IpProto::UDP,
            ..Default::default()
        },
        &datagram,
    );
    for quoted in [0, 19, 20, 27, 28, sent.len()] {
        let error = IcmpMessage::DestUnreachable(Unreachable::PortUnreachable);
        let message = icmp(error, &sent[..quoted]);
        lab.give(&ip_frame(&from_peer(US, IpProto::ICMP), &message));
    }
    // The quoted header has options.
    let options = [1; 8];
    let fields = Ipv4Fields {
        src: US,
        dst: PEER,
        protocol: IpProto::UDP,
        options: &options,
        ..Default::default()
    };
    let message = icmp(
        IcmpMessage::DestUnreachable(Unreachable::FragNeeded { mtu: 1000 }),
        &ip(&fields, &datagram)[..36],
    );
    lab.give(&ip_frame(&from_peer(US, IpProto::ICMP), &message));
}

fn datagrams(lab: &Lab, _: &mut Vec<Vec<u8>>) {
    for len in [0, 1, 2, 3, 100, 1472] {
        lab.give(&udp_frame(4000, at(US, 7), &pattern_bytes(len)));
        lab.give(&udp_frame(4000, at(US, 8), &pattern_bytes(len)));
        lab.give(&udp_frame(4000, at(FOREIGN, 53), &pattern_bytes(len)));
    }
    let mut damaged = udp_frame(4000, at(US, 7), b"hello");
    *damaged.last_mut().unwrap() ^= 1;
    lab.give(&damaged);
    let mut short = udp_frame(4000, at(US, 7), b"hello");
    short.truncate(40);
    lab.give(&short);
    // IP options before it.
    let options = [1; 12];
    let fields = Ipv4Fields {
        options: &options,
        ..from_peer(US, IpProto::UDP)
    };
    lab.give(&ip_frame(
        &fields,
        &udp(at(PEER, 1), at(US, 7), b"behind options"),
    ));
    lab.give(&ip_frame(
        &from_peer(US, IpProto(99)),
        b"a protocol that nobody speaks",
    ));
    lab.give(&ip_frame(
        &Ipv4Fields {
            ttl: 1,
            ..from_peer(FOREIGN, IpProto::UDP)
        },
        &[0; 30],
    ));
    lab.give(&ip_frame(
        &from_peer(Ipv4Addr::LOCALHOST, IpProto::UDP),
        &[0; 30],
    ));
}

fn fragments(lab: &Lab, _: &mut Vec<Vec<u8>>) {
    let whole = udp(at(PEER, 9), at(US, 7), &pattern_bytes(3000));
    for (i, piece) in whole.chunks(1000).enumerate().rev() {
        let (frag_offset, mf) = ((i * 1000) as u16, (i + 1) * 1000 < whole.len());
        let fields = Ipv4Fields {
            id: 5,
            frag_offset,
            mf,
            ..from_peer(US, IpProto::UDP)
        };
        lab.give(&ip_frame(&fields, piece));
        lab.give(&ip_frame(&fields, piece));
    }
    let fields = Ipv4Fields {
        id: 6,
        mf: true,
        ..from_peer(US, IpProto::UDP)
    };
    lab.give(&ip_frame(&fields, &[1; 80]));
    lab.give(&ip_frame(
        &Ipv4Fields {
            frag_offset: 40,
            ..fields
        },
        &[2; 80],
    ));
    lab.give(&ip_frame(&Ipv4Fields { id: 7, ..fields }, &[3; 33]));
    lab.give(&ip_frame(&Ipv4Fields { id: 8, ..fields }, &[4; 16]));
}

fn other_frames(lab: &Lab, _: &mut Vec<Vec<u8>>) {
    lab.give(&ether(OUR_MAC, EtherType::IPV6, &[0x60; 60]));
    lab.give(&ether(OUR_MAC, EtherType::VLAN, &[0; 60]));
    lab.give(&ether(PEER_MAC, EtherType::IPV4, &[0x45; 60]));
    lab.give(&[1; 13]);
    lab.give(&ether(OUR_MAC, EtherType::IPV4, &[]));
    lab.give(&ether(OUR_MAC, EtherType::IPV4, &[0x45; 19]));
    lab.give(&ether(OUR_MAC, EtherType::IPV4, &[0x4f; 40]));
    let mut wrong = ping_frame(US, 1, 1, b"");
    wrong[24] ^= 1;
    lab.give(&wrong);
}

/// A segment from the peer's port 5000 to our port 80.
fn segment(seq: u32, ack: u32, flags: TcpFlags, data: &[u8]) -> Vec<u8> {
    let options = TcpOptions {
        mss: flags.contains(TcpFlags::SYN).then_some(1460),
        ..TcpOptions::default()
    };
    let fields = TcpFields {
        src_port: 5000,
        dst_port: 80,
        seq: SeqNum(seq),
        ack: SeqNum(ack),
        flags,
        window: 65_535,
        urgent: 0,
        options,
    };
    let mut out = vec![0; fields.header_len()];
    fields.emit(&mut out);
    out.extend_from_slice(data);
    let mut sum = pseudo_header_v4(PEER, US, IpProto::TCP, out.len() as u32);
    sum.add_bytes(&out);
    out[TcpHeader::CHECKSUM_OFFSET..][..2].copy_from_slice(&sum.finish().to_be_bytes());
    ip_frame(&from_peer(US, IpProto::TCP), &out)
}

/// A handshake, data out of order, and the end; the stack's answers are part of what is compared.
fn connection(lab: &Lab, sent: &mut Vec<Vec<u8>>) {
    lab.give(&segment(100, 0, TcpFlags::SYN, b""));
    let answer = lab.frame();
    let iss = TcpHeader::parse(parse(&answer).payload).unwrap().seq().0;
    sent.push(answer);
    let ack = iss.wrapping_add(1);
    lab.give(&segment(101, ack, TcpFlags::ACK, b""));
    lab.give(&segment(105, ack, TcpFlags::ACK | TcpFlags::PSH, b"later"));
    sent.extend(lab.frames());
    lab.give(&segment(101, ack, TcpFlags::ACK, b"now "));
    sent.extend(lab.frames());
    let mut damaged = segment(110, ack, TcpFlags::ACK, b"damaged");
    *damaged.last_mut().unwrap() ^= 1;
    lab.give(&damaged);
    lab.give(&segment(
        110,
        ack,
        TcpFlags::ACK | TcpFlags::FIN,
        &pattern_bytes(1000),
    ));
    sent.extend(lab.frames());
}

fn patterns() -> Vec<Pattern> {
    let mut all: Vec<_> = (1..=3).map(|n| Pattern::Sizes(vec![n])).collect();
    all.push(Pattern::Sizes(vec![1, 2, 3, 5, 8, 13]));
    all.push(Pattern::Sizes(vec![14, 0, 7]));
    // After the Ethernet header; the IP header; ICMP, UDP and a quoted UDP header; TCP's; one byte
    // to each side of them; an ARP packet's end.
    for at in [
        13, 14, 15, 18, 33, 34, 35, 38, 41, 42, 43, 46, 53, 54, 55, 58, 61, 62, 63, 69, 70, 71,
    ] {
        all.push(Pattern::Offsets(vec![at]));
    }
    all.push(Pattern::Offsets(vec![14, 34]));
    all.push(Pattern::Offsets(vec![14, 34, 42]));
    all.push(Pattern::Offsets(vec![14, 34, 54]));
    all.push(Pattern::Offsets(vec![14, 34, 42, 62, 70]));
    all
}

fn same_in_every_shape(input: fn(&Lab, &mut Vec<Vec<u8>>)) {
    let whole = run(input, None);
    assert!(!whole.sent.is_empty() || !whole.read.is_empty() || !whole.dropped.is_empty());
    for pattern in patterns() {
        assert_eq!(run(input, Some(pattern.clone())), whole, "{pattern:?}");
    }
}

/// Breaks if ARP reads past its first mbuf.
#[test]
fn arp_in_every_shape() {
    same_in_every_shape(arp);
}

/// Breaks if a ping's header or checksum depends on its shape.
#[test]
fn pings_in_every_shape() {
    same_in_every_shape(pings);
}

/// Breaks if what an ICMP error quotes must lie in one piece.
#[test]
fn errors_in_every_shape() {
    same_in_every_shape(errors);
}

/// Breaks if UDP's header, checksum or cutting depends on the shape.
#[test]
fn datagrams_in_every_shape() {
    same_in_every_shape(datagrams);
}

/// Breaks if reassembly depends on the shape of the fragments.
#[test]
fn fragments_in_every_shape() {
    same_in_every_shape(fragments);
}

/// Breaks if frames for other stations are handled differently by shape.
#[test]
fn other_frames_in_every_shape() {
    same_in_every_shape(other_frames);
}

/// Breaks if a connection depends on the shape of its segments.
#[test]
fn connections_in_every_shape() {
    same_in_every_shape(connection);
}

/// Breaks if a splintered packet has other bytes, another header, or larger pieces than asked for.
#[test]
fn a_cut_packet_has_the_same_bytes_in_small_pieces() {
    let pool = mbuf::MbufPool::new(mbuf::PoolConfig::default()).unwrap();
    let bytes: Vec<u8> = (0..100).collect();
    let cases: [(Pattern, &[usize]); 4] = [
        (Pattern::Sizes(vec![30]), &[30, 30, 30, 10]),
        (Pattern::Sizes(vec![50, 20]), &[50, 20, 30]),
        (Pattern::Offsets(vec![0, 14, 34, 500]), &[14, 20, 66]),
        (Pattern::Offsets(vec![]), &[100]),
    ];
    for (pattern, sizes) in cases {
        let mut packet = mbuf::Packet::from_slice(&pool, &bytes, 0).unwrap();
        packet.header_mut().tso_segsz = 7;
        let cut = pattern.cut(&pool, packet).unwrap();
        assert_eq!(cut.to_vec(), bytes);
        assert_eq!((cut.len(), cut.header().tso_segsz), (100, 7));
        assert_eq!(
            cut.segments().map(<[u8]>::len).collect::<Vec<_>>(),
            sizes,
            "{pattern:?}"
        );
    }
    for size in 1..=3 {
        let packet = mbuf::Packet::from_slice(&pool, &bytes, 0).unwrap();
        let cut = Pattern::Sizes(vec![size]).cut(&pool, packet).unwrap();
        assert!(cut.segments().all(|s| s.len() <= size));
        assert_eq!(cut.to_vec(), bytes);
    }
    assert_eq!(pool.live(), mbuf::Live::NONE);
}
