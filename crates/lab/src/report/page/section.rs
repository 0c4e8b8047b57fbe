//! One experiment: the comparison and its reason, the results, their limits, and how to repeat it.

use super::{bars, bins, block, figure, grid, series, summary};
use crate::report::results::Section;
use block::Block;
use maud::{Markup, html};

pub(super) fn section(section: &Section) -> Markup {
    let experiment = section.experiment;
    html! {
        section.experiment id=(experiment.name) {
            h2 { (experiment.title) " " code { (experiment.name) } }
            @if let Some(why) = section.trouble() {
                p.warning { (why) }
            }
            div.intro {
                div.prose {
                    @for paragraph in experiment.essay.split("\n\n") {
                        p { (marked(paragraph)) }
                    }
                }
                (verdicts(section))
            }
            @if !section.rows.is_empty() {
                aside {
                    p { b { "How to read it. " } (marked(experiment.reading)) }
                    p { b { "Limits. " } (marked(experiment.caveats)) }
                }
            }
            @let cases = block::blocks(section);
            @if cases.len() > 1 {
                nav.cases aria-label="Cases" {
                    @for (case, _) in &cases {
                        a href={ "#" (experiment.name) "-" (case) } { (case) }
                    }
                }
            }
            @for (case, blocks) in &cases {
                div.case id={ (experiment.name) "-" (case) } {
                    h3 { (case) }
                    @let about = (experiment.about)(case);
                    @if !about.is_empty() {
                        p.about { (about) }
                    }
                    @for block in blocks {
                        (table(block))
                    }
                }
            }
            (command(section))
        }
    }
}

fn table(block: &Block<'_>) -> Markup {
    match block {
        Block::Bars { title, rows } => bars::table(title, rows),
        Block::Grid { title, rows } => grid::table(title, rows),
        Block::Series { title, rows } => series::table(title, rows),
        Block::Bins { title, rows } => bins::table(title, rows),
    }
}

/// The claims again, for a reader that came here by a link.
fn verdicts(section: &Section) -> Markup {
    html! {
        ul.verdicts {
            @for claim in section.experiment.claims {
                @if let Some(finding) = summary::judged(section, claim) {
                    li {
                        (summary::badge(Some(finding.verdict))) " "
                        span { (claim.says) " " b { "Here: " (figure::unbroken(&finding.here)) "." } }
                    }
                }
            }
        }
    }
}

/// Text in which names stand between backquotes.
fn marked(text: &str) -> Markup {
    html! {
        @for (nth, part) in text.split('`').enumerate() {
            @if nth % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

fn command(section: &Section) -> Markup {
    html! {
        @if let Some(ended) = &section.ended {
            p.again {
                "To do it again: " code { (ended.command) } " (took " (figure::seconds(ended.seconds)) ")"
            }
        }
    }
}
