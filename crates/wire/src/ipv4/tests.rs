//! Breaks if an IPv4 field moves, a malformed header passes, or an emitted checksum is wrong.

use std::vec::Vec;

use core::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;

/// The fields of any packet that may be sent, with options that lie in `bytes`.
fn fields(bytes: &[u8]) -> impl Strategy<Value = Ipv4Fields<'_>> {
    let flags = (
        any::<bool>(),
        any::<bool>(),
        (0u16..8192).prop_map(|words| words << 3),
    );
    let numbers = (
        any::<u8>(),
        0u16..=65475,
        any::<u16>(),
        any::<u8>(),
        any::<u8>(),
    );
    (numbers, flags, any::<[u32; 2]>(), 0..=bytes.len()).prop_map(
        |(
            (tos, payload_len, id, ttl, protocol),
            (df, mf, frag_offset),
            [src, dst],
            options_len,
        )| Ipv4Fields {
            tos,
            payload_len,
            id,
            df,
            mf,
            frag_offset,
            oversize: false,
            ttl,
            protocol: IpProto(protocol),
            src: src.into(),
            dst: dst.into(),
            options: &bytes[..options_len],
        },
    )
}

const OPTIONS: [u8; 40] = [0x94; 40];

fn bytes_of(fields: &Ipv4Fields<'_>) -> Vec<u8> {
    let mut bytes = std::vec![0xee; fields.header_len()];
    assert_eq!(fields.emit(&mut bytes), bytes.len());
    bytes
}

#[test]
fn a_known_header_is_read_and_written() {
    // Breaks if a field has the wrong place: a widely published header with its checksum.
    let bytes = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00,
        0x01, 0xc0, 0xa8, 0x00, 0xc7,
    ];
    let header = Ipv4Header::parse(&bytes).unwrap();
    assert!(header.checksum_ok() && Ipv4Header::header_checksum_ok(&bytes));
    assert_eq!(
        (
            header.header_len(),
            header.total_len(),
            header.payload_len()
        ),
        (20, 0x73, 95)
    );
    assert!(header.df() && !header.mf() && !header.is_fragment());
    assert_eq!((header.ttl(), header.protocol()), (64, IpProto::UDP));
    let fields = Ipv4Fields {
        payload_len: 95,
        df: true,
        protocol: IpProto::UDP,
        src: Ipv4Addr::new(192, 168, 0, 1),
        dst: Ipv4Addr::new(192, 168, 0, 199),
        ..Ipv4Fields::default()
    };
    assert_eq!(bytes_of(&fields), bytes);
}

#[test]
fn each_failed_header_check_has_its_own_error() {
    // Breaks if one of the checks of the parser is lost.
    let good = bytes_of(&Ipv4Fields {
        options: &OPTIONS[..4],
        ..Ipv4Fields::default()
    });
    let with = |at: usize, value: u8| {
        let mut bad = good.clone();
        bad[at] = value;
        Ipv4Header::parse(&bad).map(|_| ()).unwrap_err()
    };
    assert_eq!(with(0, 0x66), ParseError::BadVersion);
    assert_eq!(with(0, 0x44), ParseError::BadHeaderLen);
    assert_eq!(with(0, 0x40), ParseError::BadHeaderLen);
    assert_eq!(with(0, 0x47), ParseError::Truncated);
    assert_eq!(with(3, 23), ParseError::BadLength);
    for len in 0..good.len() {
        assert_eq!(
            Ipv4Header::parse(&good[..len]).map(|_| ()),
            Err(ParseError::Truncated),
            "{len}"
        );
    }
}

#[test]
fn fragments_are_told_from_whole_packets() {
    // Breaks if the reserved bit or DF counts as a fragment, or if a first or last one does not.
    let is_fragment = |flags_frag: u16| {
        let mut bytes = bytes_of(&Ipv4Fields::default());
        bytes[6..8].copy_from_slice(&flags_frag.to_be_bytes());
        Ipv4Header::parse(&bytes).unwrap().is_fragment()
    };
    assert!(!is_fragment(0) && !is_fragment(0x4000) && !is_fragment(0x8000));
    assert!(
        is_fragment(0x2000) && is_fragment(0x0001) && is_fragment(0x1fff) && is_fragment(0x6001)
    );
}

#[test]
#[should_panic(expected = "multiple of 8")]
fn an_odd_fragment_offset_is_a_bug_of_the_caller() {
    // Breaks if a wrong offset is silently rounded, which would corrupt the reassembled packet.
    Ipv4Fields {
        frag_offset: 4,
        ..Ipv4Fields::default()
    }
    .emit(&mut [0; 20]);
}

#[test]
#[should_panic(expected = "65535")]
fn a_packet_too_long_is_a_bug_of_the_caller() {
    // Breaks if the total length wraps.
    Ipv4Fields {
        payload_len: 65516,
        ..Ipv4Fields::default()
    }
    .emit(&mut [0; 20]);
}

proptest! {
    #[test]
    fn ipv4_headers_round_trip(fields in fields(&OPTIONS)) {
        // Breaks if emit and parse disagree on any field, or if padding or checksum is wrong.
        let bytes = bytes_of(&fields);
        let header = Ipv4Header::parse(&bytes).unwrap();
        prop_assert!(header.checksum_ok() && Ipv4Header::header_checksum_ok(&bytes));
        prop_assert_eq!(header.header_len(), bytes.len());
        let (options, padding) = header.options().split_at(fields.options.len());
        prop_assert!(padding.iter().all(|byte| *byte == 0) && padding.len() < 4);
        let read = Ipv4Fields {
            tos: header.tos(),
            payload_len: header.payload_len() as u16,
            id: header.id(),
            df: header.df(),
            mf: header.mf(),
            frag_offset: header.frag_offset(),
            oversize: false,
            ttl: header.ttl(),
            protocol: header.protocol(),
            src: header.src(),
            dst: header.dst(),
            options,
        };
        prop_assert_eq!(read, fields);
        prop_assert_eq!(header.ecn(), fields.tos & 3);
    }

    #[test]
    fn one_wrong_bit_is_noticed(fields in fields(&OPTIONS), at: prop::sample::Index, bit in 0u8..8) {
        // Breaks if a header byte is not under the checksum.
        let mut bytes = bytes_of(&fields);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(!Ipv4Header::header_checksum_ok(&bytes));
        if let Ok(header) = Ipv4Header::parse(&bytes) {
            // A header that says it is shorter is summed over fewer bytes, so only byte 0 is excepted.
            prop_assert!(at == 0 || !header.checksum_ok());
        }
    }

    #[test]
    fn changes_in_place_equal_fresh_headers(fields in fields(&OPTIONS), id: u16, ttl: u8, payload_len in 0u16..1000) {
        // Breaks if a setter writes another field or the refilled checksum forgets the options.
        let mut bytes = bytes_of(&fields);
        bytes.extend([0x55; 7]);
        let header_len = fields.header_len();
        let header = Ipv4Header::parse_mut(&mut bytes).unwrap();
        header.set_id(id);
        header.set_ttl(ttl);
        header.set_total_len(header_len as u16 + payload_len);
        Ipv4Header::fill_checksum(&mut bytes).unwrap();
        let fresh = bytes_of(&Ipv4Fields { id, ttl, payload_len, ..fields });
        prop_assert_eq!(&bytes[..header_len], &fresh[..]);
        prop_assert_eq!(&bytes[header_len..], &[0x55; 7]);
    }

    #[test]
    fn a_hop_less_equals_a_fresh_header(fields in fields(&OPTIONS)) {
        // Breaks if the sum that is carried on differs from one taken anew, in any corner of it.
        let mut bytes = bytes_of(&fields);
        let header = Ipv4Header::parse_mut(&mut bytes).unwrap();
        let left = fields.ttl.saturating_sub(1);
        prop_assert_eq!(header.decrement_ttl(), left);
        prop_assert_eq!(&bytes, &bytes_of(&Ipv4Fields { ttl: left, ..fields }));
    }
}

#[test]
fn every_hop_of_every_checksum() {
    // Breaks if a carry is lost where the checksum is near all zeros or all ones (RFC 1624 section 3).
    for id in 0..=u16::MAX {
        let fields = Ipv4Fields {
            id,
            ttl: (id >> 3) as u8,
            ..Ipv4Fields::default()
        };
        let mut bytes = [0; Ipv4Header::LEN];
        fields.emit(&mut bytes);
        Ipv4Header::parse_mut(&mut bytes).unwrap().decrement_ttl();
        assert!(Ipv4Header::header_checksum_ok(&bytes), "{id}");
    }
}

proptest! {
    /// Breaks if the checksum of a marked packet is wrong, or a packet that is not ECN-capable is changed (RFC 3168 5).
    #[test]
    fn a_mark_keeps_the_checksum(id: u16, tos: u8) {
        let fields = Ipv4Fields { id, tos, ..Ipv4Fields::default() };
        let mut bytes = bytes_of(&fields);
        let capable = tos & 3 != 0;
        prop_assert_eq!(Ipv4Header::parse_mut(&mut bytes).unwrap().mark_ce(), capable);
        let marked = if capable { tos | 3 } else { tos };
        prop_assert_eq!(&bytes, &bytes_of(&Ipv4Fields { tos: marked, ..fields }));
    }
}

#[test]
fn options_that_run_over_the_header_are_not_whole() {
    // RFC 791 3.1: breaks if a length of 0 or 1 is taken for a step, one beyond the header passes, or another byte is
    // named.
    for (options, bad) in [
        ([0, 9, 9, 9], None),
        ([1, 1, 1, 1], None),
        ([7, 4, 4, 0], None),
        ([1, 7, 3, 4], None),
        ([7, 5, 4, 0], Some(20)),
        ([7, 1, 1, 1], Some(20)),
        ([1, 7, 0, 1], Some(21)),
        ([1, 1, 1, 7], Some(23)),
    ] {
        let bytes = bytes_of(&Ipv4Fields {
            options: &options,
            ..Ipv4Fields::default()
        });
        let view = Ipv4Header::parse(&bytes).expect("a whole header");
        assert_eq!(view.bad_option(), bad, "{options:?}");
    }
}
