//! `cargo lab alloc`: the allocators of the seed documents, ours, and those that programs use today, in one run.
//!
//! ```text
//!   design.rs     what an allocator looks like        designs/   one file each
//!   cases/        what is done with it and timed      catalog.rs which designs take part in which cases
//!   subject.rs    a design behind a vtable            header.rs  the constructor of ours and of the BSD designs
//! ```
//!
//! A case of a size is a block: all its designs are made, run in turns (`harness/rounds.rs`), shown, and dropped
//! (`block.rs`). Three cases are blocks of another kind: `held.rs` counts items, `spike.rs` and `slabs/purge.rs` follow
//! memory, each design in a process of its own (`child.rs`).
//!
//! Sources: seed 004 sections 3 and 5, figure 7.

mod block;
#[allow(unsafe_code)]
mod cases;
mod catalog;
mod child;
#[allow(unsafe_code)]
mod design;
#[allow(unsafe_code)]
mod designs;
#[allow(unsafe_code)]
mod header;
mod held;
mod options;
mod purge;
pub(crate) mod report;
mod result;
mod show;
mod spike;
mod subject;

pub use child::child;
pub use designs::global::TUNABLES;
pub use options::Options;

use crate::harness::choice::listed;
use crate::harness::compare;
use crate::harness::progress::Progress;
use crate::{Error, Record};
use cases::Case;
use catalog::{CATALOG, Entry};
use options::Choice;
use std::io::Write;

/// Runs the comparison and writes the results to `out`: a table for each block, or JSON lines.
///
/// # Errors
/// [`Error`]: an unknown name, or `out` cannot be written.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<(), Error> {
    let choice = options.choose()?;
    let common = &options.common;
    let sizes_of = |&case: &Case| {
        case.sizes(&choice.sizes)
            .iter()
            .map(move |&size| (case, size))
    };
    let blocks = choice.cases.iter().flat_map(sizes_of);
    common.each(blocks, out, |(case, size), progress| {
        let records = measure(case, size, &choice, progress);
        let show = || show::block(&choice.effort, case, size, &records);
        compare::shown(common.json, &records, show)
    })
}

fn measure(case: Case, size: usize, choice: &Choice, progress: &mut Progress) -> Vec<Record> {
    let takes_part = |entry: &&Entry| (entry.cases)(case);
    let entries: Vec<Entry> = choice.entries.iter().filter(takes_part).copied().collect();
    let effort = &choice.effort;
    if case.crosses() && effort.timing.pair_of_cpus().is_none() {
        let why = "skipped: it takes two CPUs";
        let skip = |entry| result::skipped(case, size, entry, why.to_owned());
        return entries.iter().map(skip).collect();
    }
    match case {
        Case::Held => held::measure(size, &entries, effort, progress),
        Case::Spike => spike::measure(size, &entries, effort, progress),
        Case::PurgeDip => purge::measure(size, &entries, effort, progress),
        _ => block::measure(case, size, &entries, effort, progress),
    }
}

/// The names of cases and designs, with a line about each.
pub fn list() -> String {
    compare::list(&Case::ALL, CATALOG)
}

listed!(Case: |case| case.name(), format!("{} ({})", case.about(), case.unit()));
listed!(Entry: |entry| entry.name, entry.kind.says("seed 004", entry.about));

#[cfg(test)]
mod tests;
