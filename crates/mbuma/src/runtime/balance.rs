//! The number of busy tasks that a worker gives to another worker, so that all tasks get the same throughput.
//!
//! A worker gives its tasks equal turns, but two workers may have unequal numbers of busy tasks, or unequal shares of
//! the machine's CPUs: each of 48 connections would get a third of the throughput of 16 on the other worker. So in each
//! period a worker counts its busy tasks and their bytes. With N tasks and B bytes here, and n and b there, all are
//! equal after k tasks have moved from here to there:
//!
//! ```text
//!     B / (N - k)  =  b / (n + k)        k = (N b - n B) / (B + b)
//! ```
//!
//! Only half of k moves at a time, because the other worker's figures are from its last period. A worker gives tasks
//! away only if it seldom sleeps: otherwise the peers limit its tasks.
//!
//! Locks: none. All state is the worker's own, except [`BusyLoad`], which its owner publishes. Relaxed: the figures
//! order no other memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kern::Time;

use super::worker_set::WorkerSet;

/// The length of a period.
const PERIOD: Duration = Duration::from_millis(100);
/// Bytes in a period that make a task busy.
const MUCH: u64 = 16 << 10;
/// A smaller fraction of its tasks is not worth moving: figures vary from period to period.
const DEADBAND: u64 = 16;

/// The work of a worker's busy tasks in its last period, as the other workers read it.
#[derive(Debug, Default)]
pub(super) struct BusyLoad {
    tasks: AtomicU64,
    bytes: AtomicU64,
    /// When the period ended, in nanoseconds.
    at: AtomicU64,
}

/// The same, for its owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BusySum {
    pub(super) tasks: u64,
    pub(super) bytes: u64,
}

/// The work of one task in a period.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecentMoves {
    period: u64,
    bytes: u64,
}

/// A worker's current period.
#[derive(Debug)]
pub(super) struct Balance {
    since: Time,
    /// The number of the period; a task's [`RecentMoves`] begins with none.
    period: u64,
    sum: BusySum,
    rounds: u32,
    sleeps: u32,
    /// The worker that gets tasks, and how many.
    gift: Option<(usize, u64)>,
}

impl BusyLoad {
    pub(super) fn publish(&self, now: Time, sum: BusySum) {
        self.tasks.store(sum.tasks, Ordering::Relaxed);
        self.bytes.store(sum.bytes, Ordering::Relaxed);
        self.at.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// The figures, unless they are out of date.
    pub(super) fn at(&self, now: Time) -> BusySum {
        let age = now
            .as_nanos()
            .saturating_sub(self.at.load(Ordering::Relaxed));
        if age > 3 * PERIOD.as_nanos() as u64 {
            return BusySum::default();
        }
        BusySum {
            tasks: self.tasks.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

impl BusySum {
    /// How many tasks should move from a worker with this load to one with load `to`.
    pub(super) fn surplus(self, to: BusySum) -> u64 {
        let (here, there) = (u128::from(self.tasks), u128::from(to.tasks));
        let (bytes, others) = (u128::from(self.bytes), u128::from(to.bytes));
        let excess = (here * others).saturating_sub(there * bytes);
        let surplus = excess.checked_div(bytes + others).unwrap_or(0) as u64;
        match surplus > self.tasks / DEADBAND {
            true => surplus.div_ceil(2),
            false => 0,
        }
    }
}

impl Balance {
    /// The first period begins.
    pub(super) fn new(now: Time) -> Balance {
        Balance {
            since: now,
            period: 1,
            sum: BusySum::default(),
            rounds: 0,
            sleeps: 0,
            gift: None,
        }
    }

    /// A task has transferred `bytes` in a turn. Returns the worker to which the task should migrate, if it should.
    pub(super) fn moved(&mut self, recent: &mut RecentMoves, bytes: u64) -> Option<usize> {
        if recent.period != self.period {
            *recent = RecentMoves {
                period: self.period,
                bytes: 0,
            };
        }
        let before = recent.bytes;
        recent.bytes += bytes;
        match (before >= MUCH, recent.bytes >= MUCH) {
            (true, _) => self.sum.bytes += bytes,
            (false, true) => {
                self.sum.tasks += 1;
                self.sum.bytes += recent.bytes;
            }
            (false, false) => return None,
        }
        let (to, left) = self.gift?;
        self.gift = (left > 1).then_some((to, left - 1));
        Some(to)
    }

    /// A round of worker `own` begins.
    pub(super) fn round(&mut self, worker_set: &WorkerSet, own: usize, now: Time, sleeps: bool) {
        self.rounds += 1;
        self.sleeps += u32::from(sleeps);
        let length = now - self.since;
        if worker_set.len() < 2 || length < PERIOD {
            return;
        }
        // A period with a long sleep does not show the worker's capacity.
        let sum = match length < 2 * PERIOD {
            true => self.sum,
            false => BusySum::default(),
        };
        worker_set.publish(own, now, sum);
        let is_full = self.sleeps <= self.rounds / 2;
        let gift = is_full.then(|| worker_set.surplus(own, sum, now)).flatten();
        *self = Balance {
            period: self.period + 1,
            gift,
            ..Balance::new(now)
        };
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::BusySum;

    fn load(tasks: u64, bytes: u64) -> BusySum {
        BusySum { tasks, bytes }
    }

    #[test]
    fn tasks_go_to_where_each_moves_more() {
        // Breaks when downloads of one worker move a multiple of what those of another do, or when equal workers
        // give tasks to and fro.
        assert_eq!(load(48, 1000).surplus(load(16, 1000)), 8);
        assert_eq!(load(16, 1000).surplus(load(48, 1000)), 0);
        assert_eq!(load(4, 340).surplus(load(4, 575)), 1);
        assert_eq!(load(4, 575).surplus(load(4, 340)), 0);
        assert_eq!(load(4, 1000).surplus(load(4, 1100)), 0);
        assert_eq!(load(5, 1000).surplus(load(4, 1000)), 0);
        assert_eq!(load(1, 10).surplus(load(1, 1 << 40)), 0);
        assert_eq!(load(0, 0).surplus(load(0, 0)), 0);
        assert_eq!(load(2, 10).surplus(load(0, 0)), 0);
    }
}
