//! Random numbers of a seed, lengths near the borders of storage, and bytes.
//!
//! Source: splitmix64 (Steele, Lea, Flood 2014), which is all that a test needs: neighbouring seeds have nothing in
//! common, and the same seed always gives the same.

use std::sync::LazyLock;

/// The stream of one seed.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// A length: mostly few bytes, often within one of a size of storage.
    pub(crate) fn len(&mut self) -> usize {
        let edge = match self.below(32) {
            0..8 => return self.below(4),
            8..18 => return self.below(48),
            18..21 => return self.below(300),
            21..26 => self.of(&[176, 216]),
            26..28 => self.of(&[512, 2048]),
            28 => return self.below(2100),
            29 => 4096,
            30 => self.of(&[9216, 16_384]),
            _ => return self.below(20_000),
        };
        edge - 1 + self.below(3)
    }
}

/// Bytes without a pattern, so that no two places are alike.
static TABLE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut draw = Draw::new(1);
    (0..TABLE_LEN / 8)
        .flat_map(|_| draw.next().to_le_bytes())
        .collect()
});

const TABLE_LEN: usize = 64 << 10;

/// `len` bytes, which others with other `bits` are not.
pub(crate) fn bytes(bits: u64, len: usize) -> Vec<u8> {
    let at = (bits >> 40) as usize % (TABLE_LEN - len);
    TABLE[at..at + len].to_vec()
}
