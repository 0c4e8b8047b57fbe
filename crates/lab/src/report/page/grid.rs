//! A table of designs and columns.

use super::{bars, block, figure};
use crate::report::rows::Row;
use maud::{Markup, html};

pub(super) fn table(title: &str, rows: &[&Row]) -> Markup {
    let measured: Vec<&Row> = rows
        .iter()
        .copied()
        .filter(|row| row.median.is_some())
        .collect();
    let columns = in_order(measured.iter().map(|row| block::column(row)));
    let designs = in_order(measured.iter().map(|row| row.design.clone()));
    let unit = only_unit(&measured);
    html! {
        @if !measured.is_empty() {
            div.scroll {
                table.grid {
                    @if !title.is_empty() || unit.is_some() {
                        caption { (title) @if !title.is_empty() && unit.is_some() { ", \
                            " } @if let Some(unit) = unit { "in " (unit) } }
                    }
                    thead {
                        tr {
                            th scope="col" { "design" }
                            @for column in &columns {
                                th.number scope="col" { (head(column, unit)) }
                            }
                        }
                    }
                    tbody {
                        @for design in &designs {
                            (line(design, &columns, &measured))
                        }
                    }
                }
            }
        }
        (bars::skipped(rows))
    }
}

fn line(design: &str, columns: &[String], rows: &[&Row]) -> Markup {
    let of_design: Vec<&&Row> = rows.iter().filter(|row| row.design == design).collect();
    let cell = |column: &String| of_design.iter().find(|row| block::column(row) == *column);
    let note = of_design
        .iter()
        .map(|row| row.note.as_str())
        .find(|note| !note.is_empty());
    html! {
        tr.ours[of_design.iter().any(|row| row.ours)] {
            th scope="row" { (design) @if let Some(note) = note { " " small { (note) } } }
            @for column in columns {
                td.number { (figure::maybe(cell(column).and_then(|row| row.median))) }
            }
        }
    }
}

/// The unit of all, which then stands once.
fn only_unit<'a>(rows: &[&'a Row]) -> Option<&'a str> {
    let first = rows.first()?.unit.as_str();
    rows.iter().all(|row| row.unit == first).then_some(first)
}

fn head<'a>(column: &'a str, unit: Option<&str>) -> &'a str {
    let short = unit.and_then(|unit| column.strip_suffix(unit));
    short.map_or(column, |short| short.trim_end_matches(", "))
}

fn in_order(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}
