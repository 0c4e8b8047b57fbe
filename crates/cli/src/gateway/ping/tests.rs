use std::net::Ipv4Addr;

use wire::{IcmpHeader, IcmpMessage, IpProto, Ipv4Fields, Ipv4Header};

use super::{Answer, answer, asked, without_ip_header};

const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

fn icmp(message: IcmpMessage, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; IcmpHeader::LEN];
    message.emit(&mut bytes, [payload]);
    bytes.extend_from_slice(payload);
    bytes
}

#[test]
fn only_answers_to_our_pings_count() {
    // Breaks when the answer to another program's ping is handed to the guest.
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
    assert_eq!(asked(&request, Some(7)), Some(9));
    assert_eq!(asked(&request, Some(8)), None);
    assert_eq!(asked(&reply, None), None);
}

#[test]
fn short_packets_are_nobodys() {
    // Breaks when a packet cut anywhere takes the gateway down.
    let icmp = icmp(IcmpMessage::EchoReply { id: 7, seq: 9 }, b"");
    let fields = Ipv4Fields {
        payload_len: icmp.len() as u16,
        ttl: 64,
        protocol: IpProto::ICMP,
        src: PEER,
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
        assert_eq!(asked(&icmp[..len.min(icmp.len() - 1)], None), None, "{len}");
    }
}
