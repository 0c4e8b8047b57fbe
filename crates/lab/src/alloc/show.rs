//! Blocks for people and for programs.
//!
//! Called by: `mod.rs`. Calls: the harness's tables; the cases that have tables of their own.

use super::cases::Case;
use super::options::{Effort, Options};
use super::{held, spike};
use crate::Record;
use crate::harness::table;

/// A block as it is printed.
pub(crate) fn block(
    options: &Options,
    effort: &Effort,
    case: Case,
    size: usize,
    records: &[Record],
) -> String {
    if options.json {
        return records
            .iter()
            .map(|record| record.to_json() + "\n")
            .collect();
    }
    let tables = match case {
        Case::Held => held::table(size, records),
        Case::Spike => spike::table(size, effort.megabytes, records),
        _ => timed(case, size, records),
    };
    tables + "\n"
}

/// A table for each unit, with the latency between the CPUs where that matters.
fn timed(case: Case, size: usize, records: &[Record]) -> String {
    let of_unit = records.chunk_by(|a, b| a.unit == b.unit);
    let tables = of_unit.map(|rows| {
        let unit = rows[0].unit;
        let title = format!(
            "{case}, {size} B, {unit}: {}{}",
            case.about(),
            latency(rows)
        );
        table::table(&title, rows)
    });
    tables.collect::<Vec<_>>().join("\n")
}

/// From the nearest to the farthest, as a line of the title.
fn latency(records: &[Record]) -> String {
    let between = records.iter().filter_map(|record| record.xcore_ns);
    let least = between.clone().fold(f64::INFINITY, f64::min);
    let most = between.fold(f64::NEG_INFINITY, f64::max);
    match least <= most {
        true => format!(
            "\n  a cache line takes {least:.0} to {most:.0} ns from one CPU to the other (far: 120 or more)"
        ),
        false => String::new(),
    }
}
