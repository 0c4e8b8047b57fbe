//! `cargo lab refs`: ways of sharing the storage of network buffers: those of the seed documents, ours, and those
//! that programs use today, in one run.
//!
//! ```text
//!   design.rs     what sharing looks like             designs/   one file each
//!   cases/        what is done with it and timed      catalog.rs which designs there are
//!   subject.rs    a design behind a vtable            block.rs   a case over all of them
//! ```
//!
//! Each share of a cluster gets an mbuf of its own, so a share is an allocation and a method of finding the last
//! reference. All designs take their mbufs and clusters from zones of ours, so that only that method differs.
//!
//! Sources: seed 000; seed 004 sections 5.4 (counts beside clusters) and 5.6 (mini-mbufs).

mod block;
#[allow(unsafe_code)]
mod cases;
mod catalog;
#[allow(unsafe_code)]
mod design;
#[allow(unsafe_code)]
mod designs;
pub(crate) mod report;
mod subject;

use crate::harness::choice::listed;
use crate::harness::progress::Progress;
use crate::harness::{compare, table};
use crate::{Comparison, Error, Record};
use cases::Case;
use catalog::{CATALOG, Entry};
use std::io::Write;

/// Runs the comparison and writes the results to `out`: tables for each case, or JSON lines.
///
/// # Errors
/// [`Error`]: an unknown name, or `out` cannot be written.
pub fn run(options: &Comparison, out: &mut dyn Write) -> Result<(), Error> {
    let choice = choose(options)?;
    options.each(choice.cases.iter().copied(), out, |case, progress| {
        let records = measure(case, &choice, progress);
        compare::shown(options.json, &records, || show(case, &records))
    })
}

type Choice = compare::Choice<Case, Entry>;

fn choose(options: &Comparison) -> Result<Choice, Error> {
    options.choose(&Case::ALL, CATALOG)
}

fn measure(case: Case, choice: &Choice, progress: &mut Progress) -> Vec<Record> {
    let Choice {
        designs, effort, ..
    } = choice;
    if case.crosses() && effort.pair_of_cpus().is_none() {
        let skip = |entry| block::skipped(case, entry, "skipped: it takes two CPUs".to_owned());
        return designs.iter().map(skip).collect();
    }
    block::measure(case, designs, effort, progress)
}

/// A block as it is printed.
fn show(case: Case, records: &[Record]) -> String {
    let title = |first: &Record| {
        let about = match (first.measure, first.threads) {
            (Some("ratio"), _) => "time of a share by two CPUs, to one alone (1: it scales)",
            (_, Some(1)) => "one CPU shares and releases, alone",
            _ => case.about(),
        };
        format!("{case}, {} B, {}: {about}", first.size, first.unit)
    };
    table::by_unit(records, title) + "\n"
}

/// The names of cases and designs, with a line about each.
pub fn list() -> String {
    compare::list(&Case::ALL, CATALOG)
}

listed!(Case: |case| case.name(), case.about());
listed!(Entry: |entry| entry.name, entry.kind.says("seed 000", entry.about));

#[cfg(test)]
mod tests;
