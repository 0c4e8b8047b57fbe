//! Frames of IPv6 that the peer of a stack sends, and their fields where the stack sends them.

use std::net::{Ipv6Addr, SocketAddr};

use crate::common::net::*;
use mbuma::IfAddr;
use wire::{
    AdvertFlags, EtherHeader, EtherType, Icmp6Header, Icmp6Message, IpProto, Ipv6Fields,
    Ipv6Header, MacAddr, NdpMessage, NeighborMessage, pseudo_header_v6, solicited_node,
};

pub(crate) const US6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
pub(crate) const PEER6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0x100);
pub(crate) const ALL_NODES: Ipv6Addr = wire::ALL_NODES;

pub(crate) fn lab() -> Lab {
    Lab::new(Setup {
        addrs: vec![IfAddr::new(US6, 64)],
        ..Setup::default()
    })
}

/// The same, which knows the peer's Ethernet address.
pub(crate) fn introduced() -> Lab {
    let lab = lab();
    introduce6(&lab);
    lab
}

/// A frame with this IPv6 packet, to the group or to us.
pub(crate) fn frame6(fields: &Ipv6Fields, payload: &[u8]) -> Vec<u8> {
    let fields = Ipv6Fields {
        payload_len: payload.len() as u16,
        ..*fields
    };
    let mut packet = vec![0; Ipv6Header::LEN];
    fields.emit(&mut packet);
    packet.extend_from_slice(payload);
    let mac = match fields.dst.is_multicast() {
        true => MacAddr::from_ipv6_multicast(fields.dst),
        false => OUR_MAC,
    };
    ether(mac, EtherType::IPV6, &packet)
}

pub(crate) fn icmp6(src: Ipv6Addr, dst: Ipv6Addr, message: Icmp6Message, body: &[u8]) -> Vec<u8> {
    let len = Icmp6Header::LEN + body.len();
    let pseudo = pseudo_header_v6(src, dst, IpProto::ICMPV6, len as u32);
    let mut out = vec![0; Icmp6Header::LEN];
    Icmp6Header::new(message, pseudo, [body]).emit(&mut out);
    out.extend_from_slice(body);
    out
}

pub(crate) fn icmp6_frame(
    src: Ipv6Addr,
    dst: Ipv6Addr,
    hop_limit: u8,
    message: Icmp6Message,
    body: &[u8],
) -> Vec<u8> {
    let fields = Ipv6Fields {
        next: IpProto::ICMPV6,
        hop_limit,
        src,
        dst,
        ..Ipv6Fields::default()
    };
    frame6(&fields, &icmp6(src, dst, message, body))
}

/// The header of a packet from the peer to us.
pub(crate) fn from_peer6(next: IpProto) -> Ipv6Fields {
    Ipv6Fields {
        next,
        src: PEER6,
        dst: US6,
        ..Ipv6Fields::default()
    }
}

pub(crate) fn nd_frame(src: Ipv6Addr, dst: Ipv6Addr, message: &NeighborMessage) -> Vec<u8> {
    icmp6_frame(src, dst, 255, message.message, message.body())
}

/// The fields of a frame of the stack's.
pub(crate) struct Seen6 {
    pub(crate) to: MacAddr,
    pub(crate) src: Ipv6Addr,
    pub(crate) dst: Ipv6Addr,
    pub(crate) hop_limit: u8,
    pub(crate) class: u8,
    pub(crate) next: IpProto,
    pub(crate) payload: Vec<u8>,
}

pub(crate) fn parse6(frame: &[u8]) -> Seen6 {
    let (ether, packet) = EtherHeader::parse(frame).unwrap();
    assert_eq!(ether.ethertype(), EtherType::IPV6);
    let header = Ipv6Header::parse(packet).unwrap();
    let payload = packet[Ipv6Header::LEN..].to_vec();
    assert_eq!(header.payload_len(), payload.len());
    Seen6 {
        to: ether.dst,
        src: header.src(),
        dst: header.dst(),
        hop_limit: header.hop_limit(),
        class: header.class(),
        next: header.next(),
        payload,
    }
}

/// The ICMPv6 message in it, its checksum checked, and its body.
pub(crate) fn parse_icmp6(seen: &Seen6) -> (Icmp6Header, Vec<u8>) {
    assert_eq!(seen.next, IpProto::ICMPV6);
    let (header, body) = Icmp6Header::parse(&seen.payload).unwrap();
    let len = seen.payload.len() as u32;
    let pseudo = pseudo_header_v6(seen.src, seen.dst, IpProto::ICMPV6, len);
    assert!(header.checksum_ok(pseudo, [body]), "ICMPv6 checksum");
    (*header, body.to_vec())
}

/// The peer asks for our address, so that we know its own.
pub(crate) fn introduce6(lab: &Lab) {
    let question = NeighborMessage::solicit(US6, Some(PEER_MAC), None);
    lab.give(&nd_frame(PEER6, solicited_node(US6), &question));
    let seen = parse6(&lab.frame());
    let (header, body) = parse_icmp6(&seen);
    let message = NdpMessage::parse(header.kind(), header.rest(), &body).unwrap();
    let NdpMessage::NeighborAdvert {
        flags,
        target,
        options,
    } = message
    else {
        panic!("{message:?}");
    };
    assert!(flags.solicited && flags.overrides && target == US6);
    assert_eq!(options.target(), Some(OUR_MAC));
    assert_eq!((seen.to, seen.src, seen.dst), (PEER_MAC, US6, PEER6));
    assert_eq!(seen.hop_limit, 255);
}

/// The flags of an answer to a question.
pub(crate) const ANSWER: AdvertFlags = AdvertFlags {
    router: false,
    solicited: true,
    overrides: true,
};

/// The flags of an advertisement that no station asked for, which claims its address.
pub(crate) const CLAIM: AdvertFlags = AdvertFlags {
    solicited: false,
    ..ANSWER
};

pub(crate) fn at6(addr: Ipv6Addr, port: u16) -> SocketAddr {
    SocketAddr::from((addr, port))
}
