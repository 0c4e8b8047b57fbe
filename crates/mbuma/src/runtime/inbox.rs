//! Tasks that migrate to a worker from workers with much more load.
//!
//! ```text
//!   worker 0, busy                                    worker 1
//!   a turn ends, rebalance_target says 1
//!   out of table, epoll set       --> [ inbox ] -->   into table, epoll set; a turn
//! ```
//!
//! Between the two workers a task belongs to neither, and must lose no event. The program carries along the readiness
//! that a descriptor has reported. The new worker's set, to which the program adds the descriptor, reports later
//! events. The first turn on the new worker covers wakeups that still went to the old one. The packets of a connection
//! come by the old worker's queue until the new worker has sent the first packet; the stack takes them in from any
//! queue.
//!
//! Invariants: while tasks wait here, the inbox's waker is on the worker's ready list or has its turn. So a worker that
//! is between two rounds and has an empty list has no task here. Locks: `queue` (class TASKQUEUE), never held over a
//! call.

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
    /// An empty inbox of the worker with the list `ready`; `key` gets a turn when a task arrives.
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
