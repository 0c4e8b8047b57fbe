//! `cargo lab stream`: TCP between two stacks in one process, over an epair: one stream, and round trips, on one
//! thread and on two, beside smoltcp, lwIP, gVisor's netstack and the kernel.
//!
//! ```text
//!   case.rs      what is done              designs.rs   what does it
//!   flow.rs      the loops, for any end    ours.rs      two stacks and an epair     sums.rs   one that sums
//!   figures.rs   what a run says           kernel.rs    loopback, veth              programs.rs   peers
//! ```
//!
//! Sources: issue 5's table; `peers/README.md`, whose programs the loops are like.

mod case;
mod designs;
pub(crate) mod figures;
mod flow;
mod kernel;
mod options;
mod ours;
mod programs;
pub(crate) mod report;
mod sums;

pub use options::Options;

use crate::error::written;
use crate::harness::choice::{Absent, Kind, chosen, listed};
use crate::harness::compare::Choice;
use crate::harness::contest::Contest;
use crate::harness::effort::Effort;
use crate::harness::progress::Progress;
use crate::harness::record::of_found;
use crate::harness::rounds::Reading;
use crate::harness::{compare, table, warmup, xcore};
use crate::{Error, Record};
use case::{CASES, Case, Mode};
use designs::{CATALOG, Entry, Outside};
use std::io::Write;
use std::time::Duration;

/// Runs the comparison and writes the results to `out`: tables, or JSON lines.
///
/// # Errors
/// [`Error`]: an unknown name, or `out` cannot be written.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<(), Error> {
    let (common, outside) = (&options.common, options.outside());
    let choice = common.choose(CASES, CATALOG)?;
    common.each(&choice.cases, out, |case, progress| {
        let records = measure(case, &choice, &outside, progress);
        compare::shown(common.json, &records, || {
            table::of_case(case.name, case, &records)
        })
    })
}

/// Runs one design for one figure, in this process: `MODE MTU THREADS SECS CSUM`, as the programs of `peers` take
/// them. Without a name, the design is ours with the same work as theirs.
///
/// # Errors
/// [`Error`]: it can't be done, or `out` cannot be written.
pub fn bench(design: &[String], words: &[String], out: &mut dyn Write) -> Result<(), Error> {
    let Some((job, time)) = programs::parse(words) else {
        return Err(Error::Bad(
            "--bench takes stream|rr MTU one|two SECONDS csum|nocsum".to_owned(),
        ));
    };
    let alike = [if job.sums { designs::ALIKE } else { "mbuma" }.to_owned()];
    let names = if design.is_empty() { &alike } else { design };
    for entry in chosen("design", names, CATALOG)? {
        let figures = designs::alone(&entry, job, time)
            .map_err(|absent| Error::Bad(format!("{}: {absent}", entry.name)))?;
        written(writeln!(out, "{}", figures.to_json()))?;
    }
    Ok(())
}

/// Goes over all contestants in each round, so that a disturbance of the machine affects all of them alike.
fn measure(
    case: &Case,
    choice: &Choice<Case, Entry>,
    outside: &Outside,
    progress: &mut Progress,
) -> Vec<Record> {
    let contest = Contest {
        case: case.name,
        designs: &choice.designs,
        reps: choice.effort.reps,
    };
    let begin = |entry: &Entry| {
        let read = |time| Ok(entry.run(case.job, time, outside)?.main());
        warmup::lengthen(choice.effort.reading, read)
    };
    let found = contest.run(progress, begin, |entry, time| {
        reading(case, entry, &choice.effort, *time, outside)
    });
    let records = choice
        .designs
        .iter()
        .zip(found)
        .map(|(entry, found)| records(case, entry, found.map(|(_, readings)| readings)));
    let mut all: Vec<Record> = records.flatten().collect();
    // Tables of one measure each, contestants in their order.
    all.sort_by_key(|record| record.measure);
    all
}

fn reading(
    case: &Case,
    entry: &Entry,
    effort: &Effort,
    time: Duration,
    outside: &Outside,
) -> Result<Reading, Absent> {
    let cpus = effort.pair_of_cpus().filter(|_| case.job.two);
    let xcore_ns = cpus.map(|cpus| xcore::one_way_ns(cpus, effort.reading));
    let figures = entry.run(case.job, time, outside)?;
    Ok(Reading::once(figures.main(), xcore_ns))
}

fn records(case: &Case, entry: &Entry, found: Result<Vec<Reading>, Absent>) -> Vec<Record> {
    let empty = empty(case, entry);
    of_found(empty, found)
}

/// A record without figures.
fn empty(case: &Case, entry: &Entry) -> Record {
    Record {
        experiment: "stream",
        case: case.name,
        design: entry.name,
        unit: match case.job.mode {
            Mode::Stream => "Gbit/s",
            Mode::Rr => "us, p50",
        },
        threads: Some(1 + usize::from(case.job.two)),
        note: entry.note(case.job),
        ours: entry.kind == Kind::Ours,
        ..Record::default()
    }
}

/// The names of cases and designs, with a line about each.
pub fn list() -> String {
    compare::list(CASES, CATALOG)
}

listed!(Case: |case| case.name, case.to_string());
listed!(Entry: |entry| entry.name, entry.kind.says("seed 002", entry.about));

#[cfg(test)]
mod tests;
