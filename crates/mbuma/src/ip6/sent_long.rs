//! The packets sent lately that may be too large for a path, because they are longer than IPv6's minimum MTU: datagrams
//! of UDP, and answers to pings. A report that such a packet was too large is accepted only if it is about one of them.
//!
//! TCP needs no such list: a report must quote a sequence number that is under way.
//!
//! Invariants: a place for each of a few flows; a later one takes the place of one with the same hash.
//! Locks: none.
//! Sources: RFC 8201 section 4 (validate reports as far as possible), RFC 4443 section 5.2.

use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicU64, Ordering};

use kern::{KeyedHash, Random};
use wire::{IpProto, Ipv6Header};

/// Flows that are remembered: 2 KiB.
const PLACES: usize = 256;

/// The flows, each as the hash of its destination and of what names it there.
#[derive(Debug)]
pub(crate) struct SentLong {
    hash: KeyedHash,
    /// Relaxed: a report comes long after the packet that it is about.
    places: [AtomicU64; PLACES],
}

impl SentLong {
    pub(super) fn new(random: &mut Random) -> Self {
        Self {
            hash: KeyedHash::new(random),
            places: [const { AtomicU64::new(0) }; PLACES],
        }
    }

    /// A packet leaves, to `dst`, with `len` bytes behind its IP header. `flow`: its ports, or its identifier and
    /// sequence number.
    #[inline]
    pub(crate) fn note(&self, dst: Ipv6Addr, proto: IpProto, flow: u32, len: usize) {
        // Each path carries the rest.
        if Ipv6Header::LEN + len > usize::from(Ipv6Header::MTU_MIN) {
            let hash = self.hash_of(dst, proto, flow);
            let place = self.place(hash);
            // A flow of many packets writes the line once.
            if place.load(Ordering::Relaxed) != hash {
                place.store(hash, Ordering::Relaxed);
            }
        }
    }

    /// Whether such a packet was sent lately.
    pub(crate) fn has(&self, dst: Ipv6Addr, proto: IpProto, flow: u32) -> bool {
        let hash = self.hash_of(dst, proto, flow);
        self.place(hash).load(Ordering::Relaxed) == hash
    }

    fn hash_of(&self, dst: Ipv6Addr, proto: IpProto, flow: u32) -> u64 {
        let mut bytes = [0; 21];
        let (addr, rest) = bytes.split_at_mut(16);
        addr.copy_from_slice(&dst.octets());
        rest[..4].copy_from_slice(&flow.to_be_bytes());
        rest[4] = proto.0;
        // 0 is an empty place.
        self.hash.hash(&bytes).max(1)
    }

    fn place(&self, hash: u64) -> &AtomicU64 {
        &self.places[hash as usize % PLACES]
    }
}
