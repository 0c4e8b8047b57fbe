//! The identification field, which tells the fragments of one datagram from those of another.
//!
//! Datagrams that can't be fragmented need none and carry 0 (RFC 6864 section 4.1). For the others, a keyed hash of
//! source, destination and protocol selects one of many counters and an offset to it. So a third host can't guess the
//! ids between two others, or count our packets (RFC 7739 section 5 does the same for IPv6), and an id repeats only
//! after 65,536 datagrams of its counter.
//!
//! Locks: none.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU16, Ordering};

use kern::{KeyedHash, Random};
use wire::IpProto;

/// Counters; a power of two. 4 KiB.
const COUNTERS: usize = 2048;

/// The ids given out so far.
pub(super) struct Idents {
    hash: KeyedHash,
    /// Written by senders. Relaxed: the values only have to differ.
    counters: Box<[AtomicU16]>,
}

impl Idents {
    pub(super) fn new(random: &mut Random) -> Self {
        let hash = KeyedHash::new(random);
        let start = |_| AtomicU16::new(random.next_u32() as u16);
        Self {
            hash,
            counters: (0..COUNTERS).map(start).collect(),
        }
    }

    /// The next id from `src` to `dst`.
    #[doc(alias = "ip_fillid")]
    pub(super) fn next(&self, src: Ipv4Addr, dst: Ipv4Addr, proto: IpProto) -> u16 {
        let mut key = [0; 9];
        key[..4].copy_from_slice(&src.octets());
        key[4..8].copy_from_slice(&dst.octets());
        key[8] = proto.0;
        let hash = self.hash.hash(&key);
        let count = self.counters[hash as usize % COUNTERS].fetch_add(1, Ordering::Relaxed);
        // The upper half hides the counter from a host that does not know the key.
        count.wrapping_add((hash >> 48) as u16)
    }
}

kern::impl_debug!(Idents);

#[cfg(all(test, not(shuttle)))]
mod tests;
