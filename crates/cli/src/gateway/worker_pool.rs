//! The workers that serve one guest together, and the figures that each can read of the others.
//!
//! ```text
//!              TAP queue 0     TAP queue 1     TAP queue 2
//!                   |               |               |
//!               worker 0        worker 1        worker 2      each: a thread, an epoll set, a ready
//!                   |               |               |         list, timers, connections, host sockets
//!                   '-----------[ Stack ]-----------'
//! ```
//!
//! The workers share the stack, and nothing else on a packet's way.
//!
//! | work | the worker that does it |
//! |---|---|
//! | a new connection | the worker on whose queue its SYN came; if that is busy and another is not, the other |
//! | a connection under way | the same worker; if that has become busy and another is not, the other ([`inbox`](super::inbox)) |
//! | UDP flows, pings, the status page, published ports | worker 0: each needs one table, and seldom fills a CPU |
//!
//! So a small request does not wait for the turns of a bulk stream that its flow's hash put beside it. The guest's kernel
//! sends the packets of a connection to the queue that the last packet to it came from, so they follow it to its worker.
//!
//! Four events cross from one worker to another, each as a [`TaskWaker`] on the other's ready list: a socket of the other's
//! became ready by a packet that this worker took in; the stack left packets or a timer for the other's CPU; a connection
//! moves to the other; the phase changed.
//!
//! # The end
//! [`Phase`] goes one way: `Serve`, `Linger` or `Drain`, `End`; worker 0 moves it. In the middle one each worker votes whether it still has
//! work to wait for. The service ends when all workers vote that they have none *and* no ready list has an entry, both
//! read under one lock. A worker retracts its vote, under that lock, before it takes anything from its list or its TAP
//! queue. So a worker whose vote stands, and whose list is empty, is not in the middle of anything; and what it passed to
//! others is on their lists. A guest that left busy processes behind is never idle: a worker that has waited long enough
//! votes [`Quiescence::TimedOut`] for good.
//!
//! Called by: serve, the loop, shared. Calls: inbox, the ready lists.
//! Invariants: with one worker there is no descriptor to wake it by, because no other thread would.
//! Locks: `votes` (STACK_CONFIG; ready lists are read under it), a handle's `share` (STATS).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::Waker;

use kern::cpus::WorkerBinding;
use kern::{Clock, Cpus, LockClass, Mutex, Time, Workers, order};
use mbuma::Stack;

use super::balance::{BusyLoad, Sum};
use super::figures::Share;
use super::inbox::Inbox;
use super::load_average::LoadAverage;
use super::relay::Relay;
use super::table::{Kind, Token};
use mbuma::runtime::{ReadyList, Sleeper, TaskWaker};

static VOTES: LockClass = LockClass::new("gateway votes", order::STACK_CONFIG);
static SHARE: LockClass = LockClass::new("gateway share", order::STATS);

/// A load average of a busy worker: it moves more than some 90 MB a second, and other connections should not wait for that.
const BUSY_BYTES: u64 = 1 << 20;
/// The ratio of two workers' loads from which on a connection moves to the one with the smaller load.
const LOAD_RATIO: u64 = 4;

/// All workers of a guest.
pub(super) struct WorkerPool {
    cpus: Arc<Workers>,
    handles: Vec<WorkerHandle>,
    /// A [`Phase`]. Release and Acquire, though each worker is also woken after it changed.
    phase: AtomicU8,
    /// One vote for each worker.
    votes: Mutex<Vec<Quiescence>>,
    /// Worker 0 has stopped giving memory back, and is to be woken when the pool is used. Relaxed: a use that the worker
    /// misses is seen by the last tick (see [`uma::LoopReclaimer::tick`]).
    expects_use: AtomicBool,
    /// Worker 0's turn to give memory back.
    reclaim: Arc<TaskWaker>,
}

/// The part of a worker that others read.
struct WorkerHandle {
    ready: ReadyList,
    sleeper: Arc<Sleeper>,
    /// Wakes it without anything for it to do but read the phase and the stack's queues.
    wakeup: Arc<TaskWaker>,
    /// It has left before it was told to. Release and Acquire: its error comes by the join of its thread.
    lost: AtomicBool,
    share: Mutex<Share>,
    load_average: LoadAverage,
    load: BusyLoad,
    inbox: Inbox,
}

/// Whether a worker has anything to wait for, after the guest's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quiescence {
    /// It has, or is in the middle of something.
    Busy,
    /// It has nothing, until it takes something in.
    Idle,
    /// It has waited for the longest time, and will not wait for anything more.
    TimedOut,
}

/// How far the service is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Phase {
    /// The guest runs.
    Serve,
    /// The guest has ended, and its data is delivered.
    Linger,
    /// The server was asked to end, and responses under way are sent.
    Drain,
    /// All workers leave.
    End,
}

impl WorkerPool {
    /// `count` workers, which begin to serve. `others`: threads that are no workers wake them too.
    pub(super) fn new(count: usize, others: bool) -> io::Result<Arc<WorkerPool>> {
        let cpus = Arc::new(Workers::new(count));
        let handles = (0..count).map(|index| WorkerHandle::new(&cpus, index, others));
        let handles: Vec<WorkerHandle> = handles.collect::<io::Result<_>>()?;
        Ok(Arc::new(WorkerPool {
            expects_use: AtomicBool::new(true),
            reclaim: handles[0].ready.waker_for(Token::only(Kind::Reclaim)),
            handles,
            cpus,
            phase: AtomicU8::new(Phase::Serve as u8),
            votes: Mutex::new(&VOTES, vec![Quiescence::Busy; count]),
        }))
    }

    /// The number of workers.
    pub(super) fn len(&self) -> usize {
        self.handles.len()
    }

    /// The stack's CPUs.
    pub(super) fn cpus(&self) -> Arc<Workers> {
        Arc::clone(&self.cpus)
    }

    /// The calling thread is worker `index` until the returned value is dropped.
    pub(super) fn bind(&self, index: usize) -> WorkerBinding {
        self.cpus.bind(index)
    }

    /// Worker `index`'s ready list.
    pub(super) fn ready(&self, index: usize) -> ReadyList {
        self.handles[index].ready.clone()
    }

    /// The object that worker `index` sleeps on.
    pub(super) fn sleeper(&self, index: usize) -> Arc<Sleeper> {
        Arc::clone(&self.handles[index].sleeper)
    }

    /// Has the stack wake a CPU's worker when another left packets or timers for that CPU.
    pub(super) fn serve_cpus(&self, stack: &Stack) {
        for (cpu, handle) in self.handles.iter().enumerate() {
            stack.set_cpu_waker(cpu, Some(handle.wakeup.waker()));
        }
    }

    /// How far the service is.
    pub(super) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Serve,
            1 => Phase::Linger,
            2 => Phase::Drain,
            _ => Phase::End,
        }
    }

    /// The service goes on to `phase`: wakes all workers.
    pub(super) fn advance(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::Release);
        self.handles.iter().for_each(|handle| handle.wakeup.wake());
    }

    /// Worker `index` has left, or fails to.
    pub(super) fn leave(&self, index: usize) {
        self.handles[index].lost.store(true, Ordering::Release);
        self.handles[0].wakeup.wake();
    }

    /// Whether one has left.
    pub(super) fn has_lost_one(&self) -> bool {
        self.handles.iter().any(WorkerHandle::is_lost)
    }

    /// Worker `index` is about to take something in.
    pub(super) fn retract_vote(&self, index: usize) {
        let vote = &mut self.votes.lock()[index];
        if *vote == Quiescence::Idle {
            *vote = Quiescence::Busy;
        }
    }

    /// Worker `index` votes. True if the service can end: then worker 0 is woken, if it is another.
    pub(super) fn vote(&self, index: usize, vote: Quiescence) -> bool {
        let mut votes = self.votes.lock();
        votes[index] = vote;
        let done = |(handle, vote): (&WorkerHandle, &Quiescence)| {
            handle.is_lost()
                || match vote {
                    Quiescence::Busy => false,
                    Quiescence::Idle => handle.ready.is_empty(),
                    Quiescence::TimedOut => true,
                }
        };
        let all = self.handles.iter().zip(votes.iter()).all(done);
        drop(votes);
        if all && index != 0 {
            self.handles[0].wakeup.wake();
        }
        all
    }

    /// The traffic of worker `index` so far.
    pub(super) fn publish(&self, index: usize, share: Share) {
        *self.handles[index].share.lock() = share;
    }

    /// Worker `index` has moved `bytes` more.
    pub(super) fn record_load(&self, index: usize, now: Time, bytes: u64) {
        self.handles[index].load_average.record(now, bytes);
    }

    /// The next worker that uses the pool is to wake worker 0.
    pub(super) fn expect_use(&self) {
        self.expects_use.store(true, Ordering::Relaxed);
    }

    /// A worker has used the pool.
    pub(super) fn note_use(&self) {
        let expected = self.expects_use.load(Ordering::Relaxed);
        if expected && self.expects_use.swap(false, Ordering::Relaxed) {
            self.reclaim.wake();
        }
    }

    /// Whether a worker moves much: then the CPUs are wanted, by it and by the programs at both ends.
    pub(super) fn is_busy(&self, now: Time) -> bool {
        self.handles.iter().any(|handle| handle.is_busy(now))
    }

    /// The worker for a connection whose SYN came to worker `own`.
    fn worker_for(&self, own: usize, now: Time) -> usize {
        self.rebalance_target(own, now, 0).unwrap_or(own)
    }

    /// The worker that a connection of worker `own`, with `bytes` in its load average, should move to: one that has much
    /// less to do, even with it, than `own` without it.
    pub(super) fn rebalance_target(&self, own: usize, now: Time, bytes: u64) -> Option<usize> {
        let load_average = |index: usize| self.handles[index].load_average.at(now);
        let vote = load_average(own).saturating_sub(bytes);
        if vote < BUSY_BYTES {
            return None;
        }
        let least_loaded = (0..self.len()).min_by_key(|index| load_average(*index));
        least_loaded.filter(|index| load_average(*index) + bytes < vote / LOAD_RATIO)
    }

    /// The recent work of worker `index`'s busy connections.
    pub(super) fn load(&self, index: usize) -> &BusyLoad {
        &self.handles[index].load
    }

    /// The worker that should get some of worker `own`'s busy connections, which did `sum`, and how many: see
    /// [`balance`](super::balance).
    pub(super) fn surplus(&self, own: usize, sum: Sum, now: Time) -> Option<(usize, u64)> {
        let others = (0..self.len()).filter(|index| *index != own);
        let surplus = others.map(|index| (index, sum.surplus(self.load(index).at(now))));
        let most = surplus.max_by_key(|(_, count)| *count);
        most.filter(|(_, count)| *count > 0)
    }

    /// Moves `relay`, with `bytes` in its load average, from worker `own` to worker `to`.
    pub(super) fn migrate(&self, own: usize, to: usize, relay: Relay, now: Time, bytes: u64) {
        // Now, and not when it is there: else the next one would be sent after it for the same reason.
        self.handles[own].load_average.hand_over(now, bytes);
        self.handles[to].load_average.record(now, bytes);
        self.handles[to].inbox.put(relay);
    }

    /// The connections that moved to worker `index` since the last call.
    pub(super) fn take_migrated(&self, index: usize) -> Vec<Relay> {
        self.handles[index].inbox.take_all()
    }

    /// The traffic of each so far, a moment ago.
    pub(super) fn shares(&self) -> Vec<Share> {
        let shares = self.handles.iter().map(|handle| *handle.share.lock());
        shares.collect()
    }
}

impl WorkerHandle {
    fn new(cpus: &Arc<Workers>, index: usize, others: bool) -> io::Result<WorkerHandle> {
        let sleeper = Sleeper::new(cpus, index, others || cpus.count() > 1)?;
        let ready = ReadyList::new(&sleeper);
        Ok(WorkerHandle {
            wakeup: ready.waker_for(Token::only(Kind::Wakeup)),
            sleeper,
            lost: AtomicBool::new(false),
            inbox: Inbox::new(&ready),
            share: Mutex::new(&SHARE, Share::default()),
            load_average: LoadAverage::default(),
            load: BusyLoad::default(),
            ready,
        })
    }

    fn is_busy(&self, now: Time) -> bool {
        self.load_average.at(now) >= BUSY_BYTES
    }

    fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }
}

/// Chooses the worker that accepts a new connection of the guest: the worker that took the SYN in, which is the calling
/// thread's, or another with less to do; worker 0 if a thread that is no worker calls.
pub(super) struct AcceptSteering {
    worker_pool: Arc<WorkerPool>,
    clock: Arc<dyn Clock>,
    /// The wake of each worker's interceptor.
    wakes: Vec<Arc<TaskWaker>>,
}

impl AcceptSteering {
    /// To the workers that have `wakes`.
    pub(super) fn waker(
        worker_pool: &Arc<WorkerPool>,
        clock: &Arc<dyn Clock>,
        wakes: Vec<Arc<TaskWaker>>,
    ) -> Waker {
        let (worker_pool, clock) = (Arc::clone(worker_pool), Arc::clone(clock));
        Waker::from(Arc::new(AcceptSteering {
            worker_pool,
            clock,
            wakes,
        }))
    }
}

impl std::task::Wake for AcceptSteering {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let caller = self.worker_pool.cpus.current();
        let own = if caller.is_own { caller.index } else { 0 };
        let index = self.worker_pool.worker_for(own, self.clock.now());
        TaskWaker::wake(&self.wakes[index]);
    }
}

#[cfg(test)]
mod tests;
