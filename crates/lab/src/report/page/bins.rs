//! Histograms: a line for each bin, a column with bars for each contestant.
//!
//! If counts span more than three powers of ten, the bars are logarithmic: the picture must show the one packet in a
//! million that waited for long.

use super::figure;
use crate::report::rows::Row;
use maud::{Markup, html};

pub(super) fn table(title: &str, rows: &[&Row]) -> Markup {
    let mut bins: Vec<(u64, &str)> = rows
        .iter()
        .map(|row| (row.bin.unwrap_or(0), row.note.as_str()))
        .collect();
    bins.sort_unstable();
    bins.dedup_by_key(|(from, _)| *from);
    let mut designs: Vec<&str> = rows.iter().map(|row| row.design.as_str()).collect();
    let mut seen = Vec::new();
    designs.retain(|design| {
        !seen.contains(design) && {
            seen.push(design);
            true
        }
    });
    let scale = Scale::of(rows);
    html! {
        div.scroll {
            table.bins {
                caption { (title) @if scale.logarithmic { span.direction { "bars are logarithmic" } } }
                thead {
                    tr {
                        th.number scope="col" { "from" }
                        @for design in &designs {
                            th scope="col" .ours[is_ours(rows, design)] { (design) }
                        }
                    }
                }
                tbody {
                    @for (from, label) in &bins {
                        tr {
                            th.number scope="row" { (label) }
                            @for design in &designs {
                                (cell(find(rows, design, *from), &scale))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn cell(row: Option<&Row>, scale: &Scale) -> Markup {
    let count = row.and_then(|row| row.median).unwrap_or(0.0);
    html! {
        td .ours[row.is_some_and(|row| row.ours)] {
            @if count > 0.0 {
                svg.bar aria-hidden="true" {
                    rect.value x="0" y="3" height="12" rx="1" width=(format!("{:.2}%", scale.percent(count))) {}
                }
                span.count { (figure::count(count as u64)) }
            }
        }
    }
}

fn find<'a>(rows: &[&'a Row], design: &str, from: u64) -> Option<&'a Row> {
    let mut rows = rows.iter().copied();
    rows.find(|row| row.design == design && row.bin == Some(from))
}

fn is_ours(rows: &[&Row], design: &str) -> bool {
    rows.iter().any(|row| row.design == design && row.ours)
}

/// From a count to per cent of a bar's room; a bin with any packet is seen.
struct Scale {
    most: f64,
    logarithmic: bool,
}

impl Scale {
    fn of(rows: &[&Row]) -> Self {
        let counts = rows
            .iter()
            .filter_map(|row| row.median)
            .filter(|count| *count > 0.0);
        let least = counts.clone().fold(f64::INFINITY, f64::min);
        let most = counts.fold(1.0, f64::max);
        Self {
            most,
            logarithmic: most > least * 1000.0,
        }
    }

    fn percent(&self, count: f64) -> f64 {
        let part = match self.logarithmic {
            true => count.max(1.0).ln_1p() / self.most.ln_1p(),
            false => count / self.most,
        };
        (part * 100.0).clamp(1.0, 100.0)
    }
}
