use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mbuf::Chain;
use wire::{IcmpHeader, IcmpMessage, IpProto, Ipv4Fields, Ipv4Header};

use super::{Answer, answer, asked, request, without_ip_header};
use crate::sys::socket::Family;

const PEER4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const PEER: IpAddr = IpAddr::V4(PEER4);

fn icmp(message: IcmpMessage, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; IcmpHeader::LEN];
    message.emit(&mut bytes, [payload]);
    bytes.extend_from_slice(payload);
    bytes
}

#[test]
fn only_answers_to_our_pings_count() {
    // Breaks when the guest gets the answer to another program's ping.
    let reply = icmp(IcmpMessage::EchoReply { id: 7, seq: 9 }, b"payload");
    let expected = Answer {
        from: PEER,
        seq: 9,
        payload: b"payload",
    };
    assert_eq!(answer(&reply, PEER, None), Some(expected));
    assert_eq!(answer(&reply, PEER, Some(7)), Some(expected));
    assert_eq!(answer(&reply, PEER, Some(8)), None);
    let request = icmp(IcmpMessage::EchoRequest { id: 7, seq: 9 }, b"payload");
    assert_eq!(answer(&request, PEER, Some(7)), None);
    assert_eq!(asked(Family::V4, &request, Some(7)), Some(9));
    assert_eq!(asked(Family::V4, &request, Some(8)), None);
    assert_eq!(asked(Family::V4, &reply, None), None);
}

#[test]
fn short_packets_belong_to_no_ping() {
    // Breaks when a packet that is truncated anywhere makes the gateway panic.
    let icmp = icmp(IcmpMessage::EchoReply { id: 7, seq: 9 }, b"");
    let fields = Ipv4Fields {
        payload_len: icmp.len() as u16,
        ttl: 64,
        protocol: IpProto::ICMP,
        src: PEER4,
        dst: Ipv4Addr::LOCALHOST,
        ..Ipv4Fields::default()
    };
    let mut packet = vec![0; Ipv4Header::LEN];
    fields.emit(&mut packet);
    packet.extend_from_slice(&icmp);
    assert_eq!(without_ip_header(&packet), Some(&icmp[..]));
    for len in 0..packet.len() {
        let found = without_ip_header(&packet[..len]).and_then(|i| answer(i, PEER, None));
        assert_eq!(found, None, "{len}");
        assert_eq!(
            answer(&icmp[..len.min(icmp.len() - 1)], PEER, None),
            None,
            "{len}"
        );
        assert_eq!(
            asked(Family::V4, &icmp[..len.min(icmp.len() - 1)], None),
            None,
            "{len}"
        );
    }
}

#[test]
fn pings_of_ipv6_have_its_own_types() {
    // Breaks when an answer of the one version is taken for one of the other, or a request that the kernel sums has no
    // identifier.
    let header = request(Family::V6, 7, 9, &Chain::new());
    assert_eq!((header[0], &header[4..]), (128, &[0, 7, 0, 9][..]));
    assert_eq!(asked(Family::V6, &header, Some(7)), Some(9));
    assert_eq!(asked(Family::V4, &header, None), None);
    let (mut reply, from) = (header.to_vec(), IpAddr::V6(Ipv6Addr::LOCALHOST));
    reply[0] = 129;
    reply.extend(b"payload");
    let expected = Answer {
        from,
        seq: 9,
        payload: b"payload",
    };
    assert_eq!(answer(&reply, from, Some(7)), Some(expected));
    assert_eq!(answer(&reply, from, Some(8)), None);
    assert_eq!(answer(&reply, PEER, None), None);
    for len in 0..header.len() {
        assert_eq!(answer(&reply[..len], from, None), None, "{len}");
        assert_eq!(asked(Family::V6, &header[..len], None), None, "{len}");
    }
}
