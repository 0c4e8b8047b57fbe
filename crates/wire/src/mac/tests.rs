//! Breaks if addresses are classified wrongly or their text form does not round-trip.

use core::net::Ipv4Addr;
use std::string::ToString;

use proptest::prelude::*;

use super::*;

#[test]
fn classes_follow_the_group_bit() {
    // Breaks if the group bit is looked for elsewhere than in the first byte's lowest bit.
    assert!(MacAddr::BROADCAST.is_broadcast() && MacAddr::BROADCAST.is_multicast());
    assert!(MacAddr([1, 0, 0x5e, 0, 0, 1]).is_multicast());
    assert!(!MacAddr([1, 0, 0x5e, 0, 0, 1]).is_broadcast());
    assert!(MacAddr([2, 0xff, 0xff, 0xff, 0xff, 0xff]).is_unicast());
    assert!(!MacAddr::ZERO.is_unicast() && !MacAddr::ZERO.is_multicast());
}

#[test]
fn a_group_keeps_23_bits() {
    // Breaks if the 24th bit of the group leaks into the address, which RFC 1112 6.4 leaves out.
    let mac = MacAddr::from_ipv4_multicast(Ipv4Addr::new(239, 0xff, 1, 2));
    assert_eq!(mac, MacAddr([1, 0, 0x5e, 0x7f, 1, 2]));
}

#[test]
fn bad_text_is_refused() {
    // Breaks if the parser lets signs, short bytes, mixed separators or a seventh byte through.
    for text in [
        "",
        ":::::",
        "02:00:00:00:00",
        "02:00:00:00:00:01:02",
        "+2:00:00:00:00:01",
        "2:0:0:0:0:1",
        "02:00:00-00:00:01",
        "02:00:00:00:00:0g",
        "020000000001",
        " 02:00:00:00:00:01",
        "é2:00:00:00:00:01",
    ] {
        assert_eq!(text.parse::<MacAddr>(), Err(MacAddrParseError), "{text:?}");
    }
    assert_eq!(
        "AA-bb-CC-dd-EE-ff".parse(),
        Ok(MacAddr([0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff]))
    );
}

proptest! {
    #[test]
    fn text_round_trips(bytes: [u8; 6]) {
        // Breaks if Display and FromStr disagree on the order or the form of the bytes.
        prop_assert_eq!(MacAddr(bytes).to_string().parse(), Ok(MacAddr(bytes)));
    }
}
