//! The state of one worker for its loop and for the program's tasks on it: descriptors, the ready list, timers.
//!
//! Invariants: one thread at a time uses it. Locks: none of its own.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use kern::{AdaptiveSpin, Callout, CalloutId, Clock, Taskqueue, Time};
use uma::LoopReclaimer;

use super::balance::Balance;
use super::heartbeat::Heartbeat;
use super::poller::{PollEvents, Poller, Readiness};
use super::ready::{ReadyList, TaskWaker};
use super::reclaim::Reclaim;
use super::sleeper::{PRESSURE, QUEUES, Sleeper, WOKEN};
use super::votes::{Phase, Quiescence};
use super::worker_pool::WorkerPoolConfig;
use super::worker_set::{Polled, StackList, WorkerSet};
use crate::Stack;

/// Tasks of a [`Taskqueue`] at most that run before other work.
const TASKS_MAX: usize = 64;

/// One worker's part of a pool.
pub struct WorkerContext {
    pub(super) worker_set: Arc<WorkerSet>,
    pub(super) index: usize,
    sleeper: Arc<Sleeper>,
    ready: ReadyList,
    config: WorkerPoolConfig,
    clock: Arc<dyn Clock>,
    heartbeat: Arc<Heartbeat>,
    spin: AdaptiveSpin,
    pub(super) events: PollEvents,
    /// The queue of tasks such as a device's input; none if the pool has no such tasks.
    tasks: Option<Arc<Taskqueue>>,
    tasks_left: bool,
    stack_list: Arc<StackList>,
    /// When the timers of each stack of the list are due.
    deadlines: Vec<Option<Time>>,
    /// Numbers of the device queues that have more to give.
    readable: Vec<u64>,
    /// More packets wait for this worker's CPU in a stack.
    stacks_left: bool,
    /// The other half of the ready list: tasks that were ready earlier and have not had their turn.
    turns: VecDeque<Arc<TaskWaker>>,
    timers: Callout<u64>,
    /// Timers that came, empty between rounds.
    due: Vec<u64>,
    pub(super) balance: Balance,
    /// Bytes that were recorded in this worker's load.
    moved: u64,
    /// The worker must retract its vote before it takes anything in.
    votes: bool,
    /// The last round began with a sleep.
    slept: bool,
    /// One worker has it, and gives memory back.
    reclaim: Option<Reclaim>,
}

impl WorkerContext {
    pub(super) fn new(
        worker_set: &Arc<WorkerSet>,
        index: usize,
        config: WorkerPoolConfig,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        let now = clock.now();
        let sleeper = worker_set.sleeper(index);
        let reclaims = config.reclaims() && index == 0;
        Self {
            tasks: config.has_tasks().then(|| worker_set.taskqueue(index)),
            reclaim: reclaims.then(|| Reclaim::new(&sleeper)),
            sleeper,
            ready: worker_set.ready(index).clone(),
            worker_set: Arc::clone(worker_set),
            index,
            config,
            clock: Arc::clone(clock),
            heartbeat: Arc::default(),
            spin: AdaptiveSpin::for_syscall(kern::cpu::usable()),
            events: PollEvents::new(),
            tasks_left: false,
            stack_list: Arc::default(),
            deadlines: Vec::new(),
            readable: Vec::new(),
            stacks_left: false,
            turns: VecDeque::new(),
            timers: Callout::new(now),
            due: Vec::new(),
            balance: Balance::new(now),
            moved: 0,
            votes: false,
            slept: false,
        }
    }

    /// The index of the worker.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The time now, by the pool's clock.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// The descriptors that the worker waits for. Their keys must be below 2^63.
    pub fn poller(&self) -> &Poller {
        self.sleeper.poller()
    }

    /// The worker's ready list.
    pub fn ready(&self) -> &ReadyList {
        &self.ready
    }

    /// Sets a timer: `key` comes up at `at`.
    pub fn schedule(&mut self, at: Time, key: impl Into<u64>) -> CalloutId {
        self.timers.schedule(at, key.into())
    }

    /// Sets a timer: `key` comes up after `wait`.
    pub fn after(&mut self, wait: Duration, key: impl Into<u64>) -> CalloutId {
        let at = self.now() + wait;
        self.schedule(at, key)
    }

    /// Stops a timer that has not come up.
    pub fn cancel(&mut self, timer: CalloutId) {
        self.timers.cancel(timer);
    }

    /// How many timers are set.
    pub fn timers(&self) -> usize {
        self.timers.len()
    }

    /// Shows whether the worker's loop is running or stuck.
    pub fn heartbeat(&self) -> &Arc<Heartbeat> {
        &self.heartbeat
    }

    /// The reclaimer of the pools' memory, if this worker has it.
    pub fn reclaimer(&self) -> Option<&LoopReclaimer> {
        self.reclaim.as_ref().map(Reclaim::zones)
    }

    /// The phase of the service.
    pub fn phase(&self) -> Phase {
        self.worker_set.phase()
    }

    /// Whether a worker has left before it was told to.
    pub fn has_lost_one(&self) -> bool {
        self.worker_set.has_lost_one()
    }

    /// Advances the service to `phase`, never back, and wakes all workers.
    pub fn advance(&self, phase: Phase) {
        self.worker_set.advance(phase);
    }

    /// From now on each round retracts the worker's vote before it takes anything in.
    pub fn begin_votes(&mut self) {
        self.votes = true;
    }

    /// Whether the last round left nothing for the next.
    pub fn is_idle(&self) -> bool {
        !self.has_more() && self.ready.is_empty()
    }

    /// Votes. True if the service can end; then worker 0 is woken, unless it is the caller.
    pub fn vote(&self, vote: Quiescence) -> bool {
        self.worker_set.vote(self.index, vote)
    }

    fn has_more(&self) -> bool {
        let queues = self.stacks_left || self.tasks_left || !self.readable.is_empty();
        queues || !self.turns.is_empty()
    }

    /// Takes the newest stack list, if there is a newer one.
    pub(super) fn take_stack_list(&mut self) {
        if self.worker_set.is_newer_than(&self.stack_list) {
            let old = std::mem::take(&mut self.stack_list);
            self.stack_list = self.worker_set.newest(self.index, old);
            if let Some(reclaim) = &mut self.reclaim {
                reclaim.watch(&self.stack_list, self.clock.now());
            }
        }
    }

    /// Waits for events, no longer than `at_most`; not at all, if there is something to do.
    pub(super) fn wait(&mut self, at_most: Option<Duration>) -> io::Result<()> {
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
        let timeout = self.time_left().into_iter().chain(at_most).min();
        let Self {
            sleeper, events, ..
        } = self;
        let spins = self.config.has_turns() && timeout != Some(Duration::ZERO);
        if spins
            && !self.worker_set.is_busy(self.clock.now())
            && sleeper.spin(events, &self.spin, timeout)
        {
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
    fn time_left(&self) -> Option<Duration> {
        let reclaim = self.reclaim.as_ref().and_then(Reclaim::deadline);
        let own = self.timers.next_deadline().into_iter().chain(reclaim).min();
        let own = own.map(|at| at - self.clock.now());
        let stacks = self.stack_deadlines().map(|(stack, at)| at - stack.now());
        stacks.chain(own).min()
    }

    fn stack_deadlines(&self) -> impl Iterator<Item = (&Stack, Time)> {
        let all = self.stack_list.stacks.iter().zip(&self.deadlines);
        all.filter_map(|(stack, at)| Some((stack, (*at)?)))
    }

    /// The `index`th event of the last wait, if it is the program's. Records the others.
    pub(super) fn event(&mut self, index: usize) -> Option<(u64, Readiness)> {
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
    pub(super) fn receive(&mut self) -> io::Result<()> {
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
    pub(super) fn run_timers(&mut self) -> Vec<u64> {
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
    pub(super) fn keep_due(&mut self, due: Vec<u64>) {
        self.due = due;
    }

    /// The number of tasks that get a turn in this round.
    pub(super) fn begin_turns(&mut self) -> usize {
        if self.turns.is_empty() {
            self.ready.take_all(&mut self.turns);
        }
        self.turns.len().min(self.config.turns())
    }

    /// The task with the next turn.
    pub(super) fn next_turn(&mut self) -> Option<u64> {
        let key = self.turns.pop_front()?.begin();
        // This entry only had to end the wait; no other step is needed.
        (key != WOKEN).then_some(key)
    }

    /// The rest of a round. `moved`: bytes that the program's tasks have transferred since they began. `Some` if memory
    /// was given back; true if that was the last piece.
    pub(super) fn end_round(&mut self, moved: u64) -> Option<bool> {
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

kern::impl_debug!(WorkerContext |this| index: this.index);
