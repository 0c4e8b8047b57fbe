//! A thread of a runtime: a worker without tasks of the program's.
//!
//! Locks: none.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use kern::{Clock, MonotonicClock};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::context::WorkerContext;
use super::event_loop::{LocalTasks, RoundError, run_round};
use super::poller::Readiness;
use super::votes::Phase;
use super::worker_pool::{LeaveGuard, WorkerPool};

/// Starts worker `index`.
pub(super) fn start(pool: &WorkerPool, index: usize, pinned: bool) -> io::Result<JoinHandle<()>> {
    let cpu = if pinned { Some(nth_cpu(index)?) } else { None };
    let pool = pool.clone();
    let thread = thread::Builder::new().name(format!("mbuma-{index}"));
    thread.spawn(move || {
        if let Some(cpu) = cpu {
            // The CPU was allowed a moment ago. If it no longer is, the worker runs unbound.
            let _ = sched_setaffinity(None, &cpu);
        }
        let _bound = pool.worker_set().bind(index);
        let _leaves = LeaveGuard(pool.worker_set(), index);
        let clock: Arc<dyn Clock> = Arc::new(MonotonicClock::new());
        let mut worker = StackWorker(pool.context(index, &clock));
        while worker.0.phase() != Phase::End {
            // The worker has dropped a queue whose device is gone.
            let round = run_round(&mut worker, None);
            debug_assert!(!matches!(round, Err(RoundError::Wait(_))), "{round:?}");
        }
    })
}

/// The `n`-th of the CPUs that this process may use, modulo their number.
fn nth_cpu(n: usize) -> io::Result<CpuSet> {
    let allowed = sched_getaffinity(None)?;
    let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    let cpus: Vec<usize> = cpus.collect();
    let mut one = CpuSet::new();
    // A running process may use at least one CPU.
    one.set(cpus[n % cpus.len()]);
    Ok(one)
}

/// A worker that drives stacks, and nothing else.
struct StackWorker(WorkerContext);

impl LocalTasks for StackWorker {
    fn context(&mut self) -> &mut WorkerContext {
        &mut self.0
    }

    // There is no program, so no descriptor, timer or entry of the ready list is one of a program's.
    fn event(&mut self, _key: u64, _readiness: Readiness) {}

    fn timer(&mut self, _key: u64) {}

    fn turn(&mut self, _key: u64) {}
}
