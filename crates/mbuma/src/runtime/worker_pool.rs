//! Workers for a program that runs tasks on them and provides their threads.
//!
//! ```text
//!              device queue 0  device queue 1  device queue 2
//!                   |               |               |
//!               worker 0        worker 1        worker 2      each: a thread, an epoll set, a ready
//!                   |               |               |         list, timers, the program's tasks
//!                   '-----------[ Stack ]-----------'
//! ```
//!
//! The workers share the stack, and nothing else on a packet's way. See [`runtime`](super) for the parts.
//!
//! ```
//! use std::sync::Arc;
//! use mbuma::{Clock, MonotonicClock};
//! use mbuma::runtime::{LocalTasks, Phase, WorkerPoolConfig, Readiness, TaskWaker, WorkerContext, WorkerPool};
//! use mbuma::runtime::run_round;
//!
//! type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
//!
//! /// Passes a number on to the next worker, which counts it down.
//! struct Countdown {
//!     context: WorkerContext,
//!     next: Arc<TaskWaker>,
//!     left: u64,
//! }
//!
//! impl LocalTasks for Countdown {
//!     fn context(&mut self) -> &mut WorkerContext {
//!         &mut self.context
//!     }
//!     fn event(&mut self, _key: u64, _readiness: Readiness) {}
//!     fn timer(&mut self, _key: u64) {}
//!     fn turn(&mut self, _key: u64) {
//!         self.left -= 1;
//!         match self.left {
//!             0 => self.context.advance(Phase::End),
//!             _ => self.next.wake(),
//!         }
//!     }
//! }
//!
//! let pool = WorkerPool::new(WorkerPoolConfig::new(2))?;
//! let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::new());
//! let worker = |index| Countdown {
//!     context: pool.context(index, &clock),
//!     next: pool.ready(1 - index).waker_for(1_u64),
//!     left: 100,
//! };
//! let (mut first, other) = (worker(0), worker(1));
//! first.next.wake();
//! let run = |worker: &mut Countdown| -> Result<()> {
//!     while worker.context.phase() == Phase::Serve {
//!         run_round(worker, None)?;
//!     }
//!     Ok(())
//! };
//! let others = pool.run(vec![other], run, || run(&mut first))?;
//! assert!(first.left == 0 || others[0].left == 0);
//! # Result::Ok(())
//! ```
//!
//! Invariants: a pool ends when the program's function for worker 0 returns; then all other workers are joined. Locks:
//! none of its own.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::Waker;
use std::thread::{self, ScopedJoinHandle};

use kern::{Clock, Workers};

use super::accept_steering::AcceptSteering;
use super::context::WorkerContext;
use super::ready::{ReadyList, TaskWaker};
use super::votes::Phase;
use super::worker_set::{Polled, WorkerSet};
use crate::device::Budget;
use crate::{IfIndex, Stack};

/// How a pool is made.
#[derive(Debug, Clone, Copy)]
pub struct WorkerPoolConfig {
    workers: usize,
    budget: Budget,
    turns_max: usize,
    kind: PoolKind,
    has_other_threads: bool,
    reclaims: bool,
}

/// The kind of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PoolKind {
    /// A [`Runtime`](super::Runtime): stacks and tasks of a [`kern::Taskqueue`].
    Runtime,
    /// A program's tasks.
    Local,
}

impl WorkerPoolConfig {
    /// Of `workers` workers, at least 1, which give memory back.
    pub fn new(workers: usize) -> Self {
        Self {
            workers: workers.max(1),
            budget: Budget {
                frames: 64,
                bytes: 256 << 10,
            },
            turns_max: 64,
            kind: PoolKind::Local,
            has_other_threads: false,
            reclaims: true,
        }
    }

    /// Of a [`Runtime`](super::Runtime).
    pub(super) fn of_runtime(workers: usize, reclaims: bool) -> Self {
        Self {
            kind: PoolKind::Runtime,
            has_other_threads: true,
            reclaims,
            ..Self::new(workers)
        }
    }

    /// The most that a worker takes in from a device queue before it turns to other work. Default: 64 frames, 256 KiB.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Turns of a round at most. Default: 64.
    #[must_use]
    pub fn turns_max(mut self, turns_max: usize) -> Self {
        self.turns_max = turns_max;
        self
    }

    /// Whether threads outside of the pool wake its workers. With one worker and no other threads, no descriptor for
    /// wakeups is made. Default: false.
    #[must_use]
    pub fn has_other_threads(mut self, has: bool) -> Self {
        self.has_other_threads = has;
        self
    }

    pub(super) fn workers(&self) -> usize {
        self.workers
    }

    pub(super) fn is_shared(&self) -> bool {
        self.has_other_threads || self.workers > 1
    }

    pub(super) fn reclaims(&self) -> bool {
        self.reclaims
    }

    pub(super) fn receive_budget(&self) -> Budget {
        self.budget
    }

    pub(super) fn turns(&self) -> usize {
        self.turns_max
    }

    /// Whether it runs a program's tasks: then workers poll before they sleep, if the tasks' load allows it.
    pub(super) fn has_turns(&self) -> bool {
        self.kind == PoolKind::Local
    }

    /// Whether there is a [`kern::Taskqueue`].
    pub(super) fn has_tasks(&self) -> bool {
        self.kind == PoolKind::Runtime
    }
}

/// The workers of a program. Clones are the same pool.
#[derive(Clone)]
pub struct WorkerPool {
    worker_set: Arc<WorkerSet>,
    config: WorkerPoolConfig,
}

impl WorkerPool {
    /// Makes the workers; they begin to serve when the program runs them.
    ///
    /// # Errors
    /// No descriptor or memory is left for their epoll sets.
    pub fn new(config: WorkerPoolConfig) -> io::Result<Self> {
        let worker_set = Arc::new(WorkerSet::new(&config)?);
        Ok(Self { worker_set, config })
    }

    pub(super) fn worker_set(&self) -> &Arc<WorkerSet> {
        &self.worker_set
    }

    /// The number of workers, at least 1.
    #[expect(clippy::len_without_is_empty)] // it never is
    pub fn len(&self) -> usize {
        self.worker_set.len()
    }

    /// The [`Config::cpus`](crate::Config::cpus) of stacks that this pool drives.
    pub fn cpus(&self) -> Arc<Workers> {
        self.worker_set.workers()
    }

    /// The context of worker `index`, which must be made only once.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn context(&self, index: usize, clock: &Arc<dyn Clock>) -> WorkerContext {
        WorkerContext::new(&self.worker_set, index, self.config, clock)
    }

    /// The ready list of worker `index`.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn ready(&self, index: usize) -> &ReadyList {
        self.worker_set.ready(index)
    }

    /// Drives `stack` from now on: the timers of its CPUs, and their queued packets.
    ///
    /// # Panics
    /// If the stack has other CPUs than [`WorkerPool::cpus`].
    pub fn drive(&self, stack: &Stack) {
        self.worker_set.add(stack);
    }

    /// Takes in the frames of queue `queue` of an interface whenever `fd`, its device's, is readable: on worker
    /// `queue % workers`.
    ///
    /// # Errors
    /// There is no such interface or queue, or the descriptor can't be watched.
    pub fn watch(
        &self,
        stack: &Stack,
        index: IfIndex,
        queue: usize,
        fd: OwnedFd,
    ) -> io::Result<()> {
        let queue = stack.rx_queue(index, queue)?;
        self.worker_set.watch(Polled { queue, fd })
    }

    /// A waker for a listener or an interceptor. It gives a turn to the task of the calling worker, or to the task of
    /// another worker with much less load. `tasks`: one for each worker.
    pub fn accept_waker(&self, tasks: Vec<Arc<TaskWaker>>, clock: &Arc<dyn Clock>) -> Waker {
        AcceptSteering::waker(&self.worker_set, clock, tasks)
    }

    /// Runs the workers: worker 0 as `first` on this thread, the others by `run` on threads of their own. The phase is
    /// [`Phase::End`] when `first` returns, and all others are joined then. A worker that ends before wakes worker 0.
    ///
    /// # Errors
    /// A thread can't be started, `first` failed, or another worker did.
    ///
    /// # Panics
    /// If a worker has.
    pub fn run<L: Send, E: From<ThreadError> + Send>(
        &self,
        others: Vec<L>,
        run: impl Fn(&mut L) -> Result<(), E> + Sync,
        first: impl FnOnce() -> Result<(), E>,
    ) -> Result<Vec<L>, E> {
        let run = &run;
        thread::scope(|scope| {
            // Also on failure or panic, because the scope waits for its threads.
            let dismiss = Dismiss(&self.worker_set);
            let follow = |(mut local, index): (L, usize)| {
                let thread = thread::Builder::new().name(format!("mbuma-{index}"));
                thread.spawn_scoped(scope, move || {
                    let _bound = self.worker_set.bind(index);
                    let _leaves = LeaveGuard(&self.worker_set, index);
                    run(&mut local).map(|()| local)
                })
            };
            let threads = others.into_iter().zip(1..).map(follow);
            let threads = threads.collect::<io::Result<Vec<_>>>();
            let threads = threads.map_err(ThreadError)?;
            let _bound = self.worker_set.bind(0);
            let led = first();
            drop(dismiss);
            let others: Result<Vec<_>, _> = threads.into_iter().map(joined).collect();
            led.and(others)
        })
    }

    /// Releases the stacks and their devices.
    pub fn release(&self) {
        drop(self.worker_set.release());
    }
}

/// A worker's thread could not be started.
#[derive(Debug, thiserror::Error)]
#[error("starting a worker: {}", .0)]
pub struct ThreadError(io::Error);

impl ThreadError {
    /// The system's reason.
    pub fn into_inner(self) -> io::Error {
        self.0
    }
}

fn joined<L, E>(thread: ScopedJoinHandle<'_, Result<L, E>>) -> Result<L, E> {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Ends the service when dropped.
struct Dismiss<'a>(&'a WorkerSet);

impl Drop for Dismiss<'_> {
    fn drop(&mut self) {
        self.0.advance(Phase::End);
    }
}

/// Reports that a worker has ended, also if a task panics, so that no thread waits for it.
pub(super) struct LeaveGuard<'a>(pub(super) &'a WorkerSet, pub(super) usize);

impl Drop for LeaveGuard<'_> {
    fn drop(&mut self) {
        self.0.lose(self.1);
    }
}

kern::impl_debug!(WorkerPool |this| config: this.config);

#[cfg(all(test, not(shuttle)))]
mod tests;
