//! Breaks if an IPv6 field moves, or a malformed header passes.

use proptest::prelude::*;

use super::*;

proptest! {
    /// Breaks if what is written is not what is read.
    #[test]
    fn a_header_is_read_as_it_was_written(
        class: u8,
        flow_label in 0_u32..1 << 20,
        payload_len: u16,
        next: u8,
        hop_limit: u8,
        src: [u8; 16],
        dst: [u8; 16],
    ) {
        let fields = Ipv6Fields {
            class,
            flow_label,
            payload_len,
            next: IpProto(next),
            hop_limit,
            src: src.into(),
            dst: dst.into(),
        };
        let mut bytes = [0; Ipv6Header::LEN];
        prop_assert_eq!(fields.emit(&mut bytes), Ipv6Header::LEN);
        let header = Ipv6Header::parse(&bytes).unwrap();
        let read = Ipv6Fields {
            class: header.class(),
            flow_label: header.flow_label(),
            payload_len: header.payload_len() as u16,
            next: header.next(),
            hop_limit: header.hop_limit(),
            src: header.src(),
            dst: header.dst(),
        };
        prop_assert_eq!(read, fields);
    }

    /// Breaks if any bytes but 40 of version 6 pass, or some make the parser panic.
    #[test]
    fn h1_only_version_6_passes(bytes: [u8; 48], len in 0_usize..=48) {
        let bytes = &bytes[..len];
        let good = len >= 40 && bytes[0] >> 4 == 6;
        prop_assert_eq!(Ipv6Header::parse(bytes).is_ok(), good);
    }
}

#[test]
fn a_known_header_is_read() {
    // Breaks if a field has the wrong place: RFC 8200 section 3, by hand.
    let mut bytes = [0; 40];
    bytes[..8].copy_from_slice(&[0x6a, 0xbc, 0xde, 0xf0, 0x01, 0x02, 58, 7]);
    bytes[23] = 1;
    bytes[24] = 0xff;
    let header = Ipv6Header::parse(&bytes).unwrap();
    assert_eq!((header.class(), header.flow_label()), (0xab, 0xcdef0));
    assert_eq!((header.payload_len(), header.hop_limit()), (0x102, 7));
    assert_eq!(header.next(), IpProto(58));
    assert_eq!(header.src(), Ipv6Addr::LOCALHOST);
    assert!(header.dst().is_multicast());
}
