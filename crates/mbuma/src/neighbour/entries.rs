//! The entries of a table, by address and by their times, so that finding the oldest one, or those that are due, needs
//! no search of all.
//!
//! Invariants: an entry is in the order of exactly one group, at its time. Locks: none here.

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::mem;

use kern::Time;

use super::entry::NeighbourEntry;

/// The entries.
#[derive(Debug)]
pub(super) struct NeighbourEntries<A> {
    max: usize,
    /// Ordered by address, so that a run can be repeated exactly.
    by_addr: BTreeMap<A, NeighbourEntry>,
    /// Those of each group by time.
    orders: [BTreeSet<(Time, A)>; 3],
}

/// Entries of one state, and the meaning of their times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryGroup {
    /// The end of the lifetime.
    Known,
    /// The next question.
    Probing,
    /// The same.
    Incomplete,
}

impl EntryGroup {
    /// The group of an entry, and its time.
    fn of(entry: &NeighbourEntry) -> (Self, Time) {
        match *entry {
            NeighbourEntry::Known { until, .. } => (Self::Known, until),
            NeighbourEntry::Probing { next, .. } => (Self::Probing, next),
            NeighbourEntry::Incomplete { next, .. } => (Self::Incomplete, next),
        }
    }
}

impl<A: Copy + Ord> NeighbourEntries<A> {
    pub(super) const fn new(max: usize) -> Self {
        Self {
            max,
            by_addr: BTreeMap::new(),
            orders: [const { BTreeSet::new() }; 3],
        }
    }

    pub(super) fn max(&self) -> usize {
        self.max
    }

    pub(super) fn len(&self) -> usize {
        self.by_addr.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (A, &NeighbourEntry)> {
        self.by_addr.iter().map(|(addr, entry)| (*addr, entry))
    }

    pub(super) fn get(&self, addr: A) -> Option<&NeighbourEntry> {
        self.by_addr.get(&addr)
    }

    fn order(&self, group: EntryGroup) -> &BTreeSet<(Time, A)> {
        &self.orders[group as usize]
    }

    /// Adds an entry, or replaces that of the same address.
    pub(super) fn insert(&mut self, addr: A, entry: NeighbourEntry) {
        self.remove(addr);
        let (group, time) = EntryGroup::of(&entry);
        self.orders[group as usize].insert((time, addr));
        self.by_addr.insert(addr, entry);
    }

    /// Changes an entry, if there is one.
    pub(super) fn change<R>(
        &mut self,
        addr: A,
        change: impl FnOnce(&mut NeighbourEntry) -> R,
    ) -> Option<R> {
        let entry = self.by_addr.get_mut(&addr)?;
        let (group, time) = EntryGroup::of(entry);
        let result = change(entry);
        let (new_group, new_time) = EntryGroup::of(entry);
        if (new_group, new_time) != (group, time) {
            self.orders[group as usize].remove(&(time, addr));
            self.orders[new_group as usize].insert((new_time, addr));
        }
        Some(result)
    }

    pub(super) fn remove(&mut self, addr: A) -> Option<NeighbourEntry> {
        let entry = self.by_addr.remove(&addr)?;
        let (group, time) = EntryGroup::of(&entry);
        self.orders[group as usize].remove(&(time, addr));
        Some(entry)
    }

    /// Takes all entries out.
    pub(super) fn take_all(&mut self) -> btree_map::IntoValues<A, NeighbourEntry> {
        mem::replace(self, Self::new(self.max))
            .by_addr
            .into_values()
    }

    /// Evicts the oldest entry of a full table: an incomplete one if these are more than half, else one that has an
    /// address. So questions for thousands of absent stations evict no neighbour, and stations that only announce
    /// themselves evict no question.
    pub(super) fn make_room(&mut self) -> Option<NeighbourEntry> {
        if self.len() < self.max.max(1) {
            return None;
        }
        let is_crowded = self.order(EntryGroup::Incomplete).len() > self.max / 2;
        let groups = match is_crowded {
            true => &[EntryGroup::Incomplete][..],
            false => &[EntryGroup::Known, EntryGroup::Probing],
        };
        let mut oldest = groups.iter().filter_map(|group| self.order(*group).first());
        let &(_, addr) = oldest.next()?;
        self.remove(addr)
    }

    /// The groups whose entries ask.
    fn asking(&self) -> impl Iterator<Item = &BTreeSet<(Time, A)>> {
        [EntryGroup::Probing, EntryGroup::Incomplete]
            .map(|group| self.order(group))
            .into_iter()
    }

    /// The time of the next question of any entry.
    pub(super) fn deadline(&self) -> Option<Time> {
        let firsts = self.asking().filter_map(BTreeSet::first);
        firsts.map(|&(next, _)| next).min()
    }

    /// The entries whose questions are due, by address.
    pub(super) fn due(&self, now: Time) -> Vec<A> {
        let of = |order: &BTreeSet<(Time, A)>| {
            let due = order.iter().take_while(|&&(next, _)| next <= now);
            due.map(|&(_, addr)| addr).collect::<Vec<_>>()
        };
        let mut due: Vec<A> = self.asking().flat_map(of).collect();
        due.sort_unstable();
        due
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
