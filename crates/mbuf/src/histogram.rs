//! The distribution of packet sizes, by which the sizes of mbufs and clusters were chosen (seed 004, figure 2).
//!
//! Locks: none; each CPU counts for itself.

use core::fmt;

use kern::Counter;

/// Bins: sizes below 1, 2, 4, ... 64 Ki bytes, and those beyond.
const BINS: usize = 18;

/// Counts packets by their size, one bin for each power of two.
#[derive(Debug, Default)]
pub struct SizeHistogram {
    bins: [Counter; BINS],
    bytes: Counter,
}

impl SizeHistogram {
    /// A histogram without packets.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            bins: [const { Counter::new() }; BINS],
            bytes: Counter::new(),
        }
    }

    /// Counts a packet of `len` bytes.
    #[inline]
    pub fn record(&self, len: usize) {
        self.bins[bin(len)].inc();
        self.bytes.add(len as u64);
    }

    /// The counts so far.
    #[must_use]
    pub fn get(&self) -> SizeCounts {
        SizeCounts {
            bins: self.bins.each_ref().map(Counter::get),
            bytes: self.bytes.get(),
        }
    }
}

/// 0 for 0, else the base-2 logarithm plus 1.
#[inline]
fn bin(len: usize) -> usize {
    ((usize::BITS - len.leading_zeros()) as usize).min(BINS - 1)
}

/// Packets by size. `Display` draws a bar for each bin that has any.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SizeCounts {
    bins: [u64; BINS],
    /// Bytes in all packets together.
    pub bytes: u64,
}

impl SizeCounts {
    /// Packets in all.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.bins.iter().sum()
    }

    /// The bins that have any: the smallest and the largest size, in bytes, and the packets. The last
    /// bin's largest size is [`usize::MAX`].
    pub fn iter(&self) -> impl Iterator<Item = (usize, usize, u64)> {
        let bins = self.bins.iter().enumerate().filter(|(_, n)| **n > 0);
        bins.map(|(i, &n)| match i {
            0 => (0, 0, n),
            _ if i == BINS - 1 => (1 << (i - 1), usize::MAX, n),
            _ => (1 << (i - 1), (1 << i) - 1, n),
        })
    }
}

impl fmt::Display for SizeCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const WIDTH: u64 = 40;
        let most = self.bins.iter().copied().max().unwrap_or(0).max(1);
        for (low, high, n) in self.iter() {
            let sizes = match high {
                usize::MAX => format!("{low} and more"),
                _ => format!("{low}-{high}"),
            };
            let bar = "#".repeat((n * WIDTH).div_ceil(most) as usize);
            writeln!(f, "{sizes:>16} {n:>12} {bar}")?;
        }
        Ok(())
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_in_its_bin() {
        // Breaks if a bin's edges are off by one, or a size has none.
        let histogram = SizeHistogram::new();
        for len in [
            0,
            1,
            2,
            3,
            64,
            127,
            128,
            65_535,
            65_536,
            70_000,
            usize::MAX >> 8,
        ] {
            histogram.record(len);
        }
        let counts = histogram.get();
        assert_eq!(counts.packets(), 11);
        let bins: Vec<_> = counts.iter().collect();
        assert_eq!(
            bins,
            [
                (0, 0, 1),
                (1, 1, 1),
                (2, 3, 2),
                (64, 127, 2),
                (128, 255, 1),
                (32_768, 65_535, 1),
                (65_536, usize::MAX, 3),
            ]
        );
        assert_eq!(counts.to_string().lines().count(), 7);
    }
}
