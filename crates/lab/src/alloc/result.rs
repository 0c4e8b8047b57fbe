//! Records of this experiment, from its readings.

use super::cases::Case;
use super::catalog::{Entry, Kind};
use crate::Record;
pub(crate) use crate::harness::record::of_group;
use crate::harness::summary::Summary;

/// The summary of a design's readings.
pub(crate) fn record(case: Case, size: usize, entry: &Entry, summary: Summary) -> Record {
    let parts = [entry.note, (entry.settings)()];
    let note = parts.into_iter().filter(|part| !part.is_empty());
    let note = note.collect::<Vec<_>>().join(", ");
    skipped(case, size, entry, note).with(summary)
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
