//! Tests of the rules, after the examples of RFC 6724 section 10.1.

use super::*;

fn addr(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

/// The first of `own` is chosen to send to `dst`, in whatever order they come.
fn first_is_chosen(dst: &str, own: [&str; 2]) {
    let [best, other] = own.map(addr);
    for order in [[best, other], [other, best]] {
        let table = PolicyTable::default();
        let chosen = select(order.into_iter(), addr(dst), &table, |_| {
            Standing::default()
        });
        assert_eq!(chosen, Some(best), "to {dst}");
    }
}

#[test]
fn s1_the_destination_itself_is_best() {
    // Breaks if a packet to ourselves comes from another of our addresses.
    first_is_chosen("fd00::2", ["fd00::2", "fd00::1"]);
}

#[test]
fn s2_the_scope_is_large_enough_and_no_larger() {
    // Breaks if a packet that leaves the link has a link-local source, or one that stays there has a global source.
    first_is_chosen("2001:db8:1::1", ["2001:db8:3::1", "fe80::1"]);
    first_is_chosen("fe80::9", ["fe80::1", "2001:db8:2::1"]);
    first_is_chosen("ff02::1", ["fe80::1", "2001:db8:2::1"]);
    first_is_chosen("ff05::1", ["2001:db8:3::1", "fe80::1"]);
}

#[test]
fn s3_a_deprecated_address_is_worse() {
    // Breaks if a connection begins from a deprecated address, although another one has the right scope.
    let [old, new, link] = ["2001:db8:1::2", "2001:db8:2::2", "fe80::1"].map(addr);
    let choose = |own: [Ipv6Addr; 2]| {
        let standing = |addr| Standing {
            deprecated: addr == old,
            ..Standing::default()
        };
        // By its prefix the old one is better.
        let dst = addr("2001:db8:1::9");
        select(own.into_iter(), dst, &PolicyTable::default(), standing)
    };
    assert_eq!([choose([old, new]), choose([new, old])], [Some(new); 2]);
    assert_eq!([choose([old, link]), choose([link, old])], [Some(old); 2]);
}

#[test]
fn s6_the_label_is_that_of_the_destination() {
    // Breaks if a unique local address is used towards the Internet, or 6to4 without need.
    first_is_chosen("2001:db8::1", ["2001:db8:9::1", "fd00::1"]);
    first_is_chosen("fd00:1::1", ["fd00:2::1", "2001:db8:9::1"]);
    first_is_chosen(
        "2002:c633:6401::1",
        ["2002:c633:6401::d5e3", "2001:db8:2::1"],
    );
}

#[test]
fn s8_the_longest_prefix_is_best() {
    // Breaks if a packet comes from another network than that of its destination; or if the bits of hosts count.
    first_is_chosen("2001:db8:1::1", ["2001:db8:1::2", "2001:db8:3::2"]);
    let own = ["2001:db8:1::f000", "2001:db8:1::2"].map(addr);
    let (dst, table) = (addr("2001:db8:1::1"), PolicyTable::default());
    let chosen = select(own.into_iter(), dst, &table, |_| Standing::default());
    assert_eq!(chosen, Some(own[0]));
}

#[test]
fn s7_a_temporary_address_is_better_if_the_interface_prefers_those() {
    // Breaks if the rule is missing, comes in another place, or can't be turned round (RFC 6724 section 5).
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
            let table = PolicyTable::default();
            select([stable, temporary].into_iter(), dst, &table, standing)
        };
        // Before rule 8, by which the stable one is better.
        let best = if prefers { temporary } else { stable };
        assert_eq!(choose(None), Some(best));
        // Behind rule 3.
        assert_ne!(choose(Some(best)), Some(best));
    }
}
