//! Records and histograms of this experiment, and how they are shown.

use super::histogram::Histogram;
use super::{Case, Design};
use crate::Record;
use crate::harness::compare::lines_of;
use crate::harness::table::{cut, figure};
use std::fmt::Write;

/// The results of a case.
#[derive(Default)]
pub(crate) struct Shown {
    pub(crate) records: Vec<Record>,
    pub(crate) histograms: Vec<(&'static str, Histogram)>,
    /// Said below the tables; not a figure.
    pub(crate) note: String,
}

/// A record without figures.
pub(crate) fn empty(case: Case, design: Design, unit: &'static str) -> Record {
    Record {
        experiment: "epair",
        case: case.name(),
        design: design.name(),
        unit,
        ours: design == Design::Mbuma,
        ..Record::default()
    }
}

/// Times as records: median and 99 in a hundred, to within a power of two, and the worst.
pub(crate) fn times(case: Case, design: Design, all: &Histogram, note: &str) -> [Record; 3] {
    let figures = [
        ("p50", all.quantile_ns(0.5)),
        ("p99", all.quantile_ns(0.99)),
        ("worst", all.worst_ns() as f64),
    ];
    figures.map(|(measure, ns)| Record {
        measure: Some(measure),
        // Without packets there is no time.
        median: (all.total() > 0).then_some(ns / 1e3),
        n: all.total() as usize,
        note: note.to_owned(),
        ..empty(case, design, "us")
    })
}

/// A count out of a total.
pub(crate) fn measured(
    case: Case,
    design: Design,
    of: &'static str,
    n: f64,
    measure: &'static str,
    count: f64,
) -> Record {
    Record {
        measure: Some(measure),
        // None lost of none is no reading.
        median: (n > 0.0).then_some(count),
        n: n as usize,
        ..empty(case, design, of)
    }
}

/// A histogram as records: a bin each, without those before the first and behind the last that have any.
pub(crate) fn bins(case: Case, design: Design, all: &Histogram) -> Vec<Record> {
    let counted = match case {
        Case::Waits => "packets",
        _ => "pages",
    };
    let bin = |(from_ns, count): (u64, u64)| Record {
        measure: Some("histogram"),
        bin: Some(from_ns),
        median: Some(count as f64),
        n: all.total() as usize,
        note: duration(from_ns),
        ..empty(case, design, counted)
    };
    all.bins().map(bin).collect()
}

/// A power of two of nanoseconds for people: the seed writes them out.
fn duration(ns: u64) -> String {
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.3} us", ns as f64 / 1e3),
        _ => format!("{:.3} ms", ns as f64 / 1e6),
    }
}

impl Shown {
    /// For programs, or for people.
    pub(crate) fn text(&self, case: Case, json: bool) -> String {
        if json {
            return lines_of(&self.records);
        }
        let mut out = format!("{}: {}\n", case.name(), case.about());
        let _ = match self.histograms.is_empty() {
            true => self.speeds(&mut out),
            false => self.waits(&mut out),
        };
        for (design, histogram) in &self.histograms {
            let _ = write!(out, "\n  {design}\n{}", histogram.rows());
        }
        out + &self.note + "\n"
    }

    fn speeds(&self, out: &mut String) -> std::fmt::Result {
        for r in &self.records {
            if r.median.is_none() {
                writeln!(out, "{}", cut(&format!("  {:<16} {}", r.design, r.note)))?;
                continue;
            }
            let spread = format!("{} to {}", figure(r.p25), figure(r.p75));
            let figure = figure(r.median);
            let line = format!(
                "  {:<16} {figure:>9} {}  ({spread}, {} rounds) {}",
                r.design, r.unit, r.n, r.note
            );
            writeln!(out, "{}", cut(line.trim_end()))?;
        }
        Ok(())
    }

    fn waits(&self, out: &mut String) -> std::fmt::Result {
        let head = ["p50 <= us", "p99 <= us", "worst us", "> 33 ms"];
        let head: String = head.iter().map(|head| format!(" {head:>10}")).collect();
        writeln!(out, "  {:<16}{head}  note", "design")?;
        for (design, histogram) in &self.histograms {
            let of = |measure| {
                let is = |r: &&Record| r.design == *design && r.measure == Some(measure);
                self.records.iter().find(is)
            };
            let times = ["p50", "p99", "worst"].map(|m| figure(of(m).and_then(|r| r.median)));
            let long = histogram.at_least(25).to_string();
            let columns = times.iter().chain([&long]);
            let columns: String = columns.map(|c| format!(" {c:>10}")).collect();
            let note = of("worst").map_or("", |r| r.note.as_str());
            writeln!(out, "{}", cut(&format!("  {design:<16}{columns}  {note}")))?;
        }
        Ok(())
    }
}
