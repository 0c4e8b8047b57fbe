//! A set of slab numbers that gives its lowest member in a few loads.
//!
//! Called by: `keg.rs`. Calls: nothing. Two levels: a bit a slab, and a bit for each word of
//! those. 8 GiB of 64 KiB slabs are 2048 words and 32 summary words.
//!
//! Invariant: a summary bit is set exactly when its word is not zero.

use std::collections::TryReserveError;

/// A set of small numbers.
#[derive(Debug, Default)]
pub(crate) struct Bitset {
    words: Vec<u64>,
    summary: Vec<u64>,
}

impl Bitset {
    /// Makes room for the numbers below `len`.
    pub(crate) fn grow(&mut self, len: usize) -> Result<(), TryReserveError> {
        let words = len.div_ceil(64);
        let summary = words.div_ceil(64);
        self.words
            .try_reserve(words.saturating_sub(self.words.len()))?;
        self.summary
            .try_reserve(summary.saturating_sub(self.summary.len()))?;
        self.words.resize(words.max(self.words.len()), 0);
        self.summary.resize(summary.max(self.summary.len()), 0);
        Ok(())
    }

    /// Adds a number for which there is room.
    pub(crate) fn insert(&mut self, n: usize) {
        debug_assert!(!self.contains(n), "slab {n} is in the set already");
        self.words[n / 64] |= 1 << (n % 64);
        self.summary[n / 4096] |= 1 << (n / 64 % 64);
    }

    /// Takes a member out.
    pub(crate) fn remove(&mut self, n: usize) {
        debug_assert!(self.contains(n), "slab {n} is not in the set");
        self.words[n / 64] &= !(1 << (n % 64));
        if self.words[n / 64] == 0 {
            self.summary[n / 4096] &= !(1 << (n / 64 % 64));
        }
    }

    /// Whether the number is a member.
    pub(crate) fn contains(&self, n: usize) -> bool {
        self.words
            .get(n / 64)
            .is_some_and(|word| word & (1 << (n % 64)) != 0)
    }

    /// The lowest member.
    pub(crate) fn first(&self) -> Option<usize> {
        let (i, summary) = self
            .summary
            .iter()
            .enumerate()
            .find(|(_, word)| **word != 0)?;
        let word = i * 64 + summary.trailing_zeros() as usize;
        Some(word * 64 + self.words[word].trailing_zeros() as usize)
    }

    /// Members.
    pub(crate) fn len(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Whether the summary tells the truth.
    pub(crate) fn is_valid(&self) -> bool {
        self.words.iter().enumerate().all(|(i, word)| {
            let summary = self.summary[i / 64] & (1 << (i % 64)) != 0;
            summary == (*word != 0)
        })
    }
}

#[cfg(test)]
mod tests;
