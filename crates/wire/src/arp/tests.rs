//! Breaks if an ARP field moves, or if a packet of another kind is taken for IPv4 over Ethernet.

use proptest::prelude::*;

use super::*;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const IP: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 100);

fn bytes_of(packet: ArpPacket) -> [u8; ArpPacket::LEN] {
    let mut bytes = [0; ArpPacket::LEN];
    assert_eq!(packet.emit(&mut bytes), ArpPacket::LEN);
    bytes
}

#[test]
fn a_request_is_the_bytes_of_rfc_826() {
    // Breaks if any field of the layout has the wrong place, width or constant.
    let expected = [
        0, 1, 8, 0, 6, 4, 0, 1, // Ethernet, IPv4, lengths, request
        2, 0, 0, 0, 0, 1, 10, 0, 2, 2, // sender
        0, 0, 0, 0, 0, 0, 10, 0, 2, 100, // target
    ];
    assert_eq!(bytes_of(ArpPacket::request(MAC, IP, PEER)), expected);
}

#[test]
fn an_announcement_asks_for_its_own_address() {
    // Breaks if an announcement is a reply or names another address than its sender's.
    let packet = ArpPacket::gratuitous(MAC, IP);
    assert_eq!((packet.op, packet.sender_mac), (ArpOp::Request, MAC));
    assert_eq!((packet.sender_ip, packet.target_ip), (IP, IP));
}

#[test]
fn each_failed_check_has_its_own_error() {
    // Breaks if one of the constant fields is no longer looked at.
    let good = bytes_of(ArpPacket::reply(MAC, IP, MAC, PEER));
    let cases = [
        (1, ParseError::Unsupported),
        (3, ParseError::Unsupported),
        (4, ParseError::BadLength),
        (5, ParseError::BadLength),
        (7, ParseError::Unsupported),
    ];
    for (at, error) in cases {
        let mut bad = good;
        bad[at] ^= 0x10;
        assert_eq!(ArpPacket::parse(&bad), Err(error), "byte {at}");
    }
    let mut no_op = good;
    no_op[7] = 0;
    assert_eq!(ArpPacket::parse(&no_op), Err(ParseError::Unsupported));
}

proptest! {
    #[test]
    fn arp_packets_round_trip(reply: bool, macs: [[u8; 6]; 2], ips: [u32; 2], padding in 0usize..20) {
        // Breaks if emit and parse disagree, if Ethernet padding disturbs, or if a cut packet parses.
        let packet = ArpPacket {
            op: if reply { ArpOp::Reply } else { ArpOp::Request },
            sender_mac: MacAddr(macs[0]),
            sender_ip: ips[0].into(),
            target_mac: MacAddr(macs[1]),
            target_ip: ips[1].into(),
        };
        let mut bytes = bytes_of(packet).to_vec();
        bytes.resize(ArpPacket::LEN + padding, 0xaa);
        prop_assert_eq!(ArpPacket::parse(&bytes), Ok(packet));
        for len in 0..ArpPacket::LEN {
            prop_assert_eq!(ArpPacket::parse(&bytes[..len]), Err(ParseError::Truncated));
        }
    }
}
