use super::*;

fn addr(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

#[test]
fn scopes_are_those_of_rfc_4007() {
    // Breaks if a link-local address may leave its link, or a global one needs a zone.
    let all = [
        ("::1", Scope6::Link, false),
        ("fe80::1", Scope6::Link, true),
        ("febf::1", Scope6::Link, true),
        ("fec0::1", Scope6::Site, false),
        ("fd00::1", Scope6::Global, false),
        ("2001:db8::1", Scope6::Global, false),
        ("ff01::1", Scope6::Interface, true),
        ("ff02::1", Scope6::Link, true),
        ("ff05::2", Scope6::Site, false),
        ("ff0e::1", Scope6::Global, false),
    ];
    for (text, scope, zone) in all {
        assert_eq!(
            (scope6(addr(text)), needs_zone(addr(text))),
            (scope, zone),
            "{text}"
        );
    }
}

#[test]
fn a11_groups_have_their_ethernet_addresses() {
    // Breaks if a station does not hear what is sent to its group: the example of RFC 4291 section 2.7.1.
    let group = solicited_node(addr("4037::1:800:200e:8c6c"));
    assert_eq!(group, addr("ff02::1:ff0e:8c6c"));
    let mac = MacAddr::from_ipv6_multicast(group);
    assert_eq!(mac, MacAddr([0x33, 0x33, 0xff, 0x0e, 0x8c, 0x6c]));
}

#[test]
fn m1_groups_of_named_senders_are_known() {
    // Breaks if a group of a network's prefix (RFC 3306) counts as one of source-specific multicast (RFC 4607), or the
    // reverse.
    for text in ["ff3e::8000:1", "ff32::1", "ff35::db8:1"] {
        assert!(is_source_specific6(addr(text)), "{text}");
    }
    for text in [
        "ff3e:40:2001:db8::1",
        "ff3e:100::1",
        "ff0e::1",
        "ff7e::1",
        "fe3e::1",
    ] {
        assert!(!is_source_specific6(addr(text)), "{text}");
    }
}

#[test]
fn h8_impossible_addresses_are_known() {
    // Breaks if an embedded IPv4 address passes, or a valid address is refused.
    for text in ["::1", "::ffff:127.0.0.1", "::127.0.0.1"] {
        assert!(
            is_martian_source6(addr(text)) && is_martian_destination6(addr(text)),
            "{text}"
        );
    }
    assert!(is_martian_source6(addr("ff02::1")) && !is_martian_destination6(addr("ff02::1")));
    for text in ["fe80::1", "fd00::1", "64:ff9b::1", "::ffff:0:1.2.3.4"] {
        assert!(
            !is_martian_source6(addr(text)) && !is_martian_destination6(addr(text)),
            "{text}"
        );
    }
}

#[test]
fn a_translated_address_is_found() {
    // Breaks if a policy about IPv4 addresses can be passed by a translator.
    let v4 = Some(Ipv4Addr::new(169, 254, 169, 254));
    for text in [
        "64:ff9b::169.254.169.254",
        "64:ff9b:1:2:3::169.254.169.254",
        "2002:a9fe:a9fe::1",
    ] {
        assert_eq!(translated_ipv4(addr(text)), v4, "{text}");
    }
    assert_eq!(translated_ipv4(addr("2001:db8::1")), None);
}

#[test]
fn a_link_local_address_is_made_of_the_mac() {
    // Breaks if the universal bit stays, or a byte moves: RFC 4291 appendix A.
    let mac = MacAddr([0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde]);
    assert_eq!(link_local_of(mac), addr("fe80::3656:78ff:fe9a:bcde"));
}

#[test]
fn prefixes_are_compared_bit_by_bit() {
    // Breaks if a prefix of 0 or 128 bits is treated as another.
    let (a, b) = (addr("fd00::1"), addr("fd00::3"));
    let last = (0..=128).filter(|&len| is_same_prefix(a, b, len)).max();
    assert_eq!(last, Some(126));
    assert!(is_same_prefix(a, a, 128) && is_same_prefix(a, addr("1::"), 0));
}
