//! Times counted by powers of two of nanoseconds, and shown as seed 003 shows them.

use std::ops::Range;

/// Counts by powers of two, and the greatest.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    /// The n-th counts times from 2^n ns to below 2^(n+1); the first also zero.
    counts: [u64; 64],
    worst_ns: u64,
}

impl Histogram {
    pub(crate) const fn new() -> Self {
        Self {
            counts: [0; 64],
            worst_ns: 0,
        }
    }

    pub(crate) fn add(&mut self, ns: u64) {
        self.counts[ns.max(1).ilog2() as usize] += 1;
        self.worst_ns = self.worst_ns.max(ns);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.worst_ns = self.worst_ns.max(other.worst_ns);
    }

    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(crate) fn worst_ns(&self) -> u64 {
        self.worst_ns
    }

    /// How many waits had at least this length, a power of two of nanoseconds.
    pub(crate) fn at_least(&self, power: usize) -> u64 {
        self.counts.iter().skip(power).sum()
    }

    /// The power of two below which the given part of the times is, in nanoseconds, or the worst, if that is less:
    /// within twice of the quantile.
    pub(crate) fn quantile_ns(&self, part: f64) -> f64 {
        let wanted = (self.total() as f64 * part).ceil().max(1.0);
        let mut below = 0;
        for (power, count) in self.counts.iter().enumerate() {
            below += count;
            if below as f64 >= wanted {
                return 2f64.powi(power as i32 + 1).min(self.worst_ns as f64);
            }
        }
        0.0
    }

    /// Where each bin begins, in nanoseconds, and its count: from the first to the last that have any.
    pub(crate) fn bins(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.used().map(|power| (1 << power, self.counts[power]))
    }

    /// The powers of two from the least to the greatest that occurred.
    fn used(&self) -> Range<usize> {
        let is_used = |count: &u64| *count > 0;
        let first = self.counts.iter().position(is_used).unwrap_or(0);
        let last = self.counts.iter().rposition(is_used);
        first..last.map_or(0, |last| last + 1)
    }

    /// One row for each power from the least to the greatest that occurred, one empty row around.
    pub(crate) fn rows(&self) -> String {
        let used = self.used();
        let total = self.total().max(1);
        let head = format!("  {:>13} {:-^40} count\n", "ns", " Distribution ");
        let row = |power: usize| {
            let count = self.counts[power];
            let bar = "@".repeat(((count * 40 + total / 2) / total) as usize);
            format!("  {:>13} |{bar:<40} {count}\n", 1_u64 << power)
        };
        let rows = used.start.saturating_sub(1)..=used.end.clamp(1, 62);
        head + &rows.map(row).collect::<String>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_counted_by_powers_of_two() {
        // Breaks if a time is counted in another row than its own, or a row is missing.
        let mut all = Histogram::new();
        for ns in [0, 1, 2, 3, 4, 1023, 1024] {
            all.add(ns);
        }
        assert_eq!((all.total(), all.worst_ns()), (7, 1024));
        assert_eq!(all.at_least(9), 2);
        assert_eq!(all.quantile_ns(0.5), 4.0);
        assert_eq!(all.bins().collect::<Vec<_>>()[..2], [(1, 2), (2, 2)]);
        assert_eq!(all.bins().last(), Some((1024, 1)));
        let rows = all.rows();
        assert!(
            rows.contains("    2 |") && rows.lines().count() == 13,
            "{rows}"
        );
        let mut twice = all.clone();
        twice.merge(&all);
        assert_eq!(twice.total(), 14);
    }
}
