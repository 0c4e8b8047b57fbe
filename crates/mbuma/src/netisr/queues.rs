//! One protocol's packets: when and by which CPU they are handled, and the queue of each CPU.
//!
//! Called by: [`netisr`](super), once for each packet. Calls: [`Workstream`], one for each CPU.
//!
//! The rules, where `home` is the CPU of the packet's flow:
//!
//! | policy | a packet is handled at once, if | otherwise |
//! |---|---|---|
//! | [`Direct`](Dispatch::Direct) | nothing of `home`'s waits or is being handled | it queues there |
//! | [`Hybrid`](Dispatch::Hybrid) | the caller is `home`, and owns its workstream or finds it idle and then owns it | it queues there |
//! | [`Deferred`](Dispatch::Deferred) | never | it queues there |
//!
//! The policy may change between any two packets, so each rule checks for packets that the others left. A
//! policy that has been direct for a while pays one load for that, of a line that is written only when
//! some workstream ceases to be idle or becomes so.
//!
//! While packets wait and more keep coming, direct dispatch goes on queueing behind them: it catches up
//! when the CPU does.
//!
//! Invariant: `active` is how many workstreams are not idle. Locks: those of [`Workstream`].

use kern::handoff::Items;
use kern::prim::{AtomicU8, AtomicUsize, Ordering};

use super::batch_queues::BatchQueues;
use super::workstream::{Counts, Handler, Left, Put, Workstream};
use crate::config::{Dispatch, Protocol};

/// A protocol's workstreams.
pub(crate) struct ProtocolQueues<Q> {
    protocol: Protocol,
    /// A [`Dispatch`]. Relaxed: at any value, the workstreams decide.
    policy: AtomicU8,
    /// Works that are not idle.
    active: AtomicUsize,
    queue_max: usize,
    workstreams: Vec<Workstream<Q>>,
}

/// The next step of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disposition {
    /// Handle it: no other packet of its flow is being handled.
    Now,
    /// The same; the caller's batch owns its CPU's workstream.
    Owned,
    /// The same, from now on.
    Own(usize),
    /// Queue it for this CPU.
    Queue(usize),
}

impl<Q: Items> ProtocolQueues<Q> {
    pub(crate) fn new(protocol: Protocol, cpus: usize, policy: Dispatch, queue_max: usize) -> Self {
        Self {
            protocol,
            policy: AtomicU8::new(policy as u8),
            active: AtomicUsize::new(0),
            queue_max,
            workstreams: (0..cpus).map(|_| Workstream::new()).collect(),
        }
    }

    pub(crate) fn policy(&self) -> Dispatch {
        Dispatch::from_u8(self.policy.load(Ordering::Relaxed))
    }

    pub(crate) fn set_policy(&self, policy: Dispatch) {
        self.policy.store(policy as u8, Ordering::Relaxed);
    }

    /// The next step of a packet that CPU `me` brought in, whose batch has `mine`. `home` finds
    /// its flow's CPU, and is called only if it matters.
    #[inline]
    pub(crate) fn way(
        &self,
        me: usize,
        mine: &BatchQueues<Q>,
        home: impl FnOnce() -> usize,
    ) -> Disposition {
        let policy = self.policy();
        if policy == Dispatch::Direct && mine.is_empty() && self.is_quiet() {
            return Disposition::Now;
        }
        self.look(policy, me, mine, home())
    }

    /// All packets that were put are handled. Acquire: the caller sees the effects.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.active.load(Ordering::Acquire) == 0
    }

    fn look(&self, policy: Dispatch, me: usize, mine: &BatchQueues<Q>, home: usize) -> Disposition {
        let workstream = &self.workstreams[home];
        let may = match policy {
            Dispatch::Direct => true,
            Dispatch::Hybrid => home == me,
            Dispatch::Deferred => false,
        };
        if !may || mine.has(self.protocol, home) {
            return Disposition::Queue(home);
        }
        let owned = mine.owns(self.protocol, home);
        match policy {
            _ if owned && workstream.is_empty() => Disposition::Owned,
            Dispatch::Direct if workstream.is_idle() => Disposition::Now,
            Dispatch::Hybrid if workstream.own(&self.active) => Disposition::Own(home),
            _ => Disposition::Queue(home),
        }
    }

    /// Queues packets for a CPU, as far as there is room.
    pub(crate) fn put(&self, me: usize, home: usize, packets: &mut Q, by: Handler) -> Put {
        self.workstreams[home].put(packets, self.queue_max, me != home, by, &self.active)
    }

    /// Takes the packets that wait for a CPU, for the caller to handle.
    pub(crate) fn begin(&self, cpu: usize) -> Option<Q> {
        let workstream = &self.workstreams[cpu];
        workstream
            .is_scheduled()
            .then(|| workstream.begin())
            .flatten()
    }

    /// As [`Workstream::next`].
    pub(crate) fn next(&self, cpu: usize, handled: u64) -> Option<Q> {
        self.workstreams[cpu].next(handled, &self.active)
    }

    /// As [`Workstream::end`].
    pub(crate) fn end(&self, cpu: usize, handled: u64, others: Q) -> Left {
        self.workstreams[cpu].end(handled, others, &self.active)
    }

    /// Whether something waits for a CPU to begin.
    pub(crate) fn is_scheduled(&self, cpu: usize) -> bool {
        self.workstreams[cpu].is_scheduled()
    }

    pub(crate) fn counts(&self, cpu: usize) -> (Counts, usize) {
        self.workstreams[cpu].counts()
    }

    /// For mistakes.
    #[cfg(all(test, shuttle))]
    pub(crate) fn planted_rest(&self, cpu: usize) {
        self.workstreams[cpu].planted_rest(&self.active);
    }

    /// Whether each workstream's packets and state agree.
    pub(crate) fn is_valid(&self) -> bool {
        self.workstreams.iter().all(Workstream::is_valid)
    }
}
