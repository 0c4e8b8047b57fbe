//! The multicast querier of the link: a station that asks for listeners, and hears their reports (RFC 9777 7).

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

use sim::{Net, PeerId, WireId};
use wire::{
    ALL_NODES, EtherHeader, EtherType, GroupRecordHead, GroupRecordType, Icmp6Header, Icmp6Message,
    IpProto, Ipv6Fields, Ipv6Header, MacAddr, mld_type, pseudo_header_v6,
};

const ADDR: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x99);
const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 0x99]);
/// All nodes' group on Ethernet.
const TO: MacAddr = MacAddr([0x33, 0x33, 0, 0, 0, 1]);
/// The header before each message: the router alert option (RFC 2711), and padding.
const ALERT: [u8; 8] = [IpProto::ICMPV6.0, 0, 5, 2, 0, 0, 1, 0];
/// Bytes of a record that has no sources.
const RECORD_LEN: usize = GroupRecordHead::LEN + 16;
/// Milliseconds within which listeners answer.
pub(crate) const DELAY_MAX_MS: u16 = 2000;

/// The station.
pub(crate) struct Querier(PeerId);

impl Querier {
    pub(crate) fn new(net: &mut Net, wire: WireId) -> Self {
        let peer = net.peer(wire, IpAddr::V6(ADDR));
        net.peer_mut(peer).is_mute = true;
        net.peer_mut(peer).keep_packets();
        Self(peer)
    }

    /// Asks for all groups.
    pub(crate) fn ask(&self, net: &mut Net) {
        let [d1, d0] = DELAY_MAX_MS.to_be_bytes();
        let message = Icmp6Message::Other {
            kind: mld_type::QUERY,
            code: 0,
            rest: [d1, d0, 0, 0],
        };
        // No group; a robustness of 2, an interval of 125 s, no sources.
        let body = [&[0; 16][..], &[2, 125, 0, 0]].concat();
        let len = Icmp6Header::LEN + body.len();
        let pseudo = pseudo_header_v6(ADDR, ALL_NODES, IpProto::ICMPV6, len as u32);
        let mut icmp = [0; Icmp6Header::LEN];
        Icmp6Header::new(message, pseudo, [&body[..]]).emit(&mut icmp);
        let ip = Ipv6Fields {
            payload_len: (ALERT.len() + len) as u16,
            next: IpProto::HOP_BY_HOP,
            hop_limit: 1,
            src: ADDR,
            dst: ALL_NODES,
            ..Ipv6Fields::default()
        };
        let mut frame = vec![0; EtherHeader::LEN + Ipv6Header::LEN];
        EtherHeader::new(TO, MAC, EtherType::IPV6).emit(&mut frame);
        ip.emit(&mut frame[EtherHeader::LEN..]);
        frame.extend([&ALERT[..], &icmp, &body].concat());
        net.say_frame(self.0, frame);
    }

    /// The groups that each station said in answers since the last call.
    pub(crate) fn answers(&self, net: &mut Net) -> BTreeMap<Ipv6Addr, BTreeSet<Ipv6Addr>> {
        let mut said: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (_, packet) in net.peer_mut(self.0).take_packets() {
            if let Some((host, groups)) = report(&packet) {
                said.entry(host).or_default().extend(groups);
            }
        }
        said
    }
}

/// The sender of a report of version 2, and the groups in which it says to be.
fn report(packet: &[u8]) -> Option<(Ipv6Addr, Vec<Ipv6Addr>)> {
    let ip = Ipv6Header::parse(packet).ok()?;
    let message = packet.get(Ipv6Header::LEN + ALERT.len()..)?;
    if ip.next() != IpProto::HOP_BY_HOP || message.first() != Some(&mld_type::REPORT) {
        return None;
    }
    let records = message.get(Icmp6Header::LEN..)?.chunks_exact(RECORD_LEN);
    let is_answer = |record: &&[u8]| record[0] == GroupRecordType::IsExclude as u8;
    let group = |record: &[u8]| {
        record[4..]
            .first_chunk()
            .copied()
            .map(Ipv6Addr::from_octets)
    };
    Some((
        ip.src(),
        records.filter(is_answer).filter_map(group).collect(),
    ))
}
