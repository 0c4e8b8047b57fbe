//! A measure over time: a line for each design, and the table beside it.
//!
//! The moments are spaced evenly, not by time: the first tenth of a second matters as much as the seconds after it.

use super::{bars, figure};
use crate::report::rows::Row;
use maud::{Markup, html};

const WIDE: f64 = 640.0;
const HIGH: f64 = 340.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 128.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 34.0;
/// The least distance of two names beside the ends of their lines.
const NAME: f64 = 16.0;
/// Colours that there are; behind them come the same with dashes.
const COLOURS: usize = 8;

pub(super) fn table(title: &str, rows: &[&Row]) -> Markup {
    let data = Data::of(rows);
    html! {
        div.series {
            figure {
                figcaption { (title) }
                (picture(&data))
            }
            div.scroll { (numbers(&data)) }
        }
        (bars::skipped(rows))
    }
}

/// Lines, by design.
struct Data<'a> {
    moments_s: Vec<f64>,
    lines: Vec<Line<'a>>,
    most: f64,
}

struct Line<'a> {
    design: &'a str,
    ours: bool,
    note: &'a str,
    /// A figure for each moment.
    figures: Vec<Option<f64>>,
}

impl<'a> Data<'a> {
    fn of(rows: &[&'a Row]) -> Self {
        let mut moments_s: Vec<f64> = rows.iter().filter_map(|row| row.at_s).collect();
        moments_s.sort_by(f64::total_cmp);
        moments_s.dedup();
        let mut lines: Vec<Line<'a>> = Vec::new();
        for &row in rows {
            let Some(at) = moments_s.iter().position(|at| Some(*at) == row.at_s) else {
                continue;
            };
            let known = lines.iter().position(|line| line.design == row.design);
            let nth = known.unwrap_or_else(|| {
                lines.push(Line::new(row, moments_s.len()));
                lines.len() - 1
            });
            lines[nth].figures[at] = row.median;
        }
        let most = rows.iter().filter_map(|row| row.median).fold(1.0, f64::max);
        Self {
            moments_s,
            lines,
            most: nice(most),
        }
    }

    fn x(&self, nth: usize) -> f64 {
        let steps = self.moments_s.len().max(2) - 1;
        LEFT + (WIDE - LEFT - RIGHT) * nth as f64 / steps as f64
    }

    fn y(&self, value: f64) -> f64 {
        HIGH - BOTTOM - value.max(0.0) / self.most * (HIGH - TOP - BOTTOM)
    }
}

impl<'a> Line<'a> {
    fn new(row: &'a Row, moments: usize) -> Self {
        Self {
            design: &row.design,
            ours: row.ours,
            note: &row.note,
            figures: vec![None; moments],
        }
    }
}

/// The next number up that is 1, 2, 2.5, 4, 5 or 8 times a power of ten: a quarter of it is a round number too.
fn nice(most: f64) -> f64 {
    let power = 10f64.powf(most.log10().floor());
    let steps = [1.0, 2.0, 2.5, 4.0, 5.0, 8.0, 10.0];
    let step = steps.into_iter().find(|step| step * power >= most);
    step.unwrap_or(10.0) * power
}

fn picture(data: &Data<'_>) -> Markup {
    let (right, bottom) = (WIDE - RIGHT, HIGH - BOTTOM);
    html! {
        svg.lines viewBox={ "0 0 " (WIDE) " " (HIGH) } role="img" aria-label="the table as lines" {
            @for value in (0..=4).map(|quarter| data.most * f64::from(quarter) / 4.0) {
                line.rule x1=(LEFT) x2=(right) y1=(data.y(value)) y2=(data.y(value)) {}
                text x=(LEFT - 6.0) y=(data.y(value) + 4.0) text-anchor="end" { (round(value)) }
            }
            @for (nth, at) in data.moments_s.iter().enumerate() {
                text x=(data.x(nth)) y=(bottom + 20.0) text-anchor="middle" { (at) " s" }
            }
            line.axis x1=(LEFT) x2=(right) y1=(bottom) y2=(bottom) {}
            @for (nth, line) in data.lines.iter().enumerate() {
                polyline class=(class(nth, line)) points=(points(data, line)) {}
            }
            @for (nth, from, to) in names(data) {
                @let line = &data.lines[nth];
                line class={ "leader " (class(nth, line)) } x1=(right + 2.0) x2=(right + 14.0) y1=(from) y2=(to) {}
                text.name x=(right + 18.0) y=(to + 4.0) .ours[line.ours] { (line.design) }
            }
        }
    }
}

fn class(nth: usize, line: &Line<'_>) -> String {
    let dashed = if nth / COLOURS % 2 == 1 {
        " dashed"
    } else {
        ""
    };
    let ours = if line.ours { " ours" } else { "" };
    format!("c{}{dashed}{ours}", nth % COLOURS)
}

fn points(data: &Data<'_>, line: &Line<'_>) -> String {
    let figures = line.figures.iter().enumerate();
    let point = |(nth, figure): (usize, &Option<f64>)| {
        Some(format!("{:.1},{:.1}", data.x(nth), data.y((*figure)?)))
    };
    figures.filter_map(point).collect::<Vec<_>>().join(" ")
}

/// Where each line ends and where its name is: pushed apart where lines end together, first downwards, then up again
/// where that went beyond the picture.
fn names(data: &Data<'_>) -> Vec<(usize, f64, f64)> {
    let last = |line: &Line<'_>| line.figures.iter().rev().find_map(|figure| *figure);
    let ends = data.lines.iter().enumerate();
    let mut ends: Vec<(usize, f64)> = ends
        .filter_map(|(nth, line)| Some((nth, data.y(last(line)?))))
        .collect();
    ends.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut places = Vec::with_capacity(ends.len());
    let mut least = TOP;
    for (_, y) in &ends {
        least = least.max(*y);
        places.push(least);
        least += NAME;
    }
    // Below the axis are the times.
    let mut most = HIGH - BOTTOM;
    for place in places.iter_mut().rev() {
        *place = most.min(*place);
        most = *place - NAME;
    }
    let named = ends.into_iter().zip(places);
    named.map(|((nth, y), place)| (nth, y, place)).collect()
}

fn numbers(data: &Data<'_>) -> Markup {
    html! {
        table.grid {
            thead {
                tr {
                    th scope="col" { "design" }
                    @for at in &data.moments_s {
                        th.number scope="col" { (at) " s" }
                    }
                }
            }
            tbody {
                @for line in &data.lines {
                    tr.ours[line.ours] {
                        th scope="row" { (line.design) @if !line.note.is_empty() { " " small { (line.note) } } }
                        @for figure in &line.figures {
                            td.number { (figure.map_or_else(|| "\u{2013}".to_owned(), round)) }
                        }
                    }
                }
            }
        }
    }
}

/// Whole numbers, and one digit more below ten.
fn round(value: f64) -> String {
    match value.abs() {
        0.0..0.05 => "0".to_owned(),
        small if small < 9.95 && small.fract() != 0.0 => {
            format!("{value:.1}").replace('-', "\u{2212}")
        }
        _ => figure::plain(value.round()),
    }
}
