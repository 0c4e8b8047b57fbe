//! The state of one worker, and what the program's tasks on it ask of it: descriptors, the ready list, timers, the
//! vote. The steps of the worker's loop are in [`round`].
//!
//! Invariants: one thread at a time uses it. Locks: none of its own.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use kern::{AdaptiveSpin, Callout, CalloutId, Clock, Taskqueue, Time};
use uma::LoopReclaimer;

use super::balance::Balance;
use super::heartbeat::Heartbeat;
use super::poller::{PollEvents, Poller};
use super::ready::{ReadyList, TaskWaker};
use super::reclaim::Reclaim;
use super::sleeper::Sleeper;
use super::votes::{Phase, Quiescence};
use super::worker_pool::WorkerPoolConfig;
use super::worker_set::{StackList, WorkerSet};

mod round;

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

    fn has_more(&self) -> bool {
        let queues = self.stacks_left || self.tasks_left || !self.readable.is_empty();
        queues || !self.turns.is_empty()
    }

    /// Votes. True if the service can end; then worker 0 is woken, unless it is the caller.
    pub fn vote(&self, vote: Quiescence) -> bool {
        self.worker_set.vote(self.index, vote)
    }
}

kern::impl_debug!(WorkerContext |this| index: this.index);
