//! `cargo lab splice`: a TCP proxy between a client and a server: spliced inside of the stack, beside a program that
//! hands data on or copies it, smoltcp, and the kernel's splice(2) and read(2) over veth.
//!
//! ```text
//!   case.rs      the traffic                designs.rs   the proxy's work
//!   proxy.rs     our stack in the middle    ends.rs      client, server, and how they are joined
//!   flow.rs      the load                   kernel.rs    the same in namespaces
//!                                           smoltcp.rs   the same with smoltcp (feature `peers`)
//! ```
//!
//! `cargo lab refs --case splice` measures other ways of sharing clusters under a splice.
//! Source: seed 000.

mod case;
mod designs;
mod ends;
mod flow;
mod kernel;
mod proxy;
pub(crate) mod report;
#[cfg(feature = "peers")]
mod smoltcp;

use crate::error::written;
use crate::harness::choice::{Absent, Kind, chosen, listed};
use crate::harness::contest::Contest;
use crate::harness::effort::Effort;
use crate::harness::progress::Progress;
use crate::harness::record::of_found;
use crate::harness::rounds::Reading;
use crate::harness::{compare, table, warmup, xcore};
use crate::stream::figures::Figures;
use crate::{Comparison, Error, Record};
use case::{CASES, Case, Traffic};
use designs::{CATALOG, Entry};
use std::ffi::OsString;
use std::io::Write;
use std::time::Duration;

/// The comparison that a user asks for.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Options {
    /// The options of every comparison.
    #[command(flatten)]
    pub common: Comparison,
    /// A program and arguments that come to [`bench()`] once a design's name and `--bench` with its words follow, for a
    /// design that needs namespaces of its own; empty: it is skipped.
    #[arg(skip)]
    pub child: Vec<OsString>,
}

/// Runs the comparison and writes its figures to `out`: tables, or JSON lines.
///
/// # Errors
/// [`Error`]: an unknown name, or `out` cannot be written.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<(), Error> {
    let common = &options.common;
    let choice = common.choose(CASES, CATALOG)?;
    common.each(&choice.cases, out, |case, progress| {
        let (designs, effort) = (&choice.designs, &choice.effort);
        let records = measure(case, designs, effort, &options.child, progress);
        compare::shown(common.json, &records, || {
            table::of_case(case.name, case, &records)
        })
    })
}

/// Runs one design once, in this process: `CASE SECONDS`.
///
/// # Errors
/// [`Error`]: it can't be done, or `out` cannot be written.
pub fn bench(design: &[String], words: &[String], out: &mut dyn Write) -> Result<(), Error> {
    let bad = || Error::Bad("--bench takes CASE SECONDS".to_owned());
    let [case, seconds] = words else {
        return Err(bad());
    };
    let time = seconds
        .parse()
        .ok()
        .and_then(|s| Duration::try_from_secs_f64(s).ok());
    let time = time.ok_or_else(bad)?;
    let cases = chosen("case", std::slice::from_ref(case), CASES)?;
    let cpus = Effort::new(1, 1.0)?.two_cpus();
    for entry in chosen("design", design, CATALOG)? {
        for case in &cases {
            let figures = entry
                .alone(case, cpus, time)
                .map_err(|absent| Error::Bad(format!("{}: {absent}", entry.name)))?;
            written(writeln!(out, "{}", figures.to_json()))?;
        }
    }
    Ok(())
}

/// Goes over all contestants in each round, so that a disturbance of the machine meets all of them.
fn measure(
    case: &Case,
    designs: &[Entry],
    effort: &Effort,
    child: &[OsString],
    progress: &mut Progress,
) -> Vec<Record> {
    let cpus = effort.two_cpus();
    let main = |figures: Figures| main_of(case, &figures);
    let contest = Contest {
        case: case.name,
        designs,
        reps: effort.reps,
    };
    let begin = |entry: &Entry| {
        let read = |time| entry.run(case, cpus, time, child).map(main);
        warmup::lengthen(effort.reading, read)
    };
    let found = contest.run(progress, begin, |entry, time| {
        let crosses = case.own_cpu;
        let xcore_ns = crosses.then(|| xcore::one_way_ns(cpus, effort.reading));
        let ns = main(entry.run(case, cpus, *time, child)?);
        Ok(Reading::once(ns, xcore_ns))
    });
    let records = designs
        .iter()
        .zip(found)
        .map(|(entry, found)| records(case, entry, found.map(|(_, readings)| readings)));
    records.flatten().collect()
}

/// The figure that contestants are compared by: Gbit/s, or the 99th of a hundred round trips in microseconds.
fn main_of(case: &Case, figures: &Figures) -> f64 {
    match (case.traffic, figures) {
        (Traffic::RoundTrips, Figures::Rr { us, .. }) => us[1],
        _ => figures.main(),
    }
}

fn records(case: &Case, entry: &Entry, found: Result<Vec<Reading>, Absent>) -> Vec<Record> {
    let empty = Record {
        experiment: "splice",
        case: case.name,
        design: entry.name,
        unit: match case.traffic {
            Traffic::Streams(_) => "Gbit/s",
            Traffic::RoundTrips => "us, p99",
        },
        threads: Some(1 + usize::from(case.own_cpu)),
        ours: entry.kind == Kind::Ours,
        ..Record::default()
    };
    of_found(empty, found)
}

/// The names of cases and designs, with a line about each.
pub fn list() -> String {
    compare::list(CASES, CATALOG)
}

listed!(Case: |case| case.name, case.to_string());
listed!(Entry: |entry| entry.name, entry.kind.says("seed 000", entry.about));

#[cfg(test)]
mod tests;
