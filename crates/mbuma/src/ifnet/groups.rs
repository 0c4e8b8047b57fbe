//! The groups, of both versions of IP, that programs joined on an interface, beside the groups of every station, and
//! the senders whose packets they take.
//!
//! Invariants: a group is there once, with at least one member, and with sources of its own version of IP alone; its
//! filter is that of its members together, and has at most [`SOURCES_MAX`] sources. Locks: the list (IFADDR,
//! read-mostly), innermost but for memory.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use kern::prim::RmLock;
use wire::{is_source_specific4, is_source_specific6};

use super::addrs::{IFADDR, LocalAddr};
use super::filter_change::{FilterChange, GroupError};
use super::source_filter::{FilterMode, SOURCES_MAX, SourceFilter};

/// Groups of an interface at most.
const GROUPS_MAX: usize = 1024;
/// Groups of an interface that one socket is in at most.
const SOCKET_GROUPS_MAX: usize = 64;

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
    /// The number of the last membership.
    last: u64,
}

#[derive(Debug)]
struct JoinedGroup {
    group: IpAddr,
    members: Vec<GroupMember>,
    /// That of all members.
    filter: SourceFilter,
}

#[derive(Debug, Clone)]
struct GroupMember {
    id: MemberId,
    filter: SourceFilter,
}

/// A member of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MemberId {
    /// A membership, for all sockets that joined nothing themselves.
    Shared(u64),
    Socket(SocketId),
}

/// A number that no other socket of the stack has at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SocketId(pub(crate) usize);

/// Whether a program can join the group: not one of interface-local scope, or of a reserved one below.
pub(crate) fn is_joinable(group: IpAddr) -> bool {
    let is_local = matches!(group, IpAddr::V6(group) if group.octets()[1] & 0x0f < 2);
    group.is_multicast() && !is_local
}

/// Whether the group is one of source-specific multicast (RFC 4607).
pub(crate) fn is_source_specific(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(group) => is_source_specific4(group),
        IpAddr::V6(group) => is_source_specific6(group),
    }
}

fn bit(group: IpAddr) -> u64 {
    match group {
        IpAddr::V4(group) => group.bit(),
        IpAddr::V6(group) => group.bit(),
    }
}

/// The reason why a group does not take a member, or its filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupRefusal {
    /// There are too many groups.
    Groups,
    /// There are too many sources.
    Sources,
    /// The group has listeners to named senders only.
    Unnamed,
}

impl Groups {
    pub(super) fn new() -> Self {
        Self {
            list: RmLock::new(&IFADDR, GroupList::default()),
            bits: AtomicU64::new(0),
        }
    }

    /// Whether there is a member.
    pub(crate) fn has(&self, group: IpAddr) -> bool {
        self.with(group, |_| ()).is_some()
    }

    /// Whether a socket gets packets from `source` to `group`: if its own filter takes them, or, if it has none, that
    /// of a shared membership; `None`: no member says anything about it (RFC 9777 section 4.2).
    pub(crate) fn delivers(&self, group: IpAddr, source: IpAddr, socket: SocketId) -> Option<bool> {
        let delivers = |joined: &JoinedGroup| {
            if let Some(own) = joined.filter_of(MemberId::Socket(socket)) {
                return Some(own.takes(source));
            }
            let is_shared = |member: &GroupMember| matches!(member.id, MemberId::Shared(_));
            let mut shared = joined.members.iter().filter(|member| is_shared(member));
            shared
                .any(|member| member.filter.takes(source))
                .then_some(true)
        };
        self.with(group, delivers).flatten()
    }

    fn with<R>(&self, group: IpAddr, f: impl FnOnce(&JoinedGroup) -> R) -> Option<R> {
        // Relaxed: a packet that misses a change counts as one that came before it.
        if self.bits.load(Ordering::Relaxed) & bit(group) == 0 {
            return None;
        }
        let list = self.list.read();
        list.groups
            .iter()
            .find(|joined| joined.group == group)
            .map(f)
    }

    /// All of them, with their filters.
    pub(crate) fn list(&self) -> Vec<(IpAddr, SourceFilter)> {
        let list = self.list.read();
        let all = list.groups.iter();
        all.map(|joined| (joined.group, joined.filter.clone()))
            .collect()
    }

    /// Adds a member; returns its number, and whether the group's filter changed.
    pub(crate) fn join(
        &self,
        group: IpAddr,
        filter: SourceFilter,
    ) -> Result<(u64, bool), GroupRefusal> {
        self.change(|list| {
            list.last += 1;
            let number = list.last;
            let id = MemberId::Shared(number);
            let changed = list.set(group, id, Some(filter))?;
            Ok((number, changed))
        })
    }

    /// Gives a membership another filter; returns whether the group's changed.
    pub(crate) fn set_filter(
        &self,
        group: IpAddr,
        number: u64,
        filter: SourceFilter,
    ) -> Result<bool, GroupRefusal> {
        self.change(|list| list.set(group, MemberId::Shared(number), Some(filter)))
    }

    /// Removes a membership; returns whether the group's filter changed.
    pub(crate) fn leave(&self, group: IpAddr, number: u64) -> bool {
        self.change(|list| list.remove(group, MemberId::Shared(number)))
    }

    /// Changes the filter of a socket in a group; returns whether the group's changed.
    pub(crate) fn change_socket(
        &self,
        group: IpAddr,
        socket: SocketId,
        change: FilterChange,
    ) -> Result<bool, GroupError> {
        let id = MemberId::Socket(socket);
        self.change(|list| {
            let old = list.groups.iter().find(|joined| joined.group == group);
            let old = old.and_then(|joined| joined.filter_of(id));
            let new = change.apply(old)?;
            if old.is_none() && list.groups_of(id).count() >= SOCKET_GROUPS_MAX {
                return Err(GroupError::Full);
            }
            Ok(list.set(group, id, new)?)
        })
    }

    /// Removes a socket from all groups; returns whether the filter of one changed.
    pub(crate) fn leave_all(&self, socket: SocketId) -> bool {
        let id = MemberId::Socket(socket);
        self.change(|list| {
            let groups: Vec<_> = list.groups_of(id).collect();
            let changes = groups.into_iter().map(|group| list.remove(group, id));
            changes.fold(false, |any, changed| any | changed)
        })
    }

    fn change<R>(&self, f: impl FnOnce(&mut GroupList) -> R) -> R {
        let mut list = self.list.write();
        let result = f(&mut list);
        let bits = list
            .groups
            .iter()
            .fold(0, |bits, joined| bits | bit(joined.group));
        self.bits.store(bits, Ordering::Relaxed);
        result
    }
}

impl JoinedGroup {
    fn filter_of(&self, id: MemberId) -> Option<&SourceFilter> {
        let member = self.members.iter().find(|member| member.id == id);
        member.map(|member| &member.filter)
    }
}

impl GroupList {
    /// The groups that a member is in.
    fn groups_of(&self, id: MemberId) -> impl Iterator<Item = IpAddr> {
        let all = self.groups.iter();
        all.filter(move |joined| joined.filter_of(id).is_some())
            .map(|joined| joined.group)
    }

    /// Removes a member; returns whether the group's filter changed.
    fn remove(&mut self, group: IpAddr, id: MemberId) -> bool {
        // The rest can't have too many sources: see `GroupList::set`.
        self.set(group, id, None).unwrap_or(true)
    }

    /// Sets a member's filter, or removes the member; returns whether the group's filter changed. After an error
    /// nothing has.
    ///
    /// A member's sources count also where another member's filter hides them, so that the group never has too many
    /// when a member leaves.
    fn set(
        &mut self,
        group: IpAddr,
        id: MemberId,
        filter: Option<SourceFilter>,
    ) -> Result<bool, GroupRefusal> {
        // RFC 4604 section 2; so no report asks for all senders either.
        let is_unnamed = |filter: &SourceFilter| filter.mode() == FilterMode::Exclude;
        if is_source_specific(group) && filter.as_ref().is_some_and(is_unnamed) {
            return Err(GroupRefusal::Unnamed);
        }
        let at = self.groups.iter().position(|joined| joined.group == group);
        if at.is_none() && self.groups.len() >= GROUPS_MAX {
            return Err(GroupRefusal::Groups);
        }
        let (old, mut members) = match at {
            Some(at) => (
                self.groups[at].filter.clone(),
                self.groups[at].members.clone(),
            ),
            None => (SourceFilter::none(), Vec::new()),
        };
        members.retain(|member| member.id != id);
        members.extend(filter.map(|filter| GroupMember { id, filter }));
        let all = || members.iter().map(|member| &member.filter);
        let mut sources: Vec<_> = all().flat_map(|filter| filter.sources()).collect();
        sources.sort_unstable();
        sources.dedup();
        if sources.len() > SOURCES_MAX {
            return Err(GroupRefusal::Sources);
        }
        let filter = SourceFilter::of_members(all());
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

#[cfg(all(test, not(shuttle)))]
mod tests;
