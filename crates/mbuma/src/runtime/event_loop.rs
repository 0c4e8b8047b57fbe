//! The loop of a worker: each round waits for events, takes frames in, runs timers, and gives each ready task a turn.
//!
//! Invariants: a ready task waits for at most one turn of each other ready task. Each turn and the rest of a round are
//! bounded, so the wait is bounded. Locks: none.

use std::io;
use std::time::Duration;

use super::context::WorkerContext;
use super::poller::Readiness;

/// The tasks of a program on one worker. They share the worker's state; no other thread has access to it, so it needs
/// no lock. The program finds a task by its key.
pub trait LocalTasks {
    /// The worker.
    fn context(&mut self) -> &mut WorkerContext;

    /// A descriptor that the program added under `key` became ready. The program must record that, or handle it at once
    /// if the work is bounded.
    fn event(&mut self, key: u64, readiness: Readiness);

    /// The timer of `key` expired.
    fn timer(&mut self, key: u64);

    /// A turn of the task with `key`: a bounded piece of its work.
    fn turn(&mut self, key: u64);

    /// All turns of a round are over.
    fn turns_end(&mut self) {}

    /// Bytes that the tasks have transferred since they began. The worker's load follows from it, and so does the
    /// decision whether workers poll before they sleep.
    fn moved(&self) -> u64 {
        0
    }

    /// The worker has given memory back to the system. `is_last`: it was the last piece until its stacks are used
    /// again.
    fn reclaimed(&mut self, is_last: bool) {
        let _ = is_last;
    }
}

/// The error that interrupted a round.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RoundError {
    /// The wait for events failed.
    #[error("waiting for events: {0}")]
    Wait(io::Error),
    /// A device can't be read any more, or its interface is gone. The worker continues without it.
    #[error("receiving from a device: {0}")]
    Device(io::Error),
}

/// One round of a worker, which the calling thread must be; sleeps for `at_most` if there is nothing to do.
///
/// # Errors
/// See [`RoundError`]. The next round continues where this one ended.
pub fn run_round(local: &mut impl LocalTasks, at_most: Option<Duration>) -> Result<(), RoundError> {
    let context = local.context();
    context.take_stack_list();
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

/// Gives ready tasks a turn each, up to the bound of a round. A task that becomes ready meanwhile waits for those
/// before it; frames are taken in between rounds.
fn run_turns(local: &mut impl LocalTasks) {
    for _ in 0..local.context().begin_turns() {
        if let Some(key) = local.context().next_turn() {
            local.turn(key);
        }
    }
    local.turns_end();
}
