//! The state that every turn of every flow uses: the stack, the descriptors, time, and the figures.
//!
//! Called by: everything in the gateway. Calls: the stack's clock, the runtime.
//! Locks: none; one worker has it.

use kern::{Callout, CalloutId, Time};
use mbuf::{NoBufs, Scatter};
use mbuma::Stack;
use mbuma::runtime::{Poller, ReadyList, Sleeper, TaskWaker};

use std::sync::Arc;
use std::time::Duration;

use super::allowance::Allowance;
use super::balance::Balance;
use super::figures::Counters;
use super::notice::{self, Notices};
use super::policy::Policy;
use super::resolvers::Resolvers;
use super::table::Token;
use super::worker_pool::WorkerPool;

/// Bytes that one read from a host socket takes at most: those of one segment over the TAP.
pub(super) const READ_MAX: usize = 64 << 10;

/// How long an answer of [`Shared::allowance`] is good for.
const ALLOWANCE_AGE: Duration = Duration::from_millis(1);

/// The shared state.
pub(super) struct Shared {
    pub(super) stack: Stack,
    /// The index of the worker that owns this, and the pool that it is in.
    pub(super) worker: usize,
    pub(super) worker_pool: Arc<WorkerPool>,
    pub(super) sleeper: Arc<Sleeper>,
    pub(super) ready: ReadyList,
    pub(super) policy: Policy,
    pub(super) resolvers: Resolvers,
    pub(super) counters: Counters,
    pub(super) notices: Notices,
    /// Each timer's token says whose it is.
    pub(super) timers: Callout<Token>,
    /// Which connections other workers are to have.
    pub(super) balance: Balance,
    /// Clusters that host sockets are read into.
    scatter: Scatter,
    /// The bytes that a connection's buffers may hold, and since when that is known.
    allowance: (Allowance, Time),
}

impl Shared {
    /// For a stack and one of its workers, with nothing open yet.
    pub(super) fn new(
        stack: Stack,
        worker_pool: &Arc<WorkerPool>,
        worker: usize,
        policy: Policy,
        resolvers: Resolvers,
    ) -> Shared {
        Shared {
            scatter: Scatter::for_len(stack.pool(), READ_MAX),
            allowance: (Allowance::of(stack.pool().headroom()), stack.now()),
            timers: Callout::new(stack.now()),
            balance: Balance::new(stack.now()),
            ready: worker_pool.ready(worker),
            worker,
            worker_pool: Arc::clone(worker_pool),
            counters: Counters::default(),
            notices: Notices::default(),
            sleeper: worker_pool.sleeper(worker),
            stack,
            policy,
            resolvers,
        }
    }

    /// The descriptors that the worker waits for.
    pub(super) fn poller(&self) -> &Poller {
        self.sleeper.poller()
    }

    /// The way onto the ready list for the object that `token` names.
    pub(super) fn wake_for(&self, token: Token) -> Arc<TaskWaker> {
        self.ready.waker_for(token)
    }

    /// The time now.
    pub(super) fn now(&self) -> Time {
        self.stack.now()
    }

    /// Has `token` come up after `wait`.
    pub(super) fn after(&mut self, wait: Duration, token: Token) -> CalloutId {
        let at = self.now() + wait;
        self.timers.schedule(at, token)
    }

    /// Counts, and says, that no descriptor is left for a socket.
    pub(super) fn out_of_descriptors(&mut self) {
        self.counters.descriptors_exhausted += 1;
        let now = self.now();
        self.notices.say(now, notice::Subject::Descriptors, || {
            "no descriptor is left: new connections wait until others end. Raise the hard limit on open files, which \
             `ulimit -Hn` shows (`LimitNOFILE=` of systemd, `nofile` of limits.conf)"
                .to_owned()
        });
    }

    /// The bytes that a connection's buffers may hold now.
    pub(super) fn allowance(&mut self, now: Time) -> Allowance {
        let (allowance, since) = &mut self.allowance;
        if now - *since >= ALLOWANCE_AGE {
            *allowance = Allowance::of(self.stack.pool().headroom());
            *since = now;
        }
        *allowance
    }

    /// A full row of clusters to read into.
    ///
    /// # Errors
    /// None are to be had now.
    pub(super) fn scatter(&mut self) -> Result<&mut Scatter, NoBufs> {
        self.scatter.refill()?;
        Ok(&mut self.scatter)
    }

    /// Gives the clusters back: before a long sleep, and at the end.
    pub(super) fn release_buffers(&mut self) {
        self.scatter.clear();
    }
}
