//! A table of designs, each with its bar in its line.

use super::figure;
use crate::harness::summary::Summary;
use crate::report::rows::Row;
use maud::{Markup, html};

/// Units that are ratios already.
const RELATIVE: [&str; 4] = ["%", "x one thread", "x one CPU", "x with Giant"];
/// How many times as long as the bar that three quarters are below a bar may be, before it is torn off.
const TORN: f64 = 4.0;

pub(super) fn table(title: &str, rows: &[&Row]) -> Markup {
    let scale = Scale::of(rows);
    if rows.iter().all(|row| row.median.is_none()) {
        return skipped(rows);
    }
    if rows.iter().all(|row| row.median.is_none_or(|n| n == 0.0)) {
        return nothing(title, rows);
    }
    html! {
        div.scroll {
            table.bars {
                caption { (title) (direction(&rows[0].unit)) }
                thead {
                    tr {
                        th scope="col" { "design" }
                        th.number scope="col" { "median" }
                        th.number.spread scope="col" { "quartiles" }
                        th.number.spread scope="col" { "n" }
                        th.number scope="col" { "\u{d7} ours" }
                        th.plot scope="col" {}
                    }
                }
                @for mode in modes(rows) {
                    tbody {
                        @if let Some(mode) = mode {
                            tr.of { th colspan="6" scope="rowgroup" { (mode) (latency(rows, mode)) } }
                        }
                        @for row in rows.iter().filter(|row| row.median.is_some() && row.mode.as_deref() == mode) {
                            (line(row, rows, &scale))
                        }
                    }
                }
            }
        }
        (skipped(rows))
    }
}

fn line(row: &Row, rows: &[&Row], scale: &Scale) -> Markup {
    let quartiles = match (row.p25, row.p75) {
        (Some(p25), Some(p75)) if p25 < p75 => {
            format!("{} \u{2013} {}", figure::plain(p25), figure::plain(p75))
        }
        _ => String::new(),
    };
    html! {
        tr.ours[row.ours] {
            th scope="row" { (row.design) @if !row.note.is_empty() { " " small { (row.note) } } }
            td.number { (figure::maybe(row.median)) }
            td.number.spread { (quartiles) }
            td.number.spread { (figure::count(row.n)) }
            td.number { (ratio(row, rows).map_or_else(|| "\u{2013}".to_owned(), figure::plain)) }
            td.plot { (bar(row, scale)) }
        }
    }
}

/// From a figure to per cent of the bar's room.
struct Scale {
    most: f64,
}

impl Scale {
    fn of(rows: &[&Row]) -> Self {
        let mut tops: Vec<f64> = rows
            .iter()
            .filter_map(|row| Some(row.median?.max(row.p75.unwrap_or(0.0))))
            .collect();
        tops.sort_by(f64::total_cmp);
        let most = tops.last().copied().unwrap_or(1.0);
        let usual = tops.get(tops.len() * 3 / 4).copied().unwrap_or(most);
        let torn = usual > 0.0 && most > usual * TORN;
        let most = if torn { usual * TORN } else { most };
        Self {
            most: most.max(f64::MIN_POSITIVE),
        }
    }

    fn percent(&self, value: f64) -> f64 {
        (value / self.most * 100.0).clamp(0.0, 100.0)
    }
}

fn bar(row: &Row, scale: &Scale) -> Markup {
    let Some(median) = row.median else {
        return html! {};
    };
    let at = |value: f64| format!("{:.2}%", scale.percent(value));
    let whiskers = row.p25.zip(row.p75).filter(|(p25, p75)| p75 > p25);
    html! {
        svg.bar aria-hidden="true" {
            rect.value x="0" y="3" height="12" rx="1" width=(at(median)) {}
            @if let Some((p25, p75)) = whiskers {
                line.whisker x1=(at(p25)) x2=(at(p75)) y1="9" y2="9" {}
                line.whisker x1=(at(p25)) x2=(at(p25)) y1="6" y2="12" {}
                line.whisker x1=(at(p75)) x2=(at(p75)) y1="6" y2="12" {}
            }
            @if median > scale.most {
                // Two gaps that show that the bar is cut.
                line.torn x1="94%" x2="95%" y1="17" y2="1" {}
                line.torn x1="96%" x2="97%" y1="17" y2="1" {}
            }
        }
    }
}

/// A design's figure over that of our first row, of the same mode.
fn ratio(row: &Row, rows: &[&Row]) -> Option<f64> {
    let like = |other: &&&Row| other.ours && other.mode == row.mode && other.median.is_some();
    let ours = rows.iter().find(like)?.median?;
    let relative = RELATIVE.contains(&row.unit.as_str());
    (ours > 0.0 && !relative).then_some(row.median? / ours)
}

/// Which is better, where that is sure.
fn direction(unit: &str) -> Markup {
    let words = match unit {
        "%" | "packets" | "calls" => return html! {},
        "x one CPU" | "x with Giant" => "more is better",
        rate if rate.ends_with("/s") => "more is better",
        _ => "less is better",
    };
    html! { span.direction { (words) } }
}

/// The modes of the machine that there are, the near one first.
fn modes<'a>(rows: &[&'a Row]) -> Vec<Option<&'a str>> {
    let measured = rows.iter().filter(|row| row.median.is_some());
    let mut modes: Vec<Option<&str>> = measured.map(|row| row.mode.as_deref()).collect();
    modes.sort_by_key(|mode| std::cmp::Reverse(*mode));
    modes.dedup();
    modes
}

/// The time of a cache line beside the readings of a mode.
fn latency(rows: &[&Row], mode: &str) -> String {
    let of_mode = rows.iter().filter(|row| row.mode.as_deref() == Some(mode));
    match Summary::of(of_mode.filter_map(|row| row.xcore_ns)) {
        Some(between) => format!(
            ": a cache line takes {:.0} ns from CPU to CPU",
            between.median
        ),
        None => String::new(),
    }
}

/// In one line if no design has any: a table of zeros without bars would look incomplete.
fn nothing(title: &str, rows: &[&Row]) -> Markup {
    let mut who: Vec<&str> = Vec::new();
    for row in rows.iter().filter(|row| row.median.is_some()) {
        if !who.contains(&row.design.as_str()) {
            who.push(&row.design);
        }
    }
    html! {
        p.zero { b { (title) } " 0: " (who.join(", ")) }
        (skipped(rows))
    }
}

/// The designs that did not take part, by the reason.
pub(super) fn skipped(rows: &[&Row]) -> Markup {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in rows.iter().filter(|row| row.median.is_none()) {
        match reasons.iter_mut().find(|(why, _)| *why == row.note) {
            Some((_, who)) if who.contains(&row.design.as_str()) => {}
            Some((_, who)) => who.push(&row.design),
            None => reasons.push((&row.note, vec![&row.design])),
        }
    }
    html! {
        @for (why, who) in &reasons {
            p.skipped { b { (who.join(", ")) } ": " (why) }
        }
    }
}
