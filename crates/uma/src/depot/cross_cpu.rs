//! Detects whether items are freed by one CPU and allocated by another.
//!
//! For such items [`claim_exclusive`](crate::cacheline::claim_exclusive) at each free saves more than it costs; for
//! others it saves nothing. So the detector answers yes only if nearly all items cross: a visit in which they do not
//! undoes [`OWN`] in which they do. Threads that share two CPUs leave items behind when the scheduler moves them, and
//! about half of the depot's items then come from another CPU. For 32 such threads a free would take a nanosecond
//! longer, a fifth of it.
//!
//! Locks: none; the depot's lock guards it.

/// Hysteresis threshold, in visits.
const SURE: u8 = 16;
/// How many crossing visits one visit undoes in which a CPU got its own items.
const OWN: u8 = 8;

/// A saturating count of visits, with hysteresis.
pub(crate) struct CrossCpuDetector {
    /// From 0, where all recent items were the CPU's own, to [`SURE`].
    crossed: u8,
    is_cross_cpu: bool,
}

impl CrossCpuDetector {
    pub(crate) const fn new() -> Self {
        Self {
            crossed: 0,
            is_cross_cpu: false,
        }
    }

    /// Whether nearly all items are freed by one CPU and allocated by another.
    pub(crate) fn is_cross_cpu(&self) -> bool {
        self.is_cross_cpu
    }

    /// Records whether a CPU got items that another CPU had freed. Writes only if the count changes: it is called at
    /// every visit, and all CPUs read the line.
    pub(crate) fn observe(&mut self, crossed: bool) {
        match crossed {
            true if self.crossed < SURE => self.crossed += 1,
            false if self.crossed > 0 => self.crossed = self.crossed.saturating_sub(OWN),
            _ => return,
        }
        match self.crossed {
            SURE => self.is_cross_cpu = true,
            0 => self.is_cross_cpu = false,
            _ => {}
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::{CrossCpuDetector, OWN, SURE};

    /// Breaks if a thread that was moved once counts as a producer and a consumer, or many threads that are moved do;
    /// or if a real producer and consumer are not found, or are given up after a rare exception.
    #[test]
    fn the_detector_needs_nearly_all_items_to_cross() {
        let mut cross_cpu = CrossCpuDetector::new();
        for _ in 1..SURE {
            cross_cpu.observe(true);
            assert!(!cross_cpu.is_cross_cpu());
        }
        for turn in 0..100 {
            cross_cpu.observe(turn % 5 != 0);
            assert!(!cross_cpu.is_cross_cpu());
        }
        for _ in 0..SURE {
            cross_cpu.observe(true);
        }
        for turn in 0..100 {
            cross_cpu.observe(turn % 20 != 0);
            assert!(cross_cpu.is_cross_cpu());
        }
        for _ in 0..SURE.div_ceil(OWN) {
            cross_cpu.observe(false);
        }
        assert!(!cross_cpu.is_cross_cpu());
    }
}
