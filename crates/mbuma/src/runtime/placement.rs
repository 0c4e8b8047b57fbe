//! Selects the worker of a task: the one that receives its packets, unless that worker carries much more load than
//! another.
//!
//! | question | answer |
//! |---|---|
//! | which worker accepts a connection? | the one that took its packet in; if it is busy and another is not, the other ([`accept_steering`](super::accept_steering)) |
//! | a task becomes busy later? | after a turn it goes to a worker that will have a quarter of its worker's load at most, even with it |
//! | all workers are busy? | every tenth of a second the worker whose busy tasks move less each gives some to the other ([`balance`](super::balance)) |
//!
//! So a small request does not wait for the turns of a bulk stream on its worker. The load counts recent bytes
//! ([`load_average`](super::load_average)), so that streams also separate, and none migrates back and forth.
//!
//! Locks: none.

use kern::Time;

use super::balance::{BusyLoad, BusySum, RecentMoves};
use super::context::WorkerContext;
use super::load_average::LoadAverage;
use super::worker_set::WorkerSet;

/// The load average from which on a worker counts as busy: more than about 90 MB a second, for which other tasks should
/// not wait.
const BUSY_BYTES: u64 = 1 << 20;
/// The ratio of two workers' loads from which on a task moves to the one with the smaller load.
const LOAD_RATIO: u64 = 4;

/// The load of a worker, as other workers read it.
#[derive(Debug, Default)]
pub(super) struct WorkerLoad {
    average: LoadAverage,
    busy: BusyLoad,
}

/// The load of one task of a program. The task owns it, and carries it along when it migrates.
#[derive(Debug, Default)]
pub struct TaskLoad {
    /// Bytes that it has transferred lately.
    average: LoadAverage,
    /// Bytes that it has transferred in its worker's period.
    recent: RecentMoves,
    /// The worker to which its own worker gives busy tasks.
    surplus_to: Option<usize>,
}

impl WorkerLoad {
    fn is_busy(&self, now: Time) -> bool {
        self.average.at(now) >= BUSY_BYTES
    }
}

impl WorkerContext {
    /// The task has transferred `bytes` in its turn.
    pub fn record_task(&mut self, task: &mut TaskLoad, now: Time, bytes: u64) {
        task.average.record(now, bytes);
        task.surplus_to = self.balance.moved(&mut task.recent, bytes);
    }

    /// The worker that would serve this task better, if there is one. The caller calls [`hand_over`](Self::hand_over),
    /// and then moves the task there by an [`Inbox`](super::Inbox).
    pub fn rebalance_target(&self, task: &TaskLoad, now: Time) -> Option<usize> {
        let bytes = task.average.at(now);
        let better = || self.worker_set.rebalance_target(self.index, now, bytes);
        task.surplus_to.or_else(better)
    }

    /// The task migrates to worker `to`. The loads change now and not on its arrival: otherwise the next task would
    /// follow it for the same reason.
    pub fn hand_over(&self, task: &mut TaskLoad, to: usize, now: Time) {
        let bytes = task.average.at(now);
        self.worker_set
            .load(self.index)
            .average
            .hand_over(now, bytes);
        self.worker_set.load(to).average.record(now, bytes);
        task.recent = RecentMoves::default();
        task.surplus_to = None;
    }
}

impl WorkerSet {
    /// Worker `index` has transferred `bytes` more.
    pub(super) fn record_load(&self, index: usize, now: Time, bytes: u64) {
        self.load(index).average.record(now, bytes);
    }

    /// Whether any worker is busy: then it and the programs at both ends need the CPUs.
    pub(super) fn is_busy(&self, now: Time) -> bool {
        (0..self.len()).any(|index| self.load(index).is_busy(now))
    }

    /// The worker for a connection whose first packet worker `own` received.
    pub(super) fn worker_for(&self, own: usize, now: Time) -> usize {
        self.rebalance_target(own, now, 0).unwrap_or(own)
    }

    /// The worker to which a task of worker `own` with a load average of `bytes` should migrate: one that even with
    /// this task has much less load than `own` without it.
    fn rebalance_target(&self, own: usize, now: Time, bytes: u64) -> Option<usize> {
        let average = |index: usize| self.load(index).average.at(now);
        let rest = average(own).saturating_sub(bytes);
        if rest < BUSY_BYTES {
            return None;
        }
        let least_loaded = (0..self.len()).min_by_key(|index| average(*index));
        least_loaded.filter(|index| average(*index) + bytes < rest / LOAD_RATIO)
    }

    /// Publishes the recent work of worker `index`'s busy tasks.
    pub(super) fn publish(&self, index: usize, now: Time, sum: BusySum) {
        self.load(index).busy.publish(now, sum);
    }

    /// The worker that should get some of worker `own`'s busy tasks, which did `sum`, and how many: see
    /// [`balance`](super::balance).
    pub(super) fn surplus(&self, own: usize, sum: BusySum, now: Time) -> Option<(usize, u64)> {
        let others = (0..self.len()).filter(|index| *index != own);
        let surplus = others.map(|index| (index, sum.surplus(self.load(index).busy.at(now))));
        let most = surplus.max_by_key(|(_, count)| *count);
        most.filter(|(_, count)| *count > 0)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
