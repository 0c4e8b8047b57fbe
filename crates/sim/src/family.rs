//! The version of IP below a script or a scenario. Both are written for IPv4. Over IPv6 their addresses are mapped to
//! others, and packets are translated between the script and the stack.
//!
//! 1. An address is mapped into 64:ff9b::/96. The sum of its words is that of the IPv4 address, so checksums of TCP and
//!    UDP are unchanged, and a wrong one stays wrong.
//! 2. A packet is 20 bytes longer, and MTUs are 20 bytes larger, so segments have the sizes in the script.
//! 3. ICMP errors become the corresponding ICMPv6 errors, and back.
//!
//! Locks: none. Sources: RFC 6052 2.1 and 4.1; RFC 7915 4 and 5.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};

use wire::{
    Checksum, Icmp6Header, Icmp6Message, IpProto, Ipv4Fields, Ipv4Header, Ipv6Fields, Ipv6Header,
    pseudo_header_v6,
};

use crate::icmp6_kind;

/// The number of bytes by which the header of IPv6 is longer.
pub(crate) const LONGER: u16 = (Ipv6Header::LEN - Ipv4Header::LEN) as u16;

/// Bytes before the quoted packet in an error of ICMP, and of ICMPv6.
const ICMP_LEN: usize = 8;

/// The version of IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IpFamily {
    V4,
    V6,
}

fn embedded(addr: Ipv4Addr) -> Ipv6Addr {
    let prefix = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0);
    Ipv6Addr::from_bits(prefix.to_bits() | u128::from(addr.to_bits()))
}

fn extracted(addr: Ipv6Addr) -> Ipv4Addr {
    Ipv4Addr::from_bits(addr.to_bits() as u32)
}

impl IpFamily {
    /// The stack's address for one of the script's.
    pub(crate) fn addr(self, addr: Ipv4Addr) -> IpAddr {
        match self {
            Self::V4 => addr.into(),
            Self::V6 if addr.is_unspecified() => Ipv6Addr::UNSPECIFIED.into(),
            Self::V6 if addr.is_loopback() => Ipv6Addr::LOCALHOST.into(),
            Self::V6 => embedded(addr).into(),
        }
    }

    pub(crate) fn socket_addr(self, addr: SocketAddrV4) -> SocketAddr {
        SocketAddr::new(self.addr(*addr.ip()), addr.port())
    }

    /// The length of a prefix of `len` bits of the script's.
    pub(crate) fn prefix_len(self, len: u8) -> u8 {
        match self {
            Self::V4 => len,
            Self::V6 => 96 + len,
        }
    }

    pub(crate) fn mtu(self, mtu: u16) -> u16 {
        match self {
            Self::V4 => mtu,
            Self::V6 => mtu.saturating_add(LONGER),
        }
    }

    /// The packet that comes in for one of the script's.
    pub(crate) fn incoming(self, packet: &[u8]) -> Vec<u8> {
        match self {
            Self::V4 => packet.to_vec(),
            Self::V6 => to_ipv6(packet),
        }
    }

    /// The script's packet for one that the stack sent, or the reason why that is malformed.
    pub(crate) fn outgoing(self, packet: Vec<u8>) -> Result<Vec<u8>, String> {
        match self {
            Self::V4 => Ok(packet),
            Self::V6 => to_ipv4(&packet),
        }
    }
}

/// The header of IPv6 in the place of one of IPv4, which has no options; and the protocol.
fn header6(v4: &[u8; Ipv4Header::LEN]) -> (Ipv6Fields, IpProto) {
    let [
        _,
        tos,
        long,
        short,
        _,
        _,
        _,
        _,
        ttl,
        proto,
        _,
        _,
        addrs @ ..,
    ] = *v4;
    let [a, b, c, d, e, f, g, h] = addrs;
    let proto = IpProto(proto);
    let fields = Ipv6Fields {
        class: tos,
        payload_len: u16::from_be_bytes([long, short]).saturating_sub(Ipv4Header::LEN as u16),
        next: match proto {
            IpProto::ICMP => IpProto::ICMPV6,
            other => other,
        },
        hop_limit: ttl,
        src: embedded(Ipv4Addr::new(a, b, c, d)),
        dst: embedded(Ipv4Addr::new(e, f, g, h)),
        ..Ipv6Fields::default()
    };
    (fields, proto)
}

fn emit(fields: &Ipv6Fields, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; Ipv6Header::LEN];
    fields.emit(&mut packet);
    packet.extend_from_slice(payload);
    packet
}

/// Works for the beginning of a packet, too, as an error quotes it.
fn to_ipv6(packet: &[u8]) -> Vec<u8> {
    let Some((header, payload)) = packet.split_first_chunk() else {
        return packet.to_vec();
    };
    let (fields, proto) = header6(header);
    match (proto, payload.split_first_chunk::<ICMP_LEN>()) {
        (IpProto::ICMP, Some((error, quoted))) => error6(fields, error, &to_ipv6(quoted)),
        _ => emit(&fields, payload),
    }
}

fn error6(fields: Ipv6Fields, error: &[u8; ICMP_LEN], quoted: &[u8]) -> Vec<u8> {
    let [kind, code, _, _, a, b, c, d] = *error;
    let mtu = u16::from_be_bytes([c, d]);
    let rest = match (kind, code) {
        (3, 4) if mtu > 0 => {
            let [c, d] = mtu.saturating_add(LONGER).to_be_bytes();
            [a, b, c, d]
        }
        _ => [a, b, c, d],
    };
    let len = ICMP_LEN + quoted.len();
    let pseudo = pseudo_header_v6(fields.src, fields.dst, IpProto::ICMPV6, len as u32);
    let (kind, code) = icmp6_kind((kind, code));
    let message = Icmp6Message::Other { kind, code, rest };
    let mut bytes = vec![0; Icmp6Header::LEN];
    Icmp6Header::new(message, pseudo, [quoted]).emit(&mut bytes);
    bytes.extend_from_slice(quoted);
    let payload_len = len as u16;
    emit(
        &Ipv6Fields {
            payload_len,
            ..fields
        },
        &bytes,
    )
}

fn to_ipv4(packet: &[u8]) -> Result<Vec<u8>, String> {
    let ip = Ipv6Header::parse(packet).map_err(|e| format!("a bad IPv6 header: {e}"))?;
    let payload = packet.get(Ipv6Header::LEN..Ipv6Header::LEN + ip.payload_len());
    let payload = payload.ok_or("an IPv6 packet that is cut off")?;
    let (protocol, payload) = match ip.next() {
        IpProto::ICMPV6 => (IpProto::ICMP, error4(ip, payload)?),
        next => (next, payload.to_vec()),
    };
    let fields = Ipv4Fields {
        payload_len: payload.len() as u16,
        tos: ip.class(),
        ttl: ip.hop_limit(),
        df: true,
        protocol,
        src: extracted(ip.src()),
        dst: extracted(ip.dst()),
        ..Ipv4Fields::default()
    };
    let mut packet = vec![0; fields.header_len()];
    fields.emit(&mut packet);
    packet.extend_from_slice(&payload);
    Ok(packet)
}

/// The message of ICMP for one of ICMPv6. The quoted packet is unchanged, because scripts do not check it.
fn error4(ip: &Ipv6Header, message: &[u8]) -> Result<Vec<u8>, String> {
    let len = message.len() as u32;
    let mut sum = pseudo_header_v6(ip.src(), ip.dst(), IpProto::ICMPV6, len);
    sum.add_bytes(message);
    if sum.finish() != 0 {
        return Err("a wrong ICMPv6 checksum".into());
    }
    let [kind, code, _, _, rest @ ..] = message else {
        return Err("an ICMPv6 message that is cut off".into());
    };
    let (kind, code) = match (*kind, *code) {
        (1, 1) => (3, 13),
        (1, 3) => (3, 1),
        (1, 4) => (3, 3),
        (1, _) => (3, 0),
        (2, 0) => (3, 4),
        (3, code) => (11, code),
        (4, 1) => (3, 2),
        other => other,
    };
    let mut message = vec![kind, code, 0, 0];
    message.extend_from_slice(rest);
    let mut sum = Checksum::new();
    sum.add_bytes(&message);
    message[2..4].copy_from_slice(&sum.finish().to_be_bytes());
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_comes_back_as_it_went_and_a_wrong_checksum_stays_wrong() {
        // RFC 7915: breaks when a script over IPv6 sees something else than the stack sent, or a translation mends what
        // should be found.
        let fields = Ipv4Fields {
            payload_len: 4,
            tos: 3,
            ttl: 9,
            df: true,
            protocol: IpProto::TCP,
            src: Ipv4Addr::new(192, 168, 0, 1),
            dst: Ipv4Addr::new(192, 0, 2, 1),
            ..Ipv4Fields::default()
        };
        let mut packet = vec![0; fields.header_len()];
        fields.emit(&mut packet);
        packet.extend_from_slice(b"data");
        let six = IpFamily::V6.incoming(&packet);
        assert_eq!(six.len(), packet.len() + usize::from(LONGER));
        assert_eq!(IpFamily::V6.outgoing(six), Ok(packet));
        let sum = |addr: Ipv6Addr| {
            let mut sum = Checksum::new();
            sum.add_bytes(&addr.octets());
            sum.finish()
        };
        let mut four = Checksum::new();
        four.add_bytes(&fields.src.octets());
        assert_eq!(sum(embedded(fields.src)), four.finish());
    }

    #[test]
    fn an_error_comes_back_as_it_went() {
        // RFC 7915 4.2 and 5.2: breaks when a script's error is another one over IPv6.
        for kind in [(3, 1), (3, 3), (3, 4), (3, 13), (11, 0), (3, 0), (3, 2)] {
            let fields = Ipv4Fields {
                payload_len: 8,
                protocol: IpProto::ICMP,
                ..Ipv4Fields::default()
            };
            let mut packet = vec![0; fields.header_len()];
            fields.emit(&mut packet);
            packet.extend_from_slice(&[kind.0, kind.1, 0, 0, 0, 0, 0, 0]);
            let back = IpFamily::V6.outgoing(IpFamily::V6.incoming(&packet));
            let back = back.expect("well-formed");
            let at = Ipv4Header::LEN;
            assert_eq!((back[at], back[at + 1]), kind);
        }
    }
}
