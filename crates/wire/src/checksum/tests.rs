//! Breaks if the checksum depends on how the bytes were cut, or differs from RFC 1071's definition.

use std::vec::Vec;

use proptest::prelude::*;

use super::*;

/// RFC 1071 as it is written: 16-bit words in network order, a zero behind an odd end.
fn naive(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn sum_of(bytes: &[u8]) -> Checksum {
    let mut sum = Checksum::new();
    sum.add_bytes(bytes);
    sum
}

/// Bytes that are random, or all ones or zeros, where carries and the two zeros of the arithmetic show.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..300),
        1 => prop::collection::vec(prop_oneof![Just(0u8), Just(0xff)], 0..300),
        1 => prop::collection::vec(any::<u8>(), 1400..1600),
    ]
}

#[test]
fn the_example_of_rfc_1071() {
    // Breaks if the byte order of the result is the machine's.
    let sum = sum_of(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
    assert_eq!((sum.partial(), sum.finish()), (0xddf2, 0x220d));
}

#[test]
fn the_two_zeros_stay_apart() {
    // Breaks if a sum of ones folds to zero, which in UDP would say "no checksum".
    assert_eq!(Checksum::new().finish(), 0xffff);
    assert_eq!(sum_of(&[0; 64]).partial(), 0);
    assert_eq!(sum_of(&[0xff; 64]).partial(), 0xffff);
    assert_eq!(sum_of(&[0xff; 64]).finish(), 0);
    assert_eq!(sum_of(&[0xff; 64]).finish_nonzero(), 0xffff);
    assert_eq!(sum_of(&[0x12, 0x34]).finish_nonzero(), !0x1234);
}

#[test]
fn the_pseudo_header_is_that_of_rfc_9293() {
    // Breaks if a field of the pseudo header is left out or a length above 16 bits is cut.
    let (src, dst) = (Ipv4Addr::new(192, 168, 1, 2), Ipv4Addr::new(10, 0, 2, 100));
    let sum = pseudo_header_v4(src, dst, IpProto::TCP, 0x0001_2345);
    let drawn = [192, 168, 1, 2, 10, 0, 2, 100, 0, 6, 0x00, 0x01, 0x23, 0x45];
    assert_eq!(sum.partial(), naive(&drawn));
}

#[test]
fn a_full_size_segment_of_ones_does_not_overflow() {
    // Breaks if a lane is too narrow for 64 KiB of the largest words.
    let bytes = std::vec![0xff; 1 << 16];
    assert_eq!(sum_of(&bytes).partial(), 0xffff);
    assert_eq!(sum_of(&bytes[..65535]).partial(), naive(&bytes[..65535]));
}

proptest! {
    #[test]
    fn equals_the_definition_at_every_alignment(bytes in bytes(), skip in 0usize..9) {
        // Breaks if a tail is left out, or if the wide words assume an aligned start.
        let bytes = &bytes[skip.min(bytes.len())..];
        prop_assert_eq!(sum_of(bytes).partial(), naive(bytes));
    }

    #[test]
    fn any_cut_gives_the_same(bytes in bytes(), sizes in prop::collection::vec(0usize..70, 1..8)) {
        // Breaks if an odd piece does not shift the ones behind it.
        let (mut sum, mut rest) = (Checksum::new(), &bytes[..]);
        for size in sizes.iter().cycle().take(2000) {
            let (piece, behind) = rest.split_at((*size).min(rest.len()));
            sum.add_bytes(piece);
            rest = behind;
        }
        sum.add_bytes(rest);
        prop_assert_eq!(sum.partial(), naive(&bytes));
    }

    #[test]
    fn pieces_of_one_two_and_three_bytes_give_the_same(bytes in bytes()) {
        // Breaks if a chain of the smallest mbufs sums differently.
        for size in 1..=3 {
            let mut sum = Checksum::new();
            bytes.chunks(size).for_each(|piece| sum.add_bytes(piece));
            prop_assert_eq!(sum.partial(), naive(&bytes), "pieces of {}", size);
        }
    }

    #[test]
    fn numbers_count_as_their_bytes(before in bytes(), small: u16, large: u32) {
        // Breaks if a number behind an odd piece is not turned like bytes are.
        let mut sum = sum_of(&before);
        sum.add_u16(small);
        sum.add_u32(large);
        let mut bytes = before;
        bytes.extend(small.to_be_bytes());
        bytes.extend(large.to_be_bytes());
        prop_assert_eq!(sum.partial(), naive(&bytes));
    }

    #[test]
    fn a_filled_in_checksum_verifies(
        mut bytes in bytes(),
        at: prop::sample::Index,
        flip: prop::sample::Index,
        bit in 0u8..8,
    ) {
        // Breaks if the verifying sum is not zero over good bytes, or is over bytes with one bit wrong.
        prop_assume!(bytes.len() >= 4);
        let at = at.index(bytes.len() / 2) * 2;
        bytes[at..at + 2].fill(0);
        let checksum = sum_of(&bytes).finish();
        bytes[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
        prop_assert!(sum_of(&bytes).is_valid());
        let flip = flip.index(bytes.len());
        bytes[flip] ^= 1 << bit;
        prop_assert!(!sum_of(&bytes).is_valid());
    }
}
