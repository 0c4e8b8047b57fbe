//! The ready list of a worker: tasks that have something to do, each once, in the order in which they became ready.
//!
//! A task is anything of the program's that gets turns on a worker: a connection, a service. Its key says which one it is;
//! the program finds it by that.
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
//! Other threads put entries on the list too, and may find its worker asleep: then its [`Sleeper`] wakes it.
//!
//! Locks: `queue` (class TASKQUEUE), never held over a call.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use kern::{LockClass, Mutex, order};

use super::sleeper::Sleeper;

static LIST: LockClass = LockClass::new("runtime ready list", order::TASKQUEUE);

/// An empty list keeps room for so many entries at most.
const KEPT_ENTRIES: usize = 64;

/// The list: clone the handle freely.
#[derive(Clone, Debug)]
pub struct ReadyList(Arc<ReadyTasks>);

#[derive(Debug)]
struct ReadyTasks {
    queue: Mutex<VecDeque<Arc<TaskWaker>>>,
    /// The list has an entry. Written under the lock, so that a worker without one takes no lock. Release, and Acquire by a
    /// thread that reads it.
    waits: AtomicBool,
    /// The list has had more entries than an empty one keeps room for. Likewise.
    was_long: AtomicBool,
    /// The worker has ended, and takes nothing any more. Written and read under the lock: an entry holds its list, so one
    /// that stayed would keep the list, and the worker's descriptors, for ever.
    closed: AtomicBool,
    sleeper: Arc<Sleeper>,
}

/// One task's way onto the list of its worker.
#[derive(Debug)]
pub struct TaskWaker {
    key: u64,
    /// It is on the list. AcqRel on both sides: the turn that clears the mark sees all that was done before any wake
    /// that found it set.
    queued: AtomicBool,
    list: Arc<ReadyTasks>,
}

impl ReadyList {
    /// An empty list, of the worker that sleeps on `sleeper`.
    pub(super) fn new(sleeper: &Arc<Sleeper>) -> Self {
        Self(Arc::new(ReadyTasks {
            queue: Mutex::new(&LIST, VecDeque::new()),
            waits: AtomicBool::new(false),
            was_long: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            sleeper: Arc::clone(sleeper),
        }))
    }

    /// The way onto the list for the task that has `key`.
    pub fn waker_for(&self, key: impl Into<u64>) -> Arc<TaskWaker> {
        Arc::new(TaskWaker {
            key: key.into(),
            queued: AtomicBool::new(false),
            list: Arc::clone(&self.0),
        })
    }

    /// Whether nothing waits for its turn.
    pub fn is_empty(&self) -> bool {
        !self.0.waits.load(Ordering::Acquire)
    }

    /// Whether nothing waits for its turn. If so, list and `taken`, the list's other half, give back the memory of a
    /// spike, which would stay for ever otherwise.
    pub(super) fn shrink_if_empty(&self, taken: &mut VecDeque<Arc<TaskWaker>>) -> bool {
        if self.0.was_long.load(Ordering::Acquire) {
            let mut queue = self.0.queue.lock();
            if queue.is_empty() {
                self.0.was_long.store(false, Ordering::Release);
                (*queue, *taken) = (VecDeque::new(), VecDeque::new());
            }
        }
        self.is_empty()
    }

    /// The worker has ended: forgets all entries, and those to come.
    pub(super) fn close(&self) {
        let mut queue = self.0.queue.lock();
        self.0.closed.store(true, Ordering::Relaxed);
        let entries = std::mem::take(&mut *queue);
        self.0.waits.store(false, Ordering::Release);
        drop(queue);
        drop(entries);
    }

    /// Exchanges the whole list for `taken`, an empty one with room.
    pub(super) fn take_all(&self, taken: &mut VecDeque<Arc<TaskWaker>>) {
        debug_assert!(taken.is_empty());
        if self.is_empty() {
            return;
        }
        let mut queue = self.0.queue.lock();
        std::mem::swap(&mut *queue, taken);
        self.0.waits.store(false, Ordering::Release);
    }
}

impl ReadyTasks {
    fn push(&self, task: Arc<TaskWaker>) {
        let mut queue = self.queue.lock();
        if self.closed.load(Ordering::Relaxed) {
            return;
        }
        queue.push_back(task);
        self.waits.store(true, Ordering::Release);
        if queue.len() > KEPT_ENTRIES {
            self.was_long.store(true, Ordering::Release);
        }
    }
}

impl TaskWaker {
    /// Gives a waker to hand to the stack.
    pub fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    /// Puts the task onto the list, unless it is there.
    pub fn wake(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.list.push(Arc::clone(self));
            self.list.sleeper.wake_worker();
        }
    }

    /// The task's turn begins: a later event needs another turn. Gives its key.
    pub(super) fn begin(&self) -> u64 {
        self.queued.swap(false, Ordering::AcqRel);
        self.key
    }
}

impl std::task::Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        Self::wake(&self);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        Self::wake(self);
    }
}

#[cfg(test)]
mod tests;
