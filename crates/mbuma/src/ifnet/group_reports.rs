//! The groups of one version of IP that an interface reports to multicast routers and to switches: the list, and the
//! time of the next report.
//!
//! IGMP and multicast listener discovery (MLD) say the same, so this is one machine for both. Data only: each call
//! returns the [`GroupReport`]s that are due, which [`ether::igmp`](crate::ether::igmp) and
//! [`ether::mld`](crate::ether::mld) send.
//!
//! | event | report |
//! |---|---|
//! | the filter of a group changes, from none or to none too | at once, and repeated within a second, as often as the router's robustness variable says |
//! | a router queries all groups, one, or one's sources | once, at a random time within the router's limit |
//! | a router of an older version was heard | in the form of that version, without sources, until that router has been silent for long |
//! | the form changes | answers and repetitions that are under way are given up |
//!
//! Invariants: a group is in the list once; a group that was left stays in it until that was reported. The length of
//! the list is bounded, because the interface's addresses and joined groups are. Locks: `list` (GROUPS), under which
//! the lists of addresses and groups are read (IFADDR), and `state` (IFADDR), under which nothing is called.
//! `models/groups.rs` tries the orders of threads that join and leave.
//! Sources: RFC 9777 sections 6, 8.2.1 and 9 (as RFC 3810), RFC 2710 section 4, RFC 3590 (the source); the same for
//! IGMP: RFC 9776 sections 5, 7.2 and 8 (as RFC 3376), RFC 2236 sections 3 and 4; RFC 4604 (source-specific multicast).

use std::net::IpAddr;
use std::time::Duration;

use kern::prim::Mutex;
use kern::{AtomicDeadline, LockClass, Random, Time, order};
use wire::{GroupQuery, GroupVersion};

use self::record::in_messages;
pub(crate) use self::record::{GroupRecord, GroupReport};
use self::reported_group::ReportedGroup;
use super::groups::is_source_specific;
use super::source_filter::SourceFilter;
use crate::faults::{StackFault, planted};

mod record;
mod reported_group;

static LIST: LockClass = LockClass::new("list of groups", order::GROUPS);
static STATE: LockClass = LockClass::new("reports of groups", order::IFADDR);

/// How often a change is reported, until a router advertises another value (Robustness Variable).
const ROBUSTNESS: u8 = 2;
/// The time within which a change is reported again (Unsolicited Report Interval).
const CHANGE_INTERVAL: Duration = Duration::from_secs(1);
/// Between two answers at least, however often stations ask, and with however short a limit: an answer may be many
/// messages, and the querier's last limit is a second by default.
const ANSWER_PAUSE: Duration = Duration::from_millis(10);
/// How long a router of an older version counts as present after its last query: robustness times its query interval,
/// plus a response interval (RFC 9777 section 9.12, RFC 9776 section 8.12).
const OLDER_PRESENT: Duration = Duration::from_secs(2 * 125 + 10);

/// Those of an interface, for one version of IP.
#[derive(Debug)]
pub(crate) struct GroupReports {
    /// Held while a thread makes the list of groups and applies it.
    list: Mutex<()>,
    state: Mutex<ReportState>,
    /// When a message is due. Written under the lock.
    due: AtomicDeadline,
}

#[derive(Debug)]
struct ReportState {
    groups: Vec<ReportedGroup>,
    /// When changes are reported next.
    changes: Option<Time>,
    /// When a query for all groups is answered.
    answer: Option<Time>,
    /// No query is answered before.
    answer_after: Time,
    robustness: u8,
    /// The version in which the interface reports.
    #[doc(alias = "Host Compatibility Mode")]
    version: GroupVersion,
    /// Until when a router counts as present that can say no more than each of the older versions, the oldest first.
    older_until: [(GroupVersion, Time); 2],
}

impl GroupReports {
    pub(crate) fn new() -> Self {
        let state = ReportState {
            groups: Vec::new(),
            changes: None,
            answer: None,
            answer_after: Time::ZERO,
            robustness: ROBUSTNESS,
            version: GroupVersion::Sources,
            older_until: [GroupVersion::Reports, GroupVersion::Leaves].map(|v| (v, Time::ZERO)),
        };
        Self {
            list: Mutex::new(&LIST, ()),
            state: Mutex::new(&STATE, state),
            due: AtomicDeadline::new(),
        }
    }

    /// Sets the groups that the interface is in, each with its filter.
    pub(crate) fn set_groups(&self, now: Time, wanted: impl Fn() -> Vec<(IpAddr, SourceFilter)>) {
        let early = planted(StackFault::EarlyList).then(&wanted);
        // The thread that comes last then has all changes in its list.
        let _list = self.list.lock();
        let wanted = early.unwrap_or_else(wanted);
        self.change(now, |state| {
            let robustness = state.robustness;
            let mut changed = false;
            for known in &mut state.groups {
                let filter = wanted.iter().find(|(group, _)| *group == known.group);
                let filter = filter.map_or_else(SourceFilter::none, |(_, filter)| filter.clone());
                changed |= known.set_filter(filter, robustness);
            }
            for (group, filter) in &wanted {
                if state.groups.iter().all(|known| known.group != *group) {
                    let mut new = ReportedGroup::new(*group);
                    changed |= new.set_filter(filter.clone(), robustness);
                    state.groups.push(new);
                }
            }
            if changed {
                state.changes = Some(now);
            }
        });
    }

    /// The interface has a link-local address from now on. Earlier reports had the unspecified source address, so all
    /// groups are reported again (RFC 3590 section 4).
    pub(crate) fn begin_anew(&self, now: Time) {
        self.change(now, |state| {
            for known in &mut state.groups {
                known.mode_reports = state.robustness;
            }
            state.changes = Some(now).filter(|_| !state.groups.is_empty());
        });
    }

    /// A router asks, for `sources` if there are any.
    pub(crate) fn queried(
        &self,
        now: Time,
        query: &GroupQuery,
        sources: &[IpAddr],
        random: &mut Random,
    ) {
        if planted(StackFault::UnansweredQuery) {
            return;
        }
        self.change(now, |state| state.queried(now, query, sources, random));
    }

    /// Another listener has sent a report of an older version: one report of the group is enough (RFC 2710 section 4,
    /// RFC 2236 section 3).
    pub(crate) fn heard(&self, now: Time, group: IpAddr) {
        self.change(now, |state| {
            if state.version != GroupVersion::Sources
                && let Some(known) = state.groups.iter_mut().find(|known| known.group == group)
            {
                known.answer = None;
            }
        });
    }

    /// The messages that are due.
    pub(crate) fn run_timers(&self, now: Time, random: &mut Random) -> Vec<GroupReport> {
        if self.deadline().is_none_or(|at| at > now) {
            return Vec::new();
        }
        self.change(now, |state| {
            let reports = match state.version {
                GroupVersion::Sources => in_messages(state.due(now)),
                older => state.due_in(older, now),
            };
            state.schedule_changes(now, random);
            reports
        })
    }

    /// When [`GroupReports::run_timers`] has something to do next.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.due.get()
    }

    fn change<R>(&self, now: Time, f: impl FnOnce(&mut ReportState) -> R) -> R {
        let mut state = self.state.lock();
        state.set_version(now);
        let result = f(&mut state);
        self.due.set(state.deadline());
        result
    }
}

impl ReportState {
    /// Sets the version in which to report: that of the oldest router that counts as present. With another version,
    /// answers are no longer due, nor are repetitions; but a change that no report had yet is reported.
    fn set_version(&mut self, now: Time) {
        let mut present = self.older_until.iter().filter(|(_, until)| now < *until);
        let oldest = present.next();
        let version = oldest.map_or(GroupVersion::Sources, |(version, _)| *version);
        if version == self.version {
            return;
        }
        self.version = version;
        self.answer = None;
        self.groups.iter_mut().for_each(|known| known.answer = None);
        if self.changes.take_if(|at| *at > now).is_some() {
            self.groups.iter_mut().for_each(ReportedGroup::give_up);
        }
    }

    fn deadline(&self) -> Option<Time> {
        let answers = self.groups.iter().filter_map(|known| known.answer.as_ref());
        let answers = answers.map(|answer| answer.at);
        answers.chain(self.changes).chain(self.answer).min()
    }

    /// Schedules the answer to a query (RFC 9777 section 6.2).
    fn queried(&mut self, now: Time, query: &GroupQuery, sources: &[IpAddr], random: &mut Random) {
        if query.robustness != 0 {
            self.robustness = query.robustness;
        }
        let mut older = self.older_until.iter_mut();
        if let Some((_, until)) = older.find(|(version, _)| *version == query.version) {
            *until = now + OLDER_PRESENT;
        }
        self.set_version(now);
        let within = u64::from(query.max_delay_ms);
        let earliest = self.answer_after;
        let mut at = || (now + Duration::from_millis(random.below(within + 1))).max(earliest);
        let is_one_message = self.version == GroupVersion::Sources;
        match query.group {
            None if is_one_message => sooner(&mut self.answer, at()),
            None => {
                let groups = self.groups.iter_mut();
                groups.for_each(|known| known.answer_at(at(), &[]));
            }
            Some(group) => {
                let mut groups = self.groups.iter_mut();
                if let Some(known) = groups.find(|known| known.group == group) {
                    let at = at();
                    // The answer about all groups is enough.
                    if self.answer.is_none_or(|all| all > at) {
                        known.answer_at(at, sources);
                    }
                }
            }
        }
    }

    /// The records that are due: changes, then answers.
    fn due(&mut self, now: Time) -> Vec<GroupRecord> {
        let mut records = Vec::new();
        if self.changes.is_some_and(|at| at <= now) {
            let groups = self.groups.iter_mut();
            groups.for_each(|known| known.take_change(&mut records));
        }
        let all = self.answer.take_if(|at| *at <= now).is_some();
        for known in &mut self.groups {
            let asked = known.answer.take_if(|answer| answer.at <= now);
            let asked = asked.map(|answer| answer.sources);
            let asked = if all { Some(Vec::new()) } else { asked };
            if asked.is_some() {
                self.answer_after = now + ANSWER_PAUSE;
            }
            records.extend(asked.and_then(|sources| known.answer_to(&sources)));
        }
        records
    }

    /// The same in the form of an older version, in which a listener reports at most once that it has left.
    fn due_in(&mut self, version: GroupVersion, now: Time) -> Vec<GroupReport> {
        let changes = self.changes.is_some_and(|at| at <= now);
        let all = self.answer.take_if(|at| *at <= now).is_some();
        let mut reports = Vec::new();
        for known in &mut self.groups {
            let changed = changes && known.has_changed();
            let asked = known.answer.take_if(|answer| answer.at <= now).is_some() || all;
            if asked {
                self.answer_after = now + ANSWER_PAUSE;
            }
            match known.filter.is_none() {
                // No older version can name the senders of such a group (RFC 4604 section 2).
                _ if is_source_specific(known.group) => {}
                true if changed && version == GroupVersion::Leaves => {
                    reports.push(GroupReport::Done(known.group));
                }
                false if changed || asked => {
                    reports.push(GroupReport::Listening(known.group, version));
                }
                _ => {}
            }
            if changed {
                known.count_report();
            }
        }
        self.groups.retain(|known| !known.filter.is_none());
        reports
    }

    /// Sets the time of the next report of changes after one that was due, if a change must be reported again.
    fn schedule_changes(&mut self, now: Time, random: &mut Random) {
        if self.changes.is_none_or(|at| at > now) {
            return;
        }
        self.groups
            .retain(|known| !known.filter.is_none() || known.has_changed());
        let more = self.groups.iter().any(ReportedGroup::has_changed);
        let pause = random.below(CHANGE_INTERVAL.as_millis() as u64) + 1;
        self.changes = more.then(|| now + Duration::from_millis(pause));
    }
}

/// Keeps the earlier of two times.
fn sooner(known: &mut Option<Time>, at: Time) {
    *known = Some(known.map_or(at, |known| known.min(at)));
}

#[cfg(all(test, shuttle))]
#[path = "../models/groups.rs"]
mod models;
#[cfg(all(test, not(shuttle)))]
mod tests;
