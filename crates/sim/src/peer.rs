//! A station that a test drives: it answers ARP, records the segments that it receives, and sends those that the test
//! gives it.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};

use kern::Time;
use wire::{
    ArpOp, ArpPacket, EtherHeader, EtherType, IpProto, Ipv4Fields, Ipv4Header, MacAddr, SeqNum,
    TcpFields, TcpFlags, TcpHeader, TcpOptions,
};

use crate::card;

/// A TCP segment with its addresses, as a test sees or says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// When it was received; unused in a segment to send.
    pub at: Time,
    /// The sender.
    pub src: SocketAddrV4,
    /// The receiver.
    pub dst: SocketAddrV4,
    /// Sequence number.
    pub seq: SeqNum,
    /// Acknowledgement number.
    pub ack: SeqNum,
    /// Control bits.
    pub flags: TcpFlags,
    /// Window field, not scaled.
    pub window: u16,
    /// Urgent pointer.
    pub urgent: u16,
    /// Options.
    pub options: TcpOptions,
    /// Options as they must lie in the header, in the place of `options`; empty in a received segment.
    pub raw_options: Vec<u8>,
    /// Data.
    pub data: Vec<u8>,
    /// Time to live of the IP header.
    pub ttl: u8,
    /// The two bits of the IP header that ECN has (RFC 3168 5).
    pub ecn: u8,
    /// Routers must not fragment it. Segments of a station always have it set.
    pub df: bool,
}

impl Segment {
    /// A segment without data, options or window.
    pub fn new(src: SocketAddrV4, dst: SocketAddrV4, flags: TcpFlags, seq: SeqNum) -> Self {
        Self {
            at: Time::ZERO,
            src,
            dst,
            seq,
            ack: SeqNum(0),
            flags,
            window: 0,
            urgent: 0,
            options: TcpOptions::default(),
            raw_options: Vec::new(),
            data: Vec::new(),
            ttl: 64,
            ecn: 0,
            df: true,
        }
    }

    /// The segment in an Ethernet frame, if there is one. Checksums are not looked at.
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let (ether, packet) = EtherHeader::parse(frame).ok()?;
        if ether.ethertype() != EtherType::IPV4 {
            return None;
        }
        let ip = Ipv4Header::parse(packet).ok()?;
        if ip.protocol() != IpProto::TCP || ip.is_fragment() {
            return None;
        }
        let segment = packet.get(ip.header_len()..ip.total_len())?;
        let tcp = TcpHeader::parse(segment).ok()?;
        Some(Self {
            at: Time::ZERO,
            src: SocketAddrV4::new(ip.src(), tcp.src_port()),
            dst: SocketAddrV4::new(ip.dst(), tcp.dst_port()),
            seq: tcp.seq(),
            ack: tcp.ack(),
            flags: tcp.flags(),
            window: tcp.window(),
            urgent: tcp.urgent(),
            options: tcp.options(),
            raw_options: Vec::new(),
            data: segment.get(tcp.header_len()..)?.to_vec(),
            ttl: ip.ttl(),
            ecn: ip.ecn(),
            df: ip.df(),
        })
    }

    /// Whether all of `flags` are set.
    pub fn has(&self, flags: TcpFlags) -> bool {
        self.flags.contains(flags)
    }

    /// The sequence number behind it: data, SYN and FIN count.
    pub fn end(&self) -> SeqNum {
        let syn = u32::from(self.has(TcpFlags::SYN));
        let fin = u32::from(self.has(TcpFlags::FIN));
        self.seq + (self.data.len() as u32 + syn + fin)
    }

    /// The IP packet, with all checksums.
    fn emit(&self) -> Vec<u8> {
        let tcp = TcpFields {
            src_port: self.src.port(),
            dst_port: self.dst.port(),
            seq: self.seq,
            ack: self.ack,
            flags: self.flags,
            window: self.window,
            urgent: self.urgent,
            options: self.options,
        };
        let mut header = vec![0; tcp.header_len()];
        tcp.emit(&mut header);
        if !self.raw_options.is_empty() {
            header.truncate(TcpHeader::LEN);
            header.extend_from_slice(&self.raw_options);
            header.resize(header.len().next_multiple_of(4), 0);
            // The data offset: words in the upper half of the byte.
            header[12] = (header.len() * 4) as u8;
        }
        let payload = [header, self.data.clone()].concat();
        let mut packet = ipv4(
            *self.src.ip(),
            *self.dst.ip(),
            IpProto::TCP,
            self.ttl,
            &payload,
        );
        self.mark(&mut packet);
        let l3 = Ipv4Header::LEN;
        if let Some(sum) = card::tcp_checksum(&packet, 0, l3) {
            let field = l3 + TcpHeader::CHECKSUM_OFFSET;
            packet[field..field + 2].copy_from_slice(&sum.to_be_bytes());
        }
        packet
    }

    /// Puts the ECN bits into an IP packet.
    fn mark(&self, packet: &mut [u8]) {
        packet[1] |= self.ecn;
        let marked = Ipv4Header::fill_checksum(packet);
        debug_assert!(marked.is_ok(), "the packet has its header");
    }
}

/// As tcpdump would show it.
impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = self.flags;
        write!(f, "{} > {}: {flags:?} seq {}", self.src, self.dst, self.seq)?;
        if self.has(TcpFlags::ACK) {
            write!(f, " ack {}", self.ack)?;
        }
        write!(f, " win {} len {}", self.window, self.data.len())
    }
}

/// An ICMP message as a test sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IcmpSeen {
    /// When.
    pub at: Time,
    /// The sender.
    pub src: Ipv4Addr,
    /// Type and code.
    pub kind: (u8, u8),
    /// The bytes behind the eight of the header.
    pub body: Vec<u8>,
}

/// The station. [`Net::peer`](crate::Net::peer) makes one.
#[derive(Debug)]
pub struct Peer {
    mac: MacAddr,
    ip: Ipv4Addr,
    /// It answers for any address: a router's view of the world behind it.
    pub accept_any: bool,
    /// It does not answer ARP any more: it is as good as gone.
    pub is_mute: bool,
    other: Option<MacAddr>,
    segments: Vec<Segment>,
    icmp: Vec<IcmpSeen>,
    /// Whole IP packets, if the test wants them.
    packets: Option<Vec<(Time, Vec<u8>)>>,
}

impl Peer {
    pub(crate) fn new(mac: MacAddr, ip: Ipv4Addr) -> Self {
        Self {
            mac,
            ip,
            accept_any: false,
            is_mute: false,
            other: None,
            segments: Vec::new(),
            icmp: Vec::new(),
            packets: None,
        }
    }

    /// From now on it keeps each IP packet as it came, instead of the segments and messages inside.
    pub fn keep_packets(&mut self) {
        self.packets = Some(Vec::new());
    }

    /// The IP packets that it kept since the last call, each with the time when it came.
    pub fn take_packets(&mut self) -> Vec<(Time, Vec<u8>)> {
        self.packets
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Its address.
    pub fn ip(&self) -> Ipv4Addr {
        self.ip
    }

    /// The segments it saw since the last call.
    pub fn take_segments(&mut self) -> Vec<Segment> {
        std::mem::take(&mut self.segments)
    }

    /// The ICMP messages it saw since the last call.
    pub fn take_icmp(&mut self) -> Vec<IcmpSeen> {
        std::mem::take(&mut self.icmp)
    }

    /// Takes in a frame; returns the answer if it is an ARP request.
    pub(crate) fn receive(&mut self, now: Time, frame: &[u8]) -> Option<Vec<u8>> {
        let (ether, payload) = EtherHeader::parse(frame).ok()?;
        if ether.dst != self.mac && !ether.dst.is_broadcast() {
            return None;
        }
        if ether.ethertype() == EtherType::ARP {
            return self.answer(payload);
        }
        self.other = Some(ether.src);
        if let Some(packets) = &mut self.packets {
            packets.push((now, payload.to_vec()));
            return None;
        }
        if let Some(segment) = Segment::parse(frame) {
            self.segments.push(Segment { at: now, ..segment });
        }
        self.note_icmp(now, payload);
        None
    }

    fn answer(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        let arp = ArpPacket::parse(payload).ok()?;
        self.other = Some(arp.sender_mac);
        let ours = arp.target_ip == self.ip || self.accept_any;
        if arp.op != ArpOp::Request || !ours || self.is_mute {
            return None;
        }
        let reply = ArpPacket::reply(self.mac, arp.target_ip, arp.sender_mac, arp.sender_ip);
        let mut bytes = [0; ArpPacket::LEN];
        reply.emit(&mut bytes);
        Some(self.frame(EtherType::ARP, &bytes))
    }

    fn note_icmp(&mut self, now: Time, packet: &[u8]) -> Option<()> {
        let ip = Ipv4Header::parse(packet).ok()?;
        let body = packet.get(ip.header_len()..ip.total_len())?;
        if ip.protocol() == IpProto::ICMP && body.len() >= 8 {
            let kind = (body[0], body[1]);
            self.icmp.push(IcmpSeen {
                at: now,
                src: ip.src(),
                kind,
                body: body[8..].to_vec(),
            });
        }
        Some(())
    }

    fn frame(&self, ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
        let header = EtherHeader::new(
            self.other.unwrap_or(MacAddr::BROADCAST),
            self.mac,
            ethertype,
        );
        let mut bytes = vec![0; EtherHeader::LEN];
        header.emit(&mut bytes);
        bytes.extend_from_slice(payload);
        bytes
    }

    /// The frame for a segment.
    pub(crate) fn segment(&self, segment: &Segment) -> Vec<u8> {
        self.frame(EtherType::IPV4, &segment.emit())
    }

    /// The frame for an IP packet.
    pub(crate) fn packet(&self, packet: &[u8]) -> Vec<u8> {
        self.frame(EtherType::IPV4, packet)
    }

    /// The frame for an ICMP message from this station.
    pub(crate) fn icmp(
        &self,
        dst: Ipv4Addr,
        kind: (u8, u8),
        rest: [u8; 4],
        body: &[u8],
    ) -> Vec<u8> {
        let mut message = vec![kind.0, kind.1, 0, 0];
        message.extend_from_slice(&rest);
        message.extend_from_slice(body);
        let mut sum = wire::Checksum::new();
        sum.add_bytes(&message);
        message[2..4].copy_from_slice(&sum.finish().to_be_bytes());
        self.frame(
            EtherType::IPV4,
            &ipv4(self.ip, dst, IpProto::ICMP, 64, &message),
        )
    }

    /// The frame that tells a neighbour this station's address.
    pub(crate) fn announcement(&self, to: Ipv4Addr) -> Vec<u8> {
        let request = ArpPacket::request(self.mac, self.ip, to);
        let mut bytes = [0; ArpPacket::LEN];
        request.emit(&mut bytes);
        let header = EtherHeader::new(MacAddr::BROADCAST, self.mac, EtherType::ARP);
        let mut frame = vec![0; EtherHeader::LEN];
        header.emit(&mut frame);
        frame.extend_from_slice(&bytes);
        frame
    }
}

/// The beginning of an IP packet with this segment, as an ICMP error quotes it.
pub(crate) fn quote(segment: &Segment) -> Vec<u8> {
    let mut packet = segment.emit();
    packet.truncate(Ipv4Header::LEN + 8);
    packet
}

fn ipv4(src: Ipv4Addr, dst: Ipv4Addr, protocol: IpProto, ttl: u8, payload: &[u8]) -> Vec<u8> {
    let payload_len = u16::try_from(payload.len()).unwrap_or(u16::MAX);
    let fields = Ipv4Fields {
        payload_len,
        df: true,
        ttl,
        protocol,
        src,
        dst,
        ..Ipv4Fields::default()
    };
    let mut packet = vec![0; fields.header_len()];
    fields.emit(&mut packet);
    packet.extend_from_slice(payload);
    packet
}
