//! Tests of the chain, each named after its point of the specification.

use super::*;
use wire::Ipv6Jumbo;

/// A packet's bytes: the IPv6 header, which is not looked at, and what follows.
fn examined(first: IpProto, headers: &[&[u8]]) -> Result<Upper, ChainFault> {
    let mut bytes = vec![0; Ipv6Header::LEN];
    headers.iter().for_each(|header| bytes.extend(*header));
    let lens = Lengths {
        packet: bytes.len(),
        payload: bytes.len() - Ipv6Header::LEN,
    };
    match examine(&bytes, lens, first)? {
        ChainEnd::Upper(upper) => Ok(upper),
        ChainEnd::Fragment(fragment) => panic!("{fragment:?}"),
    }
}

/// A packet whose header says the length 0, with these hop-by-hop options and `behind` after them, `len` bytes long.
fn without_length(
    options: &[u8],
    behind: (IpProto, &[u8]),
    len: usize,
) -> Result<ChainEnd, ChainFault> {
    let words = (2 + options.len()) / 8 - 1;
    let mut bytes = vec![0; Ipv6Header::LEN];
    bytes.extend([behind.0.0, words as u8]);
    bytes.extend(options);
    bytes.extend(behind.1);
    let lens = Lengths {
        packet: len,
        payload: 0,
    };
    examine(&bytes, lens, IpProto::HOP_BY_HOP)
}

const TCP: u8 = 6;

#[test]
fn h2_hop_by_hop_options_are_first_or_refused() {
    // Breaks if a second header of hop-by-hop options is taken, or the pointer is not the field that names it.
    let hop_by_hop = [TCP, 0, 1, 4, 0, 0, 0, 0];
    assert_eq!(
        examined(IpProto::HOP_BY_HOP, &[&hop_by_hop])
            .unwrap()
            .header_len,
        48
    );
    let behind = [0, 0, 1, 4, 0, 0, 0, 0];
    let fault = examined(IpProto::DEST_OPTIONS, &[&behind, &hop_by_hop]);
    assert_eq!(fault, Err(tell(1, 40)));
}

#[test]
fn h2_what_follows_is_named_with_the_place_of_its_name() {
    // Breaks if "unknown next header" would point at another byte.
    let upper = examined(IpProto::DEST_OPTIONS, &[&[59, 0, 1, 4, 0, 0, 0, 0]]).unwrap();
    assert_eq!((upper.proto, upper.named_at), (IpProto::NONE, 40));
}

#[test]
fn h3_too_many_headers_are_refused() {
    // Breaks if the work for a packet has no bound.
    let one: &[u8] = &[60, 0, 1, 4, 0, 0, 0, 0];
    let last: &[u8] = &[TCP, 0, 1, 4, 0, 0, 0, 0];
    let mut headers = vec![one; HEADERS_MAX - 1];
    headers.push(last);
    assert!(examined(IpProto::DEST_OPTIONS, &headers).is_ok());
    headers.insert(0, one);
    let fault = examined(IpProto::DEST_OPTIONS, &headers);
    assert_eq!(fault, Err(ChainFault::Drop(DropReason::IpBadOptions)));
}

#[test]
fn h4_unknown_options_are_treated_as_they_ask() {
    // Breaks if an option's two highest bits are read wrongly.
    let with = |kind| examined(IpProto::DEST_OPTIONS, &[&[TCP, 0, kind, 4, 0, 0, 0, 0]]);
    let told = |to_many| {
        Err(ChainFault::Tell {
            code: 2,
            pointer: 42,
            to_many,
        })
    };
    assert!(with(0x1e).is_ok());
    assert_eq!(with(0x5e), Err(ChainFault::Drop(DropReason::IpBadOptions)));
    assert_eq!(with(0x9e), told(true));
    assert_eq!(with(0xde), told(false));
    assert_eq!(with(Ipv6Option::JUMBO), told(false));
}

#[test]
fn h4_an_option_that_does_not_fit_its_header_is_told() {
    // Breaks if an option, or padding, that reaches past its header is taken, or the pointer is not the option (RFC
    // 8200 section 4.2).
    for (options, at) in [
        ([0x1e, 5, 0, 0, 0, 0], 42),
        ([0, 0, 0x1e, 3, 0, 0], 44),
        ([1, 2, 0, 0, 1, 1], 46),
        ([1, 3, 0, 0, 0, 1], 47),
    ] {
        for first in [IpProto::DEST_OPTIONS, IpProto::HOP_BY_HOP] {
            let fault = examined(first, &[&[TCP, 0], &options]);
            assert_eq!(fault, Err(tell(0, at)), "{options:?}");
        }
    }
}

#[test]
fn h6_a_route_that_does_not_end_here_is_refused() {
    // Breaks if a packet can be made to circle (RFC 5095).
    // Type 0, that of segment routing, and an unknown one.
    for kind in [0, 4, 253] {
        let route = |left| examined(IpProto::ROUTING, &[&[TCP, 0, kind, left, 0, 0, 0, 0]]);
        assert!(route(0).is_ok());
        assert_eq!(route(1), Err(tell(0, 42)));
    }
}

#[test]
fn a_jumbo_payload_option_says_the_length() {
    // Breaks if a jumbogram is refused, or its length need not be that of the packet (RFC 2675 section 2).
    const TO_COME: (IpProto, &[u8]) = (IpProto::TCP, &[]);
    let jumbo = |len: u32, packet| {
        let mut header = [0; Ipv6Jumbo::LEN];
        Ipv6Jumbo::new(IpProto::TCP, len).emit(&mut header);
        without_length(&header[2..], TO_COME, packet)
    };
    let upper = Upper {
        proto: IpProto::TCP,
        header_len: 48,
        named_at: 40,
        is_atomic: false,
    };
    assert_eq!(jumbo(65_536, 65_576), Ok(ChainEnd::Upper(upper)));
    for packet in [65_575, 65_577, 48] {
        assert_eq!(jumbo(65_536, packet), Err(TRUNCATED), "{packet}");
    }
    assert_eq!(jumbo(u32::MAX, 100), Err(TRUNCATED));
}

#[test]
fn a_jumbo_payload_option_that_is_wrong_is_told() {
    // Breaks if the sender does not learn of one of the errors of RFC 2675 section 3, or the pointer is wrong.
    const TO_COME: (IpProto, &[u8]) = (IpProto::TCP, &[]);
    const LONG: [u8; 6] = [Ipv6Option::JUMBO, 4, 0, 1, 0, 0];
    // No length anywhere.
    assert_eq!(
        without_length(&[1, 4, 0, 0, 0, 0], TO_COME, 48),
        Err(tell(0, 4))
    );
    // A length in both places; the packet is as long as the header says.
    let with_both = examined(IpProto::HOP_BY_HOP, &[&[TCP, 0], &LONG]);
    assert_eq!(with_both, Err(tell(0, 42)));
    // One that the header could say.
    let short = [Ipv6Option::JUMBO, 4, 0, 0, 0xff, 0xff];
    assert_eq!(without_length(&short, TO_COME, 65_575), Err(tell(0, 44)));
    let both_wrong = examined(IpProto::HOP_BY_HOP, &[&[TCP, 0], &short]);
    assert_eq!(both_wrong, Err(tell(0, 44)));
    // A fragment, or what says that it is the only one.
    for field in [0, 1, 8] {
        let fragment = [TCP, 0, 0, field, 0, 0, 0, 7];
        let behind = (IpProto::FRAGMENT, &fragment[..]);
        let fault = without_length(&LONG, behind, 65_576);
        assert_eq!(fault, Err(tell(0, 48)));
    }
    // The option itself has another length, or is cut off.
    let odd = [Ipv6Option::JUMBO, 3, 1, 0, 0, 0];
    let dropped = Err(ChainFault::Drop(DropReason::IpBadOptions));
    assert_eq!(without_length(&odd, TO_COME, 65_576), dropped);
    let cut = [1, 2, 0, 0, Ipv6Option::JUMBO, 4];
    assert_eq!(without_length(&cut, TO_COME, 65_576), Err(tell(0, 46)));
    // Twice: each must be right.
    assert!(without_length(&[&LONG[..], &[1, 0], &LONG].concat(), TO_COME, 65_576).is_ok());
    let second = [&LONG[..], &[1, 0], &short].concat();
    assert_eq!(without_length(&second, TO_COME, 65_576), Err(tell(0, 52)));
    // Only routers' options may have it.
    let end = examined(IpProto::DEST_OPTIONS, &[&[TCP, 0], &LONG]);
    let unknown = ChainFault::Tell {
        code: 2,
        pointer: 42,
        to_many: false,
    };
    assert_eq!(end, Err(unknown));
}
