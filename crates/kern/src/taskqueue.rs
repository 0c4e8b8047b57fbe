//! Work handed from one thread to another without a lost wakeup, and without a thread of its own.
//!
//! The owner's threads call [`Taskqueue::run`].
//!
//! # The protocol
//!
//! A [`Task`] has four of the states of `work_state.rs`, with their transitions:
//!
//! | state | enqueue is a put | taken off the queue: begin | done: end |
//! |---|---|---|---|
//! | Idle | Scheduled, and the enqueuer pushes it | | |
//! | Scheduled | stays: it is queued | Running | |
//! | Running | More: a mark for the runner | | Idle |
//! | More | stays | | Scheduled, and the runner pushes it |
//!
//! The claim: after each [`Taskqueue::enqueue`] a run of the task begins that sees all earlier writes of the enqueuing
//! thread. The argument:
//!
//! - Every transition is a read-modify-write with acquire and release, *also those that leave the
//!   state as it is*: the enqueuer's step releases its writes, and the runner's begin acquires them.
//! - An enqueue that finds the task running can't know how far the run has come. It sets
//!   More. The runner leaves `Running` by the same kind of step: it either finds the mark, or has left
//!   before the enqueue, which then found `Idle`.
//! - One thread runs a task at a time: the thread that took it off the queue.
//!
//! The wakeup is called when an enqueue takes the queue from empty to not empty, after the queue's
//! lock was released. While the queue is not empty, a thread was woken and has not finished: a run
//! that stops at its budget reports it ([`Ran::more`]), and its caller must run the queue again. A task that must run
//! again is pushed by its runner, which is awake.
//!
//! Locks: [`order::TASKQUEUE`] over the queue. `tests/models/taskqueue.rs` checks the protocol.
//! Source: seed 003 (the wakeup state machine of epair).

use std::collections::VecDeque;
use std::sync::Arc;

use crate::lock::LockClass;
use crate::order;
use crate::prim::Mutex;
use crate::witness;
use crate::work_state::{AtomicWorkState, WorkAction, WorkEvent, WorkState};

/// A function that can be queued, and is queued at most once at a time (seed 003, taskqueue(9)).
pub struct Task {
    state: AtomicWorkState,
    run: Box<dyn Fn() + Send + Sync>,
}

impl Task {
    /// An idle task that calls `run`.
    ///
    /// `run` must do all pending work: any number of enqueues may have led to one call.
    #[doc(alias = "TASK_INIT")]
    #[must_use]
    pub fn new(run: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            state: AtomicWorkState::new(WorkState::Idle),
            run: Box::new(run),
        }
    }
}

crate::impl_debug!(Task |this| state: this.state);

/// A queue of tasks that its owner's threads run.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use kern::{Task, Taskqueue};
///
/// let taskqueue = Taskqueue::new(|| { /* write to an eventfd, unpark a thread */ });
/// let runs = Arc::new(AtomicU32::new(0));
/// let counted = Arc::clone(&runs);
/// let task = Arc::new(Task::new(move || {
///     counted.fetch_add(1, Ordering::Relaxed);
/// }));
///
/// taskqueue.enqueue(&task);
/// taskqueue.enqueue(&task); // already queued
/// assert!(!taskqueue.run(16).more);
/// assert_eq!(runs.load(Ordering::Relaxed), 1);
/// ```
pub struct Taskqueue {
    queue: Mutex<VecDeque<Arc<Task>>>,
    wakeup: Box<dyn Fn() + Send + Sync>,
}

/// The result of an enqueue (seed 003). No result asks the caller for a step; tests and statistics read it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EnqueueOutcome {
    /// The task was queued, and the wakeup called, since the queue was empty.
    Woke,
    /// The task was queued behind others; the thread that runs those runs it too.
    Queued,
    /// The task was queued already, and has not begun.
    AlreadyQueued,
    /// The task is running, and will run again.
    RunsAgain,
}

/// The result of a [`Taskqueue::run`].
#[must_use = "if there is more, no wakeup will come for it"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Ran {
    /// How many tasks ran.
    pub tasks: usize,
    /// Whether tasks are left in the queue. If so the caller must run the queue again, because no wakeup will come for
    /// them.
    pub more: bool,
}

impl Taskqueue {
    /// An empty queue. `wakeup` must bring about a call of [`Taskqueue::run`], soon and from
    /// another place: it must not run tasks itself, since the enqueuer may hold locks.
    #[doc(alias = "taskqueue_create")]
    pub fn new(wakeup: impl Fn() + Send + Sync + 'static) -> Self {
        Self {
            queue: Mutex::new(&TASKQUEUE, VecDeque::new()),
            wakeup: Box::new(wakeup),
        }
    }

    /// Makes sure that `task` runs after this call. Any thread may call it, also with locks held.
    ///
    /// A task that another queue runs at the moment stays with that queue.
    #[doc(alias = "taskqueue_enqueue")]
    pub fn enqueue(&self, task: &Arc<Task>) -> EnqueueOutcome {
        match task.state.step(WorkEvent::Put) {
            (_, WorkAction::Wake) => self.push_and_wake(Arc::clone(task)),
            (WorkState::Scheduled, _) => EnqueueOutcome::AlreadyQueued,
            _ => EnqueueOutcome::RunsAgain,
        }
    }

    /// Runs up to `budget` tasks on the calling thread, in the order in which they were queued.
    ///
    /// Several threads may do so at once; they share the queue, and a task is run by one of them
    /// at a time.
    ///
    /// # Panics
    ///
    /// If a task does, or if the caller holds a lock and WITNESS is built in. A caller that catches
    /// a task's panic must come back as if there were more.
    #[doc(alias = "taskqueue_run")]
    pub fn run(&self, budget: usize) -> Ran {
        witness::assert_none("running tasks");
        for tasks in 0..budget {
            let Some(task) = self.pop() else {
                return Ran { tasks, more: false };
            };
            self.run_one(&task);
        }
        let more = !self.is_empty();
        Ran {
            tasks: budget,
            more,
        }
    }

    /// Whether no task is queued. One may be running.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.lock().is_empty()
    }

    fn run_one(&self, task: &Arc<Task>) {
        let (_, action) = task.state.step(WorkEvent::Begin);
        debug_assert_eq!(action, WorkAction::Own, "it was on the queue");
        let _running = RunningTask { queue: self, task };
        (task.run)();
    }

    fn pop(&self) -> Option<Arc<Task>> {
        self.queue.lock().pop_front()
    }

    fn push_and_wake(&self, task: Arc<Task>) -> EnqueueOutcome {
        let mut queue = self.queue.lock();
        let was_empty = queue.is_empty();
        queue.push_back(task);
        drop(queue);
        if !was_empty {
            return EnqueueOutcome::Queued;
        }
        (self.wakeup)();
        EnqueueOutcome::Woke
    }
}

crate::impl_debug!(Taskqueue |this| queued: this.queue.lock().len());

/// A task while it runs. Its destructor does the steps after the run, so that a task that panics
/// is not marked as running for ever: no enqueue would start it again.
struct RunningTask<'a> {
    queue: &'a Taskqueue,
    task: &'a Arc<Task>,
}

impl Drop for RunningTask<'_> {
    fn drop(&mut self) {
        if let (_, WorkAction::Wake) = self.task.state.step(WorkEvent::End) {
            self.queue.queue.lock().push_back(Arc::clone(self.task));
        }
    }
}

static TASKQUEUE: LockClass = LockClass::new("taskqueue", order::TASKQUEUE);

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
