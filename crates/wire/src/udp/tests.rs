//! Breaks if a UDP field moves or a length below the header's passes.

use core::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;
use crate::{IpProto, pseudo_header_v4};

#[test]
fn a_datagram_summed_by_hand_verifies() {
    // Breaks if the pseudo header, the byte order or the checksum's place is wrong. By hand: the pseudo
    // header sums to 0x1882, ports, length and data to 0x6ca8; 0x852a complemented is 0x7ad5.
    let bytes = [0x04, 0x00, 0x00, 0x35, 0x00, 0x0a, 0x7a, 0xd5, b'h', b'i'];
    let (header, payload) = UdpHeader::parse(&bytes).unwrap();
    assert_eq!(
        (header.src_port(), header.dst_port(), header.len()),
        (1024, 53, 10)
    );
    assert_eq!(payload, b"hi");
    let (src, dst) = (Ipv4Addr::new(10, 0, 2, 100), Ipv4Addr::new(10, 0, 2, 3));
    let mut sum = pseudo_header_v4(src, dst, IpProto::UDP, 10);
    sum.add_bytes(&bytes);
    assert!(sum.is_valid(), "left over: {:#06x}", sum.finish());
}

#[test]
fn an_empty_datagram_parses() {
    // Breaks if the smallest valid length, that of the header, is refused.
    let bytes = [0, 1, 0, 2, 0, 8, 0, 0];
    assert_eq!(
        UdpHeader::parse(&bytes),
        Ok((&UdpHeader::new(1, 2, 8), &[][..]))
    );
}

#[test]
fn a_write_in_place_changes_its_field_only() {
    // Breaks if a setter writes another field.
    let mut bytes = [0; 8];
    UdpHeader::new(1, 2, 8).emit(&mut bytes);
    let header = UdpHeader::parse_mut(&mut bytes).unwrap();
    assert!(!header.has_checksum());
    header.set_len(0x0304);
    header.set_checksum(0x0506);
    assert!(header.has_checksum());
    assert_eq!(bytes, [0, 1, 0, 2, 3, 4, 5, 6]);
    assert_eq!(&bytes[UdpHeader::CHECKSUM_OFFSET..], &[5, 6]);
}

proptest! {
    #[test]
    fn udp_headers_round_trip(src: u16, dst: u16, len: u16, tail in prop::collection::vec(any::<u8>(), 0..20)) {
        // Breaks if emit and parse disagree, or if a length below 8 or a cut header parses.
        let header = UdpHeader::new(src, dst, len);
        let mut bytes = std::vec![0; UdpHeader::LEN];
        header.emit(&mut bytes);
        bytes.extend(&tail);
        if len < 8 {
            prop_assert_eq!(UdpHeader::parse(&bytes), Err(ParseError::BadLength));
        } else {
            prop_assert_eq!(UdpHeader::parse(&bytes), Ok((&header, &tail[..])));
        }
        for cut in 0..UdpHeader::LEN {
            prop_assert_eq!(UdpHeader::parse(&bytes[..cut]), Err(ParseError::Truncated));
        }
    }
}
