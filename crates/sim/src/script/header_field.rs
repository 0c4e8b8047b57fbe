//! The fields of headers by the names that scripts use (RFC 791 3.1, RFC 9293 3.1).

use wire::{IpProto, Ipv4Header, TcpHeader, pseudo_header_v4};

/// A field of whole bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeaderField {
    /// The header is that of TCP, and not IP's.
    of_tcp: bool,
    at: usize,
    len: usize,
}

/// Name, offset and length of each field.
const OF_IPV4: [(&str, usize, usize); 10] = [
    ("version_ihl", 0, 1),
    ("tos", 1, 1),
    ("tot_len", 2, 2),
    ("id", 4, 2),
    ("frag_off", 6, 2),
    ("ttl", 8, 1),
    ("protocol", 9, 1),
    ("checksum", 10, 2),
    ("src_ip", 12, 4),
    ("dst_ip", 16, 4),
];

const OF_TCP: [(&str, usize, usize); 7] = [
    ("src_port", 0, 2),
    ("dst_port", 2, 2),
    ("seq_num", 4, 4),
    ("ack_num", 8, 4),
    ("win_size", 14, 2),
    ("checksum", 16, 2),
    ("urg_ptr", 18, 2),
];

const IPV4_CHECKSUM: usize = 10;

impl HeaderField {
    /// The field with this name in the header with this name.
    pub(super) fn named(header: &str, field: &str) -> Option<Self> {
        let (all, of_tcp) = match header {
            "ipv4" => (OF_IPV4.as_slice(), false),
            "tcp" => (OF_TCP.as_slice(), true),
            _ => return None,
        };
        let (_, at, len) = all.iter().find(|(name, ..)| *name == field)?;
        Some(Self {
            of_tcp,
            at: *at,
            len: *len,
        })
    }

    /// Whether the field is one of TCP's.
    pub(super) fn is_of_tcp(self) -> bool {
        self.of_tcp
    }

    /// Whether the value fits into the field.
    pub(super) fn holds(self, value: u32) -> bool {
        self.len == 4 || value >> (8 * self.len) == 0
    }

    /// Sets it in a packet of TCP whose IP header has no options. The header's checksum is computed anew, unless the
    /// field is the checksum: the stack must look at the field, and not drop the packet for its sum.
    pub(super) fn set(self, packet: &mut [u8], value: u32) {
        let begin = if self.of_tcp { Ipv4Header::LEN } else { 0 } + self.at;
        let bytes = value.to_be_bytes();
        if let Some(field) = packet.get_mut(begin..begin + self.len) {
            field.copy_from_slice(&bytes[4 - self.len..]);
        }
        match self.of_tcp {
            true if self.at != TcpHeader::CHECKSUM_OFFSET => sum_tcp(packet),
            false if self.at != IPV4_CHECKSUM => sum_ip(packet),
            _ => {}
        }
    }
}

fn sum_ip(packet: &mut [u8]) {
    let Some(header) = packet.get_mut(..Ipv4Header::LEN) else {
        return;
    };
    header[IPV4_CHECKSUM..IPV4_CHECKSUM + 2].fill(0);
    let mut sum = wire::Checksum::new();
    sum.add_bytes(header);
    header[IPV4_CHECKSUM..IPV4_CHECKSUM + 2].copy_from_slice(&sum.finish().to_be_bytes());
}

fn sum_tcp(packet: &mut [u8]) {
    let Some((ip, tcp)) = packet.split_at_mut_checked(Ipv4Header::LEN) else {
        return;
    };
    let addr = |at: usize| std::net::Ipv4Addr::from([ip[at], ip[at + 1], ip[at + 2], ip[at + 3]]);
    let field = TcpHeader::CHECKSUM_OFFSET..TcpHeader::CHECKSUM_OFFSET + 2;
    if tcp.len() < TcpHeader::LEN {
        return;
    }
    tcp[field.clone()].fill(0);
    let mut sum = pseudo_header_v4(addr(12), addr(16), IpProto::TCP, tcp.len() as u32);
    sum.add_bytes(tcp);
    tcp[field].copy_from_slice(&sum.finish().to_be_bytes());
}
