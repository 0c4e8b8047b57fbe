//! Readings as records, as tables, and as the seed's ratios.

use super::rounds::{Measured, Row, micros};
use super::{Case, Design};
use crate::Record;
use crate::harness::compare::lines_of;
use crate::harness::summary::Summary;
use crate::harness::table::{cut, figure};

/// A case's records as lines, or its tables.
pub(crate) fn shown(measured: &Measured, json: bool) -> String {
    let ratios = ratios(measured);
    if !json {
        return tables(measured) + &words(&ratios) + "\n";
    }
    let of_row = |row| of_row(measured.case, row);
    let records: Vec<Record> = measured.rows.iter().flat_map(of_row).collect();
    lines_of(&records) + &lines_of(&ratios)
}

fn empty(case: Case, design: Design, measure: &'static str, unit: &'static str) -> Record {
    Record {
        experiment: "giant",
        case: case.name(),
        design: design.name(),
        measure: Some(measure),
        unit,
        ours: matches!(design, Design::Mp | Design::MpDeferred),
        ..Record::default()
    }
}

fn filled(record: Record, figures: Vec<f64>) -> Option<Record> {
    Some(record.with(Summary::of(figures)?))
}

/// The figures of a row: throughput, latency, and the locks and context switches of an operation.
fn of_row(case: Case, row: &Row) -> Vec<Record> {
    let of = |measure, unit| Record {
        threads: Some(row.cpus),
        ..empty(case, row.design, measure, unit)
    };
    let mut throughput = of("throughput", case.unit());
    throughput.note = row.failed().unwrap_or_default();
    let Some(throughput) = filled(throughput.clone(), row.each(|r| Some(r.throughput))) else {
        return vec![throughput];
    };
    let mut records = vec![throughput];
    records.extend(filled(of("p50", "us"), row.each(|r| r.p50_us)));
    records.extend(filled(of("p99", "us"), row.each(|r| r.p99_us)));
    let switches = row.each(|r| Some(r.cost.switches as f64 / r.operations as f64));
    records.extend(filled(of("switches", "an operation"), switches));
    if row.design != Design::Kernel {
        let waits = row.each(|r| Some(r.cost.times() as f64 / r.operations as f64));
        let waited = row.each(|r| Some(micros(r.cost.waited(), r.operations as f64)));
        let mut time = of("lock-time", "us an operation");
        time.note = row.cost().0.longest();
        records.extend(filled(of("lock-waits", "an operation"), waits));
        records.extend(filled(time, waited));
    }
    records
}

/// The seed's comparisons: one CPU with two, and Giant with none; round by round.
fn ratios(measured: &Measured) -> Vec<Record> {
    let case = measured.case;
    let mut records = Vec::new();
    for design in Design::ALL {
        let both = (measured.row(design, 1), measured.row(design, 2));
        if let (Some(one), Some(two)) = both {
            let record = empty(case, design, "two-cpus", "x one CPU");
            records.extend(filled(record, two.against(one)));
        }
    }
    let pairs = [
        (Design::Mp, Design::Giant),
        (Design::MpDeferred, Design::GiantDeferred),
    ];
    let combinations = pairs.into_iter().flat_map(|pair| [(pair, 1), (pair, 2)]);
    for ((free, under), cpus) in combinations {
        let both = (measured.row(under, cpus), measured.row(free, cpus));
        if let (Some(giant), Some(mp)) = both {
            let mut record = empty(case, free, "without-giant", "x with Giant");
            record.threads = Some(cpus);
            records.extend(filled(record, mp.against(giant)));
        }
    }
    for record in &mut records {
        record.note = seed(record).unwrap_or_default().to_owned();
    }
    records
}

/// The seed's figure.
fn seed(record: &Record) -> Option<&'static str> {
    match (record.case, record.measure?, record.design, record.threads) {
        // The seed's loopback was deferred to the netisr thread.
        ("mysql", "two-cpus", "giant", _) => Some("seed: 1.07"),
        ("mysql", "two-cpus", "mp", _) => Some("seed: 1.42"),
        ("mysql", "without-giant", _, Some(2)) => Some("seed: 1.3 to 1.4"),
        ("udp-rr", "without-giant", "mp-deferred", Some(2)) => Some("seed: 1.01"),
        (_, "without-giant", "mp-deferred", Some(2)) => Some("seed: no change"),
        _ => None,
    }
}

fn tables(measured: &Measured) -> String {
    let case = measured.case;
    let most = measured.rows.iter().map(|row| row.cpus).max().unwrap_or(0);
    let table = |cpus| {
        let rows = measured.rows.iter().filter(|row| row.cpus == cpus);
        let rows: String = rows.map(|row| line(case, row) + "\n").collect();
        let plural = if cpus == 1 { "" } else { "s" };
        format!(
            "{}, {cpus} CPU{plural}: {}\n{}\n{rows}\n",
            case.name(),
            case.about(),
            head(case)
        )
    };
    (1..=most).map(table).collect()
}

fn head(case: Case) -> String {
    format!(
        "  {:<15}{:>9}{:>8}{:>8}{:>8}{:>9}{:>8}{:>10}  {}",
        "design",
        case.unit(),
        "spread",
        "p50 us",
        "p99 us",
        "switches",
        "waits",
        "waited us",
        "waited for"
    )
}

fn line(case: Case, row: &Row) -> String {
    let records = of_row(case, row);
    let of = |measure| records.iter().find(|r| r.measure == Some(measure));
    let median = |measure| figure(of(measure).and_then(|r| r.median));
    let spread = of("throughput").and_then(|r| Some((r.p75? - r.p25?) / r.median? * 100.0));
    let spread = spread.map_or_else(|| "-".to_owned(), |percent| format!("{percent:.0} %"));
    let note = of("lock-time").map_or("", |r| r.note.as_str());
    let failed = row.failed().unwrap_or_default();
    cut(format!(
        "  {:<15}{:>9}{spread:>8}{:>8}{:>8}{:>9}{:>8}{:>10}  {note}{failed}",
        row.design.name(),
        median("throughput"),
        median("p50"),
        median("p99"),
        median("switches"),
        median("lock-waits"),
        median("lock-time"),
    )
    .trim_end())
}

fn dispatch(record: &Record) -> &'static str {
    match record.design.ends_with("deferred") {
        true => "deferred:",
        false => "direct:",
    }
}

/// The ratios as lines.
fn words(ratios: &[Record]) -> String {
    let line = |record: &Record| {
        let what = match (record.measure, record.threads) {
            (Some("two-cpus"), _) => format!("{}: two CPUs against one", record.design),
            (_, Some(1)) => format!("{} without Giant against with, one CPU", dispatch(record)),
            (_, _) => format!("{} without Giant against with, two CPUs", dispatch(record)),
        };
        let spread = format!("{} to {}", figure(record.p25), figure(record.p75));
        let line = format!(
            "  {what:<48}{:>6}  ({spread})  {}",
            figure(record.median),
            record.note
        );
        line.trim_end().to_owned() + "\n"
    };
    ratios.iter().map(line).collect()
}
