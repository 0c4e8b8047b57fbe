//! Which way items go: round one CPU, or from the one that frees them to another that allocates them.
//!
//! Locks: none; the depot's guards it.
//!
//! Items that come back to where they were freed pay for what is done for the others, so the others must be most by
//! far: a visit of the one kind undoes [`OWN`] of the other. Threads that share two CPUs leave items behind when the
//! scheduler moves them, and about half of what the depot hands out then is another CPU's; for 32 such threads a free
//! would take a nanosecond longer, a fifth of it all.

/// How many visits more of the one kind than it takes to undo them change the answer.
const SURE: u8 = 16;
/// How many visits in which items went from CPU to CPU are undone by one in which they did not.
const OWN: u8 = 8;

/// What the last visits were like.
pub(crate) struct CrossCpuDetector {
    /// From 0, where all were of one CPU's own items, to [`SURE`].
    crossed: u8,
    crossing: bool,
}

impl CrossCpuDetector {
    pub(crate) const fn new() -> Self {
        Self {
            crossed: 0,
            crossing: false,
        }
    }

    /// Whether nearly all items are freed by one CPU and allocated by another.
    pub(crate) fn crossing(&self) -> bool {
        self.crossing
    }

    /// A CPU got items that another one had freed, or its own. Where that is no news nothing is written: it is
    /// said at every visit, and the line is every CPU's.
    pub(crate) fn observe(&mut self, crossed: bool) {
        match crossed {
            true if self.crossed < SURE => self.crossed += 1,
            false if self.crossed > 0 => self.crossed = self.crossed.saturating_sub(OWN),
            _ => return,
        }
        match self.crossed {
            SURE => self.crossing = true,
            0 => self.crossing = false,
            _ => {}
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::{CrossCpuDetector, OWN, SURE};

    /// Fails if a thread that was moved once is taken for two, or many that are moved for a producer and a consumer; or
    /// if these are not seen, or given up for a rare exception.
    #[test]
    fn nearly_all_must_cross() {
        let mut cross_cpu = CrossCpuDetector::new();
        for _ in 1..SURE {
            cross_cpu.observe(true);
            assert!(!cross_cpu.crossing());
        }
        for turn in 0..100 {
            cross_cpu.observe(turn % 5 != 0);
            assert!(!cross_cpu.crossing());
        }
        for _ in 0..SURE {
            cross_cpu.observe(true);
        }
        for turn in 0..100 {
            cross_cpu.observe(turn % 20 != 0);
            assert!(cross_cpu.crossing());
        }
        for _ in 0..SURE.div_ceil(OWN) {
            cross_cpu.observe(false);
        }
        assert!(!cross_cpu.crossing());
    }
}
