//! Chooses the worker that accepts a new connection.
//!
//! Locks: none of its own.

use std::sync::Arc;
use std::task::{Wake, Waker};

use kern::Clock;

use super::ready::TaskWaker;
use super::worker_set::WorkerSet;

/// Steers to the calling worker, which took the packet in, or to another worker with much less load; to worker 0 if the
/// caller is no worker.
pub(super) struct AcceptSteering {
    worker_set: Arc<WorkerSet>,
    clock: Arc<dyn Clock>,
    /// The task of each worker that accepts.
    tasks: Vec<Arc<TaskWaker>>,
}

impl AcceptSteering {
    /// Steers to the workers of `tasks`.
    pub(super) fn waker(
        worker_set: &Arc<WorkerSet>,
        clock: &Arc<dyn Clock>,
        tasks: Vec<Arc<TaskWaker>>,
    ) -> Waker {
        let (worker_set, clock) = (Arc::clone(worker_set), Arc::clone(clock));
        Waker::from(Arc::new(Self {
            worker_set,
            clock,
            tasks,
        }))
    }
}

impl Wake for AcceptSteering {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let caller = self.worker_set.current();
        let own = if caller.is_own { caller.index } else { 0 };
        let index = self.worker_set.worker_for(own, self.clock.now());
        TaskWaker::wake(&self.tasks[index]);
    }
}
