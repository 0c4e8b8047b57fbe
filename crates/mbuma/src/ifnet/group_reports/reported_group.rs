//! A group of an interface, and the part of its state that routers must still hear of.
//!
//! A change to or from a list of excluded sources is reported with the whole list (TO_IN, TO_EX), another one with the
//! sources that changed (ALLOW, BLOCK). A change that comes before earlier ones were reported often enough is merged
//! with them.
//!
//! Invariants: a group has at most [`SOURCES_MAX`] sources, and remembers no more of those that routers ask for. Locks:
//! none; part of the list of groups. Sources: RFC 9777 sections 6.1 to 6.3.

use std::net::IpAddr;

use kern::Time;
use wire::GroupRecordType;

use super::record::GroupRecord;
use crate::ifnet::source_filter::{FilterMode, SOURCES_MAX, SourceFilter};

/// A group that the interface is in, or has left without a report of that.
#[derive(Debug)]
pub(super) struct ReportedGroup {
    pub(super) group: IpAddr,
    /// None: the group was left.
    pub(super) filter: SourceFilter,
    /// How many of the next reports have the whole filter (Filter Mode Retransmission Counter).
    pub(super) mode_reports: u8,
    /// Sources that changed, each with the number of reports that are left to send (Retransmission List).
    pub(super) source_reports: Vec<(IpAddr, u8)>,
    pub(super) answer: Option<PendingAnswer>,
}

/// The answer to a query for one group.
#[derive(Debug)]
pub(super) struct PendingAnswer {
    pub(super) at: Time,
    /// The sources that were asked for; empty: all.
    pub(super) sources: Vec<IpAddr>,
}

impl ReportedGroup {
    /// One that the interface is not in yet.
    pub(super) fn new(group: IpAddr) -> Self {
        Self {
            group,
            filter: SourceFilter::none(),
            mode_reports: 0,
            source_reports: Vec::new(),
            answer: None,
        }
    }

    /// Changes the filter; returns whether it was another. The change is merged with those that must be reported again
    /// (RFC 9777 section 6.1).
    pub(super) fn set_filter(&mut self, filter: SourceFilter, robustness: u8) -> bool {
        if filter == self.filter {
            return false;
        }
        if filter.mode() == self.filter.mode() {
            for source in filter.differing(&self.filter) {
                self.source_reports.retain(|(known, _)| *known != source);
                self.source_reports.push((source, robustness));
            }
        } else {
            // The whole filter says also what became of these.
            self.source_reports.clear();
            self.mode_reports = robustness;
        }
        self.filter = filter;
        true
    }

    /// Whether a change is left to be reported.
    pub(super) fn has_changed(&self) -> bool {
        self.mode_reports > 0 || !self.source_reports.is_empty()
    }

    /// No more reports of the changes are sent.
    pub(super) fn give_up(&mut self) {
        self.mode_reports = 0;
        self.source_reports.clear();
    }

    /// One more report of the changes is sent.
    pub(super) fn count_report(&mut self) {
        self.mode_reports = self.mode_reports.saturating_sub(1);
        self.source_reports.retain_mut(|(_, left)| {
            *left = left.saturating_sub(1);
            *left > 0
        });
    }

    /// Adds the records of the next report of changes.
    pub(super) fn take_change(&mut self, records: &mut Vec<GroupRecord>) {
        let mut add = |kind, sources: &[IpAddr]| {
            records.push(GroupRecord {
                kind,
                group: self.group,
                sources: sources.to_vec(),
            });
        };
        if self.mode_reports > 0 {
            let kind = match self.filter.mode() {
                FilterMode::Include => GroupRecordType::ToInclude,
                FilterMode::Exclude => GroupRecordType::ToExclude,
            };
            add(kind, self.filter.sources());
        } else {
            let changed = self.source_reports.iter().map(|(source, _)| *source);
            let (taken, blocked): (Vec<_>, Vec<_>) =
                changed.partition(|source| self.filter.takes(*source));
            let kinds = [GroupRecordType::AllowNew, GroupRecordType::BlockOld];
            for (kind, sources) in kinds.into_iter().zip([taken, blocked]) {
                let parts = sources.chunks(SOURCES_MAX);
                parts.for_each(|sources| add(kind, sources));
            }
        }
        self.count_report();
    }

    /// Schedules an answer about `sources`, about all if there are none, and no later than one that is scheduled
    /// already. More sources than a filter has are not remembered: an answer about all says as much.
    pub(super) fn answer_at(&mut self, at: Time, sources: &[IpAddr]) {
        let Some(answer) = &mut self.answer else {
            let sources = sources.to_vec();
            self.answer = Some(PendingAnswer { at, sources });
            return;
        };
        answer.at = answer.at.min(at);
        if sources.is_empty() || answer.sources.is_empty() {
            answer.sources.clear();
            return;
        }
        for source in sources {
            if !answer.sources.contains(source) {
                answer.sources.push(*source);
            }
        }
        if answer.sources.len() > SOURCES_MAX {
            answer.sources.clear();
        }
    }

    /// The answer to a query for these sources, for all if there are none; `None` if there is nothing to say (RFC 9777
    /// section 6.3).
    pub(super) fn answer_to(&self, sources: &[IpAddr]) -> Option<GroupRecord> {
        let (kind, sources) = match sources {
            [] if self.filter.mode() == FilterMode::Exclude => {
                (GroupRecordType::IsExclude, self.filter.sources().to_vec())
            }
            [] => (GroupRecordType::IsInclude, self.filter.sources().to_vec()),
            asked => {
                let taken = asked.iter().filter(|source| self.filter.takes(**source));
                (GroupRecordType::IsInclude, taken.copied().collect())
            }
        };
        let is_something = kind == GroupRecordType::IsExclude || !sources.is_empty();
        is_something.then_some(GroupRecord {
            kind,
            group: self.group,
            sources,
        })
    }
}
