//! The state of a task, and its three transitions. The protocol is in [`taskqueue`](super).
//!
//! Invariant: every transition is one read-modify-write with acquire and release, also where the state stays the same.
//! Locks: none.

use core::fmt;

use crate::prim::{AtomicU8, Ordering};

/// Where a task is between two runs.
pub(super) struct TaskState {
    /// Written by enqueuers and by the runner, always by [`TaskState::step`], which pairs with itself.
    now: AtomicU8,
}

/// The step that an enqueuer must take.
#[must_use]
pub(super) enum Enqueue {
    /// Put the task on the queue: it was idle, and is this caller's to push.
    Push,
    /// No step: the task is on the queue, or another thread is about to push it.
    AlreadyQueued,
    /// No step: the runner will push it.
    RunsAgain,
}

/// The step that the runner must take when the task has returned.
#[must_use]
pub(super) enum Finish {
    /// No step; the runner must not touch the task any more.
    Idle,
    /// Put the task on the queue: it was enqueued while it ran.
    Push,
}

impl TaskState {
    pub(super) fn new() -> Self {
        Self {
            now: AtomicU8::new(IDLE),
        }
    }

    /// There is work for the task.
    pub(super) fn enqueue(&self) -> Enqueue {
        let before = self.step(|now| match now {
            IDLE => QUEUED,
            RUNNING => RUNNING_AGAIN,
            queued_or_marked => queued_or_marked,
        });
        match before {
            IDLE => Enqueue::Push,
            QUEUED => Enqueue::AlreadyQueued,
            _ => Enqueue::RunsAgain,
        }
    }

    /// The task was taken off the queue and is about to run.
    pub(super) fn begin(&self) {
        let before = self.step(|_| RUNNING);
        debug_assert_eq!(
            before, QUEUED,
            "only a queued task can be taken off the queue"
        );
    }

    /// The task returned.
    pub(super) fn finish(&self) -> Finish {
        let before = self.step(|now| if now == RUNNING { IDLE } else { QUEUED });
        match before {
            RUNNING => Finish::Idle,
            _ => Finish::Push,
        }
    }

    /// One transition, from any state; returns the state before. The exchange is done even where
    /// the state stays the same, because it also publishes the caller's earlier writes.
    fn step(&self, next: impl Fn(u8) -> u8) -> u8 {
        let mut now = self.now.load(Ordering::Relaxed);
        loop {
            let then = next(now);
            match self
                .now
                .compare_exchange_weak(now, then, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(before) => return before,
                Err(found) => now = found,
            }
        }
    }
}

impl fmt::Debug for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.now.load(Ordering::Relaxed) {
            IDLE => "Idle",
            QUEUED => "Queued",
            RUNNING => "Running",
            _ => "RunningAgain",
        })
    }
}

/// On no queue, and not running.
///
/// Operations: enqueue. Caveats: none; any thread that holds the task may enqueue it.
const IDLE: u8 = 0;
/// On the queue, or held by the thread that is about to push it.
///
/// Operations: enqueue, which keeps the state; begin, by the thread that took the task off the
/// queue. Caveats: no second push.
const QUEUED: u8 = 1;
/// Its function is running.
///
/// Operations: enqueue, which leaves a mark; finish, by the runner. Caveats: how far the function
/// has come is not known.
const RUNNING: u8 = 2;
/// Its function is running, and there is work that it may not have seen.
///
/// Operations: enqueue, which keeps the state; finish, by the runner. Caveats: no push but the
/// runner's.
const RUNNING_AGAIN: u8 = 3;
