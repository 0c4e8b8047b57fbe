//! The state that every turn of every flow uses: the stack, the descriptors, time, and the figures.
//!
//! Locks: none; one worker has it.

use kern::{CalloutId, Time};
use mbuf::{NoBufs, Scatter};
use mbuma::Stack;
use mbuma::runtime::{Poller, TaskWaker, WorkerContext};

use std::sync::Arc;
use std::time::Duration;

use super::allowance::Allowance;
use super::figures::{Counters, Figures, Fixed, Gauges, Share};
use super::host::READ_MAX;
use super::notice::{self, Notices};
use super::policy::Policy;
use super::resolvers::Resolvers;
use super::table::Token;
use super::worker_shares::WorkerShares;
use crate::resolv_conf::ENCRYPTED_DNS_PORT;

/// The time for which an answer of [`Shared::allowance`] is valid.
const ALLOWANCE_AGE: Duration = Duration::from_millis(1);

/// The shared state.
pub(super) struct Shared {
    pub(super) stack: Stack,
    /// The worker that owns this: its descriptors, its ready list, its timers.
    pub(super) context: WorkerContext,
    /// The traffic of all workers.
    pub(super) worker_shares: Arc<WorkerShares>,
    pub(super) policy: Policy,
    pub(super) resolvers: Resolvers,
    pub(super) encrypted_resolvers: Resolvers,
    pub(super) counters: Counters,
    pub(super) notices: Notices,
    /// Clusters that host sockets are read into.
    scatter: Scatter,
    /// The bytes that a connection's buffers may hold, and when that was computed.
    allowance: (Allowance, Time),
}

impl Shared {
    /// For a stack and one of its workers, with nothing open yet.
    pub(super) fn new(
        stack: Stack,
        context: WorkerContext,
        worker_shares: &Arc<WorkerShares>,
        policy: Policy,
        resolvers: Resolvers,
    ) -> Shared {
        Shared {
            scatter: Scatter::for_len(stack.pool(), READ_MAX),
            allowance: (Allowance::of(stack.pool().headroom()), stack.now()),
            context,
            worker_shares: Arc::clone(worker_shares),
            counters: Counters::default(),
            notices: Notices::default(),
            stack,
            policy,
            encrypted_resolvers: resolvers.encrypted(),
            resolvers,
        }
    }

    /// The descriptors that the worker waits for.
    pub(super) fn poller(&self) -> &Poller {
        self.context.poller()
    }

    /// The way onto the ready list for the object that `token` names.
    pub(super) fn wake_for(&self, token: Token) -> Arc<TaskWaker> {
        self.context.ready().waker_for(token)
    }

    /// The time now.
    pub(super) fn now(&self) -> Time {
        self.stack.now()
    }

    /// Sets a timer of `token` for after `wait`.
    pub(super) fn after(&mut self, wait: Duration, token: Token) -> CalloutId {
        self.context.after(wait, token)
    }

    /// The resolvers that are asked at this port.
    pub(super) fn resolvers_at(&mut self, port: u16) -> &mut Resolvers {
        match port {
            ENCRYPTED_DNS_PORT => &mut self.encrypted_resolvers,
            _ => &mut self.resolvers,
        }
    }

    /// Counts and reports that no descriptor is left for a socket.
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

    /// The traffic so far: this worker's share as it is, the others' as they last published it.
    pub(super) fn figures(&self, fixed: &Fixed, gauges: Gauges) -> Figures {
        let mut shares = self.worker_shares.all();
        let counters = self.counters;
        shares[self.context.index()] = Share { counters, gauges };
        let uptime = self.now() - Time::ZERO;
        Figures::new(fixed, uptime, shares, self.stack.stats())
    }

    /// Clusters to read into, all allocated.
    ///
    /// # Errors
    /// There are no clusters now.
    pub(super) fn scatter(&mut self) -> Result<&mut Scatter, NoBufs> {
        self.scatter.refill()?;
        Ok(&mut self.scatter)
    }

    /// Gives the clusters back: before a long sleep, and at the end.
    pub(super) fn release_buffers(&mut self) {
        self.scatter.clear();
    }
}
