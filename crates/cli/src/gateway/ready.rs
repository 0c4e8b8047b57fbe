//! The ready list of a worker: connections and services that have something to do, each once, in the order in which they
//! became ready.
//!
//! ```text
//!   epoll event --.                                    .-- take: clears the mark, then its turn
//!                  >-- wake: sets its mark, and if  ---|
//!   stack's waker -'   it was clear, joins the list    '-- a wake during the turn joins again
//! ```
//!
//! The mark is cleared before the turn: an event during the turn is either seen by it or brings another turn. So no wakeup
//! is lost, and nothing is on the list twice.
//!
//! Other workers put entries on the list too, and may find its worker asleep: then an [`EventfdWaker`] wakes it. All that
//! others want of a worker comes by this list, so that the list is all it must check again before it sleeps (see
//! [`kern::sleep_flag`]).
//!
//! Called by: the loop, the stack (through [`std::task::Waker`]). Calls: nothing.
//! Locks: `queue` (class TASKQUEUE), never held over a call.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use kern::{Cpus, LockClass, Mutex, SleepFlag, Workers, order};

use super::table::Token;
use kern::sys::EventFd;

static LIST: LockClass = LockClass::new("gateway ready list", order::TASKQUEUE);

/// A list begins with room for so many entries, and an empty one keeps no more.
const KEPT_ENTRIES: usize = 64;

/// The list: clone the handle freely.
#[derive(Clone, Debug)]
pub(super) struct Ready(Arc<List>);

#[derive(Debug)]
struct List {
    queue: Mutex<VecDeque<Arc<Wake>>>,
    /// `None` if there is no other thread to wake this one.
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
    /// It is on the list. AcqRel on both sides: the turn that clears the mark sees all that was done before any wake
    /// that found it set.
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
        let queue = Mutex::new(&LIST, VecDeque::with_capacity(KEPT_ENTRIES));
        Ready(Arc::new(List {
            queue,
            eventfd_waker,
        }))
    }

    /// The way onto the list for the object that `token` names.
    pub(super) fn wake_for(&self, token: Token) -> Arc<Wake> {
        Arc::new(Wake {
            token,
            queued: AtomicBool::new(false),
            list: Arc::clone(&self.0),
        })
    }

    /// Whether nothing waits for its turn.
    pub(super) fn is_empty(&self) -> bool {
        self.0.queue.lock().is_empty()
    }

    /// Whether the worker may sleep: the list is empty, and a wake from now on wakes the worker. `taken`, the list's other
    /// half, is empty too.
    pub(super) fn prepare_sleep(&self, taken: &mut VecDeque<Arc<Wake>>) -> bool {
        if let Some(eventfd_waker) = &self.0.eventfd_waker {
            eventfd_waker.flag.prepare_sleep();
        }
        let may_sleep = self.shrink_if_empty();
        if may_sleep {
            shrink(taken);
        } else {
            self.awake();
        }
        may_sleep
    }

    fn shrink_if_empty(&self) -> bool {
        let mut queue = self.0.queue.lock();
        let empty = queue.is_empty();
        if empty {
            shrink(&mut queue);
        }
        empty
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
        std::mem::swap(&mut *self.0.queue.lock(), taken);
    }
}

/// Gives back the memory of an empty list that was long: otherwise the memory of a spike would stay for ever.
fn shrink(list: &mut VecDeque<Arc<Wake>>) {
    if list.capacity() > KEPT_ENTRIES {
        *list = VecDeque::with_capacity(KEPT_ENTRIES);
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
            self.list.queue.lock().push_back(Arc::clone(self));
            if let Some(eventfd_waker) = &self.list.eventfd_waker {
                eventfd_waker.notify();
            }
        }
    }

    /// Its turn begins: a later event needs another turn.
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
