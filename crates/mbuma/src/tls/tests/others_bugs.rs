//! Faults that other record layers had, and records of TLS 1.2 that must not pass; the rest is in [`super`] and in
//! tests/tls.
//!
//! Sources: advisories of FreeBSD, named at each test; F:tests/sys/kern/ktls_test.c.

use mbuf::Chain;

use super::{Forge, World};
use crate::tls::{TlsAlert, TlsError, TlsVersion};

#[test]
fn pieces_without_bytes_are_no_pieces_of_a_record() {
    // Breaks if an index over the pieces of a record counts empty ones (FreeBSD SA-26:46, CVE-2026-49423).
    let mut world = World::v13();
    let piece = |bytes: &[u8]| Chain::from_slice(&world.pool, bytes).unwrap();
    let mut plain = piece(b"");
    for bytes in [&b"one, "[..], b"", b"", b"two, ", b"three", b""] {
        let mut longer = piece(&[bytes, b"rest"].concat());
        longer.truncate(bytes.len());
        plain.append(longer);
    }
    plain.append(Chain::new());
    assert!(plain.segments().all(|bytes| !bytes.is_empty()));
    assert_eq!(plain.segments().count(), 3);
    let record = world.client.session.frame_data(plain.into());
    world.client.buf.append_record(record.unwrap());
    let wire = world.client.wire(&world.pool);
    world.server.take(&world.pool, &wire);
    assert_eq!(world.server.got, b"one, two, three");
}

#[test]
fn a_wrong_record_of_tls_1_2_ends_the_stream() {
    // Breaks if the nonce in a record, its type, its version or its length is not checked: ktls_test's bad_iv,
    // short_header, bad_mac, bad_major, bad_minor, small_record, oversized_record.
    type Case = (&'static str, TlsAlert, fn(&mut Forge) -> Vec<u8>);
    let changed = |forge: &mut Forge, at: usize| {
        let mut wire = forge.record(23, b"data");
        let at = at % wire.len();
        wire[at] ^= 1;
        wire
    };
    let cases: [Case; 8] = [
        ("nonce", TlsAlert::BAD_RECORD_MAC, |forge| {
            let mut wire = forge.record(23, b"data");
            wire[5] ^= 1;
            wire
        }),
        (
            "nothing but a part of a nonce",
            TlsAlert::BAD_RECORD_MAC,
            |_| [&[23, 3, 3, 0, 7][..], &[0; 7]].concat(),
        ),
        (
            "one byte less than none of content",
            TlsAlert::BAD_RECORD_MAC,
            |_| [&[23, 3, 3, 0, 23][..], &[0; 23]].concat(),
        ),
        ("tag", TlsAlert::BAD_RECORD_MAC, |forge| {
            let mut wire = forge.record(23, b"data");
            *wire.last_mut().unwrap() ^= 1;
            wire
        }),
        ("type", TlsAlert::BAD_RECORD_MAC, |forge| {
            let mut wire = forge.record(23, &[1, 0]);
            wire[0] = 21;
            wire
        }),
        ("major version", TlsAlert::PROTOCOL_VERSION, |forge| {
            let mut wire = forge.record(23, b"data");
            wire[1] = 2;
            wire
        }),
        ("minor version", TlsAlert::PROTOCOL_VERSION, |forge| {
            let mut wire = forge.record(23, b"data");
            wire[2] = 4;
            wire
        }),
        ("two records long", TlsAlert::RECORD_OVERFLOW, |_| {
            vec![23, 3, 3, 0x80, 0]
        }),
    ];
    for (name, alert, make) in cases {
        let mut world = World::new(TlsVersion::Tls12, 1 << 24);
        let mut forge = Forge::client(TlsVersion::Tls12);
        let wire = make(&mut forge);
        let late = forge.record(23, b"late");
        world.server.take(&world.pool, &[wire, late].concat());
        let expected = Some(TlsError::Protocol(alert));
        assert_eq!(world.server.error, expected, "{name}");
        assert!(world.server.got.is_empty(), "{name}");
    }
    // Each bit of a record is under its tag, or is looked at.
    for at in 0..5 + 8 + 4 + 16 {
        let mut world = World::new(TlsVersion::Tls12, 1 << 24);
        let wire = changed(&mut Forge::client(TlsVersion::Tls12), at);
        let next = [0; 300];
        world.server.take(&world.pool, &[&wire[..], &next].concat());
        assert!(world.server.error.is_some(), "byte {at}");
        assert!(world.server.got.is_empty(), "byte {at}");
    }
}
