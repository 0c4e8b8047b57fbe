//! Addresses that are being probed for duplicates. One that is not optimistic is not the interface's yet.
//!
//! Locks: none here. Sources: RFC 4862 section 5.4, RFC 4429, RFC 7527.

use std::net::Ipv6Addr;
use std::time::Duration;

use kern::Time;

use super::HostAction;
use super::learnt::LearntAddr;
use crate::faults::{StackFault, planted};
use crate::ifnet::Cidr;

/// The time between two probes, and after the last (RFC 4861 section 10, RETRANS_TIMER).
pub(super) const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// An address that is not the interface's yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tentative {
    pub(super) addr: Cidr<Ipv6Addr>,
    pub(super) probes_left: u8,
    pub(super) next: Time,
    pub(super) nonce: [u8; 6],
    /// It was made from a router's prefix.
    pub(super) learnt: Option<LearntAddr>,
    /// It is used meanwhile.
    pub(super) is_optimistic: bool,
}

/// All of an interface.
#[derive(Debug, Default)]
pub(super) struct TentativeAddrs(Vec<Tentative>);

impl TentativeAddrs {
    /// Probes for one more.
    pub(super) fn push(&mut self, tentative: Tentative) {
        self.0.push(tentative);
    }

    /// Whether `addr` is one.
    pub(super) fn has(&self, addr: Ipv6Addr) -> bool {
        self.addrs().any(|known| known == addr)
    }

    /// All of them.
    pub(super) fn addrs(&self) -> impl Iterator<Item = Ipv6Addr> {
        self.0.iter().map(|tentative| tentative.addr.addr)
    }

    /// The optimistic ones, which are used meanwhile.
    pub(super) fn optimistic(&self) -> impl Iterator<Item = Ipv6Addr> {
        let used = self.0.iter().filter(|tentative| tentative.is_optimistic);
        used.map(|tentative| tentative.addr.addr)
    }

    /// Those that were made from a router's prefix.
    pub(super) fn learnt(&mut self) -> impl Iterator<Item = &mut LearntAddr> {
        self.0.iter_mut().filter_map(|t| t.learnt.as_mut())
    }

    /// Removes `addr`, which another station has or probes for with `nonce`, unless the nonce is our own.
    pub(super) fn take(&mut self, addr: Ipv6Addr, nonce: Option<&[u8]>) -> Option<Tentative> {
        let at = self.0.iter().position(|t| t.addr.addr == addr)?;
        (nonce != Some(&self.0[at].nonce)).then(|| self.0.remove(at))
    }

    /// Removes `addr`. Returns whether it was tentative.
    pub(super) fn forget(&mut self, addr: Ipv6Addr) -> bool {
        let before = self.0.len();
        self.0.retain(|tentative| tentative.addr.addr != addr);
        self.0.len() < before
    }

    /// Sends the probes that are due. The addresses whose probes are over become the interface's; of them, those that
    /// were made from a router's prefix are returned.
    pub(super) fn run(&mut self, now: Time, actions: &mut Vec<HostAction>) -> Vec<LearntAddr> {
        let (mut done, mut learnt) = (Vec::new(), Vec::new());
        for tentative in self.0.iter_mut().filter(|t| t.next <= now) {
            if tentative.probes_left == 0 {
                done.push(tentative.addr.addr);
                learnt.extend(tentative.learnt);
                actions.push(HostAction::Add(tentative.addr));
                continue;
            }
            if !planted(StackFault::EndlessProbes) {
                tentative.probes_left -= 1;
            }
            tentative.next = now + PROBE_INTERVAL;
            actions.push(HostAction::Probe(tentative.addr.addr, tentative.nonce));
        }
        self.0.retain(|t| !done.contains(&t.addr.addr));
        learnt
    }

    /// The next time at which each has work.
    pub(super) fn deadlines(&self) -> impl Iterator<Item = Time> {
        self.0.iter().map(|tentative| tentative.next)
    }
}
