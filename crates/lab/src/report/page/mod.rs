//! The report as one self-contained HTML file: no script, no font, no picture from outside.
//!
//! ```text
//!   summary.rs   each claim beside what was measured      machine.rs   where that was
//!   section.rs   an experiment: essay, tables, caveats    block.rs     records to tables
//!   bars.rs      designs with their bars                  grid.rs      designs and columns
//!   series.rs    lines over time                          bins.rs      histograms
//!   figure.rs    numbers                                  style.css    how it looks, dark and printed too
//! ```
//!
//! Pictures are SVG in the page, in colours of the page, so that they are dark where it is; a bar lies in the line of
//! the table that it belongs to.

mod bars;
mod bins;
mod block;
mod figure;
mod grid;
mod machine;
mod section;
mod series;
mod summary;

pub(crate) use summary::judged;

use super::date;
use super::results::{Results, Section};
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The page.
pub(crate) fn render(results: &Results) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "mbuma lab: claims and measurements" }
                style { (PreEscaped(include_str!("style.css"))) }
            }
            body {
                (header(results))
                main {
                    (warnings(results))
                    (summary::table(results))
                    (machine::table(results))
                    (how_to_read())
                    @for section in &results.sections {
                        (section::section(section))
                    }
                }
                footer {
                    "Made by " code { "cargo lab all" } " from " code { "results.jsonl" } ", which lies beside \
                        this page and has every figure; " code { "cargo lab all --from results.jsonl" }
                    " makes the page again."
                }
            }
        }
    };
    page.into_string()
}

fn header(results: &Results) -> Markup {
    html! {
        header {
            h1 { "The seeds\u{2019} claims, and the results here" }
            p.lead {
                "Five documents of the BSDs from 2004 to 2026, the seeds of this project, say why network \
                buffers, hand-offs and locks are built as they are. " b { "mbuma" }
                " has one design for each of these; its laboratory rebuilds the systems that each was measured \
                    against, runs all of them side by side, and checks the claims on this machine. Where no \
                    seed has a figure, it asks whether a target that we set is met."
            }
            p.when {
                (date::utc(results.head.began)) " \u{b7} " (results.head.pace) " effort \u{b7} mbuma "
                (results.head.build)
            }
            nav aria-label="Contents" {
                a href="#claims" { "Claims" }
                a href="#machine" { "Machine" }
                a href="#reading" { "How to read" }
                @for section in &results.sections {
                    a href={ "#" (section.experiment.name) } { (section.experiment.name) }
                }
            }
        }
    }
}

/// The reasons to doubt every figure.
fn warnings(results: &Results) -> Markup {
    let head = &results.head;
    let busy = head
        .machine
        .load
        .filter(|load| *load > head.machine.allowed as f64 / 2.0);
    html! {
        @if !head.optimised {
            p.warning { "This was built without optimisation. Its figures have no meaning: build with --release." }
        }
        @if head.pace == "quick" {
            p.warning { "A quick run shows that everything runs. Its figures are of few and short readings: do \
                not quote them." }
        }
        @if let Some(load) = busy {
            p.warning {
                "The machine was busy when this began: " (figure::plain(load)) " programs wanted its "
                (head.machine.allowed) " CPUs. Expect wide spreads, and designs that are ahead by accident."
            }
        }
        @if let Some(percent) = disturbed_percent(results) {
            p.warning {
                (percent) " % of the readings were disturbed by other programs, in spite of repeated attempts. \
                    Verdicts that are near the line say little."
            }
        }
        @for section in &results.sections {
            @if let Some(why) = trouble_worth_a_warning(section) {
                p.warning { a href={ "#" (section.experiment.name) } { (section.experiment.name) } ": " (why) }
            }
        }
    }
}

/// How many of the readings that are watched for it were disturbed, if that is worth a word.
fn disturbed_percent(results: &Results) -> Option<u64> {
    let rows = results.sections.iter().flat_map(|section| &section.rows);
    let watched = rows.filter(|row| row.disturbed > 0 || row.mode.is_some());
    let (disturbed, all) = watched.fold((0, 0), |(d, n), row| (d + row.disturbed, n + row.n));
    let percent = (disturbed * 100).checked_div(all)?;
    (percent >= 10).then_some(percent)
}

/// An experiment that was not chosen is no error.
fn trouble_worth_a_warning(section: &Section) -> Option<String> {
    let touched = section.ended.is_some() || !section.rows.is_empty();
    section.trouble().filter(|_| touched)
}

fn how_to_read() -> Markup {
    html! {
        section #reading {
            h2 { "How to read the tables" }
            div.prose {
                p {
                    "Every round of a measurement gives each design one turn, so that a disturbance of the machine \
                    affects all of them alike. A figure is the " b { "median" } " over the rounds; "
                    b { "quartiles" } " \
                        are the figures that a quarter of the readings is below and above, drawn as a thin line \
                        over the bar. Two designs whose quartiles overlap are not known to differ."
                }
                p {
                    b { "\u{d7} ours" } " is a design\u{2019}s figure over that of our first row. Our own rows are "
                    span.ours { "in colour" } ". Where a bar would leave the others no room it is torn off at \
                        the end, and its number is the whole truth."
                }
                p {
                    "Where data crosses from one CPU to the other, the time that a cache line takes between \
                    them is sampled beside each reading. A virtual machine\u{2019}s CPUs are sometimes "
                    b { "near" } " each \
                        other and sometimes "
                    b { "far" } " (120 ns or more); readings of both kinds are kept apart. "
                    b { "Disturbed" } " readings are those during which another program took the CPU, \
                            more than once."
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
