//! The queues of packets that wait for a protocol, one for each protocol and CPU, and the rules that choose a packet's
//! CPU.
//!
//! Data only: [`dispatch`](crate::dispatch) brings packets in and handles them.
//!
//! Three policies, one a protocol, changed at any time ([`Dispatch`], `queues.rs` has the rules). A flow has one
//! CPU, by a hash of its ends (`flow.rs`): its packets queue only there, so it stays in order, and
//! its connection's lines in one cache. A packet that is handled at once never overtakes one that waits
//! (`workstream.rs` has the argument).
//!
//! Locks: one a workstream (IFQUEUE); nothing is handled under it. Sources: netisr(9), seed 002, seed 003.

use std::sync::atomic::{AtomicBool, Ordering};

use kern::{Counter, Random};
use mbuf::{Mbufq, Packet};

use crate::config::netisr::PROTOCOLS;
use crate::config::{Config, Dispatch, NetisrConfig, Protocol};

mod batch_queues;
mod flow;
#[cfg(all(test, shuttle))]
#[path = "../models/netisr.rs"]
mod models;
mod queues;
mod stats;
mod workstream;

pub use stats::WorkStats;

pub(crate) use batch_queues::{BatchQueues, Effect};
pub(crate) use flow::{Flows, keep};
pub(crate) use kern::work_queue::{Handler, Left, PutOutcome};
pub(crate) use queues::{Disposition, ProtocolQueues};

/// How a packet arrived; its bytes do not show that any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// In a frame to this station.
    Unicast = 0,
    /// In a frame to a group of stations, broadcast included.
    #[doc(alias = "M_BCAST")]
    Group = 1,
    /// From this stack itself.
    Loopback = 2,
}

impl Arrival {
    /// How a packet arrived that has waited: its header kept that.
    pub(crate) fn of(packet: &Packet) -> Self {
        match packet.header().arrival {
            0 => Self::Unicast,
            1 => Self::Group,
            _ => Self::Loopback,
        }
    }
}

/// A stack's packets on their way to protocols.
pub(crate) struct Netisr {
    all: [ProtocolQueues<Mbufq>; PROTOCOLS],
    /// The packets that each CPU handled at once, by protocol: without and with ownership of the workstream.
    at_once: Vec<[[Counter; 2]; PROTOCOLS]>,
    flows: Flows,
    /// Flows matter: there are several CPUs, or a device has several queues. Relaxed: packets that were under way
    /// before have none.
    flows_matter: AtomicBool,
}

impl Netisr {
    pub(crate) fn new(config: &Config, random: &mut Random) -> Self {
        let cpus = config.cpus.count();
        let NetisrConfig {
            dispatch,
            queue_max,
        } = config.netisr;
        Self {
            all: Protocol::ALL
                .map(|protocol| ProtocolQueues::new(protocol, cpus, dispatch, queue_max)),
            at_once: (0..cpus).map(|_| Default::default()).collect(),
            flows: Flows::new(random),
            flows_matter: AtomicBool::new(cpus > 1),
        }
    }

    pub(crate) fn cpus(&self) -> usize {
        self.at_once.len()
    }

    pub(crate) fn queues(&self, protocol: Protocol) -> &ProtocolQueues<Mbufq> {
        &self.all[protocol as usize]
    }

    /// When a protocol's packets are handled.
    pub(crate) fn policy(&self, protocol: Protocol) -> Dispatch {
        self.queues(protocol).policy()
    }

    pub(crate) fn set_policy(&self, protocol: Protocol, dispatch: Dispatch) {
        self.queues(protocol).set_policy(dispatch);
    }

    /// Those of all protocols, in the order of their numbers.
    pub(crate) fn all_queues(&self) -> &[ProtocolQueues<Mbufq>] {
        &self.all
    }

    /// The hashes by which flows find their CPUs and transmit queues.
    pub(crate) fn flows(&self) -> &Flows {
        &self.flows
    }

    /// Whether packets that are sent need their flow's hash.
    pub(crate) fn flows_matter(&self) -> bool {
        self.flows_matter.load(Ordering::Relaxed)
    }

    /// From now on they need it.
    pub(crate) fn need_flows(&self) {
        self.flows_matter.store(true, Ordering::Relaxed);
    }

    /// The CPU of a packet's flow. If there are several CPUs, the hash is written to the packet's header.
    pub(crate) fn home(&self, protocol: Protocol, packet: &mut Packet) -> usize {
        let cpus = self.cpus();
        if cpus == 1 {
            return 0;
        }
        if packet.header().flow == 0 {
            packet.header_mut().flow = match protocol {
                Protocol::Arp => self.flows.of_arp(packet),
                Protocol::Ip4 => self.flows.of_ip4(packet),
                Protocol::Ip6 => self.flows.of_ip6(packet),
                Protocol::Loopback => self.flows.of_ip(packet),
            };
        }
        // The same rule chooses an interface's queue: with as many queues as CPUs, both have the same number.
        packet.header().flow as usize % cpus
    }

    /// Whether work waits for a CPU.
    pub(crate) fn waits(&self, cpu: usize) -> bool {
        self.all.iter().any(|queues| queues.is_scheduled(cpu))
    }

    /// Counts a packet that a CPU handles at once; `owned`: its batch owns the workstream.
    #[inline]
    pub(crate) fn count(&self, cpu: usize, protocol: Protocol, owned: bool) {
        self.at_once[cpu][protocol as usize][usize::from(owned)].inc();
    }

    /// Whether work waits for any CPU.
    pub(crate) fn waits_anywhere(&self) -> bool {
        let is_busy = self.all.iter().any(|queues| !queues.is_quiet());
        is_busy && (0..self.cpus()).any(|cpu| self.waits(cpu))
    }
}
