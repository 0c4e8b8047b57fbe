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

#[test]
fn s7_a_temporary_address_is_better_if_the_interface_prefers_those() {
    // Breaks if the rule is missing, comes in another place, or can't be turned round (RFC 6724 section 5).
    let addr = |text: &str| -> Ipv6Addr { text.parse().expect("an address") };
    let [stable, temporary] = ["2001:db8:1::1", "2001:db8:2::2"].map(addr);
    let dst = addr("2001:db8:1::9");
    for prefers in [true, false] {
        let favoured = |addr| (addr == temporary) == prefers;
        let choose = |deprecated: Option<Ipv6Addr>| {
            let standing = |addr| Standing {
                deprecated: deprecated == Some(addr),
                favoured: favoured(addr),
                ..Standing::default()
            };
            select([stable, temporary].into_iter(), dst, standing)
        };
        // Before rule 8, by which the stable one is better.
        let best = if prefers { temporary } else { stable };
        assert_eq!(choose(None), Some(best));
        // Behind rule 3.
        assert_ne!(choose(Some(best)), Some(best));
    }
}
