//! Breaks if a received message panics, a damaged one passes, or a sent one is not read as it was meant.

use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::{Icmp6Message, MacAddr};

proptest! {
    /// Breaks if any bytes make the parser or an option panic.
    #[test]
    fn n1_any_message_is_read(
        kind in 130_u8..140,
        rest: [u8; 4],
        body in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let parsed = NdpMessage::parse(kind, rest, &body);
        prop_assert!(parsed.is_err() || NdpMessage::is_kind(kind));
        if let Ok(NdpMessage::RouterAdvert(_, options)) = parsed {
            prop_assert!(options.iter().count() <= body.len() / 8);
        }
    }

    /// Breaks if a solicitation's target, address or nonce is not read as it was written.
    #[test]
    fn n8_a_solicitation_is_read_as_it_was_written(target: [u8; 16], mac: [u8; 6], probe: bool) {
        let sent = match probe {
            true => NeighborMessage::solicit(target.into(), None, Some(mac)),
            false => NeighborMessage::solicit(target.into(), Some(MacAddr(mac)), None),
        };
        let read = NdpMessage::parse(NdpMessage::NEIGHBOR_SOLICIT, [0; 4], sent.body());
        let Ok(NdpMessage::NeighborSolicit { target: read, options }) = read else {
            panic!("{read:?}");
        };
        prop_assert_eq!(read, Ipv6Addr::from(target));
        prop_assert_eq!(options.source(), (!probe).then_some(MacAddr(mac)));
        prop_assert_eq!(options.nonce(), probe.then_some(&mac[..]));
    }

    /// Breaks if an advertisement's flags or address are not read as they were written.
    #[test]
    fn n9_an_advertisement_is_read_as_it_was_written(
        target: [u8; 16],
        mac: [u8; 6],
        router: bool,
        solicited: bool,
        overrides: bool,
    ) {
        let flags = AdvertFlags { router, solicited, overrides };
        let sent = NeighborMessage::advert(target.into(), MacAddr(mac), flags);
        let Icmp6Message::Other { kind, rest, .. } = sent.message else { panic!() };
        let read = NdpMessage::parse(kind, rest, sent.body());
        let Ok(NdpMessage::NeighborAdvert { flags: f, target: t, options }) = read else {
            panic!("{read:?}");
        };
        prop_assert_eq!((f, t), (flags, target.into()));
        prop_assert_eq!(options.target(), Some(MacAddr(mac)));
    }
}

#[test]
fn n1_an_option_of_length_0_voids_the_message() {
    // Breaks if the walk would go on for ever, or the options before it are believed.
    let mut body = [0; 32];
    body[16..18].copy_from_slice(&[1, 1]);
    let parse =
        |body: &[u8]| NdpMessage::parse(NdpMessage::NEIGHBOR_SOLICIT, [0; 4], body).map(drop);
    assert_eq!(parse(&body[..24]), Ok(()));
    assert_eq!(parse(&body), Err(ParseError::BadLength));
    assert_eq!(parse(&body[..23]), Err(ParseError::BadLength));
    assert_eq!(parse(&body[..15]), Err(ParseError::Truncated));
}

#[test]
fn an_advertised_prefix_is_read() {
    // Breaks if a field of the option has the wrong place: RFC 4861 section 4.6.2, by hand.
    let mut body = Vec::from([0; 8]);
    body.extend([
        3, 4, 64, 0xc0, 0, 1, 0x51, 0x80, 0, 0, 0x38, 0x40, 0, 0, 0, 0,
    ]);
    body.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    body.extend([5, 1, 0, 0, 0, 0, 0x05, 0xdc]);
    let rest = [64, 0x40, 0x07, 0x08];
    let Ok(NdpMessage::RouterAdvert(advert, options)) = NdpMessage::parse(134, rest, &body) else {
        panic!("it is whole");
    };
    assert_eq!((advert.hop_limit, advert.lifetime), (64, 1800));
    assert!(advert.other && !advert.managed);
    let prefix = PrefixInfo {
        prefix_len: 64,
        on_link: true,
        autonomous: true,
        valid_s: 86_400,
        preferred_s: 14_400,
        prefix: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0),
    };
    let found: Vec<_> = options.iter().collect();
    assert_eq!(found, [NdpOption::Prefix(prefix), NdpOption::Mtu(1500)]);
}

#[test]
fn r6_an_advertisement_is_written_as_it_is_read() {
    // Breaks if an option's field has the wrong place, a prefix has bits of a host, a name is not padded to 8 bytes, or
    // one that needs no padding gets an option of length 0 behind it.
    let advert = RouterAdvert {
        hop_limit: 64,
        managed: false,
        other: true,
        lifetime: 1800,
        reachable_ms: 5,
        retrans_ms: 6,
    };
    let prefix = |host| PrefixInfo {
        prefix_len: 64,
        on_link: true,
        autonomous: true,
        valid_s: 86_400,
        preferred_s: 14_400,
        prefix: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host),
    };
    let servers = [[7; 16]; 2];
    let rdnss = NdpOption::Rdnss {
        lifetime: 1800,
        servers: &servers,
    };
    let names = [0, 0, 0, 0, 7, 8, 2, b'a', b'b', 0, 1, b'c', 0, 0];
    let other = NdpOption::Other {
        kind: 31,
        body: &names,
    };
    let mac = NdpOption::SourceLinkAddr(MacAddr([1, 2, 3, 4, 5, 6]));
    let options = [
        mac,
        NdpOption::Mtu(9000),
        NdpOption::Prefix(prefix(2)),
        rdnss,
        other,
    ];
    let mut body = [0xff; 200];
    let len = advert.emit(&options, &mut body).expect("there is room");
    let read = NdpMessage::parse(134, advert.rest(), &body[..len]);
    let Ok(NdpMessage::RouterAdvert(read, found)) = read else {
        panic!("{read:?}");
    };
    assert_eq!(read, advert);
    let meant = [
        mac,
        NdpOption::Mtu(9000),
        NdpOption::Prefix(prefix(0)),
        rdnss,
        other,
    ];
    assert!(found.iter().eq(meant));
    let short = NdpOption::Other {
        kind: 31,
        body: &names[..9],
    };
    let len = advert.emit(&[short], &mut body).expect("there is room");
    assert_eq!(
        (len, &body[8..24]),
        (
            24,
            &[31, 2, 0, 0, 0, 0, 7, 8, 2, b'a', b'b', 0, 0, 0, 0, 0][..]
        )
    );
    assert_eq!(advert.emit(&options, &mut [0; 60]), None);
    let long = [0; 2040];
    let option = NdpOption::Other {
        kind: 31,
        body: &long,
    };
    assert_eq!(advert.emit(&[option], &mut [0; 4000]), None);
}

/// Breaks if a prefix of more bits than an address has is read: its route would come before those to single hosts.
#[test]
fn a6_a_prefix_longer_than_an_address_is_none() {
    for (prefix_len, is_read) in [(128, true), (129, false), (255, false)] {
        let mut body = [0; 8 + 32];
        body[8..11].copy_from_slice(&[3, 4, prefix_len]);
        let read = NdpMessage::parse(NdpMessage::ROUTER_ADVERT, [0; 4], &body);
        let Ok(NdpMessage::RouterAdvert(_, options)) = read else {
            panic!("{read:?}");
        };
        let is_prefix = |option| matches!(option, NdpOption::Prefix(_));
        assert_eq!(options.iter().any(is_prefix), is_read, "{prefix_len}");
    }
}
