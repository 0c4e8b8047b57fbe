//! The hash of a map whose keys an attacker can't choose: a few instructions, where a keyed hash takes a hundred.
//!
//! Such a key is a keyed hash itself, or a number that this program chose.
//!
//! Locks: none.
//! Source: Knuth, volume 3, section 6.4 (multiplicative hashing).

use std::hash::{BuildHasherDefault, Hasher};

/// Makes a hash of a key that is one word.
pub(crate) type BuildSpread = BuildHasherDefault<Spread>;

/// The bits of a word, spread over the 64 that a map looks at.
#[derive(Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    #[inline]
    fn write_u16(&mut self, word: u16) {
        self.write_u32(word.into());
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.0 = u64::from(word).wrapping_mul(GOLDEN);
        self.0 ^= self.0 >> 32;
    }

    /// Never called: a key is one word.
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(GOLDEN);
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// 2^64 over the golden ratio, odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
