//! What stays of a key in the memory of the process. The test knows its keys only masked, so that each place where it
//! finds one is the stack's or the AEAD's.

use std::fs::File;
use std::os::unix::fs::FileExt;

use mbuma::tls::{AwsLcAead, AwsLcSuite, DirectionKeys, NONCE_LEN};

use super::*;

/// XORed to each byte of a secret while the test keeps it.
const MASK: u8 = 0x5a;
const PIECE: usize = 1 << 20;

fn is_secret(bytes: &[u8], masked: &[u8]) -> bool {
    bytes
        .iter()
        .zip(masked)
        .all(|(byte, masked)| byte ^ MASK == *masked)
}

/// How often a secret lies in memory that this process can write.
fn places(masked: &[u8]) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux has it");
    let memory = File::open("/proc/self/mem").expect("it is our own");
    let mut piece = vec![0; PIECE];
    let own = piece.as_ptr_range();
    let own = own.start as u64..own.end as u64;
    let mut found = 0;
    for line in maps.lines() {
        let mut fields = line.split_ascii_whitespace();
        let (range, rights) = (
            fields.next().expect("a range"),
            fields.next().expect("rights"),
        );
        let (start, end) = range.split_once('-').expect("two ends");
        let address = |text| u64::from_str_radix(text, 16).expect("hexadecimal");
        let (mut at, end) = (address(start), address(end));
        if !rights.starts_with("rw") {
            continue;
        }
        // A secret may cross the end of a piece.
        while at < end {
            let len = PIECE.min((end - at) as usize);
            let Ok(read) = memory.read_at(&mut piece[..len], at) else {
                break;
            };
            let hits = piece[..read].windows(masked.len()).enumerate();
            let hits = hits
                .filter(|(n, bytes)| is_secret(bytes, masked) && !own.contains(&(at + *n as u64)));
            found += hits.count();
            if read < len || at + len as u64 == end {
                break;
            }
            at += (len - masked.len() + 1) as u64;
        }
    }
    found
}

/// Makes the keys of a direction, and leaves no copy of its own.
#[inline(never)]
fn keys(suite: AwsLcSuite, key: &[u8], iv: &[u8; NONCE_LEN]) -> Box<DirectionKeys> {
    let mut plain: Vec<u8> = key.iter().map(|byte| byte ^ MASK).collect();
    let aead = AwsLcAead::new(suite, &plain).expect("a key of the suite's length");
    plain.fill(0);
    std::hint::black_box(&plain);
    Box::new(DirectionKeys::new(
        Box::new(aead),
        iv.map(|byte| byte ^ MASK),
        0,
    ))
}

#[test]
fn a_key_is_nowhere_in_memory_after_its_drop() {
    // Breaks if the memory of a key is given back as it is: a later fault that shows freed memory would show the key.
    let mut random = Random::from_seed(u64::from(std::process::id()));
    for (suite, len) in [
        (AwsLcSuite::Aes128Gcm, 16),
        (AwsLcSuite::Aes256Gcm, 32),
        (AwsLcSuite::ChaCha20Poly1305, 32),
    ] {
        let key: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
        let iv = std::array::from_fn(|_| random.below(256) as u8);
        let keys = keys(suite, &key, &iv);
        assert!(
            places(&key) > 0,
            "{suite:?}: the search finds no key in use"
        );
        drop(keys);
        assert_eq!(places(&key), 0, "{suite:?}");
    }
}
