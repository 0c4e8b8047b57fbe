//! A design behind a vtable: one call for a whole run, so that its inside stays inlined.

use super::cases::purge::{self, Purge};
use super::cases::spike::{self, Sample};
use super::cases::{prodcons, single, threads};
use super::child::Job;
use super::design::{BATCH, Design, MANY};
use crate::harness::rounds::Took;

/// The operations on any design.
pub(crate) trait Subject: Send + Sync {
    /// `n` pairs on a CPU, of items that are not read or written.
    fn get(&self, cpu: usize, n: u64) -> Took;
    /// `n` pairs on a CPU.
    fn pair(&self, cpu: usize, n: u64) -> Took;
    /// `n` items in batches on a CPU.
    fn batch(&self, cpu: usize, n: u64) -> Took;
    /// The same with as many items live as all of `threads32` have.
    fn many(&self, cpu: usize, n: u64) -> Took;
    /// `n` items from one CPU to the other.
    fn prodcons(&self, cpus: (usize, usize), n: u64) -> Took;
    /// `n` items in batches on `threads` threads; CPU time.
    fn threads(&self, cpus: &[usize], threads: usize, n: u64) -> Took;
    /// Memory over time after a spike.
    fn spike(&self, job: &Job) -> Vec<Sample>;
    /// The effects of giving a spike's memory back.
    fn purge(&self, job: &Job) -> Purge;
    /// Items out of the slabs.
    fn taken(&self) -> Option<usize>;
    /// Fails the test if it is no allocator.
    #[cfg(test)]
    fn check(&self, size: usize, threads: u64, steps: u64);
}

impl<D: Design> Subject for D {
    fn get(&self, cpu: usize, n: u64) -> Took {
        single::timed(self, cpu, |design| design.gets(n))
    }

    fn pair(&self, cpu: usize, n: u64) -> Took {
        single::timed(self, cpu, |design| design.pairs(n))
    }

    fn batch(&self, cpu: usize, n: u64) -> Took {
        single::timed(self, cpu, |design| design.batches::<BATCH>(n))
    }

    fn many(&self, cpu: usize, n: u64) -> Took {
        single::timed(self, cpu, |design| design.batches::<MANY>(n))
    }

    fn prodcons(&self, cpus: (usize, usize), n: u64) -> Took {
        prodcons::run(self, cpus, n)
    }

    fn threads(&self, cpus: &[usize], threads: usize, n: u64) -> Took {
        threads::run(self, cpus, threads, n)
    }

    fn spike(&self, job: &Job) -> Vec<Sample> {
        spike::run(self, job)
    }

    fn purge(&self, job: &Job) -> Purge {
        purge::run(self, job)
    }

    fn taken(&self) -> Option<usize> {
        Design::taken(self)
    }

    #[cfg(test)]
    fn check(&self, size: usize, threads: u64, steps: u64) {
        super::cases::check::run(self, size, threads, steps);
    }
}
