//! Tests of the rules, after the examples of RFC 6724 section 10.1.

use super::*;

#[test]
fn s_the_rules_choose_as_rfc_6724_says() {
    // Breaks if a rule is missing, or comes in another order.
    let all = [
        // Rule 1.
        ("fd00::2", &["fd00::1", "fd00::2"][..], "fd00::2"),
        // Rule 2.
        (
            "2001:db8:1::1",
            &["2001:db8:3::1", "fe80::1"][..],
            "2001:db8:3::1",
        ),
        ("fe80::9", &["2001:db8:2::1", "fe80::1"][..], "fe80::1"),
        ("ff02::1", &["2001:db8:2::1", "fe80::1"][..], "fe80::1"),
        (
            "ff05::1",
            &["fe80::1", "2001:db8:3::1"][..],
            "2001:db8:3::1",
        ),
        // Rule 6.
        (
            "2001:db8::1",
            &["fd00::1", "2001:db8:9::1"][..],
            "2001:db8:9::1",
        ),
        (
            "2002:c633:6401::1",
            &["2001:db8:2::1", "2002:c633:6401::d5e3"][..],
            "2002:c633:6401::d5e3",
        ),
        // Rule 8.
        (
            "2001:db8:1::1",
            &["2001:db8:3::2", "2001:db8:1::2"][..],
            "2001:db8:1::2",
        ),
    ];
    for (dst, own, expected) in all {
        let addr = |text: &str| -> Ipv6Addr { text.parse().expect("an address") };
        let mut own: Vec<Ipv6Addr> = own.iter().map(|text| addr(text)).collect();
        for _ in 0..2 {
            assert_eq!(
                select(own.iter().copied(), addr(dst), |_| Standing::default()),
                Some(addr(expected)),
                "to {dst}"
            );
            own.reverse();
        }
    }
}
