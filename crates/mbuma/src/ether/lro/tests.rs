use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4};
use std::slice;
use std::sync::Arc;

use kern::{Random, Time, VirtualClock};
use mbuf::{Live, MbufPool};
use proptest::prelude::*;
use wire::{
    EtherHeader, EtherType, Ipv4Fields, Ipv6Fields, MacAddr, TcpFields, TcpFlags, TcpOptions,
};

use super::*;
use crate::device::memory::Pipe;
use crate::device::{Budget, Capabilities, Device, offload};
use crate::{Config, IfConfig, IfIndex, Stack, TcpStream};

const SRC: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const DST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const ALL: Budget = Budget {
    frames: usize::MAX,
    bytes: usize::MAX,
};

/// A stack with an interface.
fn host(caps: Capabilities) -> Host {
    let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
    let stack = Stack::new(Config::new(clock.clone(), Random::from_seed(1))).unwrap();
    let (near, far) = Pipe::pair(caps);
    let config = IfConfig::new("pipe0")
        .with_addr(DST, 24)
        .with_addr("2001:db8::1".parse::<Ipv6Addr>().unwrap(), 64);
    let index = stack.attach(Arc::new(near), config).unwrap();
    (stack, index, far, clock)
}

/// A segment as it lies on the wire.
#[derive(Debug, Clone)]
struct Frame {
    is_ip6: bool,
    port: u16,
    id: u16,
    df: bool,
    tos: u8,
    ttl: u8,
    flow_label: u32,
    seq: u32,
    ack: u32,
    flags: TcpFlags,
    window: u16,
    options: TcpOptions,
    data: usize,
    bad_sum: bool,
}

impl Default for Frame {
    fn default() -> Self {
        Self {
            is_ip6: false,
            port: 1000,
            id: 0,
            df: true,
            tos: 0,
            ttl: 64,
            flow_label: 0,
            seq: 0,
            ack: 7,
            flags: TcpFlags::ACK,
            window: 500,
            options: TcpOptions::default(),
            data: 1000,
            bad_sum: false,
        }
    }
}

impl Frame {
    fn bytes(&self, mac: MacAddr) -> Vec<u8> {
        let tcp = TcpFields {
            src_port: self.port,
            dst_port: 80,
            seq: SeqNum(self.seq),
            ack: SeqNum(self.ack),
            flags: self.flags,
            window: self.window,
            urgent: 0,
            options: self.options,
        };
        let l3 = EtherHeader::LEN;
        let l4 = l3 + if self.is_ip6 { 40 } else { 20 };
        let mut out = vec![0; l4 + tcp.header_len()];
        let (headers, len) = (out.len(), out.len() + self.data);
        let ethertype = if self.is_ip6 {
            EtherType::IPV6
        } else {
            EtherType::IPV4
        };
        EtherHeader::new(mac, MacAddr::ZERO, ethertype).emit(&mut out);
        let payload_len = (len - l4) as u16;
        let mut sum = if self.is_ip6 {
            let (src, dst) = (
                "2001:db8::2".parse().unwrap(),
                "2001:db8::1".parse().unwrap(),
            );
            let ip = Ipv6Fields {
                class: self.tos,
                payload_len,
                next: IpProto::TCP,
                hop_limit: self.ttl,
                src,
                dst,
                flow_label: self.flow_label,
            };
            ip.emit(&mut out[l3..]);
            wire::pseudo_header_v6(src, dst, IpProto::TCP, u32::from(payload_len))
        } else {
            let ip = Ipv4Fields {
                tos: self.tos,
                id: self.id,
                df: self.df,
                ttl: self.ttl,
                payload_len,
                protocol: IpProto::TCP,
                src: SRC,
                dst: DST,
                ..Ipv4Fields::default()
            };
            ip.emit(&mut out[l3..]);
            wire::pseudo_header_v4(SRC, DST, IpProto::TCP, u32::from(payload_len))
        };
        tcp.emit(&mut out[l4..]);
        out.extend((0..self.data).map(|i| (self.seq as usize + i) as u8));
        sum.add_bytes(&out[l4..]);
        out[l4 + 16..][..2].copy_from_slice(&sum.finish().to_be_bytes());
        if self.bad_sum {
            out[headers] ^= 1;
        }
        out
    }

    /// The next one of its connection.
    fn next(&self) -> Self {
        Self {
            seq: self.seq.wrapping_add(self.data as u32),
            id: self.id.wrapping_add(1),
            ..self.clone()
        }
    }
}

/// What goes up of these frames, in its order.
fn passed(stack: &Stack, index: IfIndex, frames: &[Vec<u8>]) -> Vec<Packet> {
    let ifp = stack.0.interface(index).unwrap();
    let (mut merges, mut out) = (Merges::default(), Vec::new());
    for bytes in frames {
        let frame = Packet::from_slice(stack.pool(), bytes, 0).unwrap();
        merges.take(&ifp, frame, |packet| out.push(packet));
    }
    merges.pass_all(|packet| out.push(packet));
    out
}

/// The number of packets that go up of frames of one connection.
fn count(frames: &[Frame]) -> usize {
    let (stack, index, _far, _) = host(Capabilities::plain(1500));
    let mac = stack.0.interface(index).unwrap().mac;
    let bytes: Vec<_> = frames.iter().map(|f| f.bytes(mac)).collect();
    passed(&stack, index, &bytes).len()
}

/// Breaks if a field that may not be lost is not compared, or a segment that must stay alone is merged.
#[test]
fn only_segments_that_say_the_same_are_merged() {
    let first = Frame::default();
    let next = first.next();
    let timestamps = |value| TcpOptions {
        timestamps: Some((value, 9)),
        ..TcpOptions::default()
    };
    assert_eq!(count(&[first.clone(), next.clone()]), 1);
    assert_eq!(
        count(&[
            first.clone(),
            Frame {
                data: 900,
                ..next.clone()
            }
        ]),
        1
    );
    assert_eq!(
        count(&[
            first.clone(),
            Frame {
                flags: TcpFlags::ACK | TcpFlags::PSH,
                ..next.clone()
            }
        ]),
        1
    );
    let differing = [
        (
            "seq",
            Frame {
                seq: next.seq + 1,
                ..next.clone()
            },
        ),
        (
            "old data",
            Frame {
                seq: next.seq - 1,
                ..next.clone()
            },
        ),
        (
            "port",
            Frame {
                port: 1001,
                ..next.clone()
            },
        ),
        (
            "longer",
            Frame {
                data: 1001,
                ..next.clone()
            },
        ),
        (
            "short",
            Frame {
                data: segment_frame::DATA_MIN - 1,
                ..next.clone()
            },
        ),
        (
            "no data",
            Frame {
                data: 0,
                ..next.clone()
            },
        ),
        (
            "ack",
            Frame {
                ack: 8,
                ..next.clone()
            },
        ),
        (
            "window",
            Frame {
                window: 501,
                ..next.clone()
            },
        ),
        (
            "TTL",
            Frame {
                ttl: 63,
                ..next.clone()
            },
        ),
        (
            "ECN mark",
            Frame {
                tos: 3,
                ..next.clone()
            },
        ),
        (
            "DF",
            Frame {
                df: false,
                ..next.clone()
            },
        ),
        (
            "timestamps",
            Frame {
                options: timestamps(1),
                ..next.clone()
            },
        ),
        (
            "checksum",
            Frame {
                bad_sum: true,
                ..next.clone()
            },
        ),
        (
            "version",
            Frame {
                is_ip6: true,
                ..next.clone()
            },
        ),
        (
            "FIN",
            Frame {
                flags: TcpFlags::ACK | TcpFlags::FIN,
                ..next.clone()
            },
        ),
        (
            "RST",
            Frame {
                flags: TcpFlags::ACK | TcpFlags::RST,
                ..next.clone()
            },
        ),
        (
            "SYN",
            Frame {
                flags: TcpFlags::ACK | TcpFlags::SYN,
                ..next.clone()
            },
        ),
        (
            "URG",
            Frame {
                flags: TcpFlags::ACK | TcpFlags::URG,
                ..next.clone()
            },
        ),
        (
            "CWR",
            Frame {
                flags: TcpFlags::ACK | TcpFlags::CWR,
                ..next.clone()
            },
        ),
        (
            "no ACK",
            Frame {
                flags: TcpFlags::empty(),
                ..next.clone()
            },
        ),
    ];
    for (what, frame) in differing {
        assert_eq!(count(&[first.clone(), frame]), 2, "{what}");
    }
    let first6 = Frame {
        is_ip6: true,
        flow_label: 0x12345,
        ..first.clone()
    };
    assert_eq!(count(&[first6.clone(), first6.next()]), 1);
    let differing6 = [
        (
            "flow label",
            Frame {
                flow_label: 0x12344,
                ..first6.next()
            },
        ),
        (
            "traffic class",
            Frame {
                tos: 0x80,
                ..first6.next()
            },
        ),
        (
            "hop limit",
            Frame {
                ttl: 63,
                ..first6.next()
            },
        ),
    ];
    for (what, frame) in differing6 {
        assert_eq!(count(&[first6.clone(), frame]), 2, "{what} over IPv6");
    }
    let with = |value| Frame {
        options: timestamps(value),
        ..first.clone()
    };
    assert_eq!(count(&[with(1), with(1).next()]), 1);
    assert_eq!(
        count(&[
            with(1),
            Frame {
                options: timestamps(2),
                ..with(1).next()
            }
        ]),
        2
    );
    let sack = TcpOptions {
        sack_permitted: true,
        ..TcpOptions::default()
    };
    let odd = Frame {
        options: sack,
        ..first.clone()
    };
    assert_eq!(count(&[odd.clone(), odd.next()]), 2, "other options");
    // A short or pushed segment is the last, and a pushed one never the first.
    let pushed = Frame {
        flags: TcpFlags::ACK | TcpFlags::PSH,
        ..first.clone()
    };
    assert_eq!(count(&[pushed.clone(), pushed.next()]), 2);
    let short = Frame {
        data: 900,
        ..next.clone()
    };
    assert_eq!(count(&[first.clone(), short.clone(), short.next()]), 2);
}

/// Breaks if a merged packet has more bytes than IP's length field can say.
#[test]
fn a_merged_packet_fits_ip() {
    for is_ip6 in [false, true] {
        let mut frames = vec![Frame {
            is_ip6,
            data: 1460,
            ..Frame::default()
        }];
        for _ in 0..99 {
            frames.push(frames[frames.len() - 1].next());
        }
        assert_eq!(count(&frames), 3, "{is_ip6}");
    }
}

/// Breaks if the segments of a ninth connection push others out of order, or are lost.
#[test]
fn more_connections_than_places_are_passed_in_order() {
    let (stack, index, _far, _) = host(Capabilities::plain(1500));
    let mac = stack.0.interface(index).unwrap().mac;
    let mut frames: Vec<_> = (0..MERGES as u16 + 3)
        .map(|i| Frame {
            port: 1000 + i,
            ..Frame::default()
        })
        .collect();
    let again: Vec<_> = frames.iter().map(Frame::next).collect();
    frames.extend(again);
    let bytes: Vec<_> = frames.iter().map(|f| f.bytes(mac)).collect();
    let out = passed(&stack, index, &bytes);
    assert_eq!(as_sent(stack.pool(), out, 1500), by_port(bytes));
}

/// The frames of each connection, in their order.
fn by_port(mut frames: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let port = |frame: &Vec<u8>| {
        let l4 = if frame[12] == 8 { 34 } else { 54 };
        (l4, frame[l4], frame[l4 + 1])
    };
    frames.sort_by_key(port);
    frames
}

/// The frames that a device without offloads would send of these packets, by connection.
fn as_sent(pool: &MbufPool, packets: Vec<Packet>, mtu: u16) -> Vec<Vec<u8>> {
    let mut ready = Mbufq::new();
    for packet in packets {
        offload::prepare(pool, packet, Capabilities::plain(mtu), &mut ready).unwrap();
    }
    by_port(ready.map(|frame| frame.to_vec()).collect())
}

fn frames() -> impl Strategy<Value = Vec<Frame>> {
    // Mostly nothing changes.
    let rarely =
        || prop::sample::select(vec![0u8; 12].into_iter().chain([1, 2]).collect::<Vec<_>>());
    let step = (
        (
            0..10u16,
            any::<bool>(),
            prop::sample::select(vec![0usize, 63, 64, 500, 536, 1400]),
        ),
        (rarely(), rarely(), rarely(), rarely(), rarely(), rarely()),
    );
    prop::collection::vec(step, 1..120).prop_map(|steps| {
        let mut flows: Vec<Frame> = (0..10)
            .map(|i| Frame {
                port: 1000 + i,
                is_ip6: i % 3 == 0,
                data: 536,
                seq: u32::MAX - 2000,
                ..Frame::default()
            })
            .collect();
        type Step = ((u16, bool, usize), (u8, u8, u8, u8, u8, u8));
        let one = |((flow, same, data), (gap, ack, kind, options, tos, label)): Step| {
            let last: &mut Frame = &mut flows[usize::from(flow % 3) * 3 + usize::from(flow / 9)];
            let mut frame = last.clone();
            frame.seq = frame.seq.wrapping_add(u32::from(gap) * 100);
            frame.ack += u32::from(ack);
            frame.tos = tos;
            frame.flow_label = u32::from(label);
            frame.flags = [
                TcpFlags::ACK,
                TcpFlags::ACK | TcpFlags::PSH,
                TcpFlags::ACK | TcpFlags::FIN,
            ][usize::from(kind)];
            if options > 0 {
                frame.options.timestamps = Some((u32::from(options), 9));
            }
            if !same {
                frame.data = data;
            }
            *last = frame.next();
            last.flags = TcpFlags::ACK;
            frame
        };
        steps.into_iter().map(one).collect()
    })
}

proptest! {
    /// Breaks if merging loses or changes anything: what is merged and cut again is what came, byte by byte, in the
    /// order of each connection.
    #[test]
    fn what_is_merged_can_be_cut_again(frames in frames()) {
        let (stack, index, _far, _) = host(Capabilities::plain(1500));
        let mac = stack.0.interface(index).unwrap().mac;
        let bytes: Vec<_> = frames.iter().map(|f| f.bytes(mac)).collect();
        let out = passed(&stack, index, &bytes);
        prop_assert!(out.iter().all(|packet| packet.is_valid()));
        prop_assert_eq!(as_sent(stack.pool(), out, 1500), by_port(bytes));
        prop_assert_eq!(stack.pool().live(), Live::NONE);
    }
}

type TwoHosts = [(Stack, IfIndex); 2];

/// Two hosts on a link of 1500 bytes without offloads, connected.
fn connected() -> (TwoHosts, [TcpStream; 2], impl Fn(&TwoHosts, Budget)) {
    let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
    let (a, b) = Pipe::pair(Capabilities::plain(1500));
    let end = |n: u8, device: Pipe| {
        let stack = Stack::new(Config::new(clock.clone(), Random::from_seed(n.into()))).unwrap();
        let config = IfConfig::new("pipe0").with_addr(Ipv4Addr::new(192, 0, 2, n), 24);
        let index = stack.attach(Arc::new(device), config).unwrap();
        (stack, index)
    };
    let ends = [end(1, a), end(2, b)];
    let turn = move |ends: &TwoHosts, budget| {
        clock.advance(std::time::Duration::from_micros(1));
        for (stack, index) in ends {
            stack.poll_interface(*index, budget).unwrap();
            stack.poll();
        }
    };
    let there = SocketAddrV4::new(SRC, 80);
    let listener = ends[1].0.tcp_listen(there, 1).unwrap();
    let client = ends[0]
        .0
        .tcp_connect(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0), there)
        .unwrap();
    let server = loop {
        turn(&ends, ALL);
        if let Ok(server) = listener.accept() {
            break server;
        }
    };
    (ends, [client, server], turn)
}

/// Breaks if the receive path does not merge, or counts merged frames wrong.
#[test]
fn a_batch_is_merged_and_counted() {
    let (ends, [client, server], turn) = connected();
    let data: Vec<u8> = (0..14_600u32).map(|i| (i % 251) as u8).collect();
    client.set_nodelay(true);
    assert_eq!(client.send(&data).unwrap(), data.len());
    let mut got = Vec::new();
    while got.len() < data.len() {
        turn(&ends, ALL);
        let mut buf = [0; 4096];
        while let Ok(n @ 1..) = server.recv(&mut buf) {
            got.extend_from_slice(&buf[..n]);
        }
    }
    assert_eq!(got, data);
    let stats = ends[1].0.stats();
    let interface = &stats.interfaces[0];
    assert!(interface.merged > 0, "{interface:?}");
    assert_eq!(stats.received, interface.input.packets());
    let dropped: u64 = stats.dropped.iter().map(|(_, n)| n).sum();
    assert_eq!(stats.received, stats.delivered + stats.forwarded + dropped);
}

type Host = (Stack, IfIndex, Pipe, Arc<VirtualClock>);

/// The peer asks for the host's Ethernet address, and so tells its own.
fn ask_address((stack, index, far, _): &Host) {
    let peer = MacAddr([2, 0, 0, 0, 0, 2]);
    let mut bytes = vec![0; 60];
    EtherHeader::new(MacAddr::BROADCAST, peer, EtherType::ARP).emit(&mut bytes);
    wire::ArpPacket::request(peer, SRC, DST).emit(&mut bytes[14..]);
    stack.input(*index, Packet::from_slice(stack.pool(), &bytes, 0).unwrap());
    far.receive(&mut Mbufq::new(), ALL).unwrap();
}

/// Takes in frames in one batch, and returns the TCP segments that answer: flags, sequence number, acknowledgement.
fn answers((stack, index, far, clock): &Host, frames: &[Frame]) -> Vec<(TcpFlags, u32, u32)> {
    let mac = stack.0.interface(*index).unwrap().mac;
    let mut tx = Mbufq::new();
    for frame in frames {
        tx.enqueue(Packet::from_slice(stack.pool(), &frame.bytes(mac), 0).unwrap());
    }
    far.transmit(&mut tx).unwrap();
    stack.poll_interface(*index, ALL).unwrap();
    clock.advance(std::time::Duration::from_millis(1));
    stack.poll();
    let mut rx = Mbufq::new();
    far.receive(&mut rx, ALL).unwrap();
    let segment = |packet: Packet| {
        let bytes = packet.to_vec();
        let tcp = wire::TcpHeader::parse(bytes.get(34..)?).ok()?;
        (bytes[12..14] == [8, 0]).then(|| (tcp.flags(), tcp.seq().0, tcp.ack().0))
    };
    rx.filter_map(segment).collect()
}

/// Breaks if a peer without SACK gets fewer duplicate acknowledgements than segments, because these were merged: it
/// counts them (RFC 5681 section 3.2).
#[test]
fn each_merged_segment_out_of_order_gets_an_acknowledgement_without_sack() {
    let host = host(Capabilities::plain(1500));
    let stack = &host.0;
    let _listener = stack.tcp_listen(SocketAddrV4::new(DST, 80), 1).unwrap();
    let syn = Frame {
        flags: TcpFlags::SYN,
        data: 0,
        seq: 100,
        ack: 0,
        ..Frame::default()
    };
    ask_address(&host);
    let (_, iss, _) = answers(&host, slice::from_ref(&syn))[0];
    let ack = Frame {
        flags: TcpFlags::ACK,
        seq: 101,
        ack: iss + 1,
        ..syn
    };
    assert!(answers(&host, slice::from_ref(&ack)).is_empty());
    let late = Frame {
        seq: 1101,
        data: 1000,
        ..ack
    };
    let duplicates = answers(&host, &[late.clone(), late.next(), late.next().next()]);
    assert_eq!(duplicates, [(TcpFlags::ACK, iss + 1, 101); 3]);
}
