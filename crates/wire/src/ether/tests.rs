//! Breaks if a field of the Ethernet header moves or a short frame parses.

use proptest::prelude::*;

use super::*;

#[test]
fn fields_lie_where_the_standard_says() {
    // Breaks if source and destination are swapped or the type is in the wrong byte order.
    let mut frame = [0; 15];
    let header = EtherHeader::new(MacAddr([1; 6]), MacAddr([2; 6]), EtherType::ARP);
    assert_eq!(header.emit(&mut frame), 14);
    assert_eq!(frame, [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 0x08, 0x06, 0]);
}

proptest! {
    #[test]
    fn ether_headers_round_trip(
        dst: [u8; 6], src: [u8; 6], ethertype: u16,
        tail in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        // Breaks if emit and parse disagree, or if the payload begins elsewhere than behind byte 14.
        let header = EtherHeader::new(MacAddr(dst), MacAddr(src), EtherType(ethertype));
        let mut frame = std::vec![0; EtherHeader::LEN];
        header.emit(&mut frame);
        frame.extend(&tail);
        let (parsed, rest) = EtherHeader::parse(&frame).unwrap();
        prop_assert_eq!((parsed, rest), (&header, &tail[..]));
        prop_assert_eq!(parsed.ethertype(), EtherType(ethertype));
        for len in 0..EtherHeader::LEN {
            prop_assert_eq!(EtherHeader::parse(&frame[..len]), Err(ParseError::Truncated));
        }
    }
}
