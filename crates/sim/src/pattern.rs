//! Bytes that are a function of a seed and an offset, so that a lost, doubled or moved byte is found at once, and sent
//! bytes need not be stored.

/// The bytes of one direction of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pattern(u64);

impl Pattern {
    /// The pattern of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Writes the bytes from `offset` on.
    pub fn fill(self, offset: u64, out: &mut [u8]) {
        let mut at = offset;
        let mut rest = out;
        while !rest.is_empty() {
            let word = self.word(at / 8);
            let skip = (at % 8) as usize;
            let n = rest.len().min(8 - skip);
            let (now, later) = rest.split_at_mut(n);
            now.copy_from_slice(&word[skip..skip + n]);
            at += n as u64;
            rest = later;
        }
    }

    /// The offset of the first wrong byte, if there is one.
    pub fn mismatch(self, offset: u64, bytes: &[u8]) -> Option<u64> {
        let mut buf = [0; 512];
        let mut at = offset;
        for chunk in bytes.chunks(buf.len()) {
            let want = &mut buf[..chunk.len()];
            self.fill(at, want);
            if let Some(i) = want.iter().zip(chunk).position(|(a, b)| a != b) {
                return Some(at + i as u64);
            }
            at += chunk.len() as u64;
        }
        None
    }

    /// Eight bytes at once: the finalizer of SplitMix64 over the word's number.
    fn word(self, index: u64) -> [u8; 8] {
        let mut x = self.0 ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)).to_le_bytes()
    }
}

#[cfg(test)]
mod tests;
