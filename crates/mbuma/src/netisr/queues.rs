//! One protocol's packets: when and by which CPU they are handled, and the queue of each CPU.
//!
//! Called by: [`netisr`](super), once for each packet. Calls: [`Work`], one for each CPU.
//!
//! The rules, where `home` is the CPU of the packet's flow:
//!
//! | policy | a packet is handled at once, if | otherwise |
//! |---|---|---|
//! | [`Direct`](Dispatch::Direct) | nothing of `home`'s waits or is being handled | it queues there |
//! | [`Hybrid`](Dispatch::Hybrid) | the caller is `home`, and owns its work or finds it idle and then owns it | it queues there |
//! | [`Deferred`](Dispatch::Deferred) | never | it queues there |
//!
//! The policy may change between any two packets, so each rule looks at what the others may have left. A
//! policy that has been direct for a while pays one load for that, of a line that is written only when
//! some work ceases to be idle or becomes so.
//!
//! While packets wait and more keep coming, direct dispatch goes on queueing behind them: it catches up
//! when the CPU does.
//!
//! Invariant: `active` is how many works are not idle. Locks: those of [`Work`].

use kern::handoff::Items;
use kern::prim::{AtomicU8, AtomicUsize, Ordering};

use super::batch_queues::Outbox;
use super::workstream::{Counts, Handler, Left, Put, Work};
use crate::config::{Dispatch, Protocol};

/// A protocol's works.
pub(super) struct Lane<Q> {
    protocol: Protocol,
    /// A [`Dispatch`]. Relaxed: whatever the value, the works decide what may be done.
    policy: AtomicU8,
    /// Works that are not idle.
    active: AtomicUsize,
    queue_max: usize,
    works: Vec<Work<Q>>,
}

/// What is to be done with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Handle it: no other packet of its flow is being handled.
    Now,
    /// The same; the caller's batch owns its CPU's work.
    Owned,
    /// The same, from now on.
    Own(usize),
    /// Queue it for this CPU.
    Queue(usize),
}

impl<Q: Items> Lane<Q> {
    pub(super) fn new(protocol: Protocol, cpus: usize, policy: Dispatch, queue_max: usize) -> Self {
        Self {
            protocol,
            policy: AtomicU8::new(policy as u8),
            active: AtomicUsize::new(0),
            queue_max,
            works: (0..cpus).map(|_| Work::new()).collect(),
        }
    }

    pub(super) fn policy(&self) -> Dispatch {
        Dispatch::from_u8(self.policy.load(Ordering::Relaxed))
    }

    pub(super) fn set_policy(&self, policy: Dispatch) {
        self.policy.store(policy as u8, Ordering::Relaxed);
    }

    /// What is to be done with a packet that CPU `me` brought in, whose batch has `outbox`. `home` finds
    /// its flow's CPU, and is asked only if it matters.
    #[inline]
    pub(super) fn way(&self, me: usize, outbox: &Outbox<Q>, home: impl FnOnce() -> usize) -> Way {
        let policy = self.policy();
        if policy == Dispatch::Direct && outbox.is_empty() && self.is_quiet() {
            return Way::Now;
        }
        self.look(policy, me, outbox, home())
    }

    /// Everything that was put is done. Acquire: and what that did is seen.
    #[inline]
    pub(super) fn is_quiet(&self) -> bool {
        self.active.load(Ordering::Acquire) == 0
    }

    fn look(&self, policy: Dispatch, me: usize, outbox: &Outbox<Q>, home: usize) -> Way {
        let work = &self.works[home];
        let may = match policy {
            Dispatch::Direct => true,
            Dispatch::Hybrid => home == me,
            Dispatch::Deferred => false,
        };
        if !may || outbox.has(self.protocol, home) {
            return Way::Queue(home);
        }
        let owned = outbox.owns(self.protocol, home);
        match policy {
            _ if owned && work.is_empty() => Way::Owned,
            Dispatch::Direct if work.is_idle() => Way::Now,
            Dispatch::Hybrid if work.own(&self.active) => Way::Own(home),
            _ => Way::Queue(home),
        }
    }

    /// Queues a row for a CPU, as far as there is room.
    pub(super) fn put(&self, me: usize, home: usize, row: &mut Q, by: Handler) -> Put {
        self.works[home].put(row, self.queue_max, me != home, by, &self.active)
    }

    /// Takes what waits for a CPU, for the caller to handle.
    pub(super) fn begin(&self, cpu: usize) -> Option<Q> {
        let work = &self.works[cpu];
        work.is_scheduled().then(|| work.begin()).flatten()
    }

    /// As [`Work::next`].
    pub(super) fn next(&self, cpu: usize, handled: u64) -> Option<Q> {
        self.works[cpu].next(handled, &self.active)
    }

    /// As [`Work::end`].
    pub(super) fn end(&self, cpu: usize, handled: u64, others: Q) -> Left {
        self.works[cpu].end(handled, others, &self.active)
    }

    /// Whether something waits for a CPU to begin.
    pub(super) fn is_scheduled(&self, cpu: usize) -> bool {
        self.works[cpu].is_scheduled()
    }

    pub(super) fn counts(&self, cpu: usize) -> (Counts, usize) {
        self.works[cpu].counts()
    }

    /// For mistakes.
    #[cfg(all(test, shuttle))]
    pub(super) fn planted_rest(&self, cpu: usize) {
        self.works[cpu].planted_rest(&self.active);
    }

    /// Whether each work's row and state agree.
    pub(super) fn is_valid(&self) -> bool {
        self.works.iter().all(Work::is_valid)
    }
}
