//! Breaks if any bytes of any length from a wire can make a parser or an accessor panic.
//!
//! Every length from 0 to 80 goes to every parser, with every value in the bytes that hold versions
//! and lengths. The tests also check the results of the parsers: views must lie inside the input.

use proptest::prelude::*;
use wire::{
    ArpPacket, Dhcp4Header, EtherHeader, IcmpHeader, Ipv4Header, MacAddr, ParseError, TcpHeader,
    UdpHeader,
};

const LEN_MAX: usize = 80;

/// Gives `bytes` to every parser and reads all results.
fn parse_all(bytes: &[u8]) {
    if let Ok((header, rest)) = EtherHeader::parse(bytes) {
        assert_eq!(rest.len(), bytes.len() - EtherHeader::LEN);
        let _ = format!("{header:?} {}", header.ethertype());
    }
    if let Ok(packet) = ArpPacket::parse(bytes) {
        let mut again = [0; ArpPacket::LEN];
        packet.emit(&mut again);
        assert_eq!(
            again,
            bytes[..ArpPacket::LEN],
            "a parsed ARP packet is the bytes it came from"
        );
    }
    parse_ipv4(bytes);
    if let Ok((header, payload)) = IcmpHeader::parse(bytes) {
        let _ = (header.checksum_ok([payload]), header.message().is_error());
    }
    if let Ok((header, _)) = UdpHeader::parse(bytes) {
        assert!(usize::from(header.len()) >= UdpHeader::LEN);
    }
    if let Ok(view) = TcpHeader::parse(bytes) {
        assert_eq!(
            view.header_len(),
            TcpHeader::LEN + view.option_bytes().len()
        );
        assert!(view.header_len() <= bytes.len());
        let _ = format!("{:?} {:?} {:?}", *view, view.flags(), view.options());
        assert!(view.options().emitted_len() <= 40);
    }
}

fn parse_ipv4(bytes: &[u8]) {
    if let Ok(view) = Ipv4Header::parse(bytes) {
        assert_eq!(view.header_len(), Ipv4Header::LEN + view.options().len());
        assert!(view.header_len() <= bytes.len());
        assert_eq!(view.total_len(), view.header_len() + view.payload_len());
        assert_eq!(
            view.checksum_ok(),
            Ipv4Header::header_checksum_ok(&bytes[..view.header_len()])
        );
        let _ = format!("{:?} {} {}", *view, view.frag_offset(), view.is_fragment());
    }
    let mut copy = bytes.to_vec();
    let filled = Ipv4Header::fill_checksum(&mut copy);
    if bytes.len() < Ipv4Header::LEN {
        assert_eq!(filled, Err(ParseError::Truncated));
    }
}

/// A fixed pattern that differs from byte to byte.
fn pattern(len: usize, salt: u8) -> Vec<u8> {
    (0..len)
        .map(|at| (at as u8).wrapping_mul(37).wrapping_add(salt))
        .collect()
}

#[test]
fn every_length_with_every_version_and_length_byte() {
    // Breaks if a length field can point a parser behind the bytes there are.
    for len in 0..=LEN_MAX {
        for value in 0..=255 {
            for at in [0, 2, 3, 4, 5, 12, 20, 21] {
                let mut bytes = pattern(len, value);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = value;
                }
                parse_all(&bytes);
            }
        }
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(
        bytes in prop::array::uniform32(any::<u8>()),
        more in prop::collection::vec(any::<u8>(), LEN_MAX),
    ) {
        // Breaks if some combination of bytes, cut at any length, panics.
        let bytes = [&bytes[..], &more[..]].concat();
        for len in 0..=LEN_MAX {
            parse_all(&bytes[..len]);
        }
    }

    #[test]
    fn random_bytes_behind_a_plausible_header_never_panic(
        ihl in 5u8..=15, words in 5u8..=15, mut bytes in prop::collection::vec(any::<u8>(), LEN_MAX),
    ) {
        // Breaks if bytes that pass the first checks, and so get deep, panic at some length.
        bytes[0] = 0x40 | ihl;
        bytes[2] = 1;
        bytes[12] = words << 4;
        for len in 0..=LEN_MAX {
            parse_all(&bytes[..len]);
        }
    }

    #[test]
    fn random_options_of_dhcp_never_panic(
        options in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        // Breaks if an option's length can point a reader behind the message.
        let request = Dhcp4Header::request(7, MacAddr([2, 0, 0, 0, 0, 1]));
        let mut message = vec![0; Dhcp4Header::LEN + 1];
        wire::Dhcp4Writer::new(&mut message, &request).finish();
        message.truncate(Dhcp4Header::LEN);
        message.extend(&options);
        let (header, options) = Dhcp4Header::parse_request(&message).expect("a request");
        prop_assert_eq!(header, &request);
        let bytes: usize = options.map(|(_, value)| value.len() + 2).sum();
        prop_assert!(bytes <= message.len() - Dhcp4Header::LEN);
        let _ = (options.message_type(), options.addr(50), options.u16(57));
    }
}
