//! The loop of a worker: a round waits for events, takes frames in, runs timers, gives the ready tasks a turn each.
//!
//! Invariants: a ready task waits at most for one turn of each other ready task; each turn is bounded, and so is the rest of
//! a round, so that no work waits for more than the others' turns.
//! Locks: none.

use std::fmt;
use std::io;
use std::time::Duration;

use super::context::WorkerContext;
use super::poller::Readiness;

/// The tasks of a program on one worker. They share the worker's state, which no other thread has: so none of it needs a
/// lock. Each task has a key, by which the program finds it.
pub trait LocalTasks {
    /// The worker.
    fn context(&mut self) -> &mut WorkerContext;

    /// A descriptor of the program's, which was added under `key`, became ready. To be remembered, or handled at once where
    /// that is bounded.
    fn event(&mut self, key: u64, readiness: Readiness);

    /// A timer of `key` came.
    fn timer(&mut self, key: u64);

    /// A turn of the task with `key`: a bounded piece of its work.
    fn turn(&mut self, key: u64);

    /// All turns of a round are over.
    fn turns_end(&mut self) {}

    /// Bytes that the tasks have moved since they began: from it come the worker's load, and whether workers poll before
    /// they sleep.
    fn moved(&self) -> u64 {
        0
    }

    /// The worker has given memory back to the system; for the last time until its stacks are used again, if `is_last`.
    fn reclaimed(&mut self, is_last: bool) {
        let _ = is_last;
    }
}

/// Why a round did not come to its end.
#[derive(Debug)]
pub enum RoundError {
    /// The wait for events failed.
    Wait(io::Error),
    /// A device can't be read any more, or its interface is gone. The worker goes on without it.
    Device(io::Error),
}

impl fmt::Display for RoundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wait(e) => write!(f, "waiting for events: {e}"),
            Self::Device(e) => write!(f, "receiving from a device: {e}"),
        }
    }
}

impl std::error::Error for RoundError {}

/// One round of a worker, which the calling thread must be; sleeps for `at_most` if there is nothing to do.
///
/// # Errors
/// As [`RoundError`] says. The next round goes on where this one ended.
pub fn run_round(local: &mut impl LocalTasks, at_most: Option<Duration>) -> Result<(), RoundError> {
    let context = local.context();
    context.take_roster();
    context.wait(at_most).map_err(RoundError::Wait)?;
    for index in 0..context.events.len() {
        if let Some((key, readiness)) = local.context().event(index) {
            local.event(key, readiness);
        }
    }
    local.context().receive().map_err(RoundError::Device)?;
    run_timers(local);
    run_turns(local);
    let moved = local.moved();
    if let Some(is_last) = local.context().end_round(moved) {
        local.reclaimed(is_last);
    }
    Ok(())
}

fn run_timers(local: &mut impl LocalTasks) {
    let mut due = local.context().run_timers();
    for key in due.drain(..) {
        local.timer(key);
    }
    local.context().keep_due(due);
}

/// Gives each ready task a turn, as many as a round has. A task that becomes ready meanwhile waits until all those before
/// it had theirs, and frames are taken in between.
fn run_turns(local: &mut impl LocalTasks) {
    for _ in 0..local.context().begin_turns() {
        if let Some(key) = local.context().next_turn() {
            local.turn(key);
        }
    }
    local.turns_end();
}
