//! `cargo lab extpgs`: records of 16 KiB in unmapped pages, described by a list in the mbuf itself, by one in a
//! record beside it, and by clusters instead, in one run.
//!
//! ```text
//!   design.rs     what describing a record looks like   designs/     one file each, two in bare.rs
//!   phases.rs     what is done with it and timed        catalog.rs   which designs and cases there are
//! ```
//!
//! Every round gives each design one turn: all its records are built, walked and freed, with caches that other data
//! filled before each phase, as on a server with thousands of connections. Turns count from when two agree: memory
//! that was never used costs page faults.
//!
//! Comparisons: `inline` against `separate` shows the effect of the list's place, their only difference; `mbuma`
//! against `inline` shows the cost of our checks and types, and the gain of a walk that prefetches the next mbuf.
//!
//! Source: seed 001, which saved 2 per cent of all CPU time, 3 scaled to load, on a server of encrypted video.

mod catalog;
pub(crate) mod design;
#[allow(unsafe_code)] // the bare mbufs that ours are measured against
pub(crate) mod designs;
mod options;
pub(crate) mod phases;
pub(crate) mod report;

pub use options::Options;

use crate::harness::choice::listed;
use crate::harness::progress::Progress;
use crate::harness::summary::Summary;
use crate::harness::{compare, sys, table, warmup};
use crate::{Error, Record};
use catalog::{CATALOG, Case, Entry};
use design::RECORD;
use options::Choice;
use phases::{Cold, Subject, Turn, Weight};
use std::io::Write;

/// Runs the comparison and writes the results to `out`: a table for each case, or JSON lines.
///
/// # Errors
/// [`Error`]: an unknown name, a number that will not do, or `out` cannot be written.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<(), Error> {
    let choice = options.choose()?;
    let found = measure(options, &choice);
    let common = &options.common;
    common.each(choice.cases, out, |case, _| {
        let records = found.records(case);
        compare::shown(common.json, &records, || show(case, &records))
    })
}

/// The names of cases and designs, with a line about each.
pub fn list() -> String {
    compare::list(&Case::ALL, CATALOG)
}

listed!(Case: |case| case.name(), format!("{} ({})", case.about(), case.unit()));
listed!(Entry: |entry| entry.name, entry.about);

/// The results of one design.
struct Outcome {
    entry: Entry,
    turns: Vec<Turn>,
    weight: Weight,
}

/// The results of all designs, in the order of the catalog.
struct Found(Vec<Outcome>);

fn measure(options: &Options, choice: &Choice) -> Found {
    let (all, reps) = (sys::allowed_cpus(), choice.effort.reps);
    // Without the right to pin threads, the measurement runs on any CPU.
    let _ = sys::pin(&all[..1]);
    let mut progress = Progress::new(options.common.progress);
    let mut cold = Cold::new();
    let mut found: Vec<(Box<dyn Subject>, Outcome)> = Vec::new();
    for &entry in &choice.designs {
        progress.say(&format!("extpgs: warming up {}", entry.name));
        let mut subject = (entry.make)(options.records);
        warmup::settle(|| subject.turn(&mut cold).total());
        let weight = subject.weigh();
        let turns = Vec::with_capacity(reps);
        found.push((
            subject,
            Outcome {
                entry,
                turns,
                weight,
            },
        ));
    }
    for round in 1..=reps {
        for (subject, outcome) in &mut found {
            let name = outcome.entry.name;
            progress.say(&format!("extpgs: round {round} of {reps}, {name}"));
            outcome.turns.push(subject.turn(&mut cold));
        }
    }
    let _ = sys::pin(&all);
    Found(found.into_iter().map(|(_, outcome)| outcome).collect())
}

impl Found {
    /// Their figures in a case.
    fn records(&self, case: Case) -> Vec<Record> {
        let each = self.0.iter();
        match case {
            Case::Saved => self.saved(),
            Case::Mbufs => each.map(weighed).collect(),
            _ => each.filter_map(|outcome| timed(case, outcome)).collect(),
        }
    }

    /// The part of the time of separate lists that lists inside of mbufs save, phase by phase.
    fn saved(&self) -> Vec<Record> {
        let by_name = |name| self.0.iter().find(|outcome| outcome.entry.name == name);
        let Some(separate) = by_name("separate") else {
            return Vec::new();
        };
        let of_phase = |phase: Case| {
            let inside = ["inline", "mbuma"].into_iter().filter_map(by_name);
            inside.filter_map(move |one| {
                let rounds = one.turns.iter().zip(&separate.turns);
                let percent = |(one, separate)| 100.0 * (1.0 - phase.of(one) / phase.of(separate));
                let mut record = summed(Case::Saved, one, rounds.map(percent))?;
                record.measure = Some(phase.name());
                Some(record)
            })
        };
        Case::TIMED.into_iter().flat_map(of_phase).collect()
    }
}

fn timed(case: Case, outcome: &Outcome) -> Option<Record> {
    summed(
        case,
        outcome,
        outcome.turns.iter().map(|turn| case.of(turn)),
    )
}

fn weighed(outcome: &Outcome) -> Record {
    let mbufs = Some(outcome.weight.mbufs_per_mib);
    Record {
        median: mbufs,
        p25: mbufs,
        p75: mbufs,
        n: 1,
        note: format!("{} B a record beside its payload", outcome.weight.overhead),
        ..blank(Case::Mbufs, outcome)
    }
}

/// A record of readings, if there are any.
fn summed(
    case: Case,
    outcome: &Outcome,
    readings: impl IntoIterator<Item = f64>,
) -> Option<Record> {
    Some(blank(case, outcome).with(Summary::of(readings)?))
}

fn blank(case: Case, outcome: &Outcome) -> Record {
    Record {
        experiment: "extpgs",
        case: case.name(),
        design: outcome.entry.name,
        size: RECORD,
        unit: case.unit(),
        ours: outcome.entry.ours,
        ..Record::default()
    }
}

/// A case as it is printed.
fn show(case: Case, records: &[Record]) -> String {
    let tables = records.chunk_by(|a, b| a.measure == b.measure).map(|rows| {
        let measure = rows[0].measure.map(|measure| format!(", {measure}"));
        let measure = measure.unwrap_or_default();
        let title = format!(
            "{}{measure}, {}: {}",
            case.name(),
            case.unit(),
            case.about()
        );
        table::table(&title, rows) + "\n"
    });
    tables.collect()
}

#[cfg(test)]
mod tests;
