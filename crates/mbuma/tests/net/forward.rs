//! A stack that forwards, between two wires that the test holds the other ends of.

use std::net::Ipv4Addr;
use std::time::Duration;

use crate::common::net::*;
use mbuf::{Csum, Packet};
use mbuma::device::memory::Pipe;
use mbuma::device::{Capabilities, Device};
use mbuma::{DropReason, IfAddr, IfConfig, IfIndex, RouteKind};
use wire::{
    ArpPacket, EtherType, IcmpMessage, IpProto, Ipv4Fields, Ipv4Header, MacAddr, TcpHeader,
    TimeExceeded, UdpHeader, Unreachable, pseudo_header_v4,
};

/// The router's address on the other wire, and a host there.
const FAR_US: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 9);
const FAR_MAC: MacAddr = MacAddr([2, 0, 0, 0, 3, 9]);

struct Router {
    /// It goes before the lab, which checks that no buffer is left.
    far: Pipe,
    lab: Lab,
    iface: IfIndex,
}

impl Router {
    /// A router whose first wire has no offloads, and whose other wire has these capabilities.
    fn new(caps: Capabilities) -> Self {
        let lab = Lab::new(Setup {
            caps: Capabilities::whole(9000),
            tune: |config| config.forwarding = true,
            ..Setup::default()
        });
        let (ours, far) = Pipe::pair(caps);
        let addr = IfAddr::new(FAR_US, 24);
        let config = IfConfig {
            name: "pipe1".into(),
            mac: Some(OUR_MAC),
            addrs: vec![addr],
            autoconf: None,
            accept_any: false,
            route_localnet: false,
            verify_source: true,
            mp_safe: true,
        };
        let iface = lab.stack.attach(std::sync::Arc::new(ours), config).unwrap();
        let router = Self { lab, far, iface };
        // The far host asks for us, so that we know it.
        let mut arp = [0; ArpPacket::LEN];
        ArpPacket::request(FAR_MAC, FAR, FAR_US).emit(&mut arp);
        router.give_far(&ether(MacAddr::BROADCAST, EtherType::ARP, &arp));
        assert_eq!(router.far_packets().len(), 1, "an answer");
        router
    }

    fn plain() -> Self {
        Self::new(Capabilities::plain(1500))
    }

    /// The frames that went out on the other wire.
    fn far_packets(&self) -> Vec<Packet> {
        let mut rx = mbuf::Mbufq::new();
        self.far.receive(&mut rx, ALL).unwrap();
        rx.collect()
    }

    fn far_frames(&self) -> Vec<Vec<u8>> {
        self.far_packets().iter().map(Packet::to_vec).collect()
    }

    /// Gives a packet of the peer's to the router.
    fn give(&self, fields: &Ipv4Fields<'_>, payload: &[u8]) {
        self.lab.give(&ip_frame(fields, payload));
    }

    /// Gives a frame to the router by the other wire.
    fn give_far(&self, frame: &[u8]) {
        let mut tx = mbuf::Mbufq::new();
        tx.enqueue(Packet::from_slice(&self.lab.pool, frame, 0).unwrap());
        self.far.transmit(&mut tx).unwrap();
        self.lab.stack.poll_interface(self.iface, ALL).unwrap();
    }

    fn forwarded(&self) -> u64 {
        self.lab.stack.stats().forwarded
    }

    /// The one error that went back to the peer.
    fn error(&self) -> (IcmpMessage, Vec<u8>) {
        let frame = self.lab.frame();
        assert_eq!(parse(&frame).dst, PEER);
        parse_icmp(&frame)
    }
}

fn datagram(len: usize) -> Vec<u8> {
    udp(at(PEER, 4000), at(FAR, 9), &pattern_bytes(len))
}

fn to_far() -> Ipv4Fields<'static> {
    from_peer(FAR, IpProto::UDP)
}

/// Breaks if a host forwards a packet, or a router does not, or if it changes more than the hop limit.
#[test]
fn a_router_forwards_and_changes_only_the_hop() {
    let router = Router::plain();
    router.lab.stack.set_forwarding(false);
    router.give(&to_far(), &datagram(100));
    assert_eq!(router.lab.dropped(DropReason::IpNotForUs), 1);
    router.lab.stack.set_forwarding(true);
    let fields = Ipv4Fields {
        ttl: 2,
        tos: 0x2a,
        options: &[7, 3, 4, 0],
        ..to_far()
    };
    router.give(&fields, &datagram(100));
    let frames = router.far_frames();
    assert_eq!(frames.len(), 1);
    let seen = parse(&frames[0]);
    assert_eq!((seen.ttl, seen.tos), (1, 0x2a));
    assert_eq!(seen.ether.dst, FAR_MAC);
    let expected = ip(&Ipv4Fields { ttl: 1, ..fields }, &datagram(100));
    assert_eq!(frames[0][14..], expected);
    assert_eq!((router.forwarded(), router.lab.frames().len()), (1, 0));
    // The bridges before it do not count behind it.
    let frame = ip_frame(&to_far(), &datagram(100));
    let mut packet = Packet::from_slice(&router.lab.pool, &frame, 0).unwrap();
    packet.header_mut().hops = 7;
    router.lab.put_packet(packet);
    router.lab.poll();
    assert_eq!(router.far_packets()[0].header().hops, 0);
}

/// Breaks if a packet circles for ever, or traceroute does not find the router.
#[test]
fn hops_that_are_used_up() {
    let router = Router::plain();
    for ttl in [0, 1] {
        router.give(&Ipv4Fields { ttl, ..to_far() }, &datagram(10));
        let told = IcmpMessage::TimeExceeded(TimeExceeded::Transit);
        let (message, quote) = router.error();
        assert_eq!(message, told);
        assert_eq!(quote[8], ttl, "as it came");
    }
    // Of a datagram's fragments the first alone causes an error (RFC 1122 3.2.2).
    let later = Ipv4Fields {
        ttl: 1,
        frag_offset: 64,
        ..to_far()
    };
    router.give(&later, b"12345678");
    assert!(router.lab.frames().is_empty());
    assert_eq!(router.lab.dropped(DropReason::IpTtlExceeded), 3);
    assert!(router.far_frames().is_empty());
}

/// Breaks if the sender of a packet for a host that answers no question is not told (RFC 1812 4.3.3.1).
#[test]
fn an_absent_host_is_reported() {
    let router = Router::plain();
    let absent = Ipv4Addr::new(10, 0, 3, 77);
    let sent = udp(at(PEER, 4000), at(absent, 9), b"x");
    router.give(&from_peer(absent, IpProto::UDP), &sent);
    for _ in 0..3 {
        assert!(router.lab.frames().is_empty());
        router.lab.advance(Duration::from_secs(1));
    }
    let told = IcmpMessage::DestUnreachable(Unreachable::HostUnreachable);
    assert_eq!(router.error().0, told);
    assert_eq!(router.lab.dropped(DropReason::ArpNoAnswer), 1);
    drop(router.far_packets());
}

/// Breaks if a sender without a route gets no error, or one that must not get an error does.
#[test]
fn a_sender_without_a_route_gets_an_error_where_one_is_allowed() {
    let router = Router::plain();
    let net = |third| IfAddr::new(Ipv4Addr::new(198, 51, third, 0), 24);
    let stack = &router.lab.stack;
    stack.add_route(net(2), RouteKind::Reject).unwrap();
    stack.add_route(net(3), RouteKind::Blackhole).unwrap();
    stack.add_route(net(4), RouteKind::Prohibit).unwrap();
    let give = |third| {
        let fields = from_peer(Ipv4Addr::new(198, 51, third, 7), IpProto::UDP);
        router.give(&fields, &datagram(10));
    };
    let unreachable = |why| IcmpMessage::DestUnreachable(why);
    give(1);
    assert_eq!(router.error().0, unreachable(Unreachable::NetUnreachable));
    give(2);
    assert_eq!(router.error().0, unreachable(Unreachable::HostUnreachable));
    give(3);
    assert!(router.lab.frames().is_empty());
    assert_eq!(router.lab.dropped(DropReason::ForwardNoRoute), 2);
    assert_eq!(router.lab.dropped(DropReason::ForwardBlackhole), 1);
    give(4);
    assert_eq!(router.error().0, unreachable(Unreachable::AdminProhibited));
    assert_eq!(router.lab.dropped(DropReason::ForwardProhibited), 1);
    // Behind another router.
    let gateway = RouteKind::Gateway(router.iface, FAR.into());
    stack.add_route(net(1), gateway).unwrap();
    give(1);
    let frames = router.far_frames();
    assert_eq!(parse(&frames[0]).ether.dst, FAR_MAC);
    assert_eq!(router.forwarded(), 1);
}

/// RFC 3704 2.2: breaks if a station of a link that is checked can send by another's address, or not by its own; or if
/// the owner of that address gets an error.
#[test]
fn a_source_address_of_another_link_is_not_forwarded() {
    let router = Router::plain();
    for src in [Ipv4Addr::new(198, 51, 100, 7), FAR] {
        let fields = Ipv4Fields {
            src,
            ..from_peer(PEER, IpProto::UDP)
        };
        router.give_far(&ip_frame(&fields, &datagram(10)));
    }
    assert_eq!(router.lab.dropped(DropReason::ForwardSource), 1);
    assert_eq!(router.forwarded(), 1);
    assert_eq!(parse(&router.lab.frame()).src, FAR);
    assert!(router.far_frames().is_empty());
}

/// Breaks if a router forwards a packet that must stay on its link.
#[test]
fn packets_of_one_link_are_not_forwarded() {
    let router = Router::plain();
    let broadcast = Ipv4Addr::new(10, 0, 3, 255);
    let group = Ipv4Addr::new(239, 1, 2, 3);
    let nobody = Ipv4Addr::new(240, 0, 0, 1);
    let link_local = Ipv4Addr::new(169, 254, 3, 4);
    for dst in [broadcast, group, nobody, link_local, Ipv4Addr::LOCALHOST] {
        router.give(&from_peer(dst, IpProto::UDP), &datagram(10));
    }
    let local = Ipv4Fields {
        src: link_local,
        ..to_far()
    };
    router.give(&local, &datagram(10));
    // To one station, in a frame to all.
    let packet = ip(&to_far(), &datagram(10));
    router
        .lab
        .give(&ether(MacAddr::BROADCAST, EtherType::IPV4, &packet));
    assert!(router.far_frames().is_empty() && router.lab.frames().is_empty());
    assert_eq!(router.lab.dropped(DropReason::ForwardMartian), 4);
    assert_eq!(router.lab.dropped(DropReason::IpNotForUs), 3);
    assert_eq!(router.forwarded(), 0);
}

/// Breaks if a sender that discovers the path's MTU gets no error, or a packet that may be fragmented is not.
#[test]
fn packets_beyond_the_mtu_are_cut_or_reported() {
    let router = Router::plain();
    let whole = datagram(4000);
    let df = Ipv4Fields {
        df: true,
        ..to_far()
    };
    router.give(&df, &whole);
    let needed = Unreachable::FragNeeded { mtu: 1500 };
    let (message, quote) = router.error();
    assert_eq!(message, IcmpMessage::DestUnreachable(needed));
    assert_eq!(quote[..20], ip(&df, &whole)[..20]);
    assert_eq!(router.lab.dropped(DropReason::ForwardTooBig), 1);
    for options in [&[][..], &[148, 4, 0, 0, 7, 3, 4, 0]] {
        let fields = Ipv4Fields {
            id: 77,
            options,
            ..to_far()
        };
        router.give(&fields, &whole);
        assert_eq!(joined(&router.far_frames(), 77), whole);
        // A fragment, cut again: the second half of a datagram, of which more is to come.
        let half = Ipv4Fields {
            frag_offset: 4008,
            mf: true,
            ..fields
        };
        router.give(&half, &whole[..4000]);
        let frames = router.far_frames();
        let last = Ipv4Header::parse(&frames.last().unwrap()[14..]).unwrap();
        assert!(last.mf(), "it was not the last before");
        let first = Ipv4Header::parse(&frames[0][14..]).unwrap();
        assert_eq!(first.frag_offset(), 4008);
        assert_eq!(joined(&frames, 77), whole[..4000]);
    }
    assert_eq!(router.forwarded(), 4);
    // A fragment that reaches past the end of any datagram.
    let past = Ipv4Fields {
        frag_offset: 65_528,
        ..to_far()
    };
    router.give(&past, &whole);
    assert_eq!(router.lab.dropped(DropReason::FragmentBad), 1);
}

/// The bytes that fragments carry, in order; checks their headers.
fn joined(frames: &[Vec<u8>], id: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    let start = Ipv4Header::parse(&frames[0][14..]).unwrap().frag_offset();
    for (n, frame) in frames.iter().enumerate() {
        let seen = parse(frame);
        let view = Ipv4Header::parse(&frame[14..]).unwrap();
        assert!(view.total_len() <= 1500);
        assert_eq!((view.id(), view.ttl()), (id, 63));
        assert_eq!(usize::from(view.frag_offset() - start), bytes.len());
        assert!(view.mf() || n + 1 == frames.len());
        let copied = view.header_len() > 20;
        assert_eq!(
            copied,
            Ipv4Header::parse(&frames[0][14..]).unwrap().header_len() > 20
        );
        bytes.extend_from_slice(seen.payload);
    }
    bytes
}

/// A TCP segment of the peer's that is to be cut, its checksum undone, as an epair hands it over.
fn large(router: &Router, len: usize, segsz: u16, df: bool) -> Packet {
    let mut segment = vec![0; 20 + len];
    segment[..4].copy_from_slice(&[0x0f, 0xa0, 0, 9]);
    segment[4..8].copy_from_slice(&1000_u32.to_be_bytes());
    segment[12..14].copy_from_slice(&[0x50, 0x18]);
    segment[20..].copy_from_slice(&pattern_bytes(len));
    let sum = pseudo_header_v4(PEER, FAR, IpProto::TCP, segment.len() as u32);
    segment[16..18].copy_from_slice(&sum.partial().to_be_bytes());
    let fields = Ipv4Fields {
        df,
        id: 7,
        ..from_peer(FAR, IpProto::TCP)
    };
    let frame = ip_frame(&fields, &segment);
    let mut packet = Packet::from_slice(&router.lab.pool, &frame, 0).unwrap();
    let meta = packet.header_mut();
    (meta.l2_len, meta.l3_len, meta.l4_len) = (14, 20, 20);
    (meta.csum, meta.tso_segsz) = (Csum::TCP | Csum::L4_VALID, segsz);
    packet
}

/// The stream in segments, each with its checksum.
fn stream(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for frame in frames {
        let seen = parse(frame);
        let tcp = TcpHeader::parse(seen.payload).unwrap();
        assert_eq!(tcp.seq().0 as usize, 1000 + bytes.len());
        let mut sum = pseudo_header_v4(PEER, FAR, IpProto::TCP, seen.payload.len() as u32);
        sum.add_bytes(seen.payload);
        assert!(sum.is_valid(), "TCP checksum");
        bytes.extend_from_slice(&seen.payload[20..]);
    }
    bytes
}

/// Breaks if a large segment is cut although the next link takes it whole, or is not cut although that link does not.
#[test]
fn segments_pass_whole() {
    let router = Router::new(Capabilities::whole(1500));
    router.lab.put_packet(large(&router, 40_000, 1460, true));
    router.lab.poll();
    let packets = router.far_packets();
    assert_eq!(packets.len(), 1, "in one piece");
    let meta = packets[0].header();
    assert_eq!((meta.tso_segsz, meta.l4_len), (1460, 20));
    assert!(meta.csum.contains(Csum::TCP));
    drop(packets);
    // A device merged it, and had checked the whole: the pieces need their own.
    let mut merged = large(&router, 3000, 1460, true);
    merged.header_mut().csum = Csum::L4_VALID;
    router.lab.put_packet(merged);
    router.lab.poll();
    let packets = router.far_packets();
    assert!(packets[0].header().csum.contains(Csum::TCP));
    drop(packets);
    drop(router);

    let router = Router::plain();
    router.lab.put_packet(large(&router, 40_000, 1460, true));
    router.lab.poll();
    let frames = router.far_frames();
    assert_eq!(frames.len(), 28);
    assert_eq!(stream(&frames), pattern_bytes(40_000));
    // Each segment too large for the link.
    router.lab.put_packet(large(&router, 40_000, 1461, true));
    router.lab.poll();
    let needed = Unreachable::FragNeeded { mtu: 1500 };
    assert_eq!(router.error().0, IcmpMessage::DestUnreachable(needed));
    // The same, where it may be cut: into segments, and those into fragments.
    router.lab.put_packet(large(&router, 4000, 2000, false));
    router.lab.poll();
    let frames = router.far_frames();
    assert_eq!(frames.len(), 4, "two segments of two fragments");
    assert_eq!(router.forwarded(), 2);
}

/// Breaks if packet metadata that contradicts the bytes makes the router panic, or write elsewhere.
#[test]
fn metadata_that_lies() {
    let router = Router::plain();
    for (proto, len) in [(IpProto::TCP, 10), (IpProto::UDP, 4), (IpProto(99), 100)] {
        let frame = ip_frame(&from_peer(FAR, proto), &vec![0; len]);
        let mut packet = Packet::from_slice(&router.lab.pool, &frame, 0).unwrap();
        let meta = packet.header_mut();
        (meta.csum, meta.tso_segsz) = (Csum::TCP | Csum::UDP | Csum::L4_VALID, 1000);
        router.lab.put_packet(packet);
        router.lab.poll();
    }
    assert_eq!(router.lab.dropped(DropReason::ForwardBadSegment), 3);
    let mut packet =
        Packet::from_slice(&router.lab.pool, &ip_frame(&to_far(), &datagram(100)), 0).unwrap();
    packet.header_mut().csum = Csum::TCP | Csum::L4_VALID;
    router.lab.put_packet(packet);
    router.lab.poll();
    let frames = router.far_frames();
    assert_eq!(parse_udp(&frames[0]).2, pattern_bytes(100));
}

/// Breaks if datagrams that a device merged leave as one.
#[test]
fn merged_datagrams_leave_one_by_one() {
    let router = Router::plain();
    let frame = ip_frame(&to_far(), &datagram(3000));
    let mut packet = Packet::from_slice(&router.lab.pool, &frame, 0).unwrap();
    let meta = packet.header_mut();
    (meta.csum, meta.tso_segsz) = (Csum::UDP | Csum::L4_VALID, 1000);
    router.lab.put_packet(packet);
    router.lab.poll();
    let frames = router.far_frames();
    let payloads = frames.iter().map(|f| parse_udp(f).2);
    assert_eq!(payloads.collect::<Vec<_>>().concat(), pattern_bytes(3000));
    assert_eq!(frames.len(), 3);
    assert_eq!(frames[0].len(), 14 + 20 + UdpHeader::LEN + 1000);
}
