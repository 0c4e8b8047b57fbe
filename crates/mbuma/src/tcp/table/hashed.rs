//! A connection's key with its keyed hash, which is computed once for a lookup and selects the shard and the place in
//! it.
//!
//! Locks: none.
//!
//! Two words, which are passed and compared as words. The hash's 32 bits are in the place of the key's padding.
//! Attackers do not know them, so they can't choose keys that collide.

use std::hash::{Hash, Hasher};
use std::net::{Ipv4Addr, Ipv6Addr};

use kern::SeededState;

use crate::inet::Pair;

/// A key and its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hashed {
    hosts: u64,
    ports: u32,
    hash: u32,
}

impl Hashed {
    #[inline]
    pub(super) fn new(pair: &Pair<Ipv4Addr>, state: &SeededState) -> Self {
        let host = |addr: Ipv4Addr| u64::from(addr.to_bits());
        Self {
            hosts: host(pair.local) << 32 | host(pair.peer),
            ports: u32::from(pair.local_port) << 16 | u32::from(pair.peer_port),
            hash: state.hash_bytes(&pair.to_bytes()) as u32,
        }
    }
}

impl HashedKey for Hashed {
    #[inline]
    fn one_of(&self, n: usize) -> usize {
        self.hash as usize % n
    }
}

/// A key with its hash.
pub(super) trait HashedKey: Copy + Eq + Hash {
    /// One of `n`, all equally likely.
    fn one_of(&self, n: usize) -> usize;
}

/// A key of IPv6, and its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hashed6 {
    pair: Pair<Ipv6Addr>,
    zone: u32,
    hash: u32,
}

impl Hashed6 {
    #[inline]
    pub(super) fn new(pair: &Pair<Ipv6Addr>, zone: u32, state: &SeededState) -> Self {
        Self {
            pair: *pair,
            zone,
            hash: state.hash_bytes(&pair.to_bytes(zone)) as u32,
        }
    }
}

impl HashedKey for Hashed6 {
    #[inline]
    fn one_of(&self, n: usize) -> usize {
        self.hash as usize % n
    }
}

impl Hash for Hashed6 {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.hash);
    }
}

impl Hash for Hashed {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.hash);
    }
}
