//! Long answers to pings that were sent lately. A report that such an answer is too large for a path is accepted only
//! if it is about one of them.
//!
//! Invariants: a place for each of a few answers; a later one takes the place of one with the same hash.
//! Locks: none.
//! Sources: RFC 8201 section 4 (validate reports as far as possible), RFC 4443 section 5.2.

use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicU64, Ordering};

use kern::{KeyedHash, Random};

/// Answers that are remembered.
const PLACES: usize = 64;

/// The answers, each as the hash of its receiver, identifier and sequence number.
#[derive(Debug)]
pub(crate) struct SentReplies {
    hash: KeyedHash,
    /// Relaxed: a report comes long after the answer that it is about.
    places: [AtomicU64; PLACES],
}

impl SentReplies {
    pub(super) fn new(random: &mut Random) -> Self {
        Self {
            hash: KeyedHash::new(random),
            places: [const { AtomicU64::new(0) }; PLACES],
        }
    }

    /// One leaves, to `dst`.
    pub(super) fn note(&self, dst: Ipv6Addr, id_and_seq: u32) {
        let hash = self.hash_of(dst, id_and_seq);
        self.place(hash).store(hash, Ordering::Relaxed);
    }

    /// Whether an answer was sent to `dst` lately.
    pub(super) fn has(&self, dst: Ipv6Addr, id_and_seq: u32) -> bool {
        let hash = self.hash_of(dst, id_and_seq);
        self.place(hash).load(Ordering::Relaxed) == hash
    }

    fn hash_of(&self, dst: Ipv6Addr, id_and_seq: u32) -> u64 {
        let mut bytes = [0; 20];
        let (addr, rest) = bytes.split_at_mut(16);
        addr.copy_from_slice(&dst.octets());
        rest.copy_from_slice(&id_and_seq.to_be_bytes());
        // 0 is an empty place.
        self.hash.hash(&bytes).max(1)
    }

    fn place(&self, hash: u64) -> &AtomicU64 {
        &self.places[hash as usize % PLACES]
    }
}
