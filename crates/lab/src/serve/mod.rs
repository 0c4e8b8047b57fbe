//! `cargo lab serve`: `mbuma serve` beside nginx: the same files, the same client, the same placement on the CPUs.
//!
//! ```text
//!   case.rs      which file, how many connections     designs.rs   the servers, and how each is reached
//!   files.rs     the files                            client.rs    wrk, openssl s_time
//!   quota.rs     a server with a part of its CPU     slow.rs      clients that never end their requests
//!   report.rs    text and claims
//! ```
//!
//! Each server has one CPU, and the client the other, or the same, in network namespaces that end with the run. The
//! server's CPU time is that of its processes: the kernel's work for the client's half of a packet that a server sends
//! is in it, for both.
//!
//! Source: seed 001.

mod case;
mod client;
mod designs;
mod files;
mod quota;
pub(crate) mod report;
mod slow;

use crate::harness::choice::{Absent, Kind, listed};
use crate::harness::contest::{Contest as Rounds, Readings};
use crate::harness::effort::Effort;
use crate::harness::progress::Progress;
use crate::harness::record::of_readings;
use crate::harness::rounds::Reading;
use crate::harness::{compare, namespace, table, xcore};
use crate::run::found::Found;
use crate::run::peer::{self, Peer};
use crate::{Comparison, Error, Record};
use case::{CASES, Case};
use designs::{CATALOG, Contest, Entry};
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The designs and cases to compare.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The options of every comparison.
    #[command(flatten)]
    pub common: Comparison,
    /// A program and arguments that come to [`child`] once a job follows; empty: all designs are skipped.
    #[arg(skip)]
    pub child: Vec<OsString>,
    /// The tool to measure.
    #[arg(skip)]
    pub tool: PathBuf,
}

/// The part of a reading's time before it, which is not counted: windows grow.
const WARM_UP: f64 = 0.25;

/// Runs the comparison and writes the results to `out`: tables, or JSON lines.
///
/// # Errors
/// [`Error`]: an unknown name, or `out` cannot be written.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<(), Error> {
    let common = &options.common;
    let choice = common.choose(CASES, CATALOG)?;
    let files = files::made(&choice.cases).map_err(|source| Error::Io {
        doing: "making the files".to_owned(),
        source,
    })?;
    let place = ServedBy {
        options,
        way: namespace::way(namespace::MAY_MAKE_TAPS),
        files: files.path(),
    };
    common.each(&choice.cases, out, |case, progress| {
        let records = measure(case, &place, &choice.designs, &choice.effort, progress);
        compare::shown(common.json, &records, || show(case, &records))
    })
}

/// The work of a process that was started for a design and a case, with a colon between, and a directory of files:
/// answers questions until its input ends.
///
/// # Errors
/// [`Error`]: there is no such design or case, or the parent does not listen any more.
pub fn child(job: &str, files: &Path, tool: &Path, out: &mut dyn Write) -> Result<(), Error> {
    let (design, case) = job.split_once(':').unwrap_or((job, ""));
    let entry = CATALOG.iter().find(|entry| entry.name == design);
    let (entry, case) = entry
        .zip(Case::find(case))
        .ok_or_else(|| Error::Bad(format!("`{job}` is no design and case")))?;
    let cpus = Effort::new(1, 1.0)?.two_cpus();
    let answered = peer::be(
        out,
        || Contest::new(entry, case, tool, files, cpus),
        |contest, question| match question.parse() {
            Ok(nanos) => contest.reading(Duration::from_nanos(nanos)),
            Err(_) => Err(io::ErrorKind::InvalidInput.into()),
        },
    );
    answered.map_err(|source| Error::Io {
        doing: "serving files".to_owned(),
        source,
    })
}

/// How servers are started.
struct ServedBy<'a> {
    options: &'a Options,
    way: Option<&'static [&'static str]>,
    files: &'a Path,
}

/// A server with its note, and its readings, each with the latency between the CPUs.
type Running = Readings<(Peer, String), (Found, Option<f64>)>;

/// Goes over both servers in each round, so that a disturbance of the machine affects both alike.
fn measure(
    case: &Case,
    place: &ServedBy<'_>,
    designs: &[Entry],
    effort: &Effort,
    progress: &mut Progress,
) -> Vec<Record> {
    let contest = Rounds {
        case: case.name,
        designs,
        reps: effort.reps,
    };
    let begin = |entry: &Entry| {
        let (mut peer, note) = start(entry, case, place)?;
        ask(&mut peer, effort.reading.mul_f64(WARM_UP))?;
        Ok((peer, note))
    };
    let all = contest.run(progress, begin, |_, (peer, _)| {
        // A server that waits for its next period does not wait for cache lines.
        let crosses = !case.one_cpu && case.quota.is_none();
        let cpus = effort.pair_of_cpus().filter(|_| crosses);
        let xcore_ns = cpus.map(|cpus| xcore::one_way_ns(cpus, effort.reading));
        Ok((ask(peer, effort.reading)?, xcore_ns))
    });
    let all = designs.iter().zip(all);
    let mut records: Vec<Record> = all
        .flat_map(|(entry, running)| records(case, entry, running))
        .collect();
    // Tables of one measure each, contestants in their order.
    records.sort_by_key(|record| record.measure);
    records
}

fn start(entry: &Entry, case: &Case, place: &ServedBy<'_>) -> Result<(Peer, String), Absent> {
    let options = place.options;
    let missing = |why: &str| Absent(why.to_owned());
    let way = place
        .way
        .ok_or_else(|| missing("no /dev/net/tun, or no right to make a namespace"))?;
    if options.child.is_empty() {
        return Err(missing("it takes processes of its own"));
    }
    let mut command = Command::new("unshare");
    let job = format!("{}:{}", entry.name, case.name);
    command.args(way).args(&options.child).arg(job);
    command.arg("--tool").arg(&options.tool);
    command.arg("--files").arg(place.files);
    Peer::start(&mut command).map_err(|why| Absent(why.to_string()))
}

fn ask(peer: &mut Peer, time: Duration) -> Result<Found, Absent> {
    let found = peer.ask(&time.as_nanos().to_string());
    found.map_err(|why| Absent(why.to_string()))
}

/// A figure of a reading.
type Figure = fn(&Found) -> Option<f64>;

/// The measures of each case: name, unit, figure. The first is the main one.
const MEASURES: [(Option<&str>, &str, Figure); 7] = [
    (None, "requests/s", |found| found.per_s),
    (Some("requests-per-cpu-s"), "requests/CPU s", |found| {
        found.per_cpu_s
    }),
    (Some("per-cpu-s"), "GB/CPU s", |found| {
        Some(1.0 / found.cpu_s_per_gb?)
    }),
    (Some("client-cpu"), "% of a CPU", |found| {
        found.client_percent
    }),
    (Some("p50"), "us", |found| found.p50_us),
    (Some("p99"), "us", |found| found.p99_us),
    (Some("peak"), "MB", |found| found.peak_mb),
];

/// The figures of one server in one case.
fn records(case: &Case, entry: &Entry, running: Running) -> Vec<Record> {
    let empty = |(measure, unit, _): (Option<&'static str>, &'static str, Figure)| Record {
        experiment: "serve",
        case: case.name,
        design: entry.name,
        size: case.size,
        unit,
        measure,
        ours: entry.kind == Kind::Ours,
        ..Record::default()
    };
    let (note, found) = match running {
        Ok(((_, note), found)) => (note, found),
        Err(absent) => {
            let note = absent.to_string();
            return vec![Record {
                note,
                ..empty(MEASURES[0])
            }];
        }
    };
    let of_measure = |measure: (Option<&'static str>, &'static str, Figure)| {
        let figures = found
            .iter()
            .filter_map(|(found, xcore_ns)| Some(Reading::once(measure.2(found)?, *xcore_ns)));
        let record = Record {
            note: note.clone(),
            ..empty(measure)
        };
        of_readings(&record, &figures.collect::<Vec<_>>())
    };
    MEASURES.into_iter().flat_map(of_measure).collect()
}

/// A case as it is printed.
fn show(case: &Case, records: &[Record]) -> String {
    let title = |first: &Record| {
        let unit = first.unit;
        let measure = match first.measure {
            None => unit.to_owned(),
            Some("per-cpu-s" | "requests-per-cpu-s") => format!("{unit} of the server"),
            Some("client-cpu") => format!("{unit} that the client took"),
            Some("peak") => format!("{unit} of memory that the server had at most"),
            Some(part) => format!("{part} of an answer in {unit}"),
        };
        format!("{}, {measure}: {case}", case.name)
    };
    table::by_unit(records, title) + "\n"
}

/// The names of cases and designs, with a line about each.
pub fn list() -> String {
    compare::list(CASES, CATALOG)
}

listed!(Case: |case| case.name, case.to_string());
listed!(Entry: |entry| entry.name, entry.kind.says("seed 001", entry.about));

#[cfg(test)]
mod tests;
