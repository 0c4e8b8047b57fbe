//! The packets of one protocol: the rules for when and by which CPU they are handled, and the queue of each CPU.
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
//! While packets wait and more keep coming, direct dispatch queues new packets behind them, until the CPU has caught
//! up.
//!
//! Invariant: `active` is the number of workstreams that are not idle. Locks: those of [`Workstream`].

use std::sync::Arc;

use kern::prim::{AtomicU8, AtomicUsize, Ordering};
use kern::work_queue::{Handler, Items, Left, PutOutcome, WorkQueueStats};

use super::batch_queues::BatchQueues;
use super::workstream::Workstream;
use crate::config::{Dispatch, Protocol};

/// A protocol's workstreams.
pub(crate) struct ProtocolQueues<Q> {
    protocol: Protocol,
    /// A [`Dispatch`]. Relaxed: at any value, the workstreams decide.
    policy: AtomicU8,
    /// Workstreams that are not idle.
    active: Arc<AtomicUsize>,
    workstreams: Vec<Workstream<Q>>,
}

/// A CPU's figures of one protocol.
pub(crate) struct QueueCounts {
    pub(crate) queue: WorkQueueStats,
    /// Packets that wait now.
    pub(crate) waiting: usize,
    /// The queued packets that another CPU brought in and did not handle itself.
    pub(crate) moved: u64,
}

/// The next step of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disposition {
    /// Handle it: no other packet of its flow is being handled.
    Now,
    /// The same; the caller's batch owns its CPU's workstream.
    Owned,
    /// The same, and the batch owns the workstream from now on.
    Own(usize),
    /// Queue it for this CPU.
    Queue(usize),
}

impl<Q: Items> ProtocolQueues<Q> {
    pub(crate) fn new(protocol: Protocol, cpus: usize, policy: Dispatch, queue_max: usize) -> Self {
        let active = Arc::new(AtomicUsize::new(0));
        let workstream = |_| Workstream::new(queue_max, Arc::clone(&active));
        Self {
            protocol,
            policy: AtomicU8::new(policy as u8),
            workstreams: (0..cpus).map(workstream).collect(),
            active,
        }
    }

    pub(crate) fn policy(&self) -> Dispatch {
        Dispatch::from_u8(self.policy.load(Ordering::Relaxed))
    }

    pub(crate) fn set_policy(&self, policy: Dispatch) {
        self.policy.store(policy as u8, Ordering::Relaxed);
    }

    /// The next step of a packet that CPU `me` brought in; `mine` are its batch's queues. `home` finds the flow's CPU,
    /// and is called only if the result matters.
    #[inline]
    pub(crate) fn disposition(
        &self,
        me: usize,
        mine: &BatchQueues<Q>,
        home: impl FnOnce() -> usize,
    ) -> Disposition {
        let policy = self.policy();
        if policy == Dispatch::Direct && mine.is_empty() && self.is_quiet() {
            return Disposition::Now;
        }
        self.decide(policy, me, mine, home())
    }

    /// All packets that were put are handled. Acquire: the caller sees the effects.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.active.load(Ordering::Acquire) == 0
    }

    fn decide(
        &self,
        policy: Dispatch,
        me: usize,
        mine: &BatchQueues<Q>,
        home: usize,
    ) -> Disposition {
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
            _ if owned && !workstream.queue.has_more() => Disposition::Owned,
            Dispatch::Direct if workstream.queue.is_idle() => Disposition::Now,
            Dispatch::Hybrid if workstream.queue.acquire() => Disposition::Own(home),
            _ => Disposition::Queue(home),
        }
    }

    /// Queues packets for a CPU, as far as there is room.
    pub(crate) fn put(&self, me: usize, home: usize, packets: &mut Q, by: Handler) -> PutOutcome {
        self.workstreams[home].put(packets, me != home, by)
    }

    /// Takes the packets that wait for a CPU, for the caller to handle.
    pub(crate) fn begin(&self, cpu: usize) -> Option<Q> {
        let queue = &self.workstreams[cpu].queue;
        queue.is_scheduled().then(|| queue.begin()).flatten()
    }

    /// As [`WorkQueue::next`](kern::WorkQueue::next).
    pub(crate) fn next(&self, cpu: usize, handled: u64) -> Option<Q> {
        self.workstreams[cpu].queue.next(handled)
    }

    /// As [`WorkQueue::end`](kern::WorkQueue::end).
    pub(crate) fn end(&self, cpu: usize, handled: u64, others: Q) -> Left {
        self.workstreams[cpu].queue.end(handled, others)
    }

    /// Whether packets wait that this CPU must begin to handle.
    pub(crate) fn is_scheduled(&self, cpu: usize) -> bool {
        self.workstreams[cpu].queue.is_scheduled()
    }

    /// A CPU's figures.
    pub(crate) fn counts(&self, cpu: usize) -> QueueCounts {
        let workstream = &self.workstreams[cpu];
        QueueCounts {
            queue: workstream.queue.stats(),
            waiting: workstream.queue.waiting(),
            moved: workstream.moved.load(Ordering::Relaxed),
        }
    }

    /// Whether each workstream's packets and state agree.
    pub(crate) fn is_valid(&self) -> bool {
        self.workstreams.iter().all(|w| w.queue.is_valid())
    }
}
