//! Breaks if an impossible address passes, or a valid one is refused.

use proptest::prelude::*;

use super::*;

fn ip(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

#[test]
fn sources_that_no_host_may_use_are_martian() {
    // Breaks if a spoofed loopback, group or broadcast source passes (RFC 1122 3.2.1.3).
    for bad in [
        "0.0.0.1",
        "127.0.0.1",
        "127.255.255.255",
        "224.0.0.1",
        "239.1.1.1",
        "240.0.0.1",
        "255.255.255.255",
    ] {
        assert!(is_martian_source(ip(bad)), "{bad}");
    }
    for good in [
        "0.0.0.0",
        "1.0.0.1",
        "10.0.2.100",
        "126.255.255.255",
        "128.0.0.1",
        "169.254.1.1",
        "223.255.255.255",
    ] {
        assert!(!is_martian_source(ip(good)), "{good}");
    }
}

#[test]
fn destinations_that_no_host_may_use_are_martian() {
    // Breaks if groups or the limited broadcast are refused, or loopback comes in from a link.
    for bad in [
        "0.0.0.0",
        "0.1.2.3",
        "127.0.0.1",
        "240.0.0.1",
        "255.255.255.254",
    ] {
        assert!(is_martian_destination(ip(bad)), "{bad}");
    }
    for good in ["255.255.255.255", "224.0.0.1", "10.0.2.255", "8.8.8.8"] {
        assert!(!is_martian_destination(ip(good)), "{good}");
    }
}

#[test]
fn broadcast_depends_on_the_prefix() {
    // Breaks if /31 and /32 get a broadcast address (RFC 3021) or a prefix beyond 32 panics.
    assert!(is_subnet_broadcast(ip("10.0.2.255"), 24));
    assert!(
        !is_subnet_broadcast(ip("10.0.2.255"), 23) && is_subnet_broadcast(ip("10.0.3.255"), 23)
    );
    assert!(is_subnet_broadcast(ip("10.0.0.3"), 30) && !is_subnet_broadcast(ip("10.0.0.3"), 31));
    assert!(!is_subnet_broadcast(ip("10.0.0.3"), 32) && !is_subnet_broadcast(ip("10.0.0.3"), 255));
    assert!(is_subnet_broadcast(Ipv4Addr::BROADCAST, 0));
}

proptest! {
    #[test]
    fn subnets_compare_their_leading_bits(a: u32, b: u32, shared in 0u32..=32, prefix_len in 0u8..=40) {
        // Breaks if the mask is off by one bit or inverted.
        let low = u32::MAX.checked_shr(shared).unwrap_or(0);
        let b = (a & !low) | (b & low);
        let bits = u32::from(prefix_len.min(32));
        let same = (0..bits).all(|bit| (a ^ b) >> (31 - bit) & 1 == 0);
        prop_assert_eq!(is_same_subnet(a.into(), b.into(), prefix_len), same);
    }
}
