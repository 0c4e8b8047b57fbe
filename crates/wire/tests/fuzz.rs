//! Breaks if any bytes make a parser of IPv6's headers, of neighbour discovery, of multicast listener discovery or of
//! DHCP panic, or its walk go on for ever.
//!
//! Each test draws its inputs from a seed of its own, one after the other; a failure names the input. `FUZZ_INPUTS` is
//! how many inputs all tests draw together: `FUZZ_INPUTS=1000000000 cargo test --release -p mbuma-wire --test fuzz`.

use std::net::{IpAddr, Ipv6Addr};

use wire::{
    Dhcp4Header, Dhcp4Writer, Dhcp6Association, Dhcp6Header, GroupQuery, GroupVersion, Icmp6Header,
    Icmp6Message, IpProto, Ipv6ExtHeaders, Ipv6Fragment, Ipv6Header, Ipv6Options, MacAddr,
    NdpMessage, NdpOption,
};

/// Inputs of all tests together, unless the environment says otherwise.
const INPUTS: u64 = 500_000;
/// The tests of this file.
const TESTS: u64 = 5;
/// Bytes of an input at most.
const LEN_MAX: usize = 256;

/// A generator of numbers (splitmix64), which is fast and needs no crate.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    /// Bytes of a random length. One input in four has any bytes; in the others most are small, as lengths and numbers
    /// of protocols are, so that a walk goes on for a while.
    fn fill<'a>(&mut self, bytes: &'a mut [u8; LEN_MAX]) -> &'a mut [u8] {
        let drawn = self.next();
        let len = (drawn >> 8) as usize % (LEN_MAX + 1);
        let small = [u64::MAX, 0x0303, 0x0707, 0x3f3f][drawn as usize % 4];
        let mask = small | small << 16 | small << 32 | small << 48;
        for chunk in bytes[..len].chunks_mut(8) {
            let (any, keep) = (self.next(), self.next());
            // One byte in sixteen stays as it was drawn.
            let whole = if keep.is_multiple_of(16) {
                0xff << (keep >> 58 << 3 & 56)
            } else {
                0
            };
            let word = (any & (mask | whole)).to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
        &mut bytes[..len]
    }
}

/// Says which input it was if the test fails.
struct Numbered(u64);

impl Drop for Numbered {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("input {} of this test", self.0);
        }
    }
}

/// Gives this test's share of the inputs to `parse`.
fn each(seed: u64, parse: impl Fn(&mut Numbers, &mut [u8; LEN_MAX])) {
    let all = std::env::var("FUZZ_INPUTS").map(|n| n.parse().expect("FUZZ_INPUTS is a number"));
    let mut numbers = Numbers(seed);
    let mut bytes = [0; LEN_MAX];
    for number in 0..all.unwrap_or(INPUTS).div_ceil(TESTS) {
        let _numbered = Numbered(number);
        parse(&mut numbers, &mut bytes);
    }
}

#[test]
fn h3_chains_of_extension_headers() {
    // Breaks if a chain, an option or a fragment header reads past the end, or the walk does not end.
    each(1, |numbers, bytes| {
        let known = [0, 43, 44, 50, 51, 60, 135, 139, 140];
        let bytes = numbers.fill(bytes);
        for byte in bytes.iter_mut().step_by(8) {
            *byte = known[usize::from(*byte) % known.len()];
        }
        let first = numbers.next() as usize % known.len();
        let mut chain = Ipv6ExtHeaders::new(bytes, IpProto(known[first]), 0, 0);
        let mut steps = 0;
        while let Some(Ok(header)) = chain.next() {
            steps += 1;
            assert!(header.bytes.len() >= 8 && header.at + header.bytes.len() <= bytes.len());
            let _ = Ipv6Fragment::parse(header.bytes);
            let mut end = 2;
            for option in Ipv6Options::new(header.bytes).flatten() {
                assert!(option.at >= end);
                end = option.at + 2 + option.data.len();
            }
            assert!(end <= header.bytes.len().max(2));
        }
        assert!(steps <= bytes.len() / 8 && chain.upper_at() <= bytes.len());
        let _ = (
            chain.upper(),
            chain.named_at(),
            Ipv6Header::parse(bytes).is_ok(),
        );
    });
}

#[test]
fn n1_messages_of_neighbour_discovery() {
    // Breaks if a message or an option panics, or the options do not end.
    each(2, |numbers, bytes| {
        let bytes = numbers.fill(bytes);
        let Ok((header, body)) = Icmp6Header::parse(bytes) else {
            return;
        };
        let rest = match header.message() {
            Icmp6Message::Other { rest, .. } => rest,
            _ => [0; 4],
        };
        let kind = 130 + (numbers.next() % 10) as u8;
        let options = match NdpMessage::parse(kind, rest, body) {
            Err(_) => return,
            Ok(NdpMessage::RouterSolicit { options } | NdpMessage::RouterAdvert(_, options)) => {
                options
            }
            Ok(
                NdpMessage::NeighborSolicit { options, .. }
                | NdpMessage::NeighborAdvert { options, .. },
            ) => options,
            Ok(NdpMessage::Redirect { options, .. }) => options,
        };
        assert!(options.iter().count() <= body.len() / 8);
        for option in options.iter() {
            if let NdpOption::Nonce(nonce) = option {
                assert!(nonce.len() < body.len());
            }
        }
        let _ = (
            options.source(),
            options.target(),
            options.mtu(),
            options.nonce(),
        );
    });
}

#[test]
fn m2_queries_for_listeners_of_groups() {
    // Breaks if a query panics, a time overflows, or a group is read that is not there.
    each(3, |numbers, bytes| {
        let body = numbers.fill(bytes);
        let rest = (numbers.next() as u32).to_be_bytes();
        if let Ok(query) = GroupQuery::parse_igmp(rest[0], body) {
            // The largest number that the code has (RFC 9776 section 4.1.1).
            assert!(query.max_delay_ms <= 100 * (0x1f << 10));
            let listed = body.len().saturating_sub(8) / 4;
            let count = query.sources(body).count();
            assert_eq!(count, listed.min(query.source_count.into()));
        }
        let Ok(query) = GroupQuery::parse_mld(rest, body) else {
            return;
        };
        let group = Ipv6Addr::from_octets(*body.first_chunk().expect("a query has a group"));
        let none = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        assert_eq!(query.group.unwrap_or(none), group);
        let is_old = query.version != GroupVersion::Sources;
        assert_eq!(is_old, body.len() == 16);
        // The largest numbers that the two codes have (RFC 9777 sections 5.1.3 and 5.1.9).
        assert!(query.max_delay_ms <= 0x1fff << 10 && query.interval_s <= 0x1f << 10);
        assert!(query.robustness < 8);
        let listed = body.len().saturating_sub(20) / 16;
        let count = query.sources(body).count();
        assert_eq!(count, listed.min(query.source_count.into()));
    });
}

#[test]
fn options_of_dhcpv4() {
    // Breaks if an option's length points behind the message.
    let request = Dhcp4Header::request(7, MacAddr([2, 0, 0, 0, 0, 1]));
    let mut message = [0; Dhcp4Header::LEN + LEN_MAX];
    Dhcp4Writer::new(&mut message, &request).finish();
    let message = std::cell::RefCell::new(message);
    each(4, |numbers, bytes| {
        let message = &mut *message.borrow_mut();
        let options = numbers.fill(bytes);
        let len = Dhcp4Header::LEN + options.len();
        message[Dhcp4Header::LEN..len].copy_from_slice(options);
        let (_, read) = Dhcp4Header::parse_request(&message[..len]).expect("a request");
        let total: usize = read.map(|(_, value)| value.len() + 2).sum();
        assert!(total <= options.len());
        let _ = (read.message_type(), read.addr(3), read.u16(3), read.get(1));
        let _ = Dhcp4Header::parse_reply(options).is_ok();
    });
}

#[test]
fn messages_of_dhcpv6() {
    // Breaks if an option, or one inside of an association, points behind the message.
    each(5, |numbers, bytes| {
        let bytes = numbers.fill(bytes);
        // The high bytes of codes and lengths are 0 in messages that lead anywhere.
        if numbers.next().is_multiple_of(2) {
            bytes
                .iter_mut()
                .skip(4)
                .step_by(2)
                .for_each(|byte| *byte = 0);
        }
        let Ok((_, options)) = Dhcp6Header::parse(bytes) else {
            return;
        };
        assert!(options.count() <= bytes.len() / 4);
        for (code, value) in options {
            assert!(options.get(code).is_some());
            if let Ok(association) = Dhcp6Association::parse(value) {
                assert!(association.addrs().count() <= value.len() / 20);
            }
        }
    });
}
