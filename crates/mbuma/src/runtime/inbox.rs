//! Tasks that move to a worker from others that have much more to do.
//!
//! ```text
//!   worker 0, busy                                    worker 1
//!   a turn ends, rebalance_target says 1
//!   out of table, epoll set       --> [ inbox ] -->   into table, epoll set; a turn
//! ```
//!
//! On its way a task is on no worker, and must lose nothing: the program moves along the readiness that a descriptor
//! reported, adds the descriptor to the next worker's set, which reports later events, and begins with a turn, which makes
//! up for wakeups that still went to the old worker. The packets of a connection come by the old worker's queue until the
//! new worker has sent the first packet; the stack takes them in from any queue.
//!
//! Invariants: while tasks lie here, the inbox's waker is on the worker's ready list, or in its turn: a worker whose list
//! is empty, and which is not in the middle of a round, has none here.
//! Locks: `queue` (class TASKQUEUE), never held over a call.

use std::fmt;
use std::sync::Arc;

use kern::{LockClass, Mutex, order};

use super::ready::{ReadyList, TaskWaker};

static QUEUE: LockClass = LockClass::new("runtime inbox", order::TASKQUEUE);

/// Tasks on their way to a worker.
pub struct Inbox<T> {
    queue: Mutex<Vec<T>>,
    waker: Arc<TaskWaker>,
}

impl<T> Inbox<T> {
    /// An empty one, of the worker that has `ready`; `key` gets a turn when something lies here.
    pub fn new(ready: &ReadyList, key: impl Into<u64>) -> Self {
        Self {
            queue: Mutex::new(&QUEUE, Vec::new()),
            waker: ready.waker_for(key),
        }
    }

    /// Moves `task` to the worker.
    pub fn put(&self, task: T) {
        self.queue.lock().push(task);
        self.waker.wake();
    }

    /// All that lies here.
    pub fn take_all(&self) -> Vec<T> {
        std::mem::take(&mut *self.queue.lock())
    }
}

impl<T> fmt::Debug for Inbox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").finish_non_exhaustive()
    }
}
