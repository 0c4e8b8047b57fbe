//! A set of slab numbers that gives its lowest member, or the next one, in a few loads.
//!
//! ```text
//!   level 2   1 bit for each word of level 1 that is not zero      1 word     for 262,144 slabs
//!   level 1   1 bit for each word of level 0 that is not zero     64 words
//!   level 0   1 bit for each number                             4096 words
//! ```
//!
//! Invariant: a bit of a higher level is set exactly when the word below it is not zero.

use std::collections::TryReserveError;

const LEVELS: usize = 3;

/// A set of small numbers.
#[derive(Debug, Default)]
pub(crate) struct Bitset {
    levels: [Vec<u64>; LEVELS],
    len: usize,
}

impl Bitset {
    /// Makes room for the numbers below `len`.
    pub(crate) fn grow(&mut self, len: usize) -> Result<(), TryReserveError> {
        let mut words = len;
        for level in &mut self.levels {
            words = words.div_ceil(64);
            level.try_reserve(words.saturating_sub(level.len()))?;
        }
        words = len;
        for level in &mut self.levels {
            words = words.div_ceil(64);
            level.resize(words.max(level.len()), 0);
        }
        Ok(())
    }

    /// Adds a number for which there is room.
    pub(crate) fn insert(&mut self, n: usize) {
        debug_assert!(!self.contains(n), "slab {n} is in the set already");
        self.len += 1;
        let mut at = n;
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            let was_there = *word != 0;
            *word |= 1 << (at % 64);
            if was_there {
                break;
            }
            at /= 64;
        }
    }

    /// Takes a member out.
    pub(crate) fn remove(&mut self, n: usize) {
        debug_assert!(self.contains(n), "slab {n} is not in the set");
        self.len -= 1;
        let mut at = n;
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            *word &= !(1 << (at % 64));
            if *word != 0 {
                break;
            }
            at /= 64;
        }
    }

    /// Whether the number is a member.
    pub(crate) fn contains(&self, n: usize) -> bool {
        self.levels[0]
            .get(n / 64)
            .is_some_and(|word| word & (1 << (n % 64)) != 0)
    }

    /// Members.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether the set is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The lowest member.
    pub(crate) fn first(&self) -> Option<usize> {
        self.next_from(0)
    }

    /// The lowest member that is not below `n`.
    pub(crate) fn next_from(&self, n: usize) -> Option<usize> {
        let mut at = n;
        for (height, level) in self.levels.iter().enumerate() {
            let bits = level.get(at / 64)? & (u64::MAX << (at % 64));
            if bits != 0 {
                return Some(self.lowest_under(height, (at & !63) + first_bit(bits)));
            }
            at = at / 64 + 1;
        }
        // `at` counts words of the top level now.
        let top = &self.levels[LEVELS - 1];
        let (word, bits) = (at..).zip(top.get(at..)?).find(|(_, bits)| **bits != 0)?;
        Some(self.lowest_under(LEVELS - 1, word * 64 + first_bit(*bits)))
    }

    /// The highest member below `n`.
    pub(crate) fn last_before(&self, n: usize) -> Option<usize> {
        let mut at = n.min(self.levels[0].len() * 64);
        for (height, level) in self.levels.iter().enumerate() {
            // The word is missing only where the level ends, and then no bit below `at` is in it.
            let bits = level.get(at / 64).unwrap_or(&0) & ((1 << (at % 64)) - 1);
            if bits != 0 {
                return Some(self.highest_under(height, (at & !63) + last_bit(bits)));
            }
            at /= 64;
        }
        let top = &self.levels[LEVELS - 1];
        let word = top.iter().take(at).rposition(|bits| *bits != 0)?;
        Some(self.highest_under(LEVELS - 1, word * 64 + last_bit(top[word])))
    }

    /// The lowest member under a set bit of a level.
    fn lowest_under(&self, height: usize, bit: usize) -> usize {
        let below = self.levels[..height].iter().rev();
        below.fold(bit, |at, level| at * 64 + first_bit(level[at]))
    }

    /// The highest member under a set bit of a level.
    fn highest_under(&self, height: usize, bit: usize) -> usize {
        let below = self.levels[..height].iter().rev();
        below.fold(bit, |at, level| at * 64 + last_bit(level[at]))
    }

    /// Whether the levels agree with each other.
    pub(crate) fn is_valid(&self) -> bool {
        let ones: u32 = self.levels[0].iter().map(|word| word.count_ones()).sum();
        let agrees = |pair: &[Vec<u64>]| {
            let told = |i: usize| pair[1][i / 64] & (1 << (i % 64)) != 0;
            pair[0]
                .iter()
                .enumerate()
                .all(|(i, word)| told(i) == (*word != 0))
        };
        ones as usize == self.len && self.levels.windows(2).all(agrees)
    }
}

/// The lowest bit of a word that is not zero.
fn first_bit(word: u64) -> usize {
    word.trailing_zeros() as usize
}

/// The highest bit of a word that is not zero.
fn last_bit(word: u64) -> usize {
    63 - word.leading_zeros() as usize
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
