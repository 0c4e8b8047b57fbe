//! What one batch has for other CPUs, and what it owns.
//!
//! Called by: [`netisr`](super); each [`Batch`](crate::batch::Batch) has one. Calls nothing.
//!
//! Packets that are to be queued are collected, so that a batch takes a CPU's lock once. A batch that
//! handles packets in a CPU's place owns that CPU's work until it ends, before it transmits or wakes
//! anybody.
//!
//! Invariants: one entry a protocol and CPU; nothing is left when the batch ends. Locks: none.

use kern::handoff::Row;

use super::config::{PROTOCOLS, Protocol};

/// One entry for each protocol and CPU that this batch has to do with: mostly none, seldom two.
pub(crate) struct Outbox<Q> {
    entries: Vec<Entry<Q>>,
    /// Packets that were handled at once, by protocol: owning nothing, and owning the work.
    pub(crate) at_once: [[u64; 2]; PROTOCOLS],
}

/// What a batch has of one protocol for one CPU.
pub(super) struct Entry<Q> {
    pub(super) protocol: Protocol,
    pub(super) cpu: usize,
    /// To be put.
    pub(super) row: Q,
    /// The batch owns the work.
    pub(super) owned: bool,
    /// How many packets of what it took last it handled.
    pub(super) handled: u64,
}

impl<Q: Row> Outbox<Q> {
    pub(crate) fn new() -> Self {
        Self {
            entries: Vec::new(),
            at_once: [[0; 2]; PROTOCOLS],
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn find(&self, protocol: Protocol, cpu: usize) -> Option<&Entry<Q>> {
        let mut entries = self.entries.iter();
        entries.find(|e| e.protocol == protocol && e.cpu == cpu)
    }

    /// Whether packets were collected that are not put yet.
    pub(super) fn has(&self, protocol: Protocol, cpu: usize) -> bool {
        let entry = self.find(protocol, cpu);
        entry.is_some_and(|e| !e.row.is_empty())
    }

    /// Whether the batch owns the work.
    pub(super) fn owns(&self, protocol: Protocol, cpu: usize) -> bool {
        self.find(protocol, cpu).is_some_and(|e| e.owned)
    }

    /// The entry, made if there is none.
    pub(super) fn entry(&mut self, protocol: Protocol, cpu: usize) -> &mut Entry<Q> {
        let mut entries = self.entries.iter();
        let found = entries.position(|e| e.protocol == protocol && e.cpu == cpu);
        let at = found.unwrap_or_else(|| {
            self.entries.push(Entry {
                protocol,
                cpu,
                row: Q::default(),
                owned: false,
                handled: 0,
            });
            self.entries.len() - 1
        });
        &mut self.entries[at]
    }

    /// Takes an entry out.
    pub(super) fn pop(&mut self) -> Option<Entry<Q>> {
        self.entries.pop()
    }

    /// Takes one of another protocol out.
    pub(super) fn pop_other_than(&mut self, protocol: Protocol) -> Option<Entry<Q>> {
        let mut entries = self.entries.iter();
        let at = entries.position(|e| e.protocol != protocol)?;
        Some(self.entries.swap_remove(at))
    }

    /// A packet was handled at once.
    #[inline]
    pub(super) fn count(&mut self, protocol: Protocol, owned: usize) {
        self.at_once[protocol as usize][owned] += 1;
    }
}
