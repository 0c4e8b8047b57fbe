//! A worker's thread: it runs due work in rounds, until there is none, and sleeps.
//!
//! Called by: runtime. Calls: crew, sleeper, the stacks.
//! Invariants: each piece of work is bounded, so that none waits for more than the others' turns; a worker
//! sleeps only if it found nothing after it had settled.
//! Locks: none.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use kern::Taskqueue;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::crew::{Crew, Polled, Roster};
use super::poller::{PollEvents, Readiness};
use super::reclaim::Reclaim;
use super::sleeper::{PRESSURE, Sleeper};
use crate::Stack;
use crate::device::Budget;

/// Tasks that run before others have their turn.
const TASKS_MAX: usize = 64;
/// The frames that a worker takes in from one queue before others have their turn.
const BUDGET: Budget = Budget {
    frames: 64,
    bytes: 256 << 10,
};

/// Starts worker `index`.
pub(super) fn start(
    crew: &Arc<Crew>,
    index: usize,
    pinned: bool,
    reclaims: bool,
) -> io::Result<JoinHandle<()>> {
    let cpu = if pinned { Some(nth_cpu(index)?) } else { None };
    let crew = Arc::clone(crew);
    let thread = thread::Builder::new().name(format!("mbuma-{index}"));
    thread.spawn(move || {
        if let Some(cpu) = cpu {
            // It was allowed a moment ago; if it is no more, the worker runs where it may.
            let _ = sched_setaffinity(None, &cpu);
        }
        let _bound = crew.cpus().bind(index);
        let _leaves = Leaves(&crew, index);
        Worker::new(&crew, index, reclaims).run();
    })
}

/// The `n`-th of the CPUs that this process may use, round and round.
fn nth_cpu(n: usize) -> io::Result<CpuSet> {
    let allowed = sched_getaffinity(None)?;
    let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    let cpus: Vec<usize> = cpus.collect();
    let mut one = CpuSet::new();
    // A process that runs may use at least one.
    one.set(cpus[n % cpus.len()]);
    Ok(one)
}

/// Reports that a worker is gone, also when a task panics: no thread must wait for it.
struct Leaves<'a>(&'a Crew, usize);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.leave(self.1);
    }
}

/// One worker, on its thread.
struct Worker<'a> {
    crew: &'a Crew,
    index: usize,
    sleeper: Arc<Sleeper>,
    tasks: Arc<Taskqueue>,
    roster: Arc<Roster>,
    events: PollEvents,
    /// Numbers of the queues that have more to give.
    readable: Vec<u64>,
    /// With it one of the workers gives memory back.
    reclaim: Option<Reclaim>,
}

impl<'a> Worker<'a> {
    fn new(crew: &'a Crew, index: usize, reclaims: bool) -> Self {
        let sleeper = crew.sleeper(index);
        Self {
            reclaim: reclaims.then(|| Reclaim::new(&sleeper)),
            sleeper,
            tasks: crew.taskqueue(index),
            roster: Arc::default(),
            events: PollEvents::default(),
            readable: Vec::new(),
            crew,
            index,
        }
    }

    fn run(mut self) {
        while !self.crew.has_ended() {
            if self.crew.is_newer_than(&self.roster) {
                let old = std::mem::take(&mut self.roster);
                self.roster = self.crew.newest(self.index, old);
            }
            let mut more = self.tasks.run(TASKS_MAX).more;
            more |= self.run_stacks();
            self.receive();
            self.give_back();
            if more || !self.readable.is_empty() {
                self.look_around();
            } else {
                self.sleep();
            }
        }
    }

    /// Runs each stack's due timers on this CPU, and packets that others queued for it. Says whether there is more.
    fn run_stacks(&self) -> bool {
        let mut more = false;
        for stack in &self.roster.stacks {
            if self.time_left(stack) == Some(Duration::ZERO) {
                stack.poll_timers(self.index);
                self.crew.note_use();
            }
            more |= stack.run_netisr(self.index, BUDGET);
        }
        more
    }

    /// How long until something is due on this CPU of `stack`.
    fn time_left(&self, stack: &Stack) -> Option<Duration> {
        let at = stack.next_deadline_of(self.index)?;
        Some(at - stack.now())
    }

    /// Takes in the frames of readable queues, from each within its budget.
    fn receive(&mut self) {
        let Self { crew, roster, .. } = self;
        self.readable.retain(|number| {
            let Some(polled) = find(roster, *number) else {
                return false;
            };
            polled.queue.poll(BUDGET).unwrap_or_else(|_| {
                crew.lose_queue(*number);
                false
            })
        });
    }

    /// Says that the pools are used if an event began this round, and gives memory back if that is this worker's
    /// task.
    fn give_back(&mut self) {
        if !self.events.is_empty() {
            self.crew.note_use();
        }
        let pressure = self.pressure();
        if let Some(reclaim) = &mut self.reclaim {
            reclaim.round(self.crew, &self.roster, pressure);
        }
    }

    /// There is more to do. Queues that became readable meanwhile are not to wait for its end; where
    /// there are no queues, that costs no system call.
    fn look_around(&mut self) {
        if !self.roster.queues.is_empty() {
            self.wait(Some(Duration::ZERO));
        }
    }

    fn sleep(&mut self) {
        self.sleeper.prepare_sleep();
        match self.may_sleep() {
            Some(timeout) => self.wait(timeout),
            None => self.events.clear(),
        }
        self.sleeper.awake();
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        let waited = self.sleeper.poller().wait(&mut self.events, timeout);
        debug_assert!(waited.is_ok(), "{waited:?}");
        let known = &mut self.readable;
        for (number, _) in self.events.iter().filter(|(key, _)| *key < PRESSURE) {
            if !known.contains(&number) {
                known.push(number);
            }
        }
    }

    /// The news of the kernel's pressure trigger.
    fn pressure(&self) -> Option<Readiness> {
        let mut news = self.events.iter().filter(|(key, _)| *key == PRESSURE);
        news.next().map(|(_, readiness)| readiness)
    }

    /// For how long, without a limit where nothing is due; none if there is something to do.
    fn may_sleep(&self) -> Option<Option<Duration>> {
        let crew = self.crew;
        if crew.has_ended() || crew.is_newer_than(&self.roster) || !self.tasks.is_empty() {
            return None;
        }
        let stacks = &self.roster.stacks;
        if stacks.iter().any(|s| s.netisr_waits(self.index)) {
            return None;
        }
        let left = stacks.iter().filter_map(|s| self.time_left(s));
        let reclaim = self.reclaim.as_ref().and_then(Reclaim::time_left);
        let left = left.chain(reclaim).min();
        (left != Some(Duration::ZERO)).then_some(left)
    }
}

fn find(roster: &Roster, number: u64) -> Option<&Polled> {
    let at = roster.queues.binary_search_by_key(&number, |(n, _)| *n);
    at.ok().map(|at| &*roster.queues[at].1)
}
