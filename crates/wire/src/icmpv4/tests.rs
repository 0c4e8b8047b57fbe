//! Breaks if an ICMP message changes its meaning, its bytes or its checksum between emit and parse.

use core::array;

use proptest::prelude::*;

use super::*;

fn message() -> impl Strategy<Value = IcmpMessage> {
    let unreachable = (any::<u8>(), any::<u16>())
        .prop_map(|(code, mtu)| IcmpMessage::DestUnreachable(Unreachable::from_code(code, mtu)));
    prop_oneof![
        any::<(u16, u16)>().prop_map(|(id, seq)| IcmpMessage::EchoReply { id, seq }),
        any::<(u16, u16)>().prop_map(|(id, seq)| IcmpMessage::EchoRequest { id, seq }),
        unreachable,
        Just(IcmpMessage::TimeExceeded(TimeExceeded::Transit)),
        Just(IcmpMessage::TimeExceeded(TimeExceeded::Reassembly)),
        (0u8..=2, any::<u8>())
            .prop_map(|(code, pointer)| IcmpMessage::ParamProblem { code, pointer }),
        (13u8.., any::<u8>(), any::<[u8; 4]>()).prop_map(|(kind, code, rest)| IcmpMessage::Other {
            kind,
            code,
            rest
        }),
    ]
}

#[test]
fn types_and_codes_are_those_of_iana() {
    // Breaks if a constant is mistyped: numbers from the IANA ICMP registry.
    let unreachable = IcmpMessage::DestUnreachable;
    let cases = [
        (
            IcmpMessage::EchoReply {
                id: 0x0102,
                seq: 0x0304,
            },
            [0, 0, 1, 2, 3, 4],
        ),
        (
            IcmpMessage::EchoRequest {
                id: 0x0102,
                seq: 0x0304,
            },
            [8, 0, 1, 2, 3, 4],
        ),
        (unreachable(Unreachable::NetUnreachable), [3, 0, 0, 0, 0, 0]),
        (
            unreachable(Unreachable::HostUnreachable),
            [3, 1, 0, 0, 0, 0],
        ),
        (
            unreachable(Unreachable::ProtocolUnreachable),
            [3, 2, 0, 0, 0, 0],
        ),
        (
            unreachable(Unreachable::PortUnreachable),
            [3, 3, 0, 0, 0, 0],
        ),
        (
            unreachable(Unreachable::FragNeeded { mtu: 1500 }),
            [3, 4, 0, 0, 0x05, 0xdc],
        ),
        (
            unreachable(Unreachable::SourceRouteFailed),
            [3, 5, 0, 0, 0, 0],
        ),
        (unreachable(Unreachable::NetProhibited), [3, 9, 0, 0, 0, 0]),
        (
            unreachable(Unreachable::HostProhibited),
            [3, 10, 0, 0, 0, 0],
        ),
        (
            unreachable(Unreachable::AdminProhibited),
            [3, 13, 0, 0, 0, 0],
        ),
        (
            IcmpMessage::TimeExceeded(TimeExceeded::Transit),
            [11, 0, 0, 0, 0, 0],
        ),
        (
            IcmpMessage::TimeExceeded(TimeExceeded::Reassembly),
            [11, 1, 0, 0, 0, 0],
        ),
        (
            IcmpMessage::ParamProblem {
                code: 0,
                pointer: 9,
            },
            [12, 0, 9, 0, 0, 0],
        ),
    ];
    for (message, [kind, code, rest @ ..]) in cases {
        assert_eq!(message.to_parts(), (kind, code, rest), "{message:?}");
        assert_eq!(IcmpMessage::from_parts(kind, code, rest), message);
    }
}

#[test]
fn a_ping_has_the_checksum_that_ping_sends() {
    // Breaks if the payload is left out of the sum: 0x0800 + 0x0001 + 0x0001 + 0x6100, complemented.
    let mut out = [0; 9];
    let len = IcmpMessage::EchoRequest { id: 1, seq: 1 }.emit(&mut out, [b"a".as_slice()]);
    assert_eq!(len, 8);
    assert_eq!(out, [8, 0, 0x96, 0xfd, 0, 1, 0, 1, 0]);
}

#[test]
fn icmp_errors_are_classified_as_errors() {
    // Breaks if the stack could answer an error with an error, or not answer a ping.
    let of_type = |kind| IcmpMessage::from_parts(kind, 99, [0; 4]).is_error();
    let errors: [bool; 14] = array::from_fn(|kind| of_type(kind as u8));
    let expected: [bool; 14] = array::from_fn(|kind| [3, 4, 5, 11, 12].contains(&kind));
    assert_eq!(errors, expected);
    assert!(IcmpMessage::DestUnreachable(Unreachable::PortUnreachable).is_error());
    assert!(!IcmpMessage::EchoRequest { id: 0, seq: 0 }.is_error());
}

proptest! {
    #[test]
    fn icmpv4_headers_round_trip(
        message in message(),
        payload in prop::collection::vec(any::<u8>(), 0..80),
        size in 1usize..9,
    ) {
        // Breaks if emit and parse disagree, or if the checksum depends on how the payload is cut.
        let mut bytes = std::vec![0; IcmpHeader::LEN];
        message.emit(&mut bytes, payload.chunks(size));
        bytes.extend(&payload);
        let (header, rest) = IcmpHeader::parse(&bytes).unwrap();
        prop_assert_eq!(header.message(), message);
        prop_assert_eq!(rest, &payload[..]);
        prop_assert!(header.checksum_ok([rest]));
        prop_assert!(header.checksum_ok(rest.chunks(3)));
        for len in 0..IcmpHeader::LEN {
            prop_assert_eq!(IcmpHeader::parse(&bytes[..len]), Err(ParseError::Truncated));
        }
    }

    #[test]
    fn every_type_and_code_keeps_its_number(kind: u8, code: u8, rest: [u8; 4]) {
        // Breaks if a message that was read is written with another type or code.
        let (kind_out, code_out, _) = IcmpMessage::from_parts(kind, code, rest).to_parts();
        prop_assert_eq!((kind_out, code_out), (kind, code));
    }

    #[test]
    fn one_wrong_bit_is_noticed(message in message(), payload: [u8; 16], at in 0usize..24, bit in 0u8..8) {
        // Breaks if a byte of header or payload is not under the checksum.
        let mut bytes = [0; 24];
        message.emit(&mut bytes, [&payload[..]]);
        bytes[8..].copy_from_slice(&payload);
        bytes[at] ^= 1 << bit;
        let (header, rest) = IcmpHeader::parse(&bytes).unwrap();
        prop_assert!(!header.checksum_ok([rest]));
    }
}
