//! Blocks for people and for programs.

use super::cases::Case;
use super::options::Effort;
use super::{held, spike};
use crate::Record;
use crate::harness::table;

/// A block as it is printed.
pub(crate) fn block(effort: &Effort, case: Case, size: usize, records: &[Record]) -> String {
    let tables = match case {
        Case::Held => held::table(size, records),
        Case::Spike => spike::table(size, effort.megabytes, records),
        _ => timed(case, size, records),
    };
    tables + "\n"
}

/// A table for each unit, with the latency between the CPUs where that matters.
fn timed(case: Case, size: usize, records: &[Record]) -> String {
    table::by_unit(records, |first| {
        format!("{case}, {size} B, {}: {}", first.unit, case.about())
    })
}
