//! Breaks if an ICMPv6 message is not read as it was written, or its checksum leaves something out.

use core::net::Ipv6Addr;

use proptest::prelude::*;

use super::*;
use crate::{IpProto, pseudo_header_v6};

proptest! {
    /// Breaks if a type, a code or a parameter changes on the way.
    #[test]
    fn a_message_is_read_as_it_was_written(kind: u8, code: u8, rest: [u8; 4], data: [u8; 5]) {
        let pseudo = pseudo_header_v6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, IpProto::ICMPV6, 13);
        let message = Icmp6Message::from_parts(kind, code, rest);
        let header = Icmp6Header::new(message, pseudo, [&data[..2], &data[2..]]);
        let mut bytes = [0; Icmp6Header::LEN];
        header.emit(&mut bytes);
        let (read, _) = Icmp6Header::parse(&bytes).unwrap();
        prop_assert_eq!(read.message(), message);
        prop_assert!(read.checksum_ok(pseudo, [&data[..]]));
    }

    /// Breaks if the sum leaves an address out (RFC 4443 section 2.3).
    #[test]
    fn i6_the_checksum_covers_the_addresses(src: [u8; 16], at in 0_usize..16) {
        let (src, dst) = (Ipv6Addr::from(src), Ipv6Addr::LOCALHOST);
        let mut other = src.octets();
        other[at] ^= 1;
        let pseudo = |src| pseudo_header_v6(src, dst, IpProto::ICMPV6, 8);
        let message = Icmp6Message::EchoRequest { id: 1, seq: 2 };
        let header = Icmp6Header::new(message, pseudo(src), []);
        prop_assert!(header.checksum_ok(pseudo(src), []));
        prop_assert!(!header.checksum_ok(pseudo(other.into()), []));
    }
}

#[test]
fn i1_errors_are_told_from_answers() {
    // Breaks if an error, or a redirect, may be answered by an error.
    let is_error = |kind| Icmp6Message::from_parts(kind, 0, [0; 4]).is_error();
    for kind in [1, 2, 3, 4, 100, 127, 137] {
        assert!(is_error(kind), "{kind}");
    }
    for kind in [128, 129, 133, 134, 135, 136, 143, 255] {
        assert!(!is_error(kind), "{kind}");
    }
}
