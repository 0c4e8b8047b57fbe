//! The state that the workers of a pool share: the workers, and the list of stacks to drive.
//!
//! Invariants: a stack list does not change once workers can see it; the number of a device queue is never used again,
//! so that a late event finds no queue rather than another one. Locks: `stack_list` (STACK_CONFIG); under it handles
//! are cloned and dropped, and nothing else is called.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use kern::cpus::WorkerBinding;
use kern::{Condvar, Cpu, Cpus, LockClass, Mutex, Taskqueue, Workers, order};

use super::placement::WorkerLoad;
use super::poller::Interest;
use super::ready::{ReadyList, TaskWaker};
use super::sleeper::{QUEUES, Sleeper, WOKEN};
use super::votes::Votes;
use super::worker_pool::WorkerPoolConfig;
use crate::stack::driver::Driver;
use crate::{IfIndex, RxQueue, Stack};

static STACK_LIST: LockClass = LockClass::new("runtime stack list", order::STACK_CONFIG);

/// All workers of a pool.
pub(super) struct WorkerSet {
    cpus: Arc<Workers>,
    members: Vec<WorkerHandle>,
    stack_list: Mutex<StackListState>,
    /// A worker has taken a newer stack list, or has left.
    seen: Condvar,
    /// The number of the newest stack list. Release when it is made, under the lock; Acquire by a thread that reads it.
    newest: AtomicU64,
    pub(super) votes: Votes,
    /// A worker has used the stacks since worker 0, which reclaims, last found them unused. Relaxed: a use that is
    /// missed is seen by the last tick (see [`uma::LoopReclaimer::tick`]).
    used: AtomicBool,
}

/// A worker as others see it.
struct WorkerHandle {
    sleeper: Arc<Sleeper>,
    ready: ReadyList,
    /// Wakes it without a task, to check the phase, the stack list, and the packets and timers of its CPU.
    wakeup: Arc<TaskWaker>,
    tasks: Arc<Taskqueue>,
    /// It has ended. Release and Acquire: the join of its thread returns its error.
    lost: AtomicBool,
    load: WorkerLoad,
}

struct StackListState {
    stack_list: Arc<StackList>,
    /// The stack list that each worker has; the largest number if the worker has ended.
    has: Vec<u64>,
}

/// The stacks and queues to drive.
#[derive(Clone, Default)]
pub(super) struct StackList {
    pub(super) number: u64,
    pub(super) stacks: Vec<Stack>,
    /// Device queues, each with its number, in ascending order.
    pub(super) queues: Vec<(u64, Arc<Polled>)>,
    last_queue: u64,
}

/// A queue of a device, with the descriptor that is readable when frames wait.
pub(super) struct Polled {
    pub(super) queue: RxQueue,
    pub(super) fd: OwnedFd,
}

impl Driver for WorkerSet {
    fn watch(&self, stack: &Stack, queue: RxQueue, fd: OwnedFd) -> io::Result<()> {
        self.add(stack);
        self.watch(Polled { queue, fd })
    }

    fn forget(&self, stack: &Stack, index: IfIndex) {
        self.remove_interface(stack, index);
    }
}

impl WorkerSet {
    pub(super) fn new(config: &WorkerPoolConfig) -> io::Result<Self> {
        let count = config.workers();
        let cpus = Arc::new(Workers::new(count));
        let members = (0..count).map(|index| WorkerHandle::new(&cpus, index, config.is_shared()));
        let state = StackListState {
            stack_list: Arc::default(),
            has: vec![0; count],
        };
        Ok(Self {
            members: members.collect::<io::Result<_>>()?,
            cpus,
            stack_list: Mutex::new(&STACK_LIST, state),
            seen: Condvar::new(),
            newest: AtomicU64::new(0),
            votes: Votes::new(count),
            used: AtomicBool::new(false),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) fn workers(&self) -> Arc<Workers> {
        Arc::clone(&self.cpus)
    }

    /// The calling thread is worker `index` until the result is dropped.
    pub(super) fn bind(&self, index: usize) -> WorkerBinding {
        self.cpus.bind(index)
    }

    /// The calling thread's worker.
    pub(super) fn current(&self) -> Cpu {
        self.cpus.current()
    }

    pub(super) fn ready(&self, worker: usize) -> &ReadyList {
        &self.members[worker].ready
    }

    pub(super) fn load(&self, worker: usize) -> &WorkerLoad {
        &self.members[worker].load
    }

    pub(super) fn taskqueue(&self, worker: usize) -> Arc<Taskqueue> {
        Arc::clone(&self.members[worker].tasks)
    }

    pub(super) fn sleeper(&self, worker: usize) -> Arc<Sleeper> {
        Arc::clone(&self.members[worker].sleeper)
    }

    /// A worker has used the stacks. The first such call wakes worker 0.
    pub(super) fn note_use(&self) {
        if !self.used.load(Ordering::Relaxed) && !self.used.swap(true, Ordering::Relaxed) {
            self.wake(0);
        }
    }

    /// Whether a worker has used the stacks since [`expect_use`](Self::expect_use).
    pub(super) fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// Worker 0 has found the stacks unused.
    pub(super) fn expect_use(&self) {
        self.used.store(false, Ordering::Relaxed);
    }

    /// Wakes worker `index` so that it checks the shared state.
    pub(super) fn wake(&self, index: usize) {
        TaskWaker::wake(&self.members[index].wakeup);
    }

    pub(super) fn wake_all(&self) {
        (0..self.len()).for_each(|index| self.wake(index));
    }

    pub(super) fn add(&self, stack: &Stack) {
        let theirs = Arc::as_ptr(&stack.0.cpus).cast::<()>();
        let ours = Arc::as_ptr(&self.cpus).cast::<()>();
        assert!(
            std::ptr::eq(theirs, ours),
            "the stack's CPUs are not this runtime's workers"
        );
        let known = self.change(|stack_list| {
            let known = stack_list.stacks.iter().any(|s| is_same(s, stack));
            if !known {
                stack_list.stacks.push(stack.clone());
            }
            known
        });
        if !known {
            for (cpu, member) in self.members.iter().enumerate() {
                stack.set_cpu_waker(cpu, Some(member.wakeup.waker()));
            }
            // A worker that looks between these two steps sees all deadlines, though no waker is set yet.
            self.wake_all();
        }
    }

    pub(super) fn remove(&self, stack: &Stack) {
        let gone = self.change(|stack_list| {
            stack_list.stacks.retain(|s| !is_same(s, stack));
            take_queues(stack_list, |queue| queue.is_of(stack))
        });
        (0..self.len()).for_each(|cpu| stack.set_cpu_waker(cpu, None));
        self.let_go(gone);
    }

    pub(super) fn remove_interface(&self, stack: &Stack, index: IfIndex) {
        let gone = self.change(|stack_list| {
            take_queues(stack_list, |queue| {
                queue.is_interface(index) && queue.is_of(stack)
            })
        });
        self.let_go(gone);
    }

    /// A worker reports that a queue's device or interface is gone.
    pub(super) fn lose_queue(&self, number: u64) {
        let gone = self.change(|stack_list| {
            let at = stack_list.queues.iter().position(|(n, _)| *n == number);
            at.map(|at| stack_list.queues.remove(at))
        });
        self.forget(gone.as_slice());
    }

    /// Stops watching these queues, and waits until no worker drives them.
    fn let_go(&self, gone: Vec<(u64, Arc<Polled>)>) {
        self.forget(&gone);
        self.wait_until_seen();
    }

    fn forget(&self, gone: &[(u64, Arc<Polled>)]) {
        for (_, polled) in gone {
            let sleeper = &self.members[self.worker_of(polled)].sleeper;
            // It fails only if `watch` has failed for this descriptor.
            let _ = sleeper.poller().remove(&polled.fd);
        }
    }

    /// Adds a queue to the stack list, then to its worker's sleeper.
    pub(super) fn watch(&self, polled: Polled) -> io::Result<()> {
        let polled = Arc::new(polled);
        let number = self.change(|stack_list| {
            stack_list.last_queue += 1;
            let number = stack_list.last_queue;
            stack_list.queues.push((number, Arc::clone(&polled)));
            number
        });
        let sleeper = &self.members[self.worker_of(&polled)].sleeper;
        let watched = sleeper
            .poller()
            .add(&polled.fd, QUEUES + number, Interest::Read);
        if watched.is_err() {
            self.lose_queue(number);
        }
        watched
    }

    fn worker_of(&self, polled: &Polled) -> usize {
        polled.queue.number() % self.len()
    }

    /// Makes a new stack list out of the newest, and wakes all workers.
    fn change<R>(&self, f: impl FnOnce(&mut StackList) -> R) -> R {
        let mut state = self.stack_list.lock();
        let mut stack_list = StackList::clone(&state.stack_list);
        stack_list.number += 1;
        let number = stack_list.number;
        let result = f(&mut stack_list);
        let old = std::mem::replace(&mut state.stack_list, Arc::new(stack_list));
        self.newest.store(number, Ordering::Release);
        drop(state);
        // The old stack list may hold the last handle of a stack.
        drop(old);
        self.wake_all();
        result
    }

    /// Whether there is a newer stack list than the one that a worker has.
    pub(super) fn is_newer_than(&self, stack_list: &StackList) -> bool {
        self.newest.load(Ordering::Acquire) != stack_list.number
    }

    /// Worker `index` takes the newest stack list in the place of `old`.
    pub(super) fn newest(&self, index: usize, old: Arc<StackList>) -> Arc<StackList> {
        // Dropped before the worker publishes that it has a newer stack list.
        drop(old);
        let mut state = self.stack_list.lock();
        let newest = Arc::clone(&state.stack_list);
        state.has[index] = newest.number;
        drop(state);
        self.seen.notify_all();
        newest
    }

    /// Worker `index` has ended, and drives nothing any more.
    pub(super) fn lose(&self, index: usize) {
        self.stack_list.lock().has[index] = u64::MAX;
        self.seen.notify_all();
        self.members[index].lost.store(true, Ordering::Release);
        self.wake(0);
    }

    pub(super) fn has_lost(&self, index: usize) -> bool {
        self.members[index].lost.load(Ordering::Acquire)
    }

    /// Whether a worker has ended.
    pub(super) fn has_lost_one(&self) -> bool {
        (0..self.len()).any(|index| self.has_lost(index))
    }

    /// Waits until all workers have the newest stack list, unless the caller is one.
    fn wait_until_seen(&self) {
        if self.cpus.current().is_own {
            return;
        }
        let newest = self.newest.load(Ordering::Acquire);
        let mut state = self.stack_list.lock();
        while state.has.iter().any(|has| *has < newest) {
            state = self.seen.wait(state, None);
        }
    }

    /// Removes the stacks' wakers: the workers have ended.
    /// Returns the stacks that it drove.
    pub(super) fn release(&self) -> Arc<StackList> {
        let stacks = std::mem::take(&mut self.stack_list.lock().stack_list);
        for stack in &stacks.stacks {
            (0..self.len()).for_each(|cpu| stack.set_cpu_waker(cpu, None));
        }
        self.members.iter().for_each(|member| member.ready.close());
        stacks
    }
}

impl WorkerHandle {
    fn new(cpus: &Arc<Workers>, index: usize, is_shared: bool) -> io::Result<Self> {
        let sleeper = Sleeper::new(cpus, index, is_shared)?;
        let ready = ReadyList::new(&sleeper);
        let woken = Arc::clone(&sleeper);
        Ok(Self {
            wakeup: ready.waker_for(WOKEN),
            tasks: Arc::new(Taskqueue::new(move || woken.wake_worker())),
            lost: AtomicBool::new(false),
            load: WorkerLoad::default(),
            ready,
            sleeper,
        })
    }
}

fn is_same(a: &Stack, b: &Stack) -> bool {
    Arc::ptr_eq(&a.0, &b.0)
}

/// Removes the queues that `which` selects.
fn take_queues(
    stack_list: &mut StackList,
    which: impl Fn(&RxQueue) -> bool,
) -> Vec<(u64, Arc<Polled>)> {
    let all = std::mem::take(&mut stack_list.queues).into_iter();
    let (gone, left) = all.partition(|(_, polled)| which(&polled.queue));
    stack_list.queues = left;
    gone
}
