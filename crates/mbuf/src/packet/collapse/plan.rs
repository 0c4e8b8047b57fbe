//! Chooses the neighbours to join, by lengths alone.
//!
//! Each join changes the cost of the joins on both sides of it. Groups are found by the place of
//! their first mbuf, costs by their amount: each step is a few look-ups, so that a packet of
//! thousands of tiny mbufs takes no quadratic time.

use std::collections::{BTreeMap, BTreeSet};

use super::super::defrag::LARGEST;
use crate::mbuf::Mbuf;

/// Neighbours that become one segment.
#[derive(Clone, Copy)]
pub(super) struct Group {
    /// Bytes that stay where they are, those of the first mbuf; 0 if all go to fresh storage.
    pub(super) stays: usize,
    /// Bytes of all.
    pub(super) len: usize,
    /// Bytes that may come behind.
    room: usize,
}

impl Group {
    /// An mbuf that has bytes.
    pub(super) fn of(m: &Mbuf) -> Self {
        Self {
            stays: m.len(),
            len: m.len(),
            room: m.room(),
        }
    }

    /// This group with the next one, and how many bytes more are copied for it.
    fn with(&self, next: &Self) -> Option<(usize, Self)> {
        let len = self.len + next.len;
        if next.len <= self.room {
            let (stays, room) = (self.stays, self.room - next.len);
            return Some((next.stays, Self { stays, len, room }));
        }
        let room = LARGEST.checked_sub(len)?;
        Some((
            self.stays + next.stays,
            Self {
                stays: 0,
                len,
                room,
            },
        ))
    }
}

/// The groups during the planning.
pub(super) struct CollapsePlan {
    /// By the place of the first mbuf.
    groups: BTreeMap<usize, Group>,
    /// The cost of joining a group with the next, and its place.
    costs: BTreeSet<(usize, usize)>,
}

impl CollapsePlan {
    pub(super) fn new(groups: impl Iterator<Item = Group>) -> Self {
        let mut plan = Self {
            groups: groups.enumerate().collect(),
            costs: BTreeSet::new(),
        };
        for at in 0..plan.groups.len() {
            plan.offer(at);
        }
        plan
    }

    /// At most `max` groups, or `None` if joining neighbours can't reach that.
    pub(super) fn joined(mut self, max: usize) -> Option<Vec<Group>> {
        while self.groups.len() > max {
            let (offered, at) = self.costs.pop_first()?;
            let (cost, next, group) = self.joint(at)?;
            debug_assert_eq!(offered, cost, "no offer is left that does not hold");
            let before = self.groups.range(..at).next_back().map(|(&at, _)| at);
            self.withdraw(next);
            before.into_iter().for_each(|at| self.withdraw(at));
            self.groups.remove(&next);
            self.groups.insert(at, group);
            self.offer(at);
            before.into_iter().for_each(|at| self.offer(at));
        }
        Some(self.groups.into_values().collect())
    }

    /// The cost of joining the group at `at` with the next, its place, and the joined group.
    fn joint(&self, at: usize) -> Option<(usize, usize, Group)> {
        let (&next, behind) = self.groups.range(at + 1..).next()?;
        let (cost, group) = self.groups.get(&at)?.with(behind)?;
        Some((cost, next, group))
    }

    fn offer(&mut self, at: usize) {
        let cost = self.joint(at).map(|(cost, ..)| (cost, at));
        self.costs.extend(cost);
    }

    fn withdraw(&mut self, at: usize) {
        if let Some((cost, ..)) = self.joint(at) {
            self.costs.remove(&(cost, at));
        }
    }
}
