//! The table at the top: each claim of a seed and each target of ours, its figure, and the measurement.

use super::figure;
use crate::report::experiment::{Claim, Finding, Verdict};
use crate::report::results::{Results, Section};
use crate::report::rows::Rows;
use maud::{Markup, html};

/// The measurement for a claim of a section.
pub(crate) fn judged(section: &Section, claim: &Claim) -> Option<Finding> {
    (claim.judge)(&Rows::of(&section.rows))
}

/// All claims.
pub(super) fn table(results: &Results) -> Markup {
    html! {
        section #claims {
            h2 { "Claims" }
            (count(results))
            p.about {
                "A ratio sets the two sides of a claim against each other as they are here: above 1 it speaks \
                for the side that the claim prefers. A claim is judged by the designs that it is about; ours is \
                named beside them and does not decide. Where no seed has a figure we set a target, which is about \
                ours. A result by construction could not be different, and is no evidence."
            }
            table.claims {
                thead {
                    tr {
                        th scope="col" { "claim" }
                        th scope="col" { "the seed\u{2019}s figure, or our target" }
                        th scope="col" { "measured here" }
                        th.number scope="col" { "ratio" }
                        th scope="col" { "verdict" }
                    }
                }
                @for section in &results.sections {
                    tbody {
                        tr.of {
                            th colspan="5" scope="rowgroup" {
                                a href={ "#" (section.experiment.name) } { (section.experiment.title) }
                                " " code { (section.experiment.name) }
                            }
                        }
                        @for claim in section.experiment.claims {
                            (row(section, claim))
                        }
                    }
                }
            }
        }
    }
}

fn row(section: &Section, claim: &Claim) -> Markup {
    let finding = judged(section, claim);
    html! {
        tr {
            td.says { (claim.says) " " span.source { (claim.seed) } }
            td data-label="figure, or target" { (figure::unbroken(claim.figure)) }
            @if let Some(finding) = finding {
                td data-label="measured here" { (figure::unbroken(&finding.here)) }
                td.number data-label="ratio" {
                    (finding.ratio.map_or_else(|| "\u{2013}".to_owned(), figure::times))
                }
                td data-label="verdict" { (badge(Some(finding.verdict))) }
            } @else {
                td data-label="measured here" {
                    (section.why_unjudged())
                }
                td.number data-label="ratio" { "\u{2013}" }
                td data-label="verdict" { (badge(None)) }
            }
        }
    }
}

/// A verdict, in words and by a mark as well as by colour.
pub(super) fn badge(verdict: Option<Verdict>) -> Markup {
    let (class, mark, words) = match verdict {
        Some(Verdict::Holds) => ("holds", "\u{2713}", Verdict::Holds.words()),
        Some(Verdict::Partly) => ("partly", "\u{25d0}", Verdict::Partly.words()),
        Some(Verdict::Fails) => ("fails", "\u{2717}", Verdict::Fails.words()),
        Some(Verdict::Given) => ("unmeasured", "\u{2261}", Verdict::Given.words()),
        None => ("unmeasured", "\u{2013}", "not measured"),
    };
    html! { span class={ "verdict " (class) } { span aria-hidden="true" { (mark) } " " (words) } }
}

/// How many of each verdict there are.
fn count(results: &Results) -> Markup {
    let all = results.sections.iter();
    let verdicts: Vec<Option<Verdict>> = all
        .flat_map(|section| {
            let claims = section.experiment.claims.iter();
            claims.map(|claim| judged(section, claim).map(|finding| finding.verdict))
        })
        .collect();
    let of = |verdict| verdicts.iter().filter(|one| **one == verdict).count();
    let kinds = [
        Some(Verdict::Holds),
        Some(Verdict::Partly),
        Some(Verdict::Fails),
        Some(Verdict::Given),
        None,
    ];
    html! {
        p.count {
            @for (kind, n) in kinds.map(|kind| (kind, of(kind))) {
                @if n > 0 {
                    span { b { (n) } " " (badge(kind)) }
                }
            }
        }
    }
}
