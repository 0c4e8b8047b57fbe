//! Connections that move to this worker from others that have much more to do.
//!
//! ```text
//!   worker 0, busy                                    worker 1
//!   a turn ends, WorkerPool::rebalance_target says 1
//!   out of table, epoll set       --> [ inbox ] -->   into table, epoll set; a turn
//! ```
//!
//! On its way a connection is in no table, and loses nothing: the readiness that its socket reported goes with it; later
//! events are reported to the next epoll set that it is added to; and the turn that it begins with makes up for wakeups
//! that still went to the old worker. Its packets come by the old worker's queue until the new worker has written the
//! first packet to the guest; the stack takes them in from any queue.
//!
//! Called by: worker_pool. Calls: the ready list.
//! Invariants: while connections lie here, the inbox's wake is on the worker's ready list, or in its turn: a worker whose
//! list is empty, and which is not in the middle of a round, has none here.
//! Locks: `queue` (class TASKQUEUE), never held over a call.

use std::sync::Arc;

use kern::{LockClass, Mutex, order};
use mbuma::runtime::{ReadyList, TaskWaker};

use super::relay::Relay;
use super::table::{Kind, Token};

static QUEUE: LockClass = LockClass::new("gateway inbox", order::TASKQUEUE);

/// A connection on its way to a worker.
pub(super) struct Inbox {
    queue: Mutex<Vec<Relay>>,
    wake: Arc<TaskWaker>,
}

impl Inbox {
    /// An empty one, of the worker that has `ready`.
    pub(super) fn new(ready: &ReadyList) -> Inbox {
        Inbox {
            queue: Mutex::new(&QUEUE, Vec::new()),
            wake: ready.waker_for(Token::only(Kind::Inbox)),
        }
    }

    /// Moves `relay` to the worker.
    pub(super) fn put(&self, relay: Relay) {
        self.queue.lock().push(relay);
        self.wake.wake();
    }

    /// All that lies here.
    pub(super) fn take_all(&self) -> Vec<Relay> {
        std::mem::take(&mut *self.queue.lock())
    }
}
