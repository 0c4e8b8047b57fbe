//! Which records belong into one table, and its title.
//!
//! Invariant: every record that the experiment shows is in exactly one block.

use crate::report::experiment::Shape;
use crate::report::results::Section;
use crate::report::rows::Row;

/// Records of one table.
pub(super) enum Block<'a> {
    /// A line each design, with a bar.
    Bars { title: String, rows: Vec<&'a Row> },
    /// A line each design, columns.
    Grid { title: String, rows: Vec<&'a Row> },
    /// Over time.
    Series { title: String, rows: Vec<&'a Row> },
    /// Histograms.
    Bins { title: String, rows: Vec<&'a Row> },
}

impl<'a> Block<'a> {
    /// The records.
    #[cfg(test)]
    pub(super) fn rows(&self) -> &[&'a Row] {
        match self {
            Self::Bars { rows, .. }
            | Self::Grid { rows, .. }
            | Self::Series { rows, .. }
            | Self::Bins { rows, .. } => rows,
        }
    }
}

/// The blocks of a section, by case, in the order in which they were measured.
pub(super) fn blocks(section: &Section) -> Vec<(String, Vec<Block<'_>>)> {
    let shown = |row: &&Row| (section.experiment.shows)(row);
    let rows: Vec<&Row> = section.rows.iter().filter(shown).collect();
    let cases = grouped(rows, |row| row.case.clone());
    let named = cases
        .into_iter()
        .map(|rows| (rows[0].case.clone(), of_case(section, rows)));
    named.collect()
}

fn of_case<'a>(section: &Section, rows: Vec<&'a Row>) -> Vec<Block<'a>> {
    let shape = (section.experiment.shape)(&rows[0].case);
    let (bins, rows): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.bin.is_some());
    let (series, rows): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.at_s.is_some());
    let tables = match shape {
        Shape::Bars => bars(rows),
        Shape::Grid => grids(rows),
    };
    let over_time = grouped(series, |row| {
        (
            row.size,
            row.measure.clone(),
            row.survivors_percent.map(f64::to_bits),
        )
    });
    let over_time = over_time.into_iter().map(|rows| Block::Series {
        title: titled(&rows, &[what, size, survivors]),
        rows,
    });
    let histograms = grouped(bins, |row| row.unit.clone());
    let histograms = histograms.into_iter().map(|rows| Block::Bins {
        title: titled(&rows, &[unit]),
        rows,
    });
    tables
        .into_iter()
        .chain(over_time)
        .chain(histograms)
        .collect()
}

fn bars(rows: Vec<&Row>) -> Vec<Block<'_>> {
    let alike = grouped(rows, |row| {
        (row.size, row.unit.clone(), row.threads, row.measure.clone())
    });
    let block = |rows: Vec<_>| Block::Bars {
        title: titled(&rows, &[what, size, threads]),
        rows,
    };
    joined(alike).into_iter().map(block).collect()
}

/// A contestant that was skipped has one record, which knows neither threads nor measure: it goes to the first table of
/// its size and unit, or the first of all, rather than into one of its own.
fn joined(blocks: Vec<Vec<&Row>>) -> Vec<Vec<&Row>> {
    let measured = |rows: &[&Row]| rows.iter().any(|row| row.median.is_some());
    let (mut blocks, skipped): (Vec<_>, Vec<_>) =
        blocks.into_iter().partition(|rows| measured(rows));
    for rows in skipped {
        let of_size = |block: &&mut Vec<&Row>| block[0].size == rows[0].size;
        match blocks.iter_mut().find(of_size) {
            Some(block) => block.extend(rows),
            None => blocks.push(rows),
        }
    }
    blocks
}

/// One table, or one for each size if the same column is there in several.
fn grids(rows: Vec<&Row>) -> Vec<Block<'_>> {
    let key = |row: &&Row| (row.design.clone(), column(row));
    let mut keys: Vec<_> = rows.iter().map(key).collect();
    keys.sort();
    let by_size = keys.windows(2).any(|two| two[0] == two[1]);
    let tables = grouped(rows, |row| if by_size { row.size } else { 0 });
    let block = |rows: Vec<_>| Block::Grid {
        title: if by_size {
            titled(&rows, &[size])
        } else {
            String::new()
        },
        rows,
    };
    joined(tables).into_iter().map(block).collect()
}

/// The heading of a column of a grid.
pub(super) fn column(row: &Row) -> String {
    let parts = [measure(row), threads(row), unit(row)];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Rows of the same key together, in the order in which the keys come up.
fn grouped<'a, K: PartialEq>(rows: Vec<&'a Row>, key: impl Fn(&Row) -> K) -> Vec<Vec<&'a Row>> {
    let mut groups: Vec<(K, Vec<&'a Row>)> = Vec::new();
    for row in rows {
        let key = key(row);
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.push(row),
            None => groups.push((key, vec![row])),
        }
    }
    groups.into_iter().map(|(_, rows)| rows).collect()
}

type Part = fn(&Row) -> Option<String>;

fn titled(rows: &[&Row], parts: &[Part]) -> String {
    let parts: Vec<String> = parts.iter().filter_map(|part| part(rows[0])).collect();
    parts.join(", ")
}

/// The measure, and its unit.
fn what(row: &Row) -> Option<String> {
    let unit = unit(row)?;
    Some(match measure(row) {
        Some(measure) => format!("{measure}, in {unit}"),
        None => unit,
    })
}

fn size(row: &Row) -> Option<String> {
    (row.size > 0).then(|| format!("{} B", row.size))
}

fn unit(row: &Row) -> Option<String> {
    (!row.unit.is_empty()).then(|| row.unit.clone())
}

fn threads(row: &Row) -> Option<String> {
    let threads = row.threads?;
    Some(format!(
        "{threads} thread{}",
        if threads == 1 { "" } else { "s" }
    ))
}

fn measure(row: &Row) -> Option<String> {
    row.measure.clone()
}

fn survivors(row: &Row) -> Option<String> {
    Some(format!("{} % stay", row.survivors_percent?))
}
