//! A station's part of ARP and of neighbour discovery: it answers for its address, and announces it.

use std::net::{IpAddr, Ipv6Addr};

use wire::{
    AdvertFlags, ArpOp, ArpPacket, EtherHeader, EtherType, Icmp6Header, IpProto, Ipv6Header,
    MacAddr, NdpMessage, NeighborMessage, pseudo_header_v6, solicited_node,
};

use super::Peer;
use super::packet::{self, IpFacts};

/// Whether a packet is a message of neighbour discovery.
pub(super) fn is_discovery(packet: &[u8]) -> bool {
    let message = packet.get(Ipv6Header::LEN..).unwrap_or(&[]);
    let is_icmp = Ipv6Header::parse(packet).is_ok_and(|ip| ip.next() == IpProto::ICMPV6);
    is_icmp
        && message
            .first()
            .is_some_and(|kind| NdpMessage::is_kind(*kind))
}

impl Peer {
    pub(super) fn answer_arp(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        let arp = ArpPacket::parse(payload).ok()?;
        self.other = Some(arp.sender_mac);
        if arp.op != ArpOp::Request || !self.answers_for(arp.target_ip.into()) {
            return None;
        }
        let reply = ArpPacket::reply(self.mac, arp.target_ip, arp.sender_mac, arp.sender_ip);
        let mut bytes = [0; ArpPacket::LEN];
        reply.emit(&mut bytes);
        Some(self.frame(EtherType::ARP, &bytes))
    }

    pub(super) fn answer_discovery(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let (ip, message) = packet::parse(packet)?;
        let (header, body) = Icmp6Header::parse(message).ok()?;
        let asked = NdpMessage::parse(header.kind(), header.rest(), body).ok()?;
        let NdpMessage::NeighborSolicit { target, .. } = asked else {
            return None;
        };
        let IpAddr::V6(asks) = ip.src else {
            return None;
        };
        if !self.answers_for(target.into()) {
            return None;
        }
        let flags = AdvertFlags {
            router: false,
            solicited: true,
            overrides: true,
        };
        let answer = NeighborMessage::advert(target, self.mac, flags);
        Some(self.packet(&emit(target, asks, &answer)))
    }

    /// The frame that tells a neighbour this station's address.
    pub(crate) fn announcement(&self, to: IpAddr) -> Vec<u8> {
        match (self.ip, to) {
            (IpAddr::V6(ip), IpAddr::V6(to)) => {
                let question = NeighborMessage::solicit(to, Some(self.mac), None);
                let group = solicited_node(to);
                let packet = emit(ip, group, &question);
                self.frame_to(
                    MacAddr::from_ipv6_multicast(group),
                    EtherType::IPV6,
                    &packet,
                )
            }
            (IpAddr::V4(ip), IpAddr::V4(to)) => {
                let mut bytes = [0; ArpPacket::LEN];
                ArpPacket::request(self.mac, ip, to).emit(&mut bytes);
                self.frame_to(MacAddr::BROADCAST, EtherType::ARP, &bytes)
            }
            // A mistake of the test: a frame that each stack drops.
            _ => vec![0; EtherHeader::LEN],
        }
    }

    fn frame_to(&self, to: MacAddr, ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; EtherHeader::LEN];
        EtherHeader::new(to, self.mac, ethertype).emit(&mut frame);
        frame.extend_from_slice(payload);
        frame
    }
}

fn emit(src: Ipv6Addr, dst: Ipv6Addr, message: &NeighborMessage) -> Vec<u8> {
    let body = message.body();
    let len = (Icmp6Header::LEN + body.len()) as u32;
    let pseudo = pseudo_header_v6(src, dst, IpProto::ICMPV6, len);
    let mut bytes = vec![0; Icmp6Header::LEN];
    Icmp6Header::new(message.message, pseudo, [body]).emit(&mut bytes);
    bytes.extend_from_slice(body);
    let facts = IpFacts {
        ttl: 255,
        ..IpFacts::new(src.into(), dst.into(), IpProto::ICMPV6)
    };
    facts.emit(&bytes)
}
