//! An ICMPv6 message of the link's own protocols, neighbour discovery and multicast listener discovery: a whole packet,
//! since it takes no route.
//!
//! Locks: none.
//! Sources: RFC 4443 section 2.3 (the checksum), RFC 8200 section 4.3.

use std::net::Ipv6Addr;

use mbuf::{Chain, MbufPool, NoBufs, Packet};
use wire::{Icmp6Header, Icmp6Message, IpProto, Ipv6Fields, Ipv6Header, pseudo_header_v6};

/// The message.
pub(super) struct LinkMessage<'a> {
    pub(super) src: Ipv6Addr,
    pub(super) dst: Ipv6Addr,
    pub(super) hop_limit: u8,
    /// The header of hop-by-hop options before the message, in whole words of 8 bytes; empty for none.
    pub(super) hop_by_hop: &'a [u8],
    pub(super) message: Icmp6Message,
    /// The bytes after the ICMP header.
    pub(super) body: &'a [u8],
}

impl LinkMessage<'_> {
    /// The packet, from its IP header on.
    pub(super) fn packet(&self, pool: &MbufPool) -> Result<Packet, NoBufs> {
        let Self { src, dst, body, .. } = *self;
        let len = Icmp6Header::LEN + body.len();
        let pseudo = pseudo_header_v6(src, dst, IpProto::ICMPV6, len as u32);
        let header = Icmp6Header::new(self.message, pseudo, [body]);
        let mut packet = Packet::before_chain(pool, Chain::from_slice(pool, body)?)?;
        header.emit(packet.prepend(Icmp6Header::LEN)?);
        let options = self.hop_by_hop;
        if !options.is_empty() {
            packet.prepend(options.len())?.copy_from_slice(options);
        }
        let fields = Ipv6Fields {
            payload_len: (options.len() + len) as u16,
            next: match options {
                [] => IpProto::ICMPV6,
                _ => IpProto::HOP_BY_HOP,
            },
            hop_limit: self.hop_limit,
            src,
            dst,
            ..Ipv6Fields::default()
        };
        fields.emit(packet.prepend(Ipv6Header::LEN)?);
        packet.header_mut().l3_len = Ipv6Header::LEN as u8;
        Ok(packet)
    }
}
