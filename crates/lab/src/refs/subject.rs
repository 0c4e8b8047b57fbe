//! A design behind a vtable: one call for a whole run, so that its inside stays inlined.

use super::cases::{one, splice, two};
use super::design::{Design, Live, Shape};
use crate::harness::rounds::Took;

/// The operations on any design.
pub(crate) trait Subject: Send + Sync {
    /// `n` first shares, each released before the next.
    fn first(&self, cpu: usize, n: u64) -> Took;
    /// `n` first shares, released by the window.
    fn window(&self, cpu: usize, n: u64) -> Took;
    /// `n` shares of one view, which is shared already if `others`.
    fn again(&self, cpu: usize, others: bool, n: u64) -> Took;
    /// `n` shares on each CPU, of clusters of their own.
    fn different(&self, cpus: &[usize], n: u64) -> Took;
    /// `n` shares on each CPU, of one cluster.
    fn same(&self, cpus: &[usize], n: u64) -> Took;
    /// `n` clusters from one CPU to the other.
    fn splice(&self, cpus: (usize, usize), n: u64) -> Took;
    /// The items that are out of the design's zones: none, between runs.
    fn live(&self) -> Live;
    /// Fails the test if the design frees early, twice, or never.
    #[cfg(test)]
    fn check(&self, threads: u64, seed: u64, steps: u64);
}

/// A design, and the case that it was made for.
pub(crate) struct Of<D> {
    pub(crate) design: D,
    pub(crate) shape: Shape,
}

impl<D: Design> Subject for Of<D> {
    fn first(&self, cpu: usize, n: u64) -> Took {
        one::first(&self.design, cpu, self.shape, n)
    }

    fn window(&self, cpu: usize, n: u64) -> Took {
        one::window(&self.design, cpu, self.shape, n)
    }

    fn again(&self, cpu: usize, others: bool, n: u64) -> Took {
        one::again(&self.design, cpu, self.shape, others, n)
    }

    fn different(&self, cpus: &[usize], n: u64) -> Took {
        two::different(&self.design, cpus, self.shape, n)
    }

    fn same(&self, cpus: &[usize], n: u64) -> Took {
        two::same(&self.design, cpus, self.shape, n)
    }

    fn splice(&self, cpus: (usize, usize), n: u64) -> Took {
        splice::run(&self.design, cpus, self.shape, n)
    }

    fn live(&self) -> Live {
        self.design.live()
    }

    #[cfg(test)]
    fn check(&self, threads: u64, seed: u64, steps: u64) {
        use super::cases::check;
        match threads {
            1 => check::alone(&self.design, self.shape, seed, steps),
            _ => {
                check::together(&self.design, self.shape, threads, seed, steps);
                check::rush(&self.design, self.shape, seed, 20);
            }
        }
    }
}
