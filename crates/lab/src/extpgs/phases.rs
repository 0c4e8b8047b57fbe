//! One turn of a design: many records are built, walked and freed, each time with cold caches.
//!
//! ```text
//!   build   record 0, 1, 2 ...                        as an encrypting thread does
//!   queue   in shuffled order into rows of 16         not timed: connections take turns
//!   walk    row by row                                as a driver does
//!   free    row by row                                as an acknowledgement does
//! ```
//!
//! Invariant: before each phase the caches hold [`Cold`]'s lines and not the design's; the clock is the thread's own,
//! which stands still while another program has the CPU.
//!
//! The phases are functions of their own, so that callgrind can count in one of them alone.

use super::design::Design;
use crate::harness::sys;
use std::hint::black_box;
use std::time::Duration;

/// Records of a send buffer: 256 KiB.
pub(crate) const ROW: usize = 16;

/// Memory that fills the caches.
pub(crate) struct Cold(Vec<u64>);

impl Cold {
    /// Three times the largest caches of one CPU.
    const BYTES: usize = 96 << 20;
    /// Words of a line.
    const LINE: usize = 8;

    pub(crate) fn new() -> Self {
        Self(vec![1; Self::BYTES / 8])
    }

    /// Writes every line.
    fn take(&mut self) {
        for word in self.0.iter_mut().step_by(Self::LINE) {
            *word = word.wrapping_add(1);
        }
        black_box(&self.0);
    }
}

/// Nanoseconds a record.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    pub(crate) build: f64,
    pub(crate) walk: f64,
    pub(crate) free: f64,
}

impl Turn {
    /// All phases of a record.
    pub(crate) fn total(self) -> f64 {
        self.build + self.walk + self.free
    }
}

/// The data that a design needs for a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weight {
    /// Mbufs of a MiB of payload.
    pub(crate) mbufs_per_mib: f64,
    /// Bytes of mbufs, lists, and clusters beyond the payload.
    pub(crate) overhead: usize,
}

/// A design behind a vtable: one call for a whole turn.
pub(crate) trait Subject {
    /// Builds, walks, frees.
    fn turn(&mut self, cold: &mut Cold) -> Turn;
    /// Looks at one row.
    fn weigh(&mut self) -> Weight;
    /// The sum of the walks over all records.
    #[cfg(test)]
    fn sum(&mut self) -> u64;
}

/// A design, and the order in which its records are queued.
pub(crate) struct Bench<D> {
    design: D,
    order: Vec<usize>,
}

impl<D: Design> Bench<D> {
    /// For this many records.
    pub(crate) fn new(records: usize) -> Self {
        Self {
            design: D::new(records),
            order: shuffled(records),
        }
    }

    fn queue(&self, records: Vec<D::Record>) -> Vec<D::Sndbuf> {
        let mut records: Vec<Option<D::Record>> = records.into_iter().map(Some).collect();
        let mut rows = Vec::new();
        rows.resize_with(records.len().div_ceil(ROW), D::Sndbuf::default);
        for (place, &which) in self.order.iter().enumerate() {
            if let Some(record) = records[which].take() {
                self.design.append(&mut rows[place / ROW], record);
            }
        }
        rows
    }
}

impl<D: Design> Subject for Bench<D> {
    fn turn(&mut self, cold: &mut Cold) -> Turn {
        let count = self.order.len();
        let mut records = Vec::with_capacity(count);
        cold.take();
        let build = timed(count, || build_all(&mut self.design, count, &mut records));
        let rows = self.queue(records);
        cold.take();
        let walk = timed(count, || {
            black_box(walk_all(&self.design, &rows));
        });
        cold.take();
        let free = timed(count, || free_all(&self.design, rows));
        assert_eq!(self.design.live(), 0, "a design leaks");
        Turn { build, walk, free }
    }

    fn weigh(&mut self) -> Weight {
        let mut records = Vec::new();
        build_all(&mut self.design, ROW, &mut records);
        let mut row = D::Sndbuf::default();
        records
            .into_iter()
            .for_each(|record| self.design.append(&mut row, record));
        let mibs = (ROW * super::design::RECORD) as f64 / f64::from(1 << 20);
        let weight = Weight {
            mbufs_per_mib: self.design.mbufs(&row) as f64 / mibs,
            overhead: self.design.overhead(),
        };
        self.design.free(row);
        weight
    }

    #[cfg(test)]
    fn sum(&mut self) -> u64 {
        let mut records = Vec::new();
        build_all(&mut self.design, self.order.len(), &mut records);
        let rows = self.queue(records);
        let sum = walk_all(&self.design, &rows);
        free_all(&self.design, rows);
        assert_eq!(self.design.live(), 0, "a design leaks");
        sum
    }
}

#[inline(never)]
fn build_all<D: Design>(design: &mut D, count: usize, records: &mut Vec<D::Record>) {
    for number in 0..count as u64 {
        records.push(design.build(&super::design::Spec::new(number)));
    }
}

#[inline(never)]
fn walk_all<D: Design>(design: &D, rows: &[D::Sndbuf]) -> u64 {
    let walk = |sum: u64, row| sum.wrapping_add(design.walk(row));
    rows.iter().fold(0, walk)
}

#[inline(never)]
fn free_all<D: Design>(design: &D, rows: Vec<D::Sndbuf>) {
    rows.into_iter().for_each(|row| design.free(row));
}

/// Nanoseconds of each of `count`.
fn timed(count: usize, work: impl FnOnce()) -> f64 {
    let before = sys::thread_time();
    work();
    let took: Duration = sys::thread_time().saturating_sub(before);
    took.as_nanos() as f64 / count as f64
}

/// The numbers below `count` in an order that is the same each time, and that no prefetcher guesses.
pub(crate) fn shuffled(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for at in (1..count).rev() {
        // A step of xorshift.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        order.swap(at, (state % (at as u64 + 1)) as usize);
    }
    order
}
