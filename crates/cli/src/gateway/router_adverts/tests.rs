use wire::NdpOptions;

use super::*;

fn terms() -> AdvertTerms {
    AdvertTerms {
        router: "fe80::2".parse().expect("an address"),
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        network: (Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2), 64),
        mtu: 4000,
        dns: Some(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 3)),
        search: vec!["example.org".to_owned(), "b.c".to_owned()],
    }
}

fn with_options<R>(terms: &AdvertTerms, look: impl FnOnce(RouterAdvert, NdpOptions<'_>) -> R) -> R {
    let advert = RouterAdvert {
        hop_limit: 64,
        managed: false,
        other: true,
        lifetime: ROUTER_LIFETIME,
        reachable_ms: 0,
        retrans_ms: 0,
    };
    let mut out = [0; BODY_MAX];
    let len = terms.write(&advert, &mut out).expect("there is room");
    match NdpMessage::parse(NdpMessage::ROUTER_ADVERT, advert.rest(), &out[..len]) {
        Ok(NdpMessage::RouterAdvert(read, options)) => look(read, options),
        other => panic!("{other:?}"),
    }
}

#[test]
fn r6_an_advertisement_tells_what_the_guest_is_configured_with() {
    // Breaks if the prefix has host bits, a lifetime is shorter than the interval between advertisements, or an option
    // is missing or empty.
    with_options(&terms(), |advert, options| {
        assert_eq!((advert.lifetime, advert.hop_limit), (1800, 64));
        let prefix = PrefixInfo {
            prefix_len: 64,
            on_link: true,
            autonomous: true,
            valid_s: 86_400,
            preferred_s: 14_400,
            prefix: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0),
        };
        let servers = [terms().dns.expect("one").octets()];
        let names = b"\0\0\0\0\x07\x08\x07example\x03org\0\x01b\x01c\0\0\0\0\0\0\0";
        let expected = [
            NdpOption::SourceLinkAddr(terms().mac),
            NdpOption::Mtu(4000),
            NdpOption::Prefix(prefix),
            NdpOption::Rdnss {
                lifetime: 1800,
                servers: &servers,
            },
            NdpOption::Other {
                kind: 31,
                body: names,
            },
        ];
        let found: Vec<_> = options.iter().collect();
        assert_eq!(found, expected);
    });
}

#[test]
fn r6_an_advertisement_without_room_for_names_has_the_rest() {
    // Breaks if long lists of domains crowd the prefix out of the advertisement, or the advertisement has an option
    // without name servers.
    let long = AdvertTerms {
        search: vec!["x".repeat(60); 40],
        ..terms()
    };
    with_options(&long, |_, options| assert_eq!(options.iter().count(), 3));
    let without = AdvertTerms {
        dns: None,
        search: Vec::new(),
        ..terms()
    };
    with_options(&without, |_, options| assert_eq!(options.iter().count(), 3));
}

#[test]
fn r8_a_question_that_breaks_the_rules_has_no_answer() {
    // Breaks if the router accepts a link-layer address from a station without an IP address, or refuses one from a
    // station that has one.
    let mac = MacAddr([2, 0, 0, 0, 0, 9]);
    let asks = |src: Ipv6Addr, body: &[u8]| {
        let (shared, _) = crate::gateway::test_gateway::start();
        let question = Icmp6Datagram {
            src,
            dst: ALL_ROUTERS,
            hop_limit: 255,
            kind: NdpMessage::ROUTER_SOLICIT,
            code: 0,
            rest: [0; 4],
            body: Chain::from_slice(shared.stack.pool(), body).expect("a buffer"),
        };
        is_valid(&question)
    };
    let with_source = wire::NeighborMessage::router_solicit(Some(mac));
    let guest = "fe80::9".parse().expect("an address");
    assert!(asks(guest, with_source.body()) && asks(guest, &[]));
    assert!(asks(Ipv6Addr::UNSPECIFIED, &[]));
    assert!(!asks(Ipv6Addr::UNSPECIFIED, with_source.body()));
    assert!(!asks(guest, &[1, 0, 0, 0, 0, 0, 0, 0]));
}
