//! TIME-WAIT: both directions are done, and the connection is remembered until old segments are gone
//! (RFC 9293 3.6.1).
//!
//! A gateway whose side closes first collects one of these a connection, thousands a second. They
//! hold no buffers, and only the last [`TcpConfig::time_wait_max`] are kept: the oldest make room.
//! A peer that comes back to the same port earlier than that ends its own (`input::reopens`).
//!
//! Locks: `waiting` (CALLOUT's neighbour; taken with no connection's lock held).
//!
//! [`TcpConfig::time_wait_max`]: crate::config::TcpConfig::time_wait_max

use std::collections::VecDeque;
use std::sync::Arc;

use kern::{LockClass, Mutex, order};

use super::pcb::{Inpcb, State, Tcb};
use super::planted::Planted;
use crate::batch::Batch;

static WAITING: LockClass = LockClass::new("tcp time-wait", order::TASKQUEUE);

/// Connections in TIME-WAIT, oldest first; some may have ended meanwhile.
pub(crate) struct TimeWait {
    waiting: Mutex<VecDeque<Arc<Inpcb>>>,
}

impl TimeWait {
    pub(crate) fn new() -> Self {
        Self {
            waiting: Mutex::new(&WAITING, VecDeque::new()),
        }
    }
}

/// Enters the state, or begins its time anew.
pub(crate) fn enter(batch: &Batch<'_>, t: &mut Tcb) {
    // A second FIN in the same batch does not undo what the first one did.
    t.entered_time_wait |= t.state != State::TimeWait;
    t.state = State::TimeWait;
    t.timers.stop();
    let config = &batch.stack.tcp.config;
    t.timers.wait =
        (!config.has_bug(Planted::LostTimeWaitTimer)).then(|| batch.now + 2 * config.msl);
    t.notify();
}

/// Counts a newcomer; the oldest goes when there are too many.
pub(crate) fn remember(batch: &mut Batch<'_>, pcb: &Arc<Inpcb>) {
    let tcp = &batch.stack.tcp;
    let mut waiting = tcp.time_wait.waiting.lock();
    waiting.push_back(Arc::clone(pcb));
    let over = waiting.len() > tcp.config.time_wait_max;
    let oldest = if over { waiting.pop_front() } else { None };
    drop(waiting);
    if let Some(oldest) = oldest {
        let mut t = oldest.tcb.lock();
        if t.state == State::TimeWait {
            t.close(None);
        }
        drop(t);
        batch.touch(&oldest);
    }
}

/// Forgets those at the front whose time is over.
pub(crate) fn sweep(batch: &Batch<'_>) {
    let mut waiting = batch.stack.tcp.time_wait.waiting.lock();
    while let Some(front) = waiting.pop_front() {
        // A connection alone here is in no table and no wheel any more.
        if Arc::strong_count(&front) > 1 {
            waiting.push_front(front);
            return;
        }
    }
}
