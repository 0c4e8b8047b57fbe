//! `cargo lab unix`: UNIX-domain sockets between threads of one process: ours, copying and by reference, beside the
//! kernel's.
//!
//! ```text
//!   case.rs   what is done, and where     socket.rs   a pair of sockets     programs.rs   what is done with it
//! ```
//!
//! Ours join threads of one process, the kernel's any two; the comparison shows the gain of a program that has both
//! ends, such as a server with its workers.
//!
//! Sources: seed 002 (the load with 11 workers over such sockets); `peers/src/nbench.c`, whose programs these are.

mod case;
mod programs;
pub(crate) mod report;
mod socket;

use crate::error::written;
use crate::harness::choice::{Kind, chosen, listed};
use crate::harness::contest::Contest;
use crate::harness::effort::Effort;
use crate::harness::progress::Progress;
use crate::harness::record::of_readings;
use crate::harness::rounds::Reading;
use crate::harness::{compare, table, warmup, xcore};
use crate::{Comparison, Error, Record};
use case::{CASES, Case, Place, Work};
use programs::Figures;
use std::io::Write;
use std::time::Duration;

/// A line of the list of designs.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    name: &'static str,
    kind: Kind,
    about: &'static str,
    note: &'static str,
    run: fn(Work, Place, &Effort, Duration) -> Figures,
}

/// All designs, in the order in which they are shown.
pub(crate) const CATALOG: &[Entry] = &[
    Entry {
        name: "mbuma",
        kind: Kind::Ours,
        about: "in the stack, copied in and out",
        note: "",
        run: programs::run::<socket::Copied>,
    },
    Entry {
        name: "mbuma-ref",
        kind: Kind::Ours,
        about: "in the stack, mbufs change hands",
        note: "no copies",
        run: programs::run::<socket::ByRef>,
    },
    Entry {
        name: "kernel",
        kind: Kind::Peer,
        about: "the kernel's",
        note: "",
        run: programs::run::<socket::Kernel>,
    },
];

/// Runs the comparison and writes the results to `out`: tables, or JSON lines.
///
/// # Errors
/// [`Error`]: an unknown name, or `out` cannot be written.
pub fn run(options: &Comparison, out: &mut dyn Write) -> Result<(), Error> {
    let choice = options.choose(CASES, CATALOG)?;
    options.each(&choice.cases, out, |case, progress| {
        let records = measure(case, &choice, progress);
        compare::shown(options.json, &records, || {
            table::of_case(case.name, case, &records)
        })
    })
}

type Choice = compare::Choice<Case, Entry>;

/// Runs one design for one figure: `unixpp PAIRS SECS SIZE [same|cross]` or `unixst SECS CHUNK [same|cross]`, with the
/// arguments and the output of `nbench`. Without a name, the design is `mbuma`, which copies.
///
/// # Errors
/// [`Error`]: it can't be done, or `out` cannot be written.
pub fn bench(design: &[String], words: &[String], out: &mut dyn Write) -> Result<(), Error> {
    let Some((work, place, time)) = parse(words) else {
        return Err(Error::Bad(
            "--bench takes `unixpp PAIRS SECONDS SIZE [same|cross]` or `unixst SECONDS CHUNK [same|cross]`"
                .to_owned(),
        ));
    };
    let ours = ["mbuma".to_owned()];
    let names = if design.is_empty() { &ours } else { design };
    let effort = Effort::new(1, 1.0)?;
    for entry in chosen("design", names, CATALOG)? {
        let line = line(work, (entry.run)(work, place, &effort, time));
        written(writeln!(out, "{line}"))?;
    }
    Ok(())
}

fn parse(words: &[String]) -> Option<(Work, Place, Duration)> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (work, seconds, place) = match words[..] {
        ["unixpp", pairs, seconds, size, ref place @ ..] => {
            let (pairs, size) = (pairs.parse().ok()?, size.parse().ok()?);
            (Work::PingPong { pairs, size }, seconds, place)
        }
        ["unixst", seconds, chunk, ref place @ ..] => {
            let chunk = chunk.parse().ok()?;
            (Work::Stream { chunk }, seconds, place)
        }
        _ => return None,
    };
    let place = match place {
        [] => Place::Free,
        [place] => Place::parse(place)?,
        _ => return None,
    };
    let sane = match work {
        Work::PingPong { pairs, size } => (1..=1000).contains(&pairs) && size > 0,
        Work::Stream { chunk } => chunk > 0,
    };
    let time = Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?;
    sane.then_some((work, place, time))
}

/// The output that `peers/bench_unix.sh` parses.
fn line(work: Work, figures: Figures) -> String {
    let Figures { rate, us, cpu } = figures;
    match work {
        Work::PingPong { .. } => format!(
            "{{\"rt_s\":{rate:.0},\"p50_us\":{:.2},\"p99_us\":{:.2},\"p999_us\":{:.2},\"cpu_us_per_rt\":{cpu:.2}}}",
            us[0], us[1], us[2]
        ),
        Work::Stream { .. } => format!("{{\"gbps\":{rate:.2},\"cpu_s_per_GB\":{cpu:.3}}}"),
    }
}

/// Goes over all designs in each round, so that a disturbance of the machine affects all of them alike.
fn measure(case: &Case, choice: &Choice, progress: &mut Progress) -> Vec<Record> {
    let effort = &choice.effort;
    let cpus = effort.pair_of_cpus().filter(|_| case.place == Place::Cross);
    let read = |entry: &Entry, time| (entry.run)(case.work, case.place, effort, time);
    let contest = Contest {
        case: case.name,
        designs: &choice.designs,
        reps: effort.reps,
    };
    let begin = |entry: &Entry| {
        Ok(warmup::length_for(effort.reading, |time| {
            read(entry, time).rate
        }))
    };
    let found = contest.run(progress, begin, |entry, time| {
        let xcore_ns = cpus.map(|cpus| xcore::one_way_ns(cpus, effort.reading));
        Ok((read(entry, *time), xcore_ns))
    });
    // Both kernels' sockets and ours are always there.
    let found = found.into_iter().flatten().map(|(_, readings)| readings);
    let found = choice.designs.iter().zip(found);
    found
        .flat_map(|(entry, found)| records(case, entry, &found))
        .collect()
}

/// The figures of a reading, and the latency between the CPUs right before.
type Round = (Figures, Option<f64>);

/// The rate, and of round trips also the time of the slowest of a hundred.
fn records(case: &Case, entry: &Entry, rounds: &[Round]) -> Vec<Record> {
    let of = |figure: fn(&Figures) -> f64| -> Vec<Reading> {
        let reading = |(figures, xcore_ns): &Round| Reading::once(figure(figures), *xcore_ns);
        rounds.iter().map(reading).collect()
    };
    let rate = empty(case, entry);
    let p99 = Record {
        measure: Some("p99"),
        unit: "us",
        ..rate.clone()
    };
    let mut all = of_readings(&rate, &of(|figures| figures.rate));
    if let Work::PingPong { .. } = case.work {
        all.extend(of_readings(&p99, &of(|figures| figures.us[1])));
    }
    all
}

/// A record without figures.
fn empty(case: &Case, entry: &Entry) -> Record {
    let (size, unit) = match case.work {
        Work::PingPong { size, .. } => (size, "round trips/s"),
        Work::Stream { chunk } => (chunk, "Gbit/s"),
    };
    Record {
        experiment: "unix",
        case: case.name,
        design: entry.name,
        size,
        unit,
        note: entry.note.to_owned(),
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
