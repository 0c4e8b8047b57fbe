//! Connections that other workers give to this one, because it has much less to do than they.
//!
//! ```text
//!   worker 0, hot                            worker 1, cool
//!   a turn ends, WorkerPool::relief says 1
//!   out of table, epoll set  --> [ inbox ] -->  into table, epoll set; a turn
//! ```
//!
//! In between nobody has it, and nothing is lost: what its socket reported goes with it, what happens to
//! the socket meanwhile is reported anew to whoever watches it next, and the stack's wakers, which may still
//! find the old worker, are made up for by the turn that it begins with. Packets of it come by the old
//! worker's queue until the new one has written the first; the stack does not mind.
//!
//! Called by: worker_pool. Calls: ready.
//! Invariants: as long as something lies here, its wake is on the worker's ready list, or in its turn: so a
//! worker whose list is empty, and which is not in the middle of a round, has nothing here.
//! Locks: `row` (class TASKQUEUE), never held over a call.

use std::sync::Arc;

use kern::{LockClass, Mutex, order};

use super::ready::{Ready, Wake};
use super::relay::Relay;
use super::table::{Kind, Token};

static ROW: LockClass = LockClass::new("gateway inbox", order::TASKQUEUE);

/// What is on its way to a worker.
pub(super) struct Inbox {
    row: Mutex<Vec<Relay>>,
    wake: Arc<Wake>,
}

impl Inbox {
    /// An empty one, of the worker that has `ready`.
    pub(super) fn new(ready: &Ready) -> Inbox {
        Inbox {
            row: Mutex::new(&ROW, Vec::new()),
            wake: ready.wake_for(Token::only(Kind::Inbox)),
        }
    }

    /// Gives `splice` to the worker.
    pub(super) fn put(&self, relay: Relay) {
        self.row.lock().push(relay);
        self.wake.wake();
    }

    /// All that lies here.
    pub(super) fn take_all(&self) -> Vec<Relay> {
        std::mem::take(&mut *self.row.lock())
    }
}
