//! The output of readings: records, and tables of them.

use super::case::{Case, Job};
use super::designs::Entry;
use super::found::Found;
use super::{Options, Round, Running};
use crate::Record;
use crate::harness::choice::Kind;
use crate::harness::contest::Readings;
use crate::harness::record::of_readings;
use crate::harness::rounds::Reading;
use crate::harness::table;

/// The figures of one contestant in one case.
pub(super) fn records(
    case: &Case,
    entry: &Entry,
    options: &Options,
    running: Readings<Running, Round>,
) -> Vec<Record> {
    let measures = measures(case.job);
    let (running, found) = match running {
        Ok(both) => both,
        Err(absent) => {
            let note = absent.to_string();
            return vec![Record {
                note,
                ..empty(case, entry, &measures[0])
            }];
        }
    };
    let note = note(&running, &found, options);
    let of_measure = |measure: &Measure| {
        let reading =
            |(found, xcore_ns): &Round| Some(Reading::once((measure.of)(found)?, *xcore_ns));
        let readings: Vec<Reading> = found.iter().filter_map(reading).collect();
        let note = note.clone();
        let empty = empty(case, entry, measure);
        of_readings(&Record { note, ..empty }, &readings)
    };
    measures.iter().flat_map(of_measure).collect()
}

/// A note for readers of the figures.
fn note(running: &Running, found: &[Round], options: &Options) -> String {
    let failed: u64 = found.iter().map(|(found, _)| found.failed).sum();
    let mtu = (options.mtu != Options::default().mtu).then(|| format!("MTU {}", options.mtu));
    let failed = (failed > 0).then(|| format!("{failed} failed"));
    let said = (!running.note.is_empty()).then(|| running.note.clone());
    let parts: Vec<String> = [said, mtu, failed].into_iter().flatten().collect();
    parts.join(", ")
}

/// A measure of a case.
pub(super) struct Measure {
    pub(super) name: Option<&'static str>,
    unit: &'static str,
    pub(super) of: fn(&Found) -> Option<f64>,
}

/// The measures of a job; the first is its main one.
pub(super) fn measures(job: Job) -> Vec<Measure> {
    let measure = |name, unit, of| Measure { name, unit, of };
    match job {
        Job::Bulk { .. } => vec![
            measure(None, "Gbit/s", |found| found.gbps),
            measure(Some("cpu"), "CPU s/GB", |found| found.cpu_s_per_gb),
        ],
        Job::RoundTrips { .. } => vec![
            measure(Some("p50"), "us", |found| found.p50_us),
            measure(Some("p99"), "us", |found| found.p99_us),
            measure(Some("stream"), "Gbit/s", |found| found.gbps),
        ],
        Job::Downloads { .. } => vec![
            measure(None, "Gbit/s", |found| found.gbps),
            measure(Some("jain"), "Jain's index", |found| found.jain),
            measure(Some("moving"), "% of streams", |found| found.moving_percent),
            measure(Some("peak"), "MB", |found| found.peak_mb),
        ],
        Job::Connects { .. } => vec![
            measure(None, "connections/s", |found| found.per_s),
            measure(Some("connect-p50"), "us", |found| found.p50_us),
            measure(Some("connect-p99"), "us", |found| found.p99_us),
        ],
        Job::Scan { .. } => vec![
            measure(Some("kept"), "% of the rate", |found| found.kept_percent),
            measure(None, "Gbit/s", |found| found.gbps),
            measure(Some("peak"), "MB", |found| found.peak_mb),
        ],
        Job::Start | Job::Leases => vec![
            measure(Some("p50"), "us", |found| found.p50_us),
            measure(Some("p99"), "us", |found| found.p99_us),
        ],
    }
}

/// A record without figures.
fn empty(case: &Case, entry: &Entry, measure: &Measure) -> Record {
    Record {
        experiment: "run",
        case: case.name,
        design: entry.name,
        unit: measure.unit,
        measure: measure.name,
        ours: entry.kind == Kind::Ours,
        ..Record::default()
    }
}

/// A case as it is printed.
pub(super) fn show(case: &Case, mtu: u16, records: &[Record]) -> String {
    let title = |first: &Record| {
        let unit = first.unit;
        let what = match first.measure {
            None => unit.to_owned(),
            Some("stream") => format!("{unit} of the stream"),
            Some("cpu") => format!("{unit} of the tool"),
            Some("jain") => format!("{unit}, 1 if all are alike"),
            Some("moving") => format!("{unit} that moved in every second"),
            Some("kept") => format!("{unit} without the scan"),
            Some("peak") => format!("{unit} of memory that the tool had at most"),
            Some(part) => format!("{part} in {unit}"),
        };
        format!("{}, {what}: {case}, MTU {mtu}", case.name)
    };
    table::by_unit(records, title) + "\n"
}
