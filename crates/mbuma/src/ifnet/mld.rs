//! The groups that an interface reports to multicast routers and to switches: the list, and the time of the next
//! report.
//!
//! Data only: each call returns the [`MldReport`]s that are due, which [`ether::mld`](crate::ether::mld) sends.
//!
//! | what | said |
//! |---|---|
//! | a group is joined or left | at once, and repeated within a second, as often as the router's robustness variable says |
//! | a router queries all groups, or one | once, at a random time within the router's limit |
//! | a router of version 1 was heard | in the form of version 1, until that router has been silent for long |
//!
//! Invariants: a group is in the list once; a group that was left stays in it until that was reported. The length of
//! the list is bounded, because the interface's addresses and joined groups are. Locks: `state` (IFADDR), under which
//! nothing is called. Sources: RFC 9777 sections 6 and 9 (as RFC 3810), RFC 2710 section 4, RFC 3590 (the source).

use std::net::Ipv6Addr;
use std::time::Duration;

use kern::{LockClass, Mutex, Random, Time, order};
use wire::{Ipv6Header, MldQuery, MldRecord, MldRecordType};

use crate::faults::{StackFault, planted};

static STATE: LockClass = LockClass::new("multicast listener", order::IFADDR);

/// How often a change is reported, until a router advertises another value (Robustness Variable).
const ROBUSTNESS: u8 = 2;
/// The time within which a change is reported again (Unsolicited Report Interval).
const CHANGE_INTERVAL: Duration = Duration::from_secs(1);
/// How long a router of version 1 counts as present after its last query: robustness times its query interval, plus a
/// response interval (RFC 9777 section 9.12).
const V1_PRESENT: Duration = Duration::from_secs(2 * 125 + 10);
/// Records in a message at most: it fits the smallest MTU.
const RECORDS_MAX: usize = 60;

// Bytes after the headers of IPv6, its options and ICMPv6.
const _: () = assert!(RECORDS_MAX * MldRecord::LEN + 40 + 8 + 8 <= Ipv6Header::MTU_MIN as usize);

/// A message that is due.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MldReport {
    /// One of version 2.
    Records(Vec<MldRecord>),
    /// Version 1: the group has a listener.
    Listening(Ipv6Addr),
    /// Version 1: the group has no listener any more.
    Done(Ipv6Addr),
}

/// The interface.
#[derive(Debug)]
pub(crate) struct Mld(Mutex<MldState>);

#[derive(Debug)]
struct MldState {
    groups: Vec<ReportedGroup>,
    /// When changes are reported next.
    changes: Option<Time>,
    /// When a query for all groups is answered.
    answer: Option<Time>,
    robustness: u8,
    v1_until: Option<Time>,
}

#[derive(Debug)]
struct ReportedGroup {
    group: Ipv6Addr,
    is_left: bool,
    /// How many reports of its last change are left to send.
    changes: u8,
    /// When a query for it is answered.
    answer: Option<Time>,
}

impl Mld {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(
            &STATE,
            MldState {
                groups: Vec::new(),
                changes: None,
                answer: None,
                robustness: ROBUSTNESS,
                v1_until: None,
            },
        ))
    }

    /// Sets the groups that the interface is in.
    pub(crate) fn set_groups(&self, now: Time, wanted: &[Ipv6Addr]) {
        let mut state = self.0.lock();
        let robustness = state.robustness;
        let mut changed = false;
        for known in &mut state.groups {
            let is_left = !wanted.contains(&known.group);
            if is_left != known.is_left {
                known.is_left = is_left;
                known.changes = robustness;
                changed = true;
            }
        }
        for &group in wanted {
            if state.groups.iter().all(|known| known.group != group) {
                state.groups.push(ReportedGroup {
                    group,
                    is_left: false,
                    changes: robustness,
                    answer: None,
                });
                changed = true;
            }
        }
        if changed {
            state.changes = Some(now);
        }
    }

    /// The interface has a link-local address from now on. Earlier reports had the unspecified source address, so all
    /// groups are reported again (RFC 3590 section 4).
    pub(crate) fn begin_anew(&self, now: Time) {
        let mut state = self.0.lock();
        let robustness = state.robustness;
        state
            .groups
            .iter_mut()
            .for_each(|known| known.changes = robustness);
        state.changes = Some(now).filter(|_| !state.groups.is_empty());
    }

    /// A router asks.
    pub(crate) fn queried(&self, now: Time, query: &MldQuery, random: &mut Random) {
        if planted(StackFault::UnansweredQuery) {
            return;
        }
        let mut state = self.0.lock();
        if query.robustness != 0 {
            state.robustness = query.robustness;
        }
        if query.is_v1 {
            if state.v1_until.is_none_or(|until| until <= now) {
                state.forget_answers();
            }
            state.v1_until = Some(now + V1_PRESENT);
        }
        let within = u64::from(query.max_delay_ms);
        let mut at = || now + Duration::from_millis(random.below(within + 1));
        let is_v1 = state.is_v1(now);
        match query.group {
            None if !is_v1 => sooner(&mut state.answer, at()),
            None => {
                let groups = state.groups.iter_mut();
                groups.for_each(|known| sooner(&mut known.answer, at()));
            }
            Some(group) => {
                let mut groups = state.groups.iter_mut();
                if let Some(known) = groups.find(|known| known.group == group) {
                    sooner(&mut known.answer, at());
                }
            }
        }
    }

    /// Another listener has sent a report of version 1: one report of the group is enough (RFC 2710 section 4).
    pub(crate) fn heard(&self, now: Time, group: Ipv6Addr) {
        let mut state = self.0.lock();
        if state.is_v1(now)
            && let Some(known) = state.groups.iter_mut().find(|known| known.group == group)
        {
            known.answer = None;
        }
    }

    /// The messages that are due.
    pub(crate) fn run_timers(&self, now: Time, random: &mut Random) -> Vec<MldReport> {
        let mut state = self.0.lock();
        let mut records = Vec::new();
        state.take_changes(now, random, &mut records);
        state.take_answers(now, &mut records);
        match state.is_v1(now) {
            true => state.in_v1(&records),
            false => {
                let chunks = records.chunks(RECORDS_MAX);
                chunks
                    .map(|chunk| MldReport::Records(chunk.to_vec()))
                    .collect()
            }
        }
    }

    /// When [`Mld::run_timers`] has something to do next.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let state = self.0.lock();
        let answers = state.groups.iter().filter_map(|known| known.answer);
        answers.chain(state.changes).chain(state.answer).min()
    }
}

impl MldState {
    fn is_v1(&self, now: Time) -> bool {
        self.v1_until.is_some_and(|until| now < until)
    }

    /// A router of another version takes over: earlier queries are not answered.
    fn forget_answers(&mut self) {
        self.answer = None;
        self.groups.iter_mut().for_each(|known| known.answer = None);
    }

    fn take_changes(&mut self, now: Time, random: &mut Random, records: &mut Vec<MldRecord>) {
        if self.changes.is_none_or(|at| at > now) {
            return;
        }
        for known in self.groups.iter_mut().filter(|known| known.changes > 0) {
            known.changes -= 1;
            let kind = match known.is_left {
                true => MldRecordType::ToInclude,
                false => MldRecordType::ToExclude,
            };
            let group = known.group;
            records.push(MldRecord { kind, group });
        }
        self.groups
            .retain(|known| !known.is_left || known.changes > 0);
        let more = self.groups.iter().any(|known| known.changes > 0);
        let pause = random.below(CHANGE_INTERVAL.as_millis() as u64) + 1;
        self.changes = more.then(|| now + Duration::from_millis(pause));
    }

    fn take_answers(&mut self, now: Time, records: &mut Vec<MldRecord>) {
        let is_due = |at: &mut Option<Time>| at.take_if(|at| *at <= now).is_some();
        let all = is_due(&mut self.answer);
        for known in &mut self.groups {
            if (is_due(&mut known.answer) || all) && !known.is_left {
                records.push(MldRecord {
                    kind: MldRecordType::IsExclude,
                    group: known.group,
                });
            }
        }
    }

    /// The same in the form of version 1, in which a listener reports once that it has left.
    fn in_v1(&mut self, records: &[MldRecord]) -> Vec<MldReport> {
        self.groups.retain(|known| !known.is_left);
        let report = |record: &MldRecord| match record.kind {
            MldRecordType::ToInclude => MldReport::Done(record.group),
            MldRecordType::IsExclude | MldRecordType::ToExclude => {
                MldReport::Listening(record.group)
            }
        };
        records.iter().map(report).collect()
    }
}

/// Keeps the earlier of two times.
fn sooner(known: &mut Option<Time>, at: Time) {
    *known = Some(known.map_or(at, |known| known.min(at)));
}

#[cfg(test)]
mod tests;
