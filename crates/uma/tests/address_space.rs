//! A process with little address space: breaks when a zone takes all of it or gives up.
//!
//! One test: the limit is of the whole process.

// A sanitizer needs more address space than this leaves.
#![cfg(not(any(miri, uma_asan)))]

mod common;

use common::{assert_balance, free, write, zone};

#[test]
fn zones_share_a_limited_address_space() {
    // Breaks when the default reservation does not shrink under `ulimit -v`.
    let limit = libc::rlimit {
        rlim_cur: 2 << 30,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: `limit` is a valid rlimit to read, and lowering our own limit touches no memory.
    let answer = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
    assert_eq!(answer, 0);
    let zones: Vec<_> = (0..20).map(|_| zone(2048, 2048)).collect();
    for zone in &zones {
        let items: Vec<_> = (0..100).map(|_| zone.alloc().unwrap()).collect();
        items.iter().for_each(|&item| write(item, 1));
        items.into_iter().for_each(|item| free(zone, item));
        assert_balance(zone);
    }
    // And there is still room for others.
    drop(vec![1u8; 64 << 20]);
}
