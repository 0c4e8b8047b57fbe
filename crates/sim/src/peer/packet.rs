//! The IP packets of a station, of either version, and the messages of ICMP in them.

use std::net::{IpAddr, Ipv4Addr};

use wire::{
    Checksum, Icmp6Header, Icmp6Message, IpProto, Ipv4Fields, Ipv4Header, Ipv6Fields, Ipv6Header,
    pseudo_header_v6,
};

/// The fields of an IP header that tests look at.
#[derive(Debug, Clone, Copy)]
pub(super) struct IpFacts {
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    pub(super) proto: IpProto,
    pub(super) ttl: u8,
    pub(super) ecn: u8,
    pub(super) df: bool,
}

impl IpFacts {
    pub(super) fn new(src: IpAddr, dst: IpAddr, proto: IpProto) -> Self {
        Self {
            src,
            dst,
            proto,
            ttl: 64,
            ecn: 0,
            df: true,
        }
    }

    /// The packet with this payload. If a test mixes addresses of two versions by mistake, the source is the
    /// unspecified address.
    pub(super) fn emit(&self, payload: &[u8]) -> Vec<u8> {
        let payload_len = u16::try_from(payload.len()).unwrap_or(u16::MAX);
        let mut packet = match (self.src, self.dst) {
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let fields = Ipv6Fields {
                    class: self.ecn,
                    payload_len,
                    next: self.proto,
                    hop_limit: self.ttl,
                    src,
                    dst,
                    ..Ipv6Fields::default()
                };
                let mut packet = vec![0; Ipv6Header::LEN];
                fields.emit(&mut packet);
                packet
            }
            (src, dst) => {
                let fields = Ipv4Fields {
                    tos: self.ecn,
                    payload_len,
                    df: self.df,
                    ttl: self.ttl,
                    protocol: self.proto,
                    src: v4(src),
                    dst: v4(dst),
                    ..Ipv4Fields::default()
                };
                let mut packet = vec![0; fields.header_len()];
                fields.emit(&mut packet);
                packet
            }
        };
        packet.extend_from_slice(payload);
        packet
    }
}

fn v4(addr: IpAddr) -> Ipv4Addr {
    match addr {
        IpAddr::V4(addr) => addr,
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    }
}

/// The header of a packet, and its payload; `None` for fragments, and for IPv6 with extension headers.
pub(super) fn parse(packet: &[u8]) -> Option<(IpFacts, &[u8])> {
    if let Ok(ip) = Ipv6Header::parse(packet) {
        let payload = packet.get(Ipv6Header::LEN..)?.get(..ip.payload_len())?;
        let facts = IpFacts {
            ttl: ip.hop_limit(),
            ecn: ip.class() & 0b11,
            ..IpFacts::new(ip.src().into(), ip.dst().into(), ip.next())
        };
        return Some((facts, payload));
    }
    let ip = Ipv4Header::parse(packet).ok()?;
    if ip.is_fragment() {
        return None;
    }
    let facts = IpFacts {
        ttl: ip.ttl(),
        ecn: ip.ecn(),
        df: ip.df(),
        ..IpFacts::new(ip.src().into(), ip.dst().into(), ip.protocol())
    };
    Some((facts, packet.get(ip.header_len()..ip.total_len())?))
}

/// The type and code of ICMPv6 that correspond to ICMP's `kind` (RFC 7915 section 4.2).
pub fn icmp6_kind(kind: (u8, u8)) -> (u8, u8) {
    match kind {
        (3, 2) => (4, 1),
        (3, 3) => (1, 4),
        (3, 4) => (2, 0),
        (3, 9 | 10 | 13) => (1, 1),
        (3, 1) => (1, 3),
        (3, _) => (1, 0),
        (11, code) => (3, code),
        (12, _) => (4, 0),
        other => other,
    }
}

/// An ICMP error, or the corresponding ICMPv6 error. An MTU is in the same place of `rest` in both.
pub(super) fn icmp(
    src: IpAddr,
    dst: IpAddr,
    kind: (u8, u8),
    rest: [u8; 4],
    body: &[u8],
) -> Vec<u8> {
    if let (IpAddr::V6(from), IpAddr::V6(to)) = (src, dst) {
        let (kind, code) = icmp6_kind(kind);
        let len = (Icmp6Header::LEN + body.len()) as u32;
        let pseudo = pseudo_header_v6(from, to, IpProto::ICMPV6, len);
        let message = Icmp6Message::Other { kind, code, rest };
        let mut bytes = vec![0; Icmp6Header::LEN];
        Icmp6Header::new(message, pseudo, [body]).emit(&mut bytes);
        bytes.extend_from_slice(body);
        return IpFacts::new(src, dst, IpProto::ICMPV6).emit(&bytes);
    }
    let mut message = vec![kind.0, kind.1, 0, 0];
    message.extend_from_slice(&rest);
    message.extend_from_slice(body);
    let mut sum = Checksum::new();
    sum.add_bytes(&message);
    message[2..4].copy_from_slice(&sum.finish().to_be_bytes());
    IpFacts::new(src, dst, IpProto::ICMP).emit(&message)
}
