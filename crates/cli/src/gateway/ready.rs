//! The ready list: what has something to do, each thing once, in the order in which it became so.
//!
//! ```text
//!   epoll event --.                                   .-- take: clears the mark, then its turn
//!                  >-- Wake: sets its mark, and if ---|
//!   stack's waker -'   it was clear, joins the list   '-- ... a wake during the turn joins again
//! ```
//!
//! The mark is cleared before the turn: what happens during it is either seen by it or brings
//! another one, so no wakeup is lost and none is queued twice.
//!
//! A list is one worker's. With others beside it, they too put things on it, and may find it asleep: a
//! [`EventfdWaker`] says whether, and wakes it. Everything that another worker wants of it comes this way, so
//! that the list is all there is to look at once more before it sleeps (see [`kern::sleep_flag`]).
//!
//! Called by: the loop, the stack (through [`std::task::Waker`]). Calls: nothing.
//! Locks: `row` (class TASKQUEUE), never held over a call.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use kern::{Cpus, LockClass, Mutex, SleepFlag, Workers, order};

use super::table::Token;
use kern::sys::EventFd;

static LIST: LockClass = LockClass::new("gateway ready list", order::TASKQUEUE);

/// The list: clone the handle freely.
#[derive(Clone, Debug)]
pub(super) struct Ready(Arc<List>);

#[derive(Debug)]
struct List {
    row: Mutex<VecDeque<Arc<Wake>>>,
    /// None where nobody else is there to wake the worker.
    eventfd_waker: Option<EventfdWaker>,
}

/// How others wake a worker.
#[derive(Debug)]
pub(super) struct EventfdWaker {
    cpus: Arc<Workers>,
    /// Which of them it is.
    index: usize,
    flag: SleepFlag,
    event: Arc<EventFd>,
}

/// One thing's way onto the list.
#[derive(Debug)]
pub(super) struct Wake {
    token: Token,
    /// It is on the list. AcqRel on both sides: whoever finds it set knows that the turn which clears
    /// it comes later, and sees all that was done before.
    queued: AtomicBool,
    list: Arc<List>,
}

impl EventfdWaker {
    /// Wakes worker `index` of `cpus`, which watches `event` by edge.
    pub(super) fn new(cpus: &Arc<Workers>, index: usize, event: &Arc<EventFd>) -> EventfdWaker {
        EventfdWaker {
            cpus: Arc::clone(cpus),
            index,
            flag: SleepFlag::new(),
            event: Arc::clone(event),
        }
    }

    /// Something was put on the list.
    fn notify(&self) {
        let caller = self.cpus.current();
        // The worker itself is awake.
        let own = caller.is_own && caller.index == self.index;
        if !own && self.flag.wake_needed() {
            self.event.signal();
        }
    }
}

impl Ready {
    /// An empty list.
    pub(super) fn new(eventfd_waker: Option<EventfdWaker>) -> Ready {
        let row = Mutex::new(&LIST, VecDeque::new());
        Ready(Arc::new(List { row, eventfd_waker }))
    }

    /// The way onto the list for what `token` names.
    pub(super) fn wake_for(&self, token: Token) -> Arc<Wake> {
        Arc::new(Wake {
            token,
            queued: AtomicBool::new(false),
            list: Arc::clone(&self.0),
        })
    }

    /// Whether nothing waits for its turn.
    pub(super) fn is_empty(&self) -> bool {
        self.0.row.lock().is_empty()
    }

    /// Whether the worker may sleep: nothing is on the list, and whoever puts something there from now on
    /// wakes it.
    pub(super) fn prepare_sleep(&self) -> bool {
        if let Some(eventfd_waker) = &self.0.eventfd_waker {
            eventfd_waker.flag.prepare_sleep();
        }
        let may_sleep = self.is_empty();
        if !may_sleep {
            self.awake();
        }
        may_sleep
    }

    /// The worker is awake again.
    pub(super) fn awake(&self) {
        if let Some(eventfd_waker) = &self.0.eventfd_waker {
            eventfd_waker.flag.awake();
        }
    }

    /// Exchanges the whole list for `taken`, an empty one with room.
    pub(super) fn take_all(&self, taken: &mut VecDeque<Arc<Wake>>) {
        debug_assert!(taken.is_empty());
        std::mem::swap(&mut *self.0.row.lock(), taken);
    }
}

impl Wake {
    /// Gives a waker to hand to the stack.
    pub(super) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    /// Puts it onto the list, unless it is there.
    pub(super) fn wake(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.list.row.lock().push_back(Arc::clone(self));
            if let Some(eventfd_waker) = &self.list.eventfd_waker {
                eventfd_waker.notify();
            }
        }
    }

    /// Its turn begins: what happens from now on needs another one.
    pub(super) fn begin(&self) -> Token {
        self.queued.swap(false, Ordering::AcqRel);
        self.token
    }
}

impl std::task::Wake for Wake {
    fn wake(self: Arc<Self>) {
        Wake::wake(&self);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        Wake::wake(self);
    }
}

#[cfg(test)]
mod tests;
