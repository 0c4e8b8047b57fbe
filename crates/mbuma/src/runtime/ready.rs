//! The ready list of a worker: tasks with work, each once, in the order in which they became ready.
//!
//! A task is anything in the program that gets turns on a worker: a connection, a service. The program finds it by its
//! key.
//!
//! ```text
//!   epoll event --.                                    .-- take: clears the mark, then its turn
//!                  >-- wake: sets its mark, and if  ---|
//!   stack's waker -'   it was clear, joins the list    '-- a wake during the turn joins again
//! ```
//!
//! The mark is cleared before the turn: the turn sees an event that comes during it, or the event causes another turn.
//! So no wakeup is lost, and no task is on the list twice.
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

/// Entries at most for which an empty list keeps room.
const KEPT_ENTRIES: usize = 64;

/// The list: clone the handle freely.
#[derive(Clone, Debug)]
pub struct ReadyList(Arc<ReadyTasks>);

#[derive(Debug)]
struct ReadyTasks {
    queue: Mutex<VecDeque<Arc<TaskWaker>>>,
    /// The list has an entry. Written under the lock, and read without it, so that a worker without entries takes no
    /// lock. Release, and Acquire by readers.
    waits: AtomicBool,
    /// The list has had more entries than an empty one keeps room for. Likewise.
    was_long: AtomicBool,
    /// The worker has ended, and the list takes no entry any more. Written and read under the lock. An entry refers to
    /// its list, so a remaining entry would keep the list and the worker's descriptors for ever.
    closed: AtomicBool,
    sleeper: Arc<Sleeper>,
}

/// The entry of one task for the list of its worker.
#[derive(Debug)]
pub struct TaskWaker {
    key: u64,
    /// The entry is on the list. AcqRel on both sides: the turn that clears the mark sees everything that happened
    /// before each wake that found it set.
    queued: AtomicBool,
    list: Arc<ReadyTasks>,
}

impl ReadyList {
    /// An empty list for the worker that sleeps on `sleeper`.
    pub(super) fn new(sleeper: &Arc<Sleeper>) -> Self {
        Self(Arc::new(ReadyTasks {
            queue: Mutex::new(&LIST, VecDeque::new()),
            waits: AtomicBool::new(false),
            was_long: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            sleeper: Arc::clone(sleeper),
        }))
    }

    /// The entry of the task with `key`.
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

    /// Whether nothing waits for its turn. If so, the list and its other half `taken` give back the memory of a spike,
    /// which would otherwise stay for ever.
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

    /// The worker has ended: drops all entries, now and later.
    pub(super) fn close(&self) {
        let mut queue = self.0.queue.lock();
        self.0.closed.store(true, Ordering::Relaxed);
        let entries = std::mem::take(&mut *queue);
        self.0.waits.store(false, Ordering::Release);
        drop(queue);
        drop(entries);
    }

    /// Moves the list behind `taken`; if that is empty, by an exchange.
    pub(super) fn take_all(&self, taken: &mut VecDeque<Arc<TaskWaker>>) {
        if self.is_empty() {
            return;
        }
        let mut queue = self.0.queue.lock();
        match taken.is_empty() {
            true => std::mem::swap(&mut *queue, taken),
            false => taken.append(&mut queue),
        }
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
    /// A waker for the stack.
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

    /// The task's turn begins: a later event needs another turn. Returns the key.
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

#[cfg(all(test, not(shuttle)))]
mod tests;
