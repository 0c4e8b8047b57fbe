//! The IPv6 groups that programs joined on an interface, beside the groups of every station, and the senders whose packets
//! they take.
//!
//! Invariants: a group is there once, with at least one member; its filter is that of its members together, and has at most
//! [`SOURCES_MAX`] sources.
//! Locks: the list (IFADDR, read-mostly), innermost but for memory.

use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicU64, Ordering};

use kern::RmLock;

use super::addrs::{IFADDR, LocalAddr};
use super::source_filter::{SOURCES_MAX, SourceFilter};

/// Groups of an interface at most.
const GROUPS_MAX: usize = 1024;

/// The groups.
#[derive(Debug)]
pub(crate) struct Groups {
    list: RmLock<GroupList>,
    /// A bit for each group, as for addresses.
    bits: AtomicU64,
}

#[derive(Debug, Default)]
struct GroupList {
    groups: Vec<JoinedGroup>,
    /// The number of the last member.
    last: u64,
}

#[derive(Debug)]
struct JoinedGroup {
    group: Ipv6Addr,
    members: Vec<(u64, SourceFilter)>,
    /// That of all members.
    filter: SourceFilter,
}

/// The reason why a group has no room for a member, or for its filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupFull {
    Groups,
    Sources,
}

impl Groups {
    pub(super) fn new() -> Self {
        Self {
            list: RmLock::new(&IFADDR, GroupList::default()),
            bits: AtomicU64::new(0),
        }
    }

    /// Whether there is a member.
    pub(crate) fn has(&self, group: Ipv6Addr) -> bool {
        self.with(group, |_| ()).is_some()
    }

    /// Whether a member takes packets from `source` to `group`.
    pub(crate) fn takes(&self, group: Ipv6Addr, source: Ipv6Addr) -> bool {
        let takes = self.with(group, |joined| joined.filter.takes(source));
        takes.unwrap_or(false)
    }

    fn with<R>(&self, group: Ipv6Addr, f: impl FnOnce(&JoinedGroup) -> R) -> Option<R> {
        // Relaxed: a packet that misses a change counts as one that came before it.
        if self.bits.load(Ordering::Relaxed) & group.bit() == 0 {
            return None;
        }
        let list = self.list.read();
        list.groups
            .iter()
            .find(|joined| joined.group == group)
            .map(f)
    }

    /// All of them, with their filters.
    pub(crate) fn list(&self) -> Vec<(Ipv6Addr, SourceFilter)> {
        let list = self.list.read();
        let all = list.groups.iter();
        all.map(|joined| (joined.group, joined.filter.clone()))
            .collect()
    }

    /// Adds a member; returns its number, and whether the group's filter changed.
    pub(crate) fn join(
        &self,
        group: Ipv6Addr,
        filter: SourceFilter,
    ) -> Result<(u64, bool), GroupFull> {
        self.change(|list| {
            list.last += 1;
            let number = list.last;
            let changed = list.change(group, |members| members.push((number, filter)))?;
            Ok((number, changed))
        })
    }

    /// Gives a member another filter; returns whether the group's changed.
    pub(crate) fn set_filter(
        &self,
        group: Ipv6Addr,
        number: u64,
        filter: SourceFilter,
    ) -> Result<bool, GroupFull> {
        let set = |members: &mut Vec<(u64, SourceFilter)>| {
            if let Some(member) = members.iter_mut().find(|member| member.0 == number) {
                member.1 = filter;
            }
        };
        self.change(|list| list.change(group, set))
    }

    /// Removes a member; returns whether the group's filter changed.
    pub(crate) fn leave(&self, group: Ipv6Addr, number: u64) -> bool {
        let remove =
            |members: &mut Vec<(u64, SourceFilter)>| members.retain(|member| member.0 != number);
        // The rest can't have too many sources: see `GroupList::change`.
        self.change(|list| list.change(group, remove))
            .unwrap_or(true)
    }

    fn change<R>(&self, f: impl FnOnce(&mut GroupList) -> R) -> R {
        let mut list = self.list.write();
        let result = f(&mut list);
        let bits = list
            .groups
            .iter()
            .fold(0, |bits, joined| bits | joined.group.bit());
        self.bits.store(bits, Ordering::Relaxed);
        result
    }
}

impl GroupList {
    /// Changes the members of a group; returns whether its filter changed. After an error nothing has.
    ///
    /// A member's sources count also where another member's filter hides them, so that the group never has too many when a
    /// member leaves.
    fn change(
        &mut self,
        group: Ipv6Addr,
        change: impl FnOnce(&mut Vec<(u64, SourceFilter)>),
    ) -> Result<bool, GroupFull> {
        let at = self.groups.iter().position(|joined| joined.group == group);
        if at.is_none() && self.groups.len() >= GROUPS_MAX {
            return Err(GroupFull::Groups);
        }
        let (old, mut members) = match at {
            Some(at) => (
                self.groups[at].filter.clone(),
                self.groups[at].members.clone(),
            ),
            None => (SourceFilter::none(), Vec::new()),
        };
        change(&mut members);
        let mut sources: Vec<_> = members
            .iter()
            .flat_map(|(_, filter)| filter.sources())
            .collect();
        sources.sort_unstable();
        sources.dedup();
        if sources.len() > SOURCES_MAX {
            return Err(GroupFull::Sources);
        }
        let filter = SourceFilter::of_members(members.iter().map(|(_, filter)| filter));
        let changed = filter != old;
        let joined = JoinedGroup {
            group,
            members,
            filter,
        };
        match (at, joined.members.is_empty()) {
            (Some(at), true) => drop(self.groups.remove(at)),
            (Some(at), false) => self.groups[at] = joined,
            (None, true) => {}
            (None, false) => self.groups.push(joined),
        }
        Ok(changed)
    }
}
