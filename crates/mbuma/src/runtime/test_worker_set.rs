//! Helpers for unit tests of the workers.
//!
//! Locks: none.

use std::collections::VecDeque;
use std::sync::Arc;

use super::worker_pool::WorkerPoolConfig;
use super::worker_set::WorkerSet;

/// So many workers, without their threads.
pub(super) fn worker_set(count: usize) -> Arc<WorkerSet> {
    Arc::new(WorkerSet::new(&WorkerPoolConfig::new(count)).expect("descriptors"))
}

/// Empties a worker's ready list and returns the number of tasks that were on it.
pub(super) fn take(worker_set: &WorkerSet, index: usize) -> usize {
    let mut taken = VecDeque::new();
    worker_set.ready(index).take_all(&mut taken);
    taken.iter().for_each(|task| _ = task.begin());
    taken.len()
}
