//! `cargo lab wan`: TCP over bad paths, ours beside Linux's and that of other stacks in user space: a narrow rate, a
//! long delay, loss, reordering, jitter.
//!
//! ```text
//!   path.rs       the paths                  designs.rs     what is at the ends
//!   simulated.rs  ours, in virtual time      figures.rs     what a run says
//!   live.rs       Linux, ours and peers in real time
//! ```
//!
//! Every design sends over the same emulated link, a [`LinkEmulator`](mbuma::device::impair::LinkEmulator), with the
//! same seeds: so each meets the same losses as far as its frames are the same.

mod designs;
mod figures;
mod live;
mod path;
pub(crate) mod report;
mod simulated;

use std::io::Write;

use crate::harness::choice::{Absent, Kind, listed};
use crate::harness::compare::Choice;
use crate::harness::progress::Progress;
use crate::harness::summary::Summary;
use crate::harness::{compare, table};
use crate::{Comparison, Error, Record};
use designs::{CATALOG, Entry};
use figures::{Figures, MEASURES, Measure};
use path::{PATHS, Path};

/// Runs the comparison and writes the results to `out`: tables, or JSON lines. The rounds are seeds, from 1 on.
///
/// # Errors
/// [`Error`]: an unknown name, or `out` cannot be written.
pub fn run(options: &Comparison, out: &mut dyn Write) -> Result<(), Error> {
    let choice = options.choose(PATHS, CATALOG)?;
    options.each(&choice.cases, out, |path, progress| {
        let records = measure(path, &choice, progress);
        compare::shown(options.json, &records, || show(path, &records))
    })
}

fn measure(path: &Path, choice: &Choice<Path, Entry>, progress: &mut Progress) -> Vec<Record> {
    let time = choice.effort.reading;
    let mut found: Vec<Result<Vec<Figures>, Absent>> = vec![Ok(Vec::new()); choice.designs.len()];
    for seed in 1..=choice.effort.reps {
        for (entry, found) in choice.designs.iter().zip(&mut found) {
            progress.say(&format!("{}: seed {seed}, {}", path.name, entry.name));
            // A design that is missing is tried once.
            let Ok(runs) = found else { continue };
            match entry.run(path, seed as u64, time) {
                Ok(figures) => runs.push(figures),
                Err(absent) => *found = Err(absent),
            }
        }
    }
    let of = |measure| {
        let designs = choice.designs.iter().zip(&found);
        designs.map(move |(entry, found)| record(path, entry, measure, found))
    };
    MEASURES.iter().flat_map(of).collect()
}

fn record(
    path: &Path,
    entry: &Entry,
    measure: &Measure,
    found: &Result<Vec<Figures>, Absent>,
) -> Record {
    let empty = Record {
        experiment: "wan",
        case: path.name,
        design: entry.name,
        unit: measure.unit,
        measure: measure.name,
        ours: entry.kind() == Kind::Ours,
        ..Record::default()
    };
    match found {
        Err(absent) => Record {
            note: absent.to_string(),
            ..empty
        },
        Ok(runs) => match Summary::of(runs.iter().filter_map(measure.value)) {
            Some(summary) => Record {
                note: entry.settings().to_owned(),
                ..empty.with(summary)
            },
            None => Record {
                note: "not counted by this stack".to_owned(),
                ..empty
            },
        },
    }
}

/// A case as it is printed.
fn show(path: &Path, records: &[Record]) -> String {
    let mathis = path.mathis_mbps();
    let mathis = mathis.map_or(String::new(), |mbps| {
        format!("; Mathis's formula gives {mbps:.1} Mbit/s")
    });
    let title = |first: &Record| match first.measure {
        None => format!("{}, {}: {path}{mathis}", path.name, first.unit),
        Some(measure) => format!("{}, {measure}, {}", path.name, first.unit),
    };
    table::by_unit(records, title) + "\n"
}

/// The names of cases and designs, with a line about each.
pub fn list() -> String {
    compare::list(PATHS, CATALOG)
}

listed!(Path: |case| case.name, case.to_string());
listed!(Entry: |entry| entry.name, entry.kind().says("seed 002", entry.about));

#[cfg(test)]
mod tests;
