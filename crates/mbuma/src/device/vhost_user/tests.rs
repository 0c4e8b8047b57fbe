//! The test plays the other side: a driver over a ring in a memfd, and a front-end's messages.

mod driver;
mod hostile;
mod protocol;
mod rings;

use mbuf::{Live, MbufPool, Packet, PoolConfig};

use super::*;

const MTU: u16 = 1500;
const ALL: Budget = Budget {
    frames: 100_000,
    bytes: usize::MAX,
};

fn pool() -> MbufPool {
    MbufPool::new(PoolConfig::default()).unwrap()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

fn packet(pool: &MbufPool, bytes: &[u8]) -> Packet {
    Packet::from_slice(pool, bytes, 0).unwrap()
}

/// Nothing is left of a test's frames.
fn assert_balance(pool: &MbufPool) {
    assert_eq!(pool.live(), Live::NONE);
}
