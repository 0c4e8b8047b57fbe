use std::sync::LazyLock;

use mbuf::{MbufPool, Packet, PoolConfig};
use wire::{
    AdvertFlags, ArpOp, Icmp6Header, Icmp6Message, Ipv4Fields, Ipv6Fields, NeighborMessage,
};

use super::*;
use crate::sys::tap::Offloads;

const STACK_MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 1, 1]), MacAddr([2, 0, 0, 0, 1, 2])];

fn v4(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 2, last)
}

fn v6(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

impl AddressGuard {
    /// Whether a frame passes, at the start.
    fn admits(&self, guest: GuestId, frame: &[u8]) -> bool {
        self.admits_at(Time::ZERO, guest, frame)
    }

    fn admits_at(&self, now: Time, guest: GuestId, frame: &[u8]) -> bool {
        static POOL: LazyLock<MbufPool> =
            LazyLock::new(|| MbufPool::new(PoolConfig::default()).expect("address space"));
        let mut came = Mbufq::new();
        came.enqueue(Packet::from_slice(&POOL, frame, 0).expect("buffers"));
        let mut rx = Mbufq::new();
        self.filter(guest, now, &mut came, &mut rx);
        assert!(came.is_empty());
        !rx.is_empty()
    }
}

/// A network of guests 0 and 1, at 10.0.2.100 and .101, fd00::100 and ::101.
fn guard() -> AddressGuard {
    let guard = AddressGuard::new();
    guard.set_network(&GuestEnd::usual(), STACK_MAC);
    for id in [0, 1] {
        guard.add(&GuestSpec {
            id,
            addr: v4(100 + id as u8),
            addr6: Some(Ipv6Addr::from_bits(
                v6("fd00::100").to_bits() | u128::from(id),
            )),
            name: None,
            offloads: Offloads::default(),
        });
    }
    guard
}

fn frame(src: MacAddr, ethertype: EtherType, packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; EtherHeader::LEN];
    EtherHeader::new(MacAddr([0xff; 6]), src, ethertype).emit(&mut frame);
    frame.extend_from_slice(packet);
    frame
}

fn ipv4(mac: MacAddr, src: Ipv4Addr) -> Vec<u8> {
    let fields = Ipv4Fields {
        src,
        dst: v4(2),
        ..Ipv4Fields::default()
    };
    let mut packet = vec![0; fields.header_len()];
    fields.emit(&mut packet);
    frame(mac, EtherType::IPV4, &packet)
}

/// A frame of the same station with another source.
fn frame_with_source(of: &[u8], src: Ipv4Addr) -> Vec<u8> {
    let (ether, _) = EtherHeader::parse(of).expect("a header");
    ipv4(ether.src, src)
}

/// A frame behind a tag of VLAN 0.
fn tagged(tag: u16, frame: &[u8]) -> Vec<u8> {
    let (stations, rest) = frame.split_at(12);
    let tag = tag.to_be_bytes();
    [stations, &tag, &[0, 0], rest].concat()
}

fn arp(mac: MacAddr, sender_mac: MacAddr, sender_ip: Ipv4Addr) -> Vec<u8> {
    let arp = ArpPacket {
        op: ArpOp::Reply,
        ..ArpPacket::reply(sender_mac, sender_ip, MACS[1], v4(101))
    };
    let mut packet = [0; ArpPacket::LEN];
    arp.emit(&mut packet);
    frame(mac, EtherType::ARP, &packet)
}

/// An ICMPv6 message, behind `options` bytes of options for the destination.
fn icmp6(
    mac: MacAddr,
    src: Ipv6Addr,
    message: Icmp6Message,
    body: &[u8],
    options: usize,
) -> Vec<u8> {
    let fields = Ipv6Fields {
        payload_len: (options + Icmp6Header::LEN + body.len()) as u16,
        next: if options > 0 {
            IpProto::DEST_OPTIONS
        } else {
            IpProto::ICMPV6
        },
        src,
        dst: v6("ff02::1"),
        ..Ipv6Fields::default()
    };
    let mut packet = vec![0; Ipv6Header::LEN];
    fields.emit(&mut packet);
    if options > 0 {
        packet.push(IpProto::ICMPV6.0);
        packet.push((options / 8 - 1) as u8);
        packet.resize(Ipv6Header::LEN + options, 0);
    }
    let at = packet.len();
    packet.resize(at + Icmp6Header::LEN, 0);
    let none: [&[u8]; 0] = [];
    let sum = wire::Checksum::default();
    Icmp6Header::new(message, sum, none).emit(&mut packet[at..]);
    packet.extend_from_slice(body);
    frame(mac, EtherType::IPV6, &packet)
}

fn discovery(mac: MacAddr, src: Ipv6Addr, message: &NeighborMessage, options: usize) -> Vec<u8> {
    icmp6(mac, src, message.message, message.body(), options)
}

#[test]
fn no_guest_speaks_in_another_ones_name() {
    // Breaks when a guest takes the traffic of another one, of the gateway, or of the network's router, by any message
    // that names an address of the sender.
    let guard = guard();
    let [own, other] = MACS;
    assert!(
        guard.admits(1, &ipv4(other, v4(101))),
        "the other one has spoken"
    );
    let advert =
        |target: &str, mac| NeighborMessage::advert(v6(target), mac, AdvertFlags::default());
    let solicit = |target: &str, mac| NeighborMessage::solicit(v6(target), mac, None);
    let link = v6("fe80::100");
    let none = Ipv6Addr::UNSPECIFIED;
    let forged = [
        ("the other one's station", ipv4(other, v4(100))),
        ("the stack's station", ipv4(STACK_MAC, v4(100))),
        ("no station", ipv4(MacAddr([0xff; 6]), v4(100))),
        ("the other one's source", ipv4(own, v4(101))),
        ("the gateway's source", ipv4(own, v4(2))),
        ("a server's source", ipv4(own, Ipv4Addr::new(192, 0, 2, 53))),
        ("ARP for the other one", arp(own, own, v4(101))),
        ("ARP for the gateway", arp(own, own, v4(2))),
        ("ARP with the other one's station", arp(own, other, v4(100))),
        ("ARP behind a tag", tagged(0x8100, &arp(own, own, v4(101)))),
        (
            "ARP behind another tag",
            tagged(0x88a8, &arp(own, own, v4(101))),
        ),
        (
            "a source of IPv6",
            icmp6(
                own,
                v6("fd00::101"),
                Icmp6Message::EchoRequest { id: 1, seq: 1 },
                &[],
                0,
            ),
        ),
        (
            "an advertisement",
            discovery(own, link, &advert("fd00::101", own), 0),
        ),
        (
            "one behind options",
            discovery(own, link, &advert("fd00::101", own), 16),
        ),
        (
            "one behind too many",
            discovery(own, link, &advert("fd00::101", own), 248),
        ),
        (
            "one of the router",
            discovery(own, link, &advert("fe80::2", own), 0),
        ),
        (
            "one with the other one's station",
            discovery(own, link, &advert("fd00::100", other), 0),
        ),
        (
            "a solicitation with it",
            discovery(own, link, &solicit("fd00::2", Some(other)), 0),
        ),
        (
            "a probe for a duplicate",
            discovery(own, none, &solicit("fd00::101", None), 0),
        ),
        (
            "a solicitation of routers with it",
            discovery(own, link, &NeighborMessage::router_solicit(Some(other)), 0),
        ),
    ];
    for (name, frame) in &forged {
        assert!(!guard.admits(0, frame), "{name}");
    }
    let rest = [64, 0, 7, 8];
    let kinds = [(NdpMessage::ROUTER_ADVERT, 8), (NdpMessage::REDIRECT, 32)];
    for (kind, len) in kinds {
        let message = Icmp6Message::Other {
            kind,
            code: 0,
            rest,
        };
        assert!(
            !guard.admits(0, &icmp6(own, link, message, &vec![0; len], 0)),
            "{kind}"
        );
    }
    assert_eq!(guard.take_dropped(), forged.len() as u64 + 2);
    let honest = [
        ipv4(own, v4(100)),
        arp(own, own, v4(100)),
        arp(own, own, Ipv4Addr::UNSPECIFIED),
        discovery(own, link, &advert("fd00::100", own), 0),
        discovery(own, none, &solicit("fe80::100", None), 0),
        discovery(own, link, &solicit("fd00::101", Some(own)), 0),
        icmp6(
            own,
            v6("fd00::100"),
            Icmp6Message::EchoRequest { id: 1, seq: 1 },
            &[],
            8,
        ),
    ];
    for (n, frame) in honest.iter().enumerate() {
        assert!(guard.admits(0, frame), "{n}");
    }
    assert_eq!(guard.take_dropped(), 0);
}

#[test]
fn a_free_address_is_that_of_the_first() {
    // Breaks when a second guest takes an address that the first one has added to its interface, when one guest can
    // send from any number in a short time, or when the addresses of a guest that left stay taken.
    let guard = guard();
    let [own, other] = MACS;
    assert!(guard.admits(0, &ipv4(own, v4(77))));
    assert!(!guard.admits(1, &ipv4(other, v4(77))));
    let more = |n| ipv4(MacAddr([2, 0, 0, 1, 1, n]), v4(100));
    let in_use = ipv4(own, v4(100));
    // Beside `own` and 77.
    let taken = (0..=255).filter(|n| guard.admits(0, &more(*n)));
    assert_eq!(taken.count(), CLAIMS_MAX - 2);
    let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
    let late = at(KEPT.as_secs());
    assert!(guard.admits_at(at(1), 0, &in_use) && !guard.admits_at(at(1), 0, &more(255)));
    assert!(guard.admits_at(late, 0, &more(255)));
    assert!(guard.admits_at(late, 1, &ipv4(other, v4(77))), "free again");
    assert!(!guard.admits_at(late, 0, &ipv4(own, v4(77))));
    let newest = frame_with_source(&more(255), v4(101));
    assert!(!guard.admits_at(late, 1, &newest));
    assert!(!guard.admits_at(late, 1, &ipv4(own, v4(101))), "in use");
    // An address that the network gives a guest is its own.
    guard.add(&GuestSpec {
        id: 2,
        addr: v4(77),
        addr6: None,
        name: None,
        offloads: Offloads::default(),
    });
    assert!(!guard.admits(1, &ipv4(other, v4(77))));
    // Nor is it free once the guest that had claimed it before has claimed others.
    let others = |n| ipv4(MacAddr([2, 0, 0, 2, 1, n]), v4(101));
    let taken = (0..=255).filter(|n| guard.admits(1, &others(*n)));
    assert_eq!(taken.count(), CLAIMS_MAX - 1, "beside `other`");
    assert!(!guard.admits(1, &ipv4(other, v4(77))));
    guard.remove(0);
    assert!(guard.admits_at(at(1000), 1, &ipv4(other, v4(100))));
    assert!(!guard.admits(0, &ipv4(own, v4(99))), "it is not there");
}

#[test]
fn short_frames_are_dropped() {
    // Breaks when a frame that ends early makes the guard panic.
    let guard = guard();
    let message = NeighborMessage::advert(v6("fd00::100"), MACS[0], AdvertFlags::default());
    for whole in [
        arp(MACS[0], MACS[0], v4(100)),
        ipv4(MACS[0], v4(100)),
        discovery(MACS[0], v6("fe80::100"), &message, 16),
    ] {
        for len in 0..whole.len() {
            guard.admits(0, &whole[..len]);
        }
        assert!(!guard.admits(0, &whole[..20]));
        assert!(guard.admits(0, &whole));
    }
}
