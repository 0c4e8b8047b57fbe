//! `cargo lab sendfile`: a file's records go out, described by page lists or copied into clusters, plain and over TLS.
//!
//! ```text
//!   source.rs   the file, and where its records begin     sender.rs   the cipher, or the copy that a device makes
//!   designs.rs  a turn of each way of holding records     report.rs   text and claims
//! ```
//!
//! A turn builds the records of thousands of connections, queues them in rows, sends the rows and frees them, as a
//! server does whose clients take turns. To send is to walk the row and to encrypt each record from the pages into
//! other storage; or, without TLS, to copy it, as writev(2) does. So the figures are of the buffers and of the work on
//! the payload together: that is the part of a server's CPU time that the place of a page list can change. TCP and the
//! device are not in it.
//!
//! Source: seed 001, which saved 2 per cent of all CPU time, 3 scaled to load, on a server of encrypted video.

mod designs;
pub(crate) mod report;
mod sender;
mod source;

use crate::harness::choice::{Kind, listed};
use crate::harness::effort::Effort;
use crate::harness::progress::Progress;
use crate::harness::record::of_readings;
use crate::harness::rounds::Reading;
use crate::harness::summary::Summary;
use crate::harness::{compare, pinned, table, warmup};
use crate::{Comparison, Error, Record};
use designs::{CATALOG, Entry, Subject};
use sender::Sender;
use source::Source;
use std::fmt;
use std::io::Write;
use std::time::Duration;

/// With the cipher, or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    name: &'static str,
    tls: bool,
}

/// All of them.
pub(crate) const CASES: [Case; 2] = [
    Case {
        name: "plain",
        tls: false,
    },
    Case {
        name: "tls",
        tls: true,
    },
];

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("records of 16 KiB of a file, at each place of a page, ")?;
        f.write_str(match self.tls {
            true => "encrypted by AES-128-GCM",
            false => "copied to a device",
        })
    }
}

/// Runs the comparison and writes the results to `out`: tables, or JSON lines.
///
/// # Errors
/// [`Error`]: an unknown name, or the file cannot be made, or `out` cannot be written.
pub fn run(options: &Comparison, out: &mut dyn Write) -> Result<(), Error> {
    let choice = options.choose(&CASES, CATALOG)?;
    let source = Source::new().map_err(|source| Error::Io {
        doing: "making a file in memory".to_owned(),
        source,
    })?;
    options.each(choice.cases, out, |case, progress| {
        let cpu = choice.effort.one_cpu();
        let records = pinned::run(cpu, || {
            measure(case, &source, &choice.designs, &choice.effort, progress)
        });
        compare::shown(options.json, &records, || show(case, &records))
    })
}

/// The names of cases and designs, with a line about each.
pub fn list() -> String {
    compare::list(&CASES, CATALOG)
}

listed!(Case: |case| case.name, case.to_string());
listed!(Entry: |entry| entry.name, entry.kind.says("seed 001", entry.about));

/// The CPU time of each round of a design, in milliseconds for 10^9 bytes.
struct Outcome {
    entry: Entry,
    rounds: Vec<f64>,
}

/// Goes over all designs in each round, so that a disturbance of the machine affects all of them alike.
fn measure(
    case: Case,
    source: &Source,
    designs: &[Entry],
    effort: &Effort,
    progress: &mut Progress,
) -> Vec<Record> {
    let mut sender = Sender::new(case.tls);
    let mut all: Vec<(Box<dyn Subject + '_>, Outcome)> = Vec::new();
    for &entry in designs {
        progress.say(&format!("{}: warming up {}", case.name, entry.name));
        let mut subject = (entry.make)(source);
        warmup::settle(|| subject.turn(&mut sender).as_secs_f64());
        let rounds = Vec::with_capacity(effort.reps);
        all.push((subject, Outcome { entry, rounds }));
    }
    for round in 1..=effort.reps {
        for (subject, outcome) in &mut all {
            let (name, reps) = (outcome.entry.name, effort.reps);
            progress.say(&format!("{}: round {round} of {reps}, {name}", case.name));
            outcome
                .rounds
                .push(round_of(subject.as_mut(), &mut sender, effort.reading));
        }
    }
    let outcomes: Vec<Outcome> = all.into_iter().map(|(_, outcome)| outcome).collect();
    let mut records: Vec<Record> = outcomes.iter().flat_map(|one| costs(case, one)).collect();
    records.extend(saved(case, &outcomes));
    records
}

/// Turns for at least this long.
fn round_of(subject: &mut dyn Subject, sender: &mut Sender, least: Duration) -> f64 {
    let (mut took, mut turns) = (Duration::ZERO, 0_u64);
    while turns == 0 || took < least {
        took += subject.turn(sender);
        turns += 1;
    }
    took.as_secs_f64() * 1e3 / (turns as f64 * source::BYTES as f64 / 1e9)
}

fn blank(case: Case, entry: &Entry) -> Record {
    Record {
        experiment: "sendfile",
        case: case.name,
        design: entry.name,
        size: source::RECORD,
        unit: "ms/GB",
        ours: entry.kind == Kind::Ours,
        ..Record::default()
    }
}

fn costs(case: Case, outcome: &Outcome) -> Vec<Record> {
    let reading = |&ns: &f64| Reading {
        ns,
        xcore_ns: None,
        disturbed: false,
    };
    let readings: Vec<_> = outcome.rounds.iter().map(reading).collect();
    of_readings(&blank(case, &outcome.entry), &readings)
}

/// The part of the time of lists beside mbufs that each other way saves, round by round.
fn saved(case: Case, outcomes: &[Outcome]) -> Vec<Record> {
    let separate = outcomes.iter().find(|one| one.entry.name == "separate");
    let Some(separate) = separate else {
        return Vec::new();
    };
    let others = outcomes.iter().filter(|one| one.entry.name != "separate");
    let of_one = |one: &Outcome| {
        let rounds = one.rounds.iter().zip(&separate.rounds);
        let percent = rounds.map(|(one, separate)| 100.0 * (1.0 - one / separate));
        let record = Record {
            unit: "%",
            measure: Some("saved"),
            ..blank(case, &one.entry)
        };
        Some(record.with(Summary::of(percent)?))
    };
    others.filter_map(of_one).collect()
}

/// A case as it is printed.
fn show(case: Case, records: &[Record]) -> String {
    let title = |first: &Record| match first.measure {
        None => format!("{}, CPU time in {}: {case}", case.name, first.unit),
        Some(_) => format!(
            "{}, % of that time saved against a list beside the mbuf, round by round",
            case.name
        ),
    };
    table::by_unit(records, title) + "\n"
}

#[cfg(test)]
mod tests;
