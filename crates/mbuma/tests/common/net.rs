//! Parts that the network tests share: a stack in virtual time, on a pipe whose other end the test holds.
//!
//! At the end of a test [`Lab`] checks that each packet that came in was delivered or dropped, and no buffer is left.

#![allow(dead_code, unreachable_pub, unused_imports)] // each test binary uses its part

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

pub(crate) use super::count::Count;
pub(crate) use super::empty_at_end::EmptyAtEnd;
use super::splinter::{Pattern, Splinter};
use kern::{Clock, Giant, Random, Time, VirtualClock};
use mbuf::{Chain, MbufPool, Mbufq, Packet, PoolConfig};
use mbuma::device::memory::Pipe;
use mbuma::device::{Budget, Capabilities, Device};
use mbuma::{Autoconf, Config, DropReason, IfAddr, IfConfig, IfIndex, Stack};
use wire::{
    ArpPacket, Checksum, EtherHeader, EtherType, IcmpHeader, IcmpMessage, IpProto, Ipv4Fields,
    Ipv4Header, MacAddr, UdpHeader, pseudo_header_v4,
};

/// The stack under test.
pub const US: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
pub const OUR_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
/// The station that the test plays.
pub const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 100);
pub const PEER_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 100]);
/// A host that is not on the link.
pub const FOREIGN: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);

pub const ALL: Budget = Budget {
    frames: usize::MAX,
    bytes: usize::MAX,
};

/// How to set a lab up.
pub struct Setup {
    pub caps: Capabilities,
    pub accept_any: bool,
    pub route_localnet: bool,
    pub pattern: Option<Pattern>,
    /// The peer's Ethernet address is known from the start.
    pub introduced: bool,
    /// Addresses beside [`US`].
    pub addrs: Vec<IfAddr>,
    pub autoconf: Option<Autoconf>,
    pub tune: fn(&mut Config),
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            caps: Capabilities::plain(1500),
            accept_any: false,
            route_localnet: false,
            pattern: None,
            introduced: true,
            addrs: Vec::new(),
            autoconf: None,
            tune: |_| {},
        }
    }
}

/// The stack's Giant: over all of it if `MBUMA_GIANT` is set, so that the same tests run under it too.
pub fn giant() -> Arc<Giant> {
    Arc::new(Giant::new(std::env::var_os("MBUMA_GIANT").is_some()))
}

/// Where reports of groups of IPv6 go.
pub const REPORTS_MAC: MacAddr = MacAddr([0x33, 0x33, 0, 0, 0, 0x16]);

pub struct Lab {
    pub clock: Arc<VirtualClock>,
    pub stack: Stack,
    pub iface: IfIndex,
    pub peer: Pipe,
    /// The peer's own buffers.
    pub pool: MbufPool,
    /// The last field, and so the last that goes.
    _empty: EmptyAtEnd,
}

/// Waits until nothing is under way, and checks the balance.
impl Drop for Lab {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for _ in 0..8 {
            self.advance(Duration::from_secs(60));
            // The wire of an interface that the test detached is gone.
            if self.stack.poll_interface(self.iface, ALL).is_ok() {
                drop(self.packets());
            }
        }
        // Holds only when no fragment waits for others.
        let stats = self.stack.stats();
        assert_eq!(stats.received, stats.ended(), "{:?}", stats.dropped);
    }
}

impl Lab {
    pub fn new(setup: Setup) -> Self {
        let clock = Arc::new(VirtualClock::new(Time::from_secs(1)));
        let pool = MbufPool::new(PoolConfig::default()).unwrap();
        let mut config = Config::new(Arc::clone(&clock) as Arc<dyn Clock>, Random::from_seed(7));
        config.giant = giant();
        (setup.tune)(&mut config);
        let stack = Stack::new(config).unwrap();
        let (ours, peer) = Pipe::pair(setup.caps);
        let device: Arc<dyn Device> = match setup.pattern {
            Some(pattern) => Arc::new(Splinter::new(ours, &pool, pattern)),
            None => Arc::new(ours),
        };
        let config = IfConfig {
            mac: Some(OUR_MAC),
            addrs: [vec![IfAddr::new(US, 24)], setup.addrs].concat(),
            autoconf: setup.autoconf,
            accept_any: setup.accept_any,
            route_localnet: setup.route_localnet,
            ..IfConfig::new("pipe0")
        };
        let iface = stack.attach(device, config).unwrap();
        let lab = Self {
            _empty: EmptyAtEnd::new([stack.pool(), &pool]),
            clock,
            stack,
            iface,
            peer,
            pool,
        };
        if setup.introduced {
            lab.introduce();
        }
        lab
    }

    /// The device fails for good: the other end of its pipe goes.
    pub fn fail_device(&mut self) {
        self.peer = Pipe::pair(Capabilities::plain(1500)).0;
    }

    pub fn plain() -> Self {
        Self::new(Setup::default())
    }

    /// A gateway that answers for every address.
    pub fn gateway() -> Self {
        Self::new(Setup {
            accept_any: true,
            ..Setup::default()
        })
    }

    /// The peer asks for our address, so that we know its own.
    pub fn introduce(&self) {
        let request = ArpPacket::request(PEER_MAC, PEER, US);
        self.give(&arp_frame(&request));
        assert_eq!(self.frames().len(), 1, "an answer to the ARP request");
    }

    /// Puts a frame on the wire to the stack.
    pub fn put(&self, frame: &[u8]) {
        let packet = Packet::from_slice(&self.pool, frame, 0).unwrap();
        self.put_packet(packet);
    }

    pub fn put_packet(&self, packet: Packet) {
        let mut tx = Mbufq::new();
        tx.enqueue(packet);
        self.peer.transmit(&mut tx).unwrap();
        assert!(tx.is_empty());
    }

    /// Lets the stack take in everything on the wire.
    pub fn poll(&self) {
        while self.stack.poll_interface(self.iface, ALL).unwrap() {}
        self.stack.poll();
    }

    pub fn give(&self, frame: &[u8]) {
        self.put(frame);
        self.poll();
    }

    /// The packets that the stack sent.
    pub fn packets(&self) -> Vec<Packet> {
        let mut rx = Mbufq::new();
        self.peer.receive(&mut rx, ALL).unwrap();
        rx.collect()
    }

    /// The same as bytes, without reports of groups, which come at random times.
    pub fn frames(&self) -> Vec<Vec<u8>> {
        let all = self.all_frames().into_iter();
        all.filter(|frame| !frame.starts_with(&REPORTS_MAC.0))
            .collect()
    }

    /// The same with them.
    pub fn all_frames(&self) -> Vec<Vec<u8>> {
        self.packets().iter().map(Packet::to_vec).collect()
    }

    /// The one frame that the stack sent.
    pub fn frame(&self) -> Vec<u8> {
        let mut frames = self.frames();
        assert_eq!(frames.len(), 1, "exactly one frame");
        frames.remove(0)
    }

    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
        self.stack.poll();
    }

    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.stack
            .stats()
            .dropped
            .iter()
            .find(|(r, _)| *r == reason)
            .map_or(0, |&(_, n)| n)
    }

    pub fn chain(&self, bytes: &[u8]) -> Chain {
        Chain::from_slice(self.stack.pool(), bytes).unwrap()
    }
}

/// An Ethernet frame.
pub fn ether(dst: MacAddr, ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; EtherHeader::LEN];
    EtherHeader::new(dst, PEER_MAC, ethertype).emit(&mut out);
    out.extend_from_slice(payload);
    out
}

pub fn arp_frame(arp: &ArpPacket) -> Vec<u8> {
    let mut bytes = [0; ArpPacket::LEN];
    arp.emit(&mut bytes);
    ether(MacAddr::BROADCAST, EtherType::ARP, &bytes)
}

/// An IP packet with a right length.
pub fn ip(fields: &Ipv4Fields<'_>, payload: &[u8]) -> Vec<u8> {
    let fields = Ipv4Fields {
        payload_len: payload.len() as u16,
        ..*fields
    };
    let mut out = vec![0; fields.header_len()];
    fields.emit(&mut out);
    out.extend_from_slice(payload);
    out
}

/// The same in a frame to us.
pub fn ip_frame(fields: &Ipv4Fields<'_>, payload: &[u8]) -> Vec<u8> {
    ether(OUR_MAC, EtherType::IPV4, &ip(fields, payload))
}

pub fn from_peer(dst: Ipv4Addr, protocol: IpProto) -> Ipv4Fields<'static> {
    Ipv4Fields {
        src: PEER,
        dst,
        protocol,
        ..Ipv4Fields::default()
    }
}

/// A UDP datagram with its checksum.
pub fn udp(src: SocketAddrV4, dst: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    let len = (UdpHeader::LEN + payload.len()) as u16;
    let mut header = UdpHeader::new(src.port(), dst.port(), len);
    let mut out = vec![0; UdpHeader::LEN];
    header.emit(&mut out);
    out.extend_from_slice(payload);
    let mut sum = pseudo_header_v4(*src.ip(), *dst.ip(), IpProto::UDP, u32::from(len));
    sum.add_bytes(&out);
    header.set_checksum(sum.finish_nonzero());
    header.emit(&mut out);
    out
}

/// A frame with a UDP datagram from the peer.
pub fn udp_frame(src_port: u16, dst: SocketAddrV4, payload: &[u8]) -> Vec<u8> {
    let datagram = udp(SocketAddrV4::new(PEER, src_port), dst, payload);
    ip_frame(&from_peer(*dst.ip(), IpProto::UDP), &datagram)
}

pub fn icmp(message: IcmpMessage, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; IcmpHeader::LEN];
    message.emit(&mut out, [payload]);
    out.extend_from_slice(payload);
    out
}

pub fn ping_frame(dst: Ipv4Addr, id: u16, seq: u16, payload: &[u8]) -> Vec<u8> {
    let message = icmp(IcmpMessage::EchoRequest { id, seq }, payload);
    ip_frame(&from_peer(dst, IpProto::ICMP), &message)
}

/// The fields of a frame that the stack sent; its IP header is checked.
pub struct Seen<'a> {
    pub ether: EtherHeader,
    pub src: Ipv4Addr,
    pub dst: Ipv4Addr,
    pub ttl: u8,
    pub tos: u8,
    pub proto: IpProto,
    pub payload: &'a [u8],
}

pub fn parse(frame: &[u8]) -> Seen<'_> {
    let (header, packet) = EtherHeader::parse(frame).unwrap();
    assert_eq!(header.ethertype(), EtherType::IPV4);
    let view = Ipv4Header::parse(packet).unwrap();
    assert!(view.checksum_ok(), "IP header checksum");
    assert_eq!(view.total_len(), packet.len(), "IP total length");
    Seen {
        ether: *header,
        src: view.src(),
        dst: view.dst(),
        ttl: view.ttl(),
        tos: view.tos(),
        proto: view.protocol(),
        payload: &packet[view.header_len()..],
    }
}

/// The ICMP message in a frame, its checksum checked, and its payload.
pub fn parse_icmp(frame: &[u8]) -> (IcmpMessage, Vec<u8>) {
    let seen = parse(frame);
    assert_eq!(seen.proto, IpProto::ICMP);
    let (header, payload) = IcmpHeader::parse(seen.payload).unwrap();
    assert!(header.checksum_ok([payload]), "ICMP checksum");
    (header.message(), payload.to_vec())
}

/// The UDP datagram in a frame, its checksum checked.
pub fn parse_udp(frame: &[u8]) -> (SocketAddrV4, SocketAddrV4, Vec<u8>) {
    let seen = parse(frame);
    assert_eq!(seen.proto, IpProto::UDP);
    let (header, payload) = UdpHeader::parse(seen.payload).unwrap();
    let mut sum = pseudo_header_v4(seen.src, seen.dst, IpProto::UDP, u32::from(header.len()));
    sum.add_bytes(seen.payload);
    assert!(sum.is_valid(), "UDP checksum");
    let src = SocketAddrV4::new(seen.src, header.src_port());
    (
        src,
        SocketAddrV4::new(seen.dst, header.dst_port()),
        payload.to_vec(),
    )
}

pub fn sum_of(pieces: &[&[u8]]) -> u16 {
    let mut sum = Checksum::new();
    pieces.iter().for_each(|p| sum.add_bytes(p));
    sum.finish()
}

/// Bytes that differ by position: no two places a power of two apart are alike.
pub fn pattern_bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

pub fn at(addr: Ipv4Addr, port: u16) -> SocketAddrV4 {
    SocketAddrV4::new(addr, port)
}
