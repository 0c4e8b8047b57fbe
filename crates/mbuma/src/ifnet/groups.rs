//! The IPv6 groups that programs joined on an interface, beside the groups of every station.
//!
//! Invariants: a group is there once, with the number of its members, which is not 0.
//! Locks: the list (IFADDR, read-mostly), innermost but for memory.

use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicU64, Ordering};

use kern::RmLock;

use super::addrs::{IFADDR, LocalAddr};

/// Groups of an interface at most.
const GROUPS_MAX: usize = 1024;

/// The groups, each with its number of members here.
#[derive(Debug)]
pub(crate) struct Groups {
    list: RmLock<Vec<(Ipv6Addr, usize)>>,
    /// A bit for each group, as for addresses.
    bits: AtomicU64,
}

impl Groups {
    pub(super) fn new() -> Self {
        Self {
            list: RmLock::new(&IFADDR, Vec::new()),
            bits: AtomicU64::new(0),
        }
    }

    /// Whether there is a member.
    pub(crate) fn has(&self, group: Ipv6Addr) -> bool {
        // Relaxed: a packet that misses a change counts as one that came before it.
        self.bits.load(Ordering::Relaxed) & group.bit() != 0
            && self.list.read().iter().any(|(joined, _)| *joined == group)
    }

    /// All of them.
    pub(crate) fn list(&self) -> Vec<Ipv6Addr> {
        self.list.read().iter().map(|(group, _)| *group).collect()
    }

    /// Adds a member; `None` if there is no room for the group, else whether the member is the first.
    pub(crate) fn join(&self, group: Ipv6Addr) -> Option<bool> {
        self.change(|all| {
            if let Some((_, members)) = all.iter_mut().find(|(joined, _)| *joined == group) {
                *members += 1;
                return Some(false);
            }
            if all.len() >= GROUPS_MAX {
                return None;
            }
            all.push((group, 1));
            Some(true)
        })
    }

    /// Removes a member; whether it was the last.
    pub(crate) fn leave(&self, group: Ipv6Addr) -> bool {
        self.change(|all| {
            let Some(at) = all.iter().position(|(joined, _)| *joined == group) else {
                return false;
            };
            let is_last = all[at].1 == 1;
            if is_last {
                all.remove(at);
            } else {
                all[at].1 -= 1;
            }
            is_last
        })
    }

    fn change<R>(&self, f: impl FnOnce(&mut Vec<(Ipv6Addr, usize)>) -> R) -> R {
        let mut all = self.list.write();
        let result = f(&mut all);
        let bits = all.iter().fold(0, |bits, (group, _)| bits | group.bit());
        self.bits.store(bits, Ordering::Relaxed);
        result
    }
}
