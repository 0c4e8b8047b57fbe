//! Workers that drive stacks, with or without tasks of the program.
//!
//! A [`Stack`] has no threads. A program must run its timers, take in packets from its devices, and run the work that
//! is queued for its CPUs. The N workers of a runtime do that: worker n is CPU n of every stack that has
//! [`Runtime::cpus`] in its configuration, and sleeps when it has no work.
//!
//! | a program that | uses |
//! |---|---|
//! | has threads of its own, with blocking sockets, or another runtime's futures | [`Runtime`]: worker threads |
//! | runs on the workers, and waits for descriptors too, as the tool's gateway does | [`WorkerPool`]: its [`LocalTasks`] get events, timers and turns |
//!
//! Both have the same loop ([`run_round`]). A `Runtime` does:
//!
//! | work | comes by | done by |
//! |---|---|---|
//! | timers of a CPU | [`Runtime::add`] | the worker that is this CPU |
//! | frames of a device queue | [`Runtime::add_tap`], [`Runtime::add_queue`]: its descriptor is readable | worker `queue % N` |
//! | memory that pools do not need | [`RuntimeConfig::reclaim`] | worker 0 |
//! | tasks, such as an epair's input | [`Runtime::taskqueue`] | the worker whose queue it is |
//!
//! ```
//! use std::net::{Ipv4Addr, SocketAddrV4};
//! use mbuma::device::epair::{EpairConfig, EpairEnd, Input};
//! use mbuma::runtime::Runtime;
//! use mbuma::{Config, IfConfig, Stack};
//!
//! let runtime = Runtime::with_workers(2)?;
//! let (mut a, mut b) = EpairEnd::pair(EpairConfig::default());
//! let mut stacks = Vec::new();
//! for (n, end) in [(0, &mut a), (1, &mut b)] {
//!     let stack = Stack::new(Config { cpus: runtime.cpus(), ..Config::from_system() })?;
//!     runtime.add(&stack);
//!     let config = IfConfig::new("epair0").with_addr(Ipv4Addr::new(192, 0, 2, 1 + n), 24);
//!     end.attach(&stack, config, Input::Task(runtime.taskqueue(n.into()))).unwrap();
//!     stacks.push(stack);
//! }
//! let there = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 80);
//! let listener = stacks[1].tcp_listen(there, 8)?;
//! let client = stacks[0].tcp_connect(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0), there)?;
//! let server = listener.accept_blocking(None)?;
//! client.send_blocking(b"hello", None)?;
//! assert_eq!(server.recv_blocking(&mut [0; 8], None)?, 5);
//! runtime.shutdown();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How a worker sleeps
//! A worker sleeps in an epoll set with an eventfd in it (`sleeper`). A producer writes to the eventfd only if the
//! worker sleeps ([`kern::sleep_flag`]). Between setting the flag and sleeping, a worker checks once more all state
//! that other threads change: its tasks, its CPU's deadlines, and its ready list, which has all other work.
//!
//! # Tasks of a program
//! The tasks share the state of their worker. No other thread has access to that state, so it needs no lock. The
//! program chooses a key for each task. The worker passes the key when a descriptor of the task is ready ([`Poller`]),
//! when its timer expires ([`WorkerContext::schedule`]), and when the task has a turn. Any thread can ask for a turn by
//! the task's [`TaskWaker`].
//!
//! | feature | where |
//! |---|---|
//! | a worker polls before it sleeps, except during bulk traffic | [`kern::AdaptiveSpin`], [`LocalTasks::moved`] |
//! | a new connection goes to the worker of its packets, or to one with much less to do | [`WorkerPool::accept_waker`] |
//! | a task that moves much goes to a worker with much less to do | [`TaskLoad`], [`Inbox`] |
//! | the service ends when no worker holds anything to be delivered | [`Phase`], [`Quiescence`] |
//! | memory that the pools do not need goes back to the system | [`LocalTasks::reclaimed`] |
//! | another thread sees whether the loop goes round | [`Heartbeat`] |
//!
//! # Adding and removing
//! Workers drive the stacks of a list that never changes. A thread that adds or removes a stack makes a new list with a
//! new number; each worker takes the newest list at the start of its next round and publishes its number. So a round
//! takes a lock only to fetch a newer list, and [`Runtime::remove`] can wait until no worker drives the removed stack.
//!
//! Invariants: no thread outlives its runtime; a runtime holds each added stack until the stack is removed or the
//! runtime ends. Locks: `stack_list` (STACK_CONFIG), with nothing called under it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::thread::JoinHandle;

use kern::{Cpus, Taskqueue};

use crate::device::Device;
use crate::device::tap::{Tap, TapOptions};
use crate::stack::driver::Driver;
use crate::{IfConfig, IfIndex, Stack};
use worker_set::{Polled, WorkerSet};

pub use context::WorkerContext;
pub use event_loop::{LocalTasks, RoundError, run_round};
pub use heartbeat::Heartbeat;
pub use inbox::Inbox;
pub use placement::TaskLoad;
pub use poller::{Interest, PollEvents, Poller, Readiness};
pub use ready::{ReadyList, TaskWaker};
pub use stack_builder::StackBuilder;
pub use uma::{LoopReclaimer, Pace, PressureSource};
pub use votes::{Phase, Quiescence};
pub use worker_pool::{ThreadError, WorkerPool, WorkerPoolConfig};

mod accept_steering;
mod balance;
mod context;
mod event_loop;
mod heartbeat;
mod inbox;
mod load_average;
mod placement;
mod poller;
mod ready;
mod reclaim;
mod sleeper;
mod stack_builder;
mod votes;
mod worker;
mod worker_pool;
mod worker_set;

/// N threads that drive stacks; [`runtime`](self) has an example. Dropping the runtime ends and joins them. After
/// that, the blocking calls, polls and futures of sockets whose stack it drove wait for nothing, also those that waited
/// before, and return [`NotDriven`](crate::SocketError::NotDriven); their splices end with it. Waits for readiness
/// alone, such as [`poll_readable`](crate::TcpStream::poll_readable), go on. A program that goes on to drive a stack
/// itself takes it out by [`remove`](Self::remove) first.
pub struct Runtime {
    pool: WorkerPool,
    threads: Vec<JoinHandle<()>>,
}

// As a stack's state: programs reach it by handles of sockets.
impl UnwindSafe for Runtime {}
impl RefUnwindSafe for Runtime {}

/// How a runtime is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuntimeConfig {
    /// Threads, at least 1. Default: as many as the machine has CPUs for this process.
    pub workers: usize,
    /// Binds worker n to the n-th of the CPUs that this process may use, modulo their number. A bound worker keeps its
    /// caches, but must wait while another program uses its CPU. Default false.
    pub pinned: bool,
    /// Worker 0 gives memory that the pools of the added stacks do not need back to the system: in pieces of some 0.1
    /// ms, and all of it, in pieces, when the system is short of memory. A pool must be reclaimed in one place only.
    /// Default true.
    pub reclaim: bool,
}

impl Default for RuntimeConfig {
    fn default() -> Self {
        Self {
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            pinned: false,
            reclaim: true,
        }
    }
}

impl Runtime {
    /// Starts a thread for each CPU that the machine has for this process.
    ///
    /// # Errors
    /// The system has no thread or descriptor left.
    pub fn new() -> io::Result<Self> {
        Self::with_config(RuntimeConfig::default())
    }

    /// Starts `workers` threads, at least one.
    ///
    /// # Errors
    /// The system has no thread or descriptor left.
    pub fn with_workers(workers: usize) -> io::Result<Self> {
        Self::with_config(RuntimeConfig {
            workers,
            ..RuntimeConfig::default()
        })
    }

    /// Starts the threads.
    ///
    /// # Errors
    /// The system has no thread or descriptor left, or does not let a thread be bound.
    pub fn with_config(config: RuntimeConfig) -> io::Result<Self> {
        let pool = WorkerPoolConfig::of_runtime(config.workers, config.reclaim);
        let mut runtime = Self {
            threads: Vec::new(),
            pool: WorkerPool::new(pool)?,
        };
        for index in 0..runtime.workers() {
            // Started threads end with `runtime`, should this fail.
            let thread = worker::start(&runtime.pool, index, config.pinned)?;
            runtime.threads.push(thread);
        }
        Ok(runtime)
    }

    /// The [`Config::cpus`](crate::Config::cpus) of stacks that this runtime drives.
    pub fn cpus(&self) -> Arc<dyn Cpus> {
        self.pool.cpus()
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.pool.len()
    }

    /// The queue of tasks that worker `worker % workers` runs, for example for an
    /// [`Input::Task`](crate::device::epair::Input::Task). Tasks that are queued when the runtime ends do not run.
    pub fn taskqueue(&self, worker: usize) -> Arc<Taskqueue> {
        self.worker_set().taskqueue(worker % self.workers())
    }

    /// Drives `stack` from now on: the timers of its CPUs, their queued packets, and the interfaces that
    /// [`Stack::add_interface`] makes. Further calls have no effect.
    ///
    /// # Panics
    /// If the stack has other CPUs than [`Runtime::cpus`].
    pub fn add(&self, stack: &Stack) {
        let worker_set: Arc<WorkerSet> = Arc::clone(self.worker_set());
        let driver: Arc<dyn Driver> = worker_set;
        stack.set_driver(Arc::downgrade(&driver));
        self.worker_set().add(stack);
    }

    /// Stops driving `stack` and its device queues. When this returns, no worker drives the stack. If a worker's own
    /// task calls this, that holds only for its own worker.
    pub fn remove(&self, stack: &Stack) {
        self.worker_set().remove(stack);
    }

    /// Attaches a TAP with one queue for each descriptor and takes in its frames: worker `n % workers` has queue n. The
    /// descriptors must be set up as `options` says, and must not block.
    ///
    /// # Errors
    /// A descriptor can't be watched.
    ///
    /// # Panics
    /// If there are no descriptors, or the stack has other CPUs than [`Runtime::cpus`].
    pub fn add_tap(
        &self,
        stack: &Stack,
        fds: Vec<OwnedFd>,
        options: TapOptions,
        config: IfConfig,
    ) -> io::Result<IfIndex> {
        let watched = fds.iter().map(OwnedFd::try_clone);
        let watched = watched.collect::<io::Result<Vec<_>>>()?;
        let taps = fds.into_iter().map(|fd| {
            let tap = Tap::from_fd(fd, options, stack.pool());
            Arc::new(tap) as Arc<dyn Device>
        });
        let index = stack
            .attach_queues(taps.collect(), config)
            .map_err(io::Error::other)?;
        for (queue, fd) in watched.into_iter().enumerate() {
            if let Err(e) = self.watch(stack, index, queue, fd) {
                self.remove_interface(stack, index);
                stack.detach(index);
                return Err(e);
            }
        }
        Ok(index)
    }

    /// Takes in the frames of queue `queue` of an interface whenever `fd`, its device's, is readable.
    ///
    /// A worker drops a queue that has failed, or whose interface was detached, when `fd` is readable next. Its device
    /// lives until then, or until [`Runtime::remove_interface`].
    ///
    /// # Errors
    /// There is no such interface or queue, or the descriptor can't be watched.
    ///
    /// # Panics
    /// If the stack has other CPUs than [`Runtime::cpus`].
    pub fn add_queue(
        &self,
        stack: &Stack,
        index: IfIndex,
        queue: usize,
        fd: BorrowedFd<'_>,
    ) -> io::Result<()> {
        self.watch(stack, index, queue, fd.try_clone_to_owned()?)
    }

    fn watch(&self, stack: &Stack, index: IfIndex, queue: usize, fd: OwnedFd) -> io::Result<()> {
        self.worker_set().add(stack);
        let queue = stack.rx_queue(index, queue)?;
        self.worker_set().watch(Polled { queue, fd })
    }

    /// Stops driving an interface's queues and drops their descriptors, as [`Runtime::remove`] does for a stack.
    pub fn remove_interface(&self, stack: &Stack, index: IfIndex) {
        self.worker_set().remove_interface(stack, index);
    }

    /// Ends the workers and waits until they have ended. The stacks are not driven any more.
    ///
    /// # Panics
    /// If a task of a worker has.
    pub fn shutdown(mut self) {
        self.end();
    }

    fn worker_set(&self) -> &Arc<WorkerSet> {
        self.pool.worker_set()
    }

    fn end(&mut self) {
        self.worker_set().advance(Phase::End);
        let me = std::thread::current().id();
        let others = self.threads.drain(..).filter(|t| t.thread().id() != me);
        let ended: Vec<_> = others.map(JoinHandle::join).collect();
        let released = self.worker_set().release();
        released.stacks.iter().for_each(|stack| stack.0.abandon());
        let panic = ended.into_iter().find_map(Result::err);
        if let (Some(panic), false) = (panic, std::thread::panicking()) {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.end();
    }
}

impl AsFd for Polled {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

kern::impl_debug!(Runtime |this| workers: this.workers());

#[cfg(all(test, not(shuttle)))]
mod test_worker_set;
#[cfg(all(test, not(shuttle)))]
mod tests;
