//! The steps of a worker's round, in the order in which [`run_round`](crate::runtime::run_round) calls them.
//!
//! Locks: none of its own.

use std::io;
use std::time::Duration;

use kern::Time;

use super::WorkerContext;
use crate::Stack;
use crate::runtime::poller::Readiness;
use crate::runtime::reclaim::Reclaim;
use crate::runtime::sleeper::{PRESSURE, QUEUES, WOKEN};
use crate::runtime::worker_set::{Polled, StackList};

/// Tasks of a [`Taskqueue`](kern::Taskqueue) at most that run before other work.
const TASKS_MAX: usize = 64;

impl WorkerContext {
    /// Takes the newest stack list, if there is a newer one.
    pub(in crate::runtime) fn take_stack_list(&mut self) {
        if self.worker_set.is_newer_than(&self.stack_list) {
            let old = std::mem::take(&mut self.stack_list);
            self.stack_list = self.worker_set.newest(self.index, old);
            if let Some(reclaim) = &mut self.reclaim {
                reclaim.watch(&self.stack_list, self.clock.now());
            }
        }
    }

    /// Waits for events, no longer than `at_most`; not at all, if there is something to do.
    pub(in crate::runtime) fn wait(&mut self, at_most: Option<Duration>) -> io::Result<()> {
        let busy = self.has_more();
        if !busy {
            self.sleeper.prepare_sleep();
        }
        // After the flag, since other threads set timers, and wake only a worker that sleeps.
        self.note_deadlines();
        self.slept = !busy && self.may_sleep();
        if !busy && !self.slept {
            self.sleeper.awake();
        }
        self.heartbeat.beat();
        let waited = match self.slept {
            true => self.sleep(at_most),
            false => self.look_around(),
        };
        self.heartbeat.beat();
        if self.slept {
            self.sleeper.awake();
        }
        if self.votes {
            self.worker_set.retract_vote(self.index);
        }
        waited
    }

    /// Whether no work is left. Work from other threads comes by the ready list or as a task. This thread may also have
    /// queued packets for its own CPU since the last round, for which no waker is called.
    fn may_sleep(&mut self) -> bool {
        let tasks = self.tasks.as_ref().is_none_or(|tasks| tasks.is_empty());
        let mut stacks = self.stack_list.stacks.iter();
        let packets = stacks.any(|stack| stack.netisr_waits(self.index));
        tasks && !packets && self.ready.shrink_if_empty(&mut self.turns)
    }

    /// Sleeps. If more events are likely to come soon it polls first, but not while any worker carries a bulk stream:
    /// polling takes the CPU from the threads that carry the stream, and Linux then schedules the polling worker behind
    /// them, on their CPU, instead of waking it on the CPU from which the packet came.
    fn sleep(&mut self, at_most: Option<Duration>) -> io::Result<()> {
        let now = self.clock.now();
        let timeout = self.time_left(now).into_iter().chain(at_most).min();
        let Self {
            sleeper, events, ..
        } = self;
        let spins = self.config.has_turns() && timeout != Some(Duration::ZERO);
        if spins && !self.worker_set.is_busy(now) && sleeper.spin(events, &self.spin, timeout) {
            return Ok(());
        }
        sleeper.poller().wait(events, timeout)
    }

    /// More work is left. Descriptors that became ready meanwhile must not wait until it is done; if the worker has no
    /// descriptors, this costs no system call.
    fn look_around(&mut self) -> io::Result<()> {
        if self.config.has_turns() || !self.stack_list.queues.is_empty() {
            return self
                .sleeper
                .poller()
                .wait(&mut self.events, Some(Duration::ZERO));
        }
        self.events.clear();
        Ok(())
    }

    fn note_deadlines(&mut self) {
        let deadlines = self.stack_list.stacks.iter();
        let deadlines = deadlines.map(|stack| stack.next_deadline_of(self.index));
        self.deadlines.clear();
        self.deadlines.extend(deadlines);
    }

    /// The time until the next timer.
    fn time_left(&self, now: Time) -> Option<Duration> {
        let reclaim = self.reclaim.as_ref().and_then(Reclaim::deadline);
        let own = self.timers.next_deadline().into_iter().chain(reclaim).min();
        let own = own.map(|at| at - now);
        let stacks = self.stack_deadlines().map(|(stack, at)| at - stack.now());
        stacks.chain(own).min()
    }

    fn stack_deadlines(&self) -> impl Iterator<Item = (&Stack, Time)> {
        let all = self.stack_list.stacks.iter().zip(&self.deadlines);
        all.filter_map(|(stack, at)| Some((stack, (*at)?)))
    }

    /// The `index`th event of the last wait, if it is the program's. Records the others.
    pub(in crate::runtime) fn event(&mut self, index: usize) -> Option<(u64, Readiness)> {
        let (key, readiness) = self.events.get(index)?;
        match key {
            // The event has ended the wait; no other step is needed.
            WOKEN => None,
            PRESSURE => {
                let now = self.clock.now();
                if let Some(reclaim) = &mut self.reclaim {
                    reclaim.press(readiness, now);
                }
                None
            }
            QUEUES.. => {
                let number = key - QUEUES;
                if !self.readable.contains(&number) {
                    self.readable.push(number);
                }
                None
            }
            _ => Some((key, readiness)),
        }
    }

    /// Takes in the frames of readable queues, each within its budget.
    ///
    /// # Errors
    /// A queue's device or interface is gone: the worker has dropped the queue.
    pub(in crate::runtime) fn receive(&mut self) -> io::Result<()> {
        let Self {
            worker_set,
            stack_list,
            config,
            ..
        } = self;
        let mut failed = Ok(());
        self.readable.retain(|number| {
            let Some(polled) = find(stack_list, *number) else {
                return false;
            };
            polled
                .queue
                .poll(config.receive_budget())
                .unwrap_or_else(|e| {
                    worker_set.lose_queue(*number);
                    failed = Err(e);
                    false
                })
        });
        failed
    }

    /// Runs the stacks' timers that are due, and returns the keys of the program's timers that are due.
    pub(in crate::runtime) fn run_timers(&mut self) -> Vec<u64> {
        for (stack, at) in self.stack_deadlines() {
            if at <= stack.now() {
                stack.poll_timers(self.index);
                self.worker_set.note_use();
            }
        }
        let mut due = std::mem::take(&mut self.due);
        if let Some(at) = self.timers.next_deadline() {
            let now = self.clock.now();
            if at <= now {
                self.timers.advance(now, &mut due);
            }
        }
        due
    }

    /// Keeps the memory of the result of [`run_timers`](Self::run_timers) for the next call.
    pub(in crate::runtime) fn keep_due(&mut self, due: Vec<u64>) {
        self.due = due;
    }

    /// The number of tasks that get a turn in this round: first those that the last round left. A round of these alone
    /// would cost its system calls again.
    pub(in crate::runtime) fn begin_turns(&mut self) -> usize {
        let max = self.config.turns();
        if self.turns.len() < max {
            self.ready.take_all(&mut self.turns);
        }
        self.turns.len().min(max)
    }

    /// The task with the next turn.
    pub(in crate::runtime) fn next_turn(&mut self) -> Option<u64> {
        let key = self.turns.pop_front()?.begin();
        // This entry only had to end the wait; no other step is needed.
        (key != WOKEN).then_some(key)
    }

    /// The rest of a round. `moved`: bytes that the program's tasks have transferred since they began. `Some` if memory
    /// was given back; true if that was the last piece.
    pub(in crate::runtime) fn end_round(&mut self, moved: u64) -> Option<bool> {
        if let Some(tasks) = &self.tasks {
            self.tasks_left = tasks.run(TASKS_MAX).more;
        }
        let (index, budget) = (self.index, self.config.receive_budget());
        let stacks = self.stack_list.stacks.iter();
        // Each of them.
        let left = stacks.map(|stack| stack.run_netisr(index, budget));
        self.stacks_left = left.fold(false, |any, left| any | left);
        if !self.events.is_empty() {
            self.worker_set.note_use();
        }
        if self.reclaim.is_none() && !self.config.has_turns() {
            return None;
        }
        let now = self.clock.now();
        if moved != self.moved {
            self.worker_set.record_load(index, now, moved - self.moved);
            self.moved = moved;
        }
        self.balance.round(&self.worker_set, index, now, self.slept);
        self.reclaim.as_mut()?.round(&self.worker_set, now)
    }
}

fn find(stack_list: &StackList, number: u64) -> Option<&Polled> {
    let at = stack_list.queues.binary_search_by_key(&number, |(n, _)| *n);
    at.ok().map(|at| &*stack_list.queues[at].1)
}
