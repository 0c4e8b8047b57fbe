//! A station that a test drives, of either version of IP: it answers ARP or neighbour discovery, records the segments
//! that it receives, and sends those that the test gives it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use kern::Time;
use wire::{
    EtherHeader, EtherType, IpProto, Ipv4Header, Ipv6Header, MacAddr, SeqNum, TcpFields, TcpFlags,
    TcpHeader, TcpOptions,
};

use packet::IpFacts;

use crate::card;

mod neighbour;
mod packet;

pub use packet::icmp6_kind;

/// A TCP segment with its addresses, as a test receives or sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// When it was received; unused in a segment to send.
    pub at: Time,
    /// The sender.
    pub src: SocketAddr,
    /// The receiver.
    pub dst: SocketAddr,
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
    /// The bytes of the options, instead of `options`; empty in a received segment.
    pub raw_options: Vec<u8>,
    /// Data.
    pub data: Vec<u8>,
    /// Time to live of the IP header.
    pub ttl: u8,
    /// The two bits of ECN in the IP header (RFC 3168 5).
    pub ecn: u8,
    /// Routers must not fragment it, which is always so in IPv6. A station always sets it.
    pub df: bool,
}

impl Segment {
    /// A segment without data, options or window.
    pub fn new(src: SocketAddr, dst: SocketAddr, flags: TcpFlags, seq: SeqNum) -> Self {
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
        let (_, packet) = EtherHeader::parse(frame).ok()?;
        let (ip, segment) = packet::parse(packet)?;
        if ip.proto != IpProto::TCP {
            return None;
        }
        let tcp = TcpHeader::parse(segment).ok()?;
        Some(Self {
            at: Time::ZERO,
            src: SocketAddr::new(ip.src, tcp.src_port()),
            dst: SocketAddr::new(ip.dst, tcp.dst_port()),
            seq: tcp.seq(),
            ack: tcp.ack(),
            flags: tcp.flags(),
            window: tcp.window(),
            urgent: tcp.urgent(),
            options: tcp.options(),
            raw_options: Vec::new(),
            data: segment.get(tcp.header_len()..)?.to_vec(),
            ttl: ip.ttl,
            ecn: ip.ecn,
            df: ip.df,
        })
    }

    /// Whether all of `flags` are set.
    pub fn has(&self, flags: TcpFlags) -> bool {
        self.flags.contains(flags)
    }

    /// The sequence number after it: data, SYN and FIN count.
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
        let ip = IpFacts {
            ttl: self.ttl,
            ecn: self.ecn,
            ..IpFacts::new(self.src.ip(), self.dst.ip(), IpProto::TCP)
        };
        let mut packet = ip.emit(&payload);
        let l3 = packet.len() - payload.len();
        if let Some(sum) = card::tcp_checksum(&packet, 0, l3) {
            let field = l3 + TcpHeader::CHECKSUM_OFFSET;
            packet[field..field + 2].copy_from_slice(&sum.to_be_bytes());
        }
        packet
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

/// A message of ICMP or ICMPv6 as a test receives it. The station handles neighbour discovery itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IcmpSeen {
    /// When.
    pub at: Time,
    /// The sender.
    pub src: IpAddr,
    /// Type and code.
    pub kind: (u8, u8),
    /// The bytes behind the eight of the header.
    pub body: Vec<u8>,
}

/// The station. [`Net::peer`](crate::Net::peer) makes one.
#[derive(Debug)]
pub struct Peer {
    mac: MacAddr,
    ip: IpAddr,
    /// It answers for any address, like a router for the networks behind it.
    pub accept_any: bool,
    /// It does not answer questions for its address any more, as if it had been removed.
    pub is_mute: bool,
    other: Option<MacAddr>,
    segments: Vec<Segment>,
    icmp: Vec<IcmpSeen>,
    /// Whole IP packets, if the test wants them.
    packets: Option<Vec<(Time, Vec<u8>)>>,
}

impl Peer {
    pub(crate) fn new(mac: MacAddr, ip: IpAddr) -> Self {
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

    /// From now on it keeps each received IP packet unchanged, instead of the segments and messages inside.
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
    pub fn ip(&self) -> IpAddr {
        self.ip
    }

    /// The segments that it received since the last call.
    pub fn take_segments(&mut self) -> Vec<Segment> {
        std::mem::take(&mut self.segments)
    }

    /// The ICMP messages that it received since the last call.
    pub fn take_icmp(&mut self) -> Vec<IcmpSeen> {
        std::mem::take(&mut self.icmp)
    }

    /// Takes in a frame; returns the answer if it is a question for an address.
    pub(crate) fn receive(&mut self, now: Time, frame: &[u8]) -> Option<Vec<u8>> {
        let (ether, payload) = EtherHeader::parse(frame).ok()?;
        if ether.dst != self.mac && !ether.dst.is_multicast() {
            return None;
        }
        if ether.ethertype() == EtherType::ARP {
            return self.answer_arp(payload);
        }
        self.other = Some(ether.src);
        if neighbour::is_discovery(payload) {
            return self.answer_discovery(payload);
        }
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

    /// Whether it answers questions for this address.
    fn answers_for(&self, addr: IpAddr) -> bool {
        (addr == self.ip || self.accept_any) && !self.is_mute
    }

    fn note_icmp(&mut self, now: Time, packet: &[u8]) -> Option<()> {
        let (ip, body) = packet::parse(packet)?;
        let is_icmp = matches!(ip.proto, IpProto::ICMP | IpProto::ICMPV6);
        if is_icmp && body.len() >= 8 {
            let kind = (body[0], body[1]);
            self.icmp.push(IcmpSeen {
                at: now,
                src: ip.src,
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
        self.packet(&segment.emit())
    }

    /// The frame for an IP packet.
    pub(crate) fn packet(&self, packet: &[u8]) -> Vec<u8> {
        let ethertype = match packet.first().map(|first| first >> 4) {
            Some(6) => EtherType::IPV6,
            _ => EtherType::IPV4,
        };
        self.frame(ethertype, packet)
    }

    /// The frame for an ICMP error from this station; `kind` is ICMP's, also where ICMPv6's is meant
    /// ([`icmp6_kind`]).
    pub(crate) fn icmp(&self, dst: IpAddr, kind: (u8, u8), rest: [u8; 4], body: &[u8]) -> Vec<u8> {
        self.packet(&packet::icmp(self.ip, dst, kind, rest, body))
    }
}

/// The beginning of an IP packet with this segment, as an ICMP error quotes it.
pub(crate) fn quote(segment: &Segment) -> Vec<u8> {
    let mut packet = segment.emit();
    let header_len = match segment.src {
        SocketAddr::V4(_) => Ipv4Header::LEN,
        SocketAddr::V6(_) => Ipv6Header::LEN,
    };
    packet.truncate(header_len + 8);
    packet
}
