//! Counts of dispatched packets, by CPU, protocol and policy.

use std::fmt;

use kern::Counter;

use super::Netisr;
use crate::config::Protocol;

/// One CPU's figures of one protocol. Each of its packets was handled at once (`direct`, `hybrid`), or `queued`, or
/// `dropped`. Each queued packet was `handled`, or is `waiting`, or is being handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(alias = "sysctl_netisr_work")]
#[non_exhaustive]
pub struct WorkStats {
    /// Which CPU.
    pub cpu: usize,
    /// Which protocol.
    pub protocol: Protocol,
    /// Packets that this CPU brought in and handled at once.
    pub direct: u64,
    /// Packets that this CPU brought in and handled at once under [`Dispatch::Hybrid`](crate::Dispatch::Hybrid).
    pub hybrid: u64,
    /// Packets that were queued for this CPU.
    pub queued: u64,
    /// The part of these that another CPU brought in and did not handle itself.
    pub moved: u64,
    /// Packets that were taken from its queue and handled.
    pub handled: u64,
    /// Packets for which its queue had no room.
    pub dropped: u64,
    /// How often a packet was queued while its queue was idle, so that the CPU was woken.
    pub kicks: u64,
    /// Packets that wait now.
    pub waiting: usize,
    /// The most that ever waited.
    pub high_water: usize,
}

impl Netisr {
    pub(crate) fn stats(&self) -> Vec<WorkStats> {
        let of = |cpu: usize| Protocol::ALL.map(|protocol| self.work_stats(cpu, protocol));
        (0..self.cpus()).flat_map(of).collect()
    }

    fn work_stats(&self, cpu: usize, protocol: Protocol) -> WorkStats {
        let counts = self.queues(protocol).counts(cpu);
        let [direct, hybrid] = self.at_once[cpu][protocol as usize]
            .each_ref()
            .map(Counter::get);
        WorkStats {
            cpu,
            protocol,
            direct,
            hybrid,
            queued: counts.queue.queued,
            moved: counts.moved,
            handled: counts.queue.handled,
            dropped: counts.queue.full,
            kicks: counts.queue.wakeups,
            waiting: counts.waiting,
            high_water: counts.queue.high_water,
        }
    }
}

/// A line for people.
impl fmt::Display for WorkStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cpu {} {}: {} direct, {} hybrid, {} queued ({} from other CPUs), {} handled, {} waiting \
             (at most {}), {} dropped, {} kicks",
            self.cpu,
            self.protocol.name(),
            self.direct,
            self.hybrid,
            self.queued,
            self.moved,
            self.handled,
            self.waiting,
            self.high_water,
            self.dropped,
            self.kicks,
        )
    }
}
