//! Breaks if a walk over received bytes panics, does not end, or finds another header than was sent.

use proptest::prelude::*;
use std::vec::Vec;

use super::*;

proptest! {
    /// Breaks if a chain makes the walk panic, go on for ever, or read past the end.
    #[test]
    fn h3_any_chain_is_walked(first: u8, bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let mut chain = Ipv6ExtHeaders::new(&bytes, IpProto(first), 0, 0);
        let mut steps = 0;
        while let Some(Ok(header)) = chain.next() {
            steps += 1;
            prop_assert!(header.bytes.len() >= 8 && header.at + header.bytes.len() <= bytes.len());
            Ipv6Options::new(header.bytes).for_each(drop);
        }
        prop_assert!(steps <= bytes.len() / 8);
    }

    /// Breaks if options make the walk panic, or overlap.
    #[test]
    fn h4_any_options_are_walked(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut end = 2;
        for option in Ipv6Options::new(&bytes).flatten() {
            prop_assert!(option.at >= end);
            end = option.at + 2 + option.data.len();
            prop_assert!(end <= bytes.len());
        }
    }

    /// Breaks if a fragment header is not read as it was written.
    #[test]
    fn a_fragment_header_is_read_as_it_was_written(next: u8, offset: u16, more: bool, id: u32) {
        let fragment = Ipv6Fragment { next: IpProto(next), offset: offset & !7, more, id };
        let mut bytes = [0; Ipv6Fragment::LEN];
        fragment.emit(&mut bytes);
        prop_assert_eq!(Ipv6Fragment::parse(&bytes), Ok(fragment));
    }
}

#[test]
fn h2_a_chain_ends_at_the_protocol_above() {
    // Breaks if a header's length, or the field that names the next, is read at the wrong place.
    let mut bytes = Vec::new();
    bytes.extend([43, 0, 1, 4, 0, 0, 0, 0]);
    bytes.extend([51, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend([44, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend([6, 99, 0, 1, 0, 0, 0, 7]);
    bytes.extend([1; 20]);
    let mut chain = Ipv6ExtHeaders::new(&bytes, IpProto::HOP_BY_HOP, 0, 0);
    let found: Vec<_> = chain.by_ref().map(|h| h.map(|h| (h.kind, h.at))).collect();
    let expected = [
        (IpProto::HOP_BY_HOP, 0),
        (IpProto::ROUTING, 8),
        (IpProto::AH, 24),
        (IpProto::FRAGMENT, 40),
    ];
    assert_eq!(found, expected.map(Ok));
    assert_eq!(
        (chain.upper(), chain.upper_at(), chain.named_at()),
        (IpProto::TCP, 48, 40)
    );
}

#[test]
fn h2_each_header_with_a_length_is_stepped_over_and_no_other() {
    // Breaks if a header that a host can step over hides the protocol above, or one without a readable length, such as
    // that of encryption (50), is stepped over (RFC 7045 section 4).
    let known = [0, 43, 44, 51, 60, 135, 139, 140];
    for kind in 0..=u8::MAX {
        let bytes = [17, 0, 1, 4, 0, 0, 0, 0, 1, 2, 3, 4];
        let mut chain = Ipv6ExtHeaders::new(&bytes, IpProto(kind), 0, 0);
        let found = chain.by_ref().count();
        let above = if known.contains(&kind) {
            (1, 17, 8)
        } else {
            (0, kind, 0)
        };
        assert_eq!((found, chain.upper().0, chain.upper_at()), above, "{kind}");
    }
}

#[test]
fn h4_an_option_that_overruns_its_header_is_named() {
    // Breaks if such an option is passed over, or the pointer is wrong.
    let header = [6, 0, 1, 0, 0x1e, 9, 0, 0];
    let found: Vec<_> = Ipv6Options::new(&header).collect();
    assert_eq!(found, [Err(4)]);
}
