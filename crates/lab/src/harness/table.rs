//! Records as a table for people, at most 100 columns wide.

use super::record::Record;
use std::fmt::{Display, Write};

/// Columns of the terminal for which tables are made.
const WIDE: usize = 100;
/// Units that are ratios already.
const RELATIVE: [&str; 2] = ["%", "x one thread"];

/// A block: a title, and a row for each record; ratios are to the first of our own rows of the same mode.
pub(crate) fn table(title: &str, records: &[Record]) -> String {
    let mut out = format!("{title}\n");
    let crosses = records.iter().any(|r| r.mode.is_some());
    let mode = if crosses { " mode" } else { "" };
    let _ = writeln!(
        out,
        "  {:<13}{mode} {:>9} {:>9} {:>9} {:>4} {:>8}  note",
        "design", "median", "p25", "p75", "n", "x ours"
    );
    for record in records.iter().filter(|r| r.median.is_some()) {
        row(&mut out, record, records, crosses);
    }
    for record in records.iter().filter(|r| r.median.is_none()) {
        let line = format!("  {:<13} {}", record.design, record.note);
        let _ = writeln!(out, "{}", cut(&line));
    }
    out
}

/// A table for each unit, number of threads and measure, with the latency between the CPUs where that matters; `title`
/// makes the title from a table's first record.
pub(crate) fn by_unit(records: &[Record], title: impl Fn(&Record) -> String) -> String {
    let alike =
        |a: &Record, b: &Record| (a.unit, a.threads, a.measure) == (b.unit, b.threads, b.measure);
    let tables = records
        .chunk_by(alike)
        .map(|rows| table(&(title(&rows[0]) + &latency(rows)), rows));
    tables.collect::<Vec<_>>().join("\n")
}

/// The tables of a case, whose titles have its name, the unit and a line about it.
pub(crate) fn of_case(name: &str, about: impl Display, records: &[Record]) -> String {
    by_unit(records, |first| format!("{name}, {}: {about}", first.unit)) + "\n"
}

/// From the nearest to the farthest, as a line of the title.
fn latency(records: &[Record]) -> String {
    let between = records.iter().filter_map(|record| record.xcore_ns);
    let least = between.clone().fold(f64::INFINITY, f64::min);
    let most = between.fold(f64::NEG_INFINITY, f64::max);
    match least <= most {
        true => format!(
            "\n  a cache line takes {least:.0} to {most:.0} ns from one CPU to the other (far: 120 or more)"
        ),
        false => String::new(),
    }
}

/// A line of a [`grid`].
pub(crate) struct Line<'a> {
    /// The contestant.
    pub(crate) design: &'a str,
    /// A figure for each column.
    pub(crate) figures: Vec<Option<f64>>,
    /// A note on it.
    pub(crate) note: &'a str,
}

/// A block whose figures are a series: over time, sizes, or a number of threads. Without notes it has no column for
/// them.
pub(crate) fn grid(title: &str, columns: &[String], lines: &[Line<'_>]) -> String {
    let mut out = format!("{title}\n");
    let heads: String = columns.iter().map(|head| format!(" {head:>7}")).collect();
    let note = match lines.iter().any(|line| !line.note.is_empty()) {
        true => "  note",
        false => "",
    };
    let _ = writeln!(out, "  {:<13}{heads}{note}", "design");
    for line in lines {
        let figures: String = line
            .figures
            .iter()
            .map(|f| format!(" {:>7}", short(*f)))
            .collect();
        let text = format!("  {:<13}{figures}  {}", line.design, line.note);
        let _ = writeln!(out, "{}", cut(text.trim_end()));
    }
    out
}

/// A figure in a narrow column.
fn short(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value.abs() < 10.0 && value.fract() != 0.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.0}"),
    }
}

fn row(out: &mut String, record: &Record, records: &[Record], crosses: bool) {
    let mode = match record.mode {
        Some(mode) => format!(" {mode:>4}"),
        None if crosses => "     ".to_owned(),
        None => String::new(),
    };
    let line = format!(
        "  {:<13}{mode} {:>9} {:>9} {:>9} {:>4} {:>8}  {}",
        record.design,
        figure(record.median),
        figure(record.p25),
        figure(record.p75),
        record.n,
        ratio(record, records),
        record.note,
    );
    let _ = writeln!(out, "{}", cut(line.trim_end()));
}

fn ratio(record: &Record, records: &[Record]) -> String {
    let like = |r: &&Record| r.ours && r.mode == record.mode && r.median.is_some();
    let ours = records.iter().find(like).and_then(|r| r.median);
    match (record.median, ours) {
        (Some(theirs), Some(ours)) if ours > 0.0 && !RELATIVE.contains(&record.unit) => {
            format!("{:.2}", theirs / ours)
        }
        _ => "-".to_owned(),
    }
}

/// As many digits as are significant.
pub(crate) fn figure(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value.abs() < 100.0 => format!("{value:.2}"),
        Some(value) if value.abs() < 10_000.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.0}"),
    }
}

pub(crate) fn cut(line: &str) -> String {
    match line.char_indices().nth(WIDE) {
        None => line.to_owned(),
        Some(_) => line.chars().take(WIDE - 3).collect::<String>() + "...",
    }
}

#[cfg(test)]
mod tests;
