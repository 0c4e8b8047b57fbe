//! Helpers for unit tests of the workers.
//!
//! Locks: none.

use std::collections::VecDeque;
use std::sync::Arc;

use super::crew::Crew;
use super::worker_pool::WorkerPoolConfig;

/// So many workers, without their threads.
pub(super) fn crew(count: usize) -> Arc<Crew> {
    Arc::new(Crew::new(&WorkerPoolConfig::new(count)).expect("descriptors"))
}

/// Empties a worker's ready list and returns the number of tasks that were on it.
pub(super) fn take(crew: &Crew, index: usize) -> usize {
    let mut taken = VecDeque::new();
    crew.ready(index).take_all(&mut taken);
    taken.iter().for_each(|task| _ = task.begin());
    taken.len()
}
