//! Records of this experiment, from what was measured.
//!
//! Called by: the blocks. Calls: nothing.

use super::cases::Case;
use super::catalog::{Entry, Kind};
use crate::Record;
use crate::harness::rounds::Grouped;
use crate::harness::summary::Summary;

/// What readings of a design say.
pub(crate) fn record(case: Case, size: usize, entry: &Entry, summary: Summary) -> Record {
    Record {
        median: Some(summary.median),
        p25: Some(summary.p25),
        p75: Some(summary.p75),
        n: summary.n,
        ..skipped(case, size, entry, entry.note.to_owned())
    }
}

/// Why there are none.
pub(crate) fn skipped(case: Case, size: usize, entry: &Entry, note: String) -> Record {
    Record {
        experiment: "alloc",
        case: case.name(),
        design: entry.name,
        size,
        unit: case.unit(),
        note,
        ours: entry.kind == Kind::Ours,
        ..Record::default()
    }
}

/// With what is known of readings that were grouped by the machine's mode.
pub(crate) fn of_group(mut record: Record, group: &Grouped) -> Record {
    record.xcore_ns = group.xcore_ns;
    record.mode = group.mode.map(|mode| mode.name());
    if group.disturbed > 0 {
        let comma = if record.note.is_empty() { "" } else { ", " };
        record.note += &format!("{comma}{} of {} disturbed", group.disturbed, record.n);
    }
    record
}
