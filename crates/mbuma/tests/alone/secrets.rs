//! A process whose memory is searched for a key.

use std::fs::{self, File};
use std::iter;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::unix::fs::FileExt;
use std::process;
use std::sync::Arc;

use kern::{MonotonicClock, Random};
use mbuma::socket::{TlsAbout, TlsStream};
use mbuma::tls::{
    AwsLcAead, AwsLcSuite, DirectionKeys, KeySource, TlsError, TlsKeys, TlsRole, TlsVersion,
};
use mbuma::{Config, Stack};

use crate::is_alone;

/// No next keys.
struct NoKeys;

impl KeySource for NoKeys {
    fn next_tx(&mut self) -> Result<DirectionKeys, TlsError> {
        Err(TlsError::Keys)
    }

    fn next_rx(&mut self) -> Result<DirectionKeys, TlsError> {
        Err(TlsError::Keys)
    }
}

/// Bytes that no file on this machine has.
fn random_key() -> Vec<u8> {
    let mut word = 7 ^ u64::from(process::id());
    let next = || {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (word >> 33) as u8
    };
    iter::repeat_with(next).take(16).collect()
}

fn keys(key: &[u8]) -> TlsKeys {
    let direction = || {
        let aead = AwsLcAead::new(AwsLcSuite::Aes128Gcm, key).expect("its length");
        DirectionKeys::new(Box::new(aead), [11; 12], 0)
    };
    TlsKeys {
        version: TlsVersion::Tls13,
        role: TlsRole::Client,
        tx: direction(),
        rx: direction(),
        source: Box::new(NoKeys),
    }
}

/// Larger mappings are not searched: pools of other tests reserve much, and keep no keys.
const SEARCHED_MAX: u64 = 32 << 20;

/// Whether the writable memory of this process has a copy of `bytes`, apart from `bytes` themselves.
fn is_in_memory(bytes: &[u8]) -> bool {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let memory = File::open("/proc/self/mem").unwrap();
    let own = bytes.as_ptr().addr() as u64;
    let mut piece = vec![0; 1 << 20];
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (from, to) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let number = |hex| u64::from_str_radix(hex, 16).unwrap();
        let (mut at, end) = (number(from), number(to));
        if end - at > SEARCHED_MAX {
            continue;
        }
        while at < end {
            let room = (end - at).min(piece.len() as u64) as usize;
            // Some mappings can't be read.
            let read = memory.read_at(&mut piece[..room], at).unwrap_or(0);
            let windows = piece[..read].windows(bytes.len()).enumerate();
            let mut found = windows.filter(|(_, window)| window[0] == bytes[0] && *window == bytes);
            let buffer = piece.as_ptr().addr() as u64;
            if found.any(|(n, _)| {
                let place = at + n as u64;
                place != own && !(buffer..buffer + piece.len() as u64).contains(&place)
            }) {
                return true;
            }
            // A key may lie across two pieces.
            at += match read {
                0 => room as u64,
                read if at + read as u64 == end => read as u64,
                read => (read - bytes.len()).max(1) as u64,
            };
        }
    }
    false
}

/// Breaks if a key is not overwritten when it is dropped: a later reader of the memory would get it. The first round
/// key of AES is the key. In a process of its own: the heaps of a process with many tests are larger than the search.
#[test]
fn no_key_stays_in_memory_after_its_connection() {
    if !is_alone(256) {
        return;
    }
    let clock = Arc::new(MonotonicClock::new());
    let stack = Stack::new(Config::new(clock, Random::from_seed(1))).expect("a stack");
    let there = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 443);
    let listener = stack.tcp_listen(there, 1).expect("a listener");
    let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    let tcp = stack.tcp_connect(any, there).expect("a connection");
    stack.poll();
    let server = listener.accept().expect("established");
    let key = random_key();
    let client = TlsStream::new(tcp, keys(&key), TlsAbout::default());
    assert!(is_in_memory(&key), "the search finds a key that is there");
    drop((client, server, listener));
    stack.poll();
    assert!(!is_in_memory(&key), "the key is still there");
}
