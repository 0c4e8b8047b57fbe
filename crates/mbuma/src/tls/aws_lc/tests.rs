//! Records with known bytes.

use mbuf::{Chain, MbufPool, PoolConfig};

use super::*;
use crate::sockbuf::{PlainContent, PlainRecord, Sealer};
use crate::tls::tests::NoKeys;
use crate::tls::{DirectionKeys, HEADER_LEN, TlsError, TlsKeys, TlsRole, TlsSession, TlsVersion};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let byte = |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn session(version: TlsVersion, suite: AwsLcSuite, key: &[u8], iv: &[u8], seq: u64) -> TlsSession {
    let keys = || {
        let aead = AwsLcAead::new(suite, key).unwrap();
        DirectionKeys::new(Box::new(aead), iv.try_into().unwrap(), seq)
    };
    TlsSession::new(TlsKeys {
        version,
        role: TlsRole::Client,
        tx: keys(),
        rx: keys(),
        source: Box::new(NoKeys),
    })
}

fn sealed(pool: &MbufPool, session: &mut TlsSession, content: &[u8]) -> Vec<u8> {
    let plain = Chain::from_slice(pool, content).unwrap();
    let record = session.frame_data(plain.into()).unwrap();
    session.seal(pool, &record).unwrap().to_vec()
}

fn opened(pool: &MbufPool, session: &mut TlsSession, wire: &[u8]) -> Vec<u8> {
    let head = *wire.first_chunk::<HEADER_LEN>().unwrap();
    let header = session.header(head).unwrap();
    let body = Chain::from_slice(pool, &wire[HEADER_LEN..]).unwrap();
    assert_eq!(header.len(), body.len());
    session.receive(pool, header, &body).unwrap().to_vec()
}

#[test]
fn a_key_of_gcm_is_worn_out_in_time() {
    // RFC 8446 5.5: breaks if more than 2^24.5 records are sealed under a key of AES-GCM, or those that the handshake
    // sealed do not count.
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    for (suite, len) in [(AwsLcSuite::Aes128Gcm, 16), (AwsLcSuite::Aes256Gcm, 32)] {
        let seq = (1 << 24) - 2;
        let mut client = session(TlsVersion::Tls12, suite, &vec![7; len], &[0; 12], seq);
        for _ in 0..2 {
            sealed(&pool, &mut client, b"x");
        }
        assert_eq!(client.may_frame(), Err(TlsError::KeyWornOut), "{suite:?}");
    }
}

#[test]
fn a_record_of_tls_1_3_has_the_bytes_of_rfc_8448() {
    // Breaks if the nonce, the associated data, the inner type or the header is wrong. The record is the client's data
    // in RFC 8448 3.
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    let key = hex("17 42 2d da 59 6e d5 d9 ac d8 90 e3 c6 3f 50 51");
    let iv = hex("5b 78 92 3d ee 08 57 90 33 e5 23 d9");
    let wire = hex(
        "17 03 03 00 43 a2 3f 70 54 b6 2c 94 d0 af fa fe 82 28 ba 55 cb ef ac ea 42 f9 14 aa 66 bc ab
         3f 2b 98 19 a8 a5 b4 6b 39 5b d5 4a 9a 20 44 1e 2b 62 97 4e 1f 5a 62
         92 a2 97 70 14 bd 1e 3d ea e6 3a ee bb 21 69 49 15 e4",
    );
    let content: Vec<u8> = (0..50).collect();
    let mut client = session(TlsVersion::Tls13, AwsLcSuite::Aes128Gcm, &key, &iv, 0);
    assert_eq!(sealed(&pool, &mut client, &content), wire);
    assert_eq!(opened(&pool, &mut client, &wire), content);
}

#[test]
fn a_record_of_tls_1_2_carries_its_nonce() {
    // Breaks if GCM's nonce is not salt and carried bytes, or the associated data is not RFC 5246's: the record is
    // checked against the AEAD itself.
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    let (key, iv) = ([7; 16], [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut client = session(TlsVersion::Tls12, AwsLcSuite::Aes128Gcm, &key, &iv, 5);
    let wire = sealed(&pool, &mut client, b"hello");
    assert_eq!(wire[..5], [23, 3, 3, 0, 8 + 5 + 16]);
    assert_eq!(wire[5..13], 5_u64.to_be_bytes());
    let nonce = [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 5];
    let aad = [0, 0, 0, 0, 0, 0, 0, 5, 23, 3, 3, 0, 5];
    let mut expected = b"hello".to_vec();
    let aead = AwsLcAead::new(AwsLcSuite::Aes128Gcm, &key).unwrap();
    let tag = aead.seal_in_place(nonce, &aad, &mut expected).unwrap();
    assert_eq!(wire[13..], [expected, tag.to_vec()].concat());
    assert_eq!(opened(&pool, &mut client, &wire), b"hello");
    // A peer may choose its nonces as it likes.
    let nonce = [1, 2, 3, 4, 9, 9, 9, 9, 9, 9, 9, 9];
    let aad = [0, 0, 0, 0, 0, 0, 0, 6, 23, 3, 3, 0, 5];
    let mut text = b"world".to_vec();
    let tag = aead.seal_in_place(nonce, &aad, &mut text).unwrap();
    let wire = [&[23, 3, 3, 0, 29][..], &[9; 8], &text, &tag].concat();
    assert_eq!(opened(&pool, &mut client, &wire), b"world");
}

#[test]
fn every_suite_and_length_comes_back() {
    // Breaks if the two ways of sealing differ, or bytes are lost where one kind of storage ends and the next begins.
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    let suites = [
        (AwsLcSuite::Aes128Gcm, 16),
        (AwsLcSuite::Aes256Gcm, 32),
        (AwsLcSuite::ChaCha20Poly1305, 32),
    ];
    for version in [TlsVersion::Tls12, TlsVersion::Tls13] {
        for (suite, key_len) in suites {
            let mut both = session(version, suite, &vec![9; key_len], &[3; 12], 0);
            let full = both.content_max();
            for len in [
                1,
                100,
                170,
                171,
                192,
                193,
                2026,
                2027,
                4096,
                9000,
                full - 1,
                full,
            ] {
                let content: Vec<u8> = (0..len).map(|n| n as u8).collect();
                let wire = sealed(&pool, &mut both, &content);
                assert_eq!(opened(&pool, &mut both, &wire), content, "{suite:?} {len}");
            }
        }
    }
}

#[test]
fn a_full_record_of_others_opens() {
    // Breaks if a record with 2^14 bytes of content, which with its type is larger than a cluster, is refused: other
    // implementations send such records.
    let pool = MbufPool::new(PoolConfig::default()).unwrap();
    let mut both = session(
        TlsVersion::Tls13,
        AwsLcSuite::Aes128Gcm,
        &[9; 16],
        &[3; 12],
        0,
    );
    let plain = Chain::from_slice(&pool, &vec![5; 1 << 14]).unwrap();
    let mut record = both.frame_data(Chain::new().into()).unwrap();
    record = PlainRecord {
        wire_len: record.wire_len + plain.len(),
        plain: PlainContent::Data(plain.into()),
        ..record
    };
    let wire = both.seal(&pool, &record).unwrap().to_vec();
    assert_eq!(opened(&pool, &mut both, &wire), vec![5; 1 << 14]);
}

#[test]
fn nothing_prints_a_key() {
    // Breaks if a Debug implementation shows a key or a vector.
    let both = session(
        TlsVersion::Tls13,
        AwsLcSuite::Aes128Gcm,
        &[0xab; 16],
        &[0xcd; 12],
        0,
    );
    let text = format!(
        "{both:?} {:?}",
        AwsLcAead::new(AwsLcSuite::Aes128Gcm, &[0xab; 16])
    );
    assert!(!text.contains("171") && !text.contains("205"), "{text}");
}

#[test]
fn a_key_of_another_length_is_refused() {
    // Breaks if a key of a wrong length is accepted, cut or padded.
    for (suite, len) in [
        (AwsLcSuite::Aes128Gcm, 16),
        (AwsLcSuite::Aes256Gcm, 32),
        (AwsLcSuite::ChaCha20Poly1305, 32),
    ] {
        for wrong in [0, len - 1, len + 1, 64] {
            let refused = AwsLcAead::new(suite, &vec![0; wrong]).map(|_| ());
            assert_eq!(refused, Err(AeadFailed), "{suite:?}, {wrong}");
        }
        assert!(AwsLcAead::new(suite, &vec![0; len]).is_ok());
    }
}

#[test]
fn no_key_is_printed() {
    // Breaks if the text of a connection's state, which programs log, has a key or an initialization vector in it.
    let (key, iv) = (b"0123456789abcdef", [231; 12]);
    let session = session(TlsVersion::Tls13, AwsLcSuite::Aes128Gcm, key, &iv, 5);
    let aead = AwsLcAead::new(AwsLcSuite::Aes128Gcm, key).unwrap();
    for text in [format!("{session:?} {aead:?}"), format!("{session:#?}")] {
        assert!(text.contains("Aes128Gcm") || text.contains("seq"), "{text}");
        for secret in [
            "0123456789",
            "48, 49, 50",
            "3031323334",
            "231, 231",
            "e7e7e7e7e7",
        ] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
}
