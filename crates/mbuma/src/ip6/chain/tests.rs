//! Tests of the chain, each named after its point of the specification.

use super::*;

/// A packet's bytes: the IPv6 header, which is not looked at, and what follows.
fn examined(first: IpProto, headers: &[&[u8]]) -> Result<Upper, ChainFault> {
    let mut bytes = vec![0; Ipv6Header::LEN];
    headers.iter().for_each(|header| bytes.extend(*header));
    match examine(&bytes, bytes.len(), first)? {
        ChainEnd::Upper(upper) => Ok(upper),
        ChainEnd::Fragment(fragment) => panic!("{fragment:?}"),
    }
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
fn h6_a_route_that_does_not_end_here_is_refused() {
    // Breaks if a packet can be made to circle (RFC 5095).
    let route = |left| examined(IpProto::ROUTING, &[&[TCP, 0, 0, left, 0, 0, 0, 0]]);
    assert!(route(0).is_ok());
    assert_eq!(route(1), Err(tell(0, 42)));
}
