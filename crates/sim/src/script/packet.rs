//! Packets as bytes: builds the packets that a script injects, parses those that the stack sends.

use std::net::{Ipv4Addr, SocketAddrV4};

use wire::{
    Checksum, IpProto, Ipv4Fields, Ipv4Header, SeqNum, TcpFields, TcpFlags, TcpHeader, TcpOptions,
    UdpHeader, pseudo_header_v4,
};

use super::options::{self, OptionsSpec, TcpOption};
use super::syntax::{IpSpec, TcpSpec};

/// A packet that the stack sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SeenPacket {
    pub(super) src: Ipv4Addr,
    pub(super) dst: Ipv4Addr,
    pub(super) tos: u8,
    pub(super) ttl: u8,
    pub(super) body: SeenBody,
}

/// Its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SeenBody {
    Tcp(TcpSeen),
    Udp {
        src_port: u16,
        dst_port: u16,
        data: Vec<u8>,
    },
    Icmp {
        kind: (u8, u8),
        rest: [u8; 4],
    },
    Other(IpProto),
}

/// A segment with the wire's numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TcpSeen {
    pub(super) src_port: u16,
    pub(super) dst_port: u16,
    pub(super) flags: u16,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) win: u16,
    pub(super) urg: u16,
    pub(super) options: Vec<TcpOption>,
    pub(super) data: Vec<u8>,
}

impl SeenPacket {
    /// The packet, or why it is none: a stack must not send anything malformed.
    pub(super) fn parse(packet: &[u8]) -> Result<Self, String> {
        let ip = Ipv4Header::parse(packet).map_err(|e| format!("a bad IP header: {e}"))?;
        let payload = packet.get(ip.header_len()..ip.total_len());
        let payload = payload.ok_or("an IP packet that is cut off")?;
        let body = match ip.protocol() {
            IpProto::TCP => tcp(ip.src(), ip.dst(), payload)?,
            IpProto::UDP => udp(ip.src(), ip.dst(), payload)?,
            IpProto::ICMP => icmp(payload)?,
            other => SeenBody::Other(other),
        };
        Ok(Self {
            src: ip.src(),
            dst: ip.dst(),
            tos: ip.tos(),
            ttl: ip.ttl(),
            body,
        })
    }

    /// Its ports: ours, theirs.
    pub(super) fn ports(&self) -> Option<(u16, u16)> {
        match &self.body {
            SeenBody::Tcp(tcp) => Some((tcp.src_port, tcp.dst_port)),
            SeenBody::Udp {
                src_port, dst_port, ..
            } => Some((*src_port, *dst_port)),
            _ => None,
        }
    }
}

/// Whether the sum over the pseudo header and the bytes behind it is correct.
fn sum_is_good(src: Ipv4Addr, dst: Ipv4Addr, proto: IpProto, payload: &[u8]) -> bool {
    let mut sum = pseudo_header_v4(src, dst, proto, payload.len() as u32);
    sum.add_bytes(payload);
    sum.finish() == 0
}

fn tcp(src: Ipv4Addr, dst: Ipv4Addr, payload: &[u8]) -> Result<SeenBody, String> {
    let tcp = TcpHeader::parse(payload).map_err(|e| format!("a bad TCP header: {e}"))?;
    if !sum_is_good(src, dst, IpProto::TCP, payload) {
        return Err("a wrong TCP checksum".into());
    }
    Ok(SeenBody::Tcp(TcpSeen {
        src_port: tcp.src_port(),
        dst_port: tcp.dst_port(),
        flags: tcp.flags().bits(),
        seq: tcp.seq().0,
        ack: tcp.ack().0,
        win: tcp.window(),
        urg: tcp.urgent(),
        options: options::parse(tcp.option_bytes()),
        data: payload.get(tcp.header_len()..).unwrap_or_default().to_vec(),
    }))
}

fn udp(src: Ipv4Addr, dst: Ipv4Addr, payload: &[u8]) -> Result<SeenBody, String> {
    let (udp, _) = UdpHeader::parse(payload).map_err(|e| format!("a bad UDP header: {e}"))?;
    if udp.has_checksum() && !sum_is_good(src, dst, IpProto::UDP, payload) {
        return Err("a wrong UDP checksum".into());
    }
    let data = payload.get(UdpHeader::LEN..usize::from(udp.len()));
    Ok(SeenBody::Udp {
        src_port: udp.src_port(),
        dst_port: udp.dst_port(),
        data: data.ok_or("a UDP datagram that is cut off")?.to_vec(),
    })
}

fn icmp(payload: &[u8]) -> Result<SeenBody, String> {
    let [kind, code, _, _, a, b, c, d, ..] = *payload else {
        return Err("an ICMP message that is cut off".into());
    };
    let mut sum = Checksum::new();
    sum.add_bytes(payload);
    match sum.finish() {
        0 => Ok(SeenBody::Icmp {
            kind: (kind, code),
            rest: [a, b, c, d],
        }),
        _ => Err("a wrong ICMP checksum".into()),
    }
}

/// `len` zeros; an error if that is more than a packet holds.
pub(super) fn zeros(len: usize) -> Result<Vec<u8>, String> {
    check_len(len)?;
    Ok(vec![0; len])
}

fn check_len(len: usize) -> Result<(), String> {
    match len > usize::from(u16::MAX) {
        true => Err(format!("an IP packet has at most 65535 bytes, not {len}")),
        false => Ok(()),
    }
}

/// An IP packet around `payload`; an error if it would be too long.
fn ip(
    spec: IpSpec,
    proto: IpProto,
    src: Ipv4Addr,
    dst: Ipv4Addr,
    payload: &[u8],
) -> Result<Vec<u8>, String> {
    check_len(Ipv4Header::LEN + payload.len())?;
    let ecn = spec.ecn.map_or(0, super::syntax::EcnField::bits);
    let fields = Ipv4Fields {
        payload_len: u16::try_from(payload.len()).unwrap_or(u16::MAX),
        tos: spec.tos.unwrap_or(0) | ecn,
        ttl: spec.ttl.unwrap_or(64),
        protocol: proto,
        src,
        dst,
        ..Ipv4Fields::default()
    };
    let mut packet = vec![0; fields.header_len()];
    fields.emit(&mut packet);
    packet.extend_from_slice(payload);
    Ok(packet)
}

/// The packet of a segment whose numbers are the wire's.
pub(super) fn build_tcp(
    spec: IpSpec,
    src: SocketAddrV4,
    dst: SocketAddrV4,
    segment: &TcpSpec,
    data: &[u8],
) -> Result<Vec<u8>, String> {
    let fields = TcpFields {
        src_port: src.port(),
        dst_port: dst.port(),
        seq: SeqNum(segment.seq),
        ack: SeqNum(segment.ack.unwrap_or(0)),
        flags: TcpFlags::from_bits_retain(segment.flags),
        window: segment.win.unwrap_or(0),
        urgent: segment.urg.unwrap_or(0),
        options: TcpOptions::default(),
    };
    let mut bytes = vec![0; fields.header_len()];
    fields.emit(&mut bytes);
    if let OptionsSpec::These(all) = &segment.options {
        // The parser refuses more than 40 bytes.
        bytes.extend(options::emit(all).unwrap_or_default());
    }
    // The data offset: words in the upper half of the byte.
    bytes[12] = (bytes.len() * 4) as u8 | bytes[12] & 0x0f;
    bytes.extend_from_slice(data);
    let mut sum = pseudo_header_v4(*src.ip(), *dst.ip(), IpProto::TCP, bytes.len() as u32);
    sum.add_bytes(&bytes);
    let field = TcpHeader::CHECKSUM_OFFSET;
    bytes[field..field + 2].copy_from_slice(&sum.finish().to_be_bytes());
    ip(spec, IpProto::TCP, *src.ip(), *dst.ip(), &bytes)
}

/// The packet of a datagram.
pub(super) fn build_udp(
    spec: IpSpec,
    src: SocketAddrV4,
    dst: SocketAddrV4,
    data: &[u8],
) -> Result<Vec<u8>, String> {
    let len = u16::try_from(UdpHeader::LEN + data.len()).unwrap_or(u16::MAX);
    let mut header = UdpHeader::new(src.port(), dst.port(), len);
    let mut bytes = vec![0; UdpHeader::LEN];
    header.emit(&mut bytes);
    let mut sum = pseudo_header_v4(*src.ip(), *dst.ip(), IpProto::UDP, u32::from(len));
    sum.add_bytes(&bytes);
    sum.add_bytes(data);
    header.set_checksum(sum.finish_nonzero());
    header.emit(&mut bytes);
    bytes.extend_from_slice(data);
    ip(spec, IpProto::UDP, *src.ip(), *dst.ip(), &bytes)
}

/// The packet of an ICMP error about `original`, of which it quotes the IP header and eight bytes (RFC 792).
pub(super) fn build_icmp(
    spec: IpSpec,
    src: Ipv4Addr,
    dst: Ipv4Addr,
    kind: (u8, u8),
    mtu: u16,
    original: &[u8],
) -> Result<Vec<u8>, String> {
    let quoted = original.len().min(Ipv4Header::LEN + 8);
    let [high, low] = mtu.to_be_bytes();
    let mut bytes = vec![kind.0, kind.1, 0, 0, 0, 0, high, low];
    bytes.extend_from_slice(&original[..quoted]);
    let mut sum = Checksum::new();
    sum.add_bytes(&bytes);
    bytes[2..4].copy_from_slice(&sum.finish().to_be_bytes());
    ip(spec, IpProto::ICMP, src, dst, &bytes)
}
