//! The packets of one batch for other CPUs, and the workstreams that it owns.
//!
//! Packets that are to be queued are collected, so that a batch takes a CPU's lock once. A batch that
//! handles packets in a CPU's place owns that CPU's workstream until it ends, before it transmits or calls
//! wakers.
//!
//! Invariants: one entry a protocol and CPU; nothing is left when the batch ends. Locks: none.

use std::mem;

use kern::work_queue::{Handler, Items, Left, PutOutcome};

use super::queues::ProtocolQueues;
use crate::config::Protocol;

/// One entry for each protocol and CPU whose packets this batch queues or handles: mostly none, seldom two.
pub(crate) struct BatchQueues<Q> {
    entries: Vec<BatchQueue<Q>>,
}

/// A batch's packets of one protocol for one CPU.
struct BatchQueue<Q> {
    protocol: Protocol,
    cpu: usize,
    /// To be put.
    packets: Q,
    /// The batch owns the workstream.
    owned: bool,
    /// How many packets it has taken and not finished.
    handled: u64,
}

/// A task for the batch.
#[derive(Debug)]
pub(crate) enum Effect<Q> {
    /// This CPU has work: wake it.
    Kick(usize),
    /// There is no room for these packets: drop them.
    Full(Q),
}

impl<Q> Default for BatchQueues<Q> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
        }
    }
}

impl<Q: Items> BatchQueues<Q> {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn find(&self, protocol: Protocol, cpu: usize) -> Option<&BatchQueue<Q>> {
        let mut entries = self.entries.iter();
        entries.find(|e| e.protocol == protocol && e.cpu == cpu)
    }

    /// Whether collected packets are not queued yet.
    pub(crate) fn has(&self, protocol: Protocol, cpu: usize) -> bool {
        let entry = self.find(protocol, cpu);
        entry.is_some_and(|e| !e.packets.is_empty())
    }

    /// Whether the batch owns the workstream.
    pub(crate) fn owns(&self, protocol: Protocol, cpu: usize) -> bool {
        self.find(protocol, cpu).is_some_and(|e| e.owned)
    }

    /// The entry, made if there is none.
    fn entry(&mut self, protocol: Protocol, cpu: usize) -> &mut BatchQueue<Q> {
        let mut entries = self.entries.iter();
        let found = entries.position(|e| e.protocol == protocol && e.cpu == cpu);
        let at = found.unwrap_or_else(|| {
            self.entries.push(BatchQueue {
                protocol,
                cpu,
                packets: Q::default(),
                owned: false,
                handled: 0,
            });
            self.entries.len() - 1
        });
        &mut self.entries[at]
    }

    /// The packets collected for a CPU.
    pub(crate) fn packets(&mut self, protocol: Protocol, cpu: usize) -> &mut Q {
        &mut self.entry(protocol, cpu).packets
    }

    /// The batch owns a workstream from now on.
    pub(crate) fn own(&mut self, protocol: Protocol, cpu: usize) {
        self.entry(protocol, cpu).owned = true;
    }

    /// Hands over collected packets, and releases owned workstreams. If packets to this stack itself wait in an owned
    /// workstream, the batch gets them, one queue at a time, and must handle them before the next call. `all` are the
    /// queues of all protocols.
    pub(crate) fn settle(
        &mut self,
        all: &[ProtocolQueues<Q>],
        me: usize,
        mut tell: impl FnMut(Effect<Q>),
    ) -> Option<Q> {
        let mut entries = mem::take(&mut self.entries);
        entries.retain_mut(|entry| entry.hand_over(all, me, &mut tell));
        self.entries = entries;
        let queues = &all[Protocol::Loopback as usize];
        while let Some(entry) = self.entries.last_mut() {
            if let Some(packets) = queues.next(entry.cpu, entry.handled) {
                entry.handled = packets.len() as u64;
                return Some(packets);
            }
            self.entries.pop();
        }
        None
    }
}

impl<Q: Items> BatchQueue<Q> {
    /// Returns whether the batch owns packets from this stack to itself; all other entries are finished.
    fn hand_over(
        &mut self,
        all: &[ProtocolQueues<Q>],
        me: usize,
        tell: &mut impl FnMut(Effect<Q>),
    ) -> bool {
        let (queues, cpu) = (&all[self.protocol as usize], self.cpu);
        if !self.packets.is_empty() {
            let put = queues.put(me, cpu, &mut self.packets, Handler::Receiver);
            if matches!(put, PutOutcome::Wake(_)) {
                tell(Effect::Kick(cpu));
            }
            let rest = mem::take(&mut self.packets);
            if !rest.is_empty() {
                tell(Effect::Full(rest));
            }
        }
        if !self.owned || self.protocol == Protocol::Loopback {
            return self.owned;
        }
        if queues.end(cpu, 0, Q::default()) == Left::Some {
            tell(Effect::Kick(cpu));
        }
        false
    }
}
