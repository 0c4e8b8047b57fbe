//! Tests of the page: that any content of a record stays text, that every record is shown once, and that every
//! experiment has the parts of a section.

use super::block;
use super::*;
use crate::report::experiment::{OUR_TARGET, Pace, Verdict};
use crate::report::experiments;
use crate::report::results::{Ended, FORMAT, Head, line};
use crate::report::rows::Row;

fn record(experiment: &str, case: &str, design: &str, rest: &str) -> String {
    format!(
        r#"{{"experiment":"{experiment}","case":"{case}","design":"{design}","unit":"ns",{FIGURES}{rest}}}"#
    )
}

const FIGURES: &str = r#""median":3.5,"p25":3,"p75":4,"n":7"#;

/// Results of these records, behind a head.
fn results(records: &[String]) -> Results {
    let head = Head {
        format: FORMAT,
        optimised: true,
        pace: "normal".to_owned(),
        ..Head::default()
    };
    let text = line("report", &head) + "\n" + &records.join("\n");
    Results::parse(&text).expect("results")
}

#[test]
fn text_of_records_is_escaped() {
    // Breaks when a note, a name or a command can put a tag or an attribute into the page.
    let evil = r#"<b a='1' b=\"2\">&amp;"#;
    let shapes = [
        record(
            "refs",
            evil,
            evil,
            &format!(r#","note":"{evil}","mode":"{evil}","measure":"{evil}""#),
        ),
        record(
            "alloc",
            "spike",
            evil,
            &format!(r#","at_s":1,"measure":"{evil}""#),
        ),
        record(
            "epair",
            "waits",
            evil,
            &format!(r#","bin":4,"note":"{evil}","measure":"{evil}""#),
        ),
        record(
            "sizes",
            "calls",
            evil,
            &format!(r#","note":"{evil}","measure":"{evil}""#),
        ),
    ];
    let mut results = results(&shapes);
    results.head.build = "<b a>".to_owned();
    results.head.machine.cpu = "<b a>".to_owned();
    results.sections[0].ended = Some(Ended {
        experiment: "refs".to_owned(),
        command: "<b a>".to_owned(),
        seconds: 1.0,
        failed: Some("<b a>".to_owned()),
    });
    let page = render(&results);
    assert!(!page.contains("<b a"), "{page}");
    assert!(page.matches("&lt;b a=").count() >= 8 && page.matches("&lt;b a&gt;").count() >= 4);
    // An attribute ends at a quotation mark: none that was in a name is left.
    assert!(!page.contains("b=\"2\""));
}

#[test]
fn a_page_is_self_contained() {
    // Breaks when the page loads or runs other files.
    let page = render(&results(&[record("refs", "first", "ring", "")]));
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"));
    for outside in [
        "<script", "src=", "http:", "https:", "@import", "url(", "<link",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    for (open, close) in [
        ("<table", "</table>"),
        ("<svg", "</svg>"),
        ("<section", "</section>"),
    ] {
        assert_eq!(
            page.matches(open).count(),
            page.matches(close).count(),
            "{open}"
        );
    }
}

#[test]
fn every_record_is_in_one_table() {
    // Breaks when a record of an unforeseen shape is left out, or shown twice.
    let records = [
        record("alloc", "pair", "a", r#","size":256"#),
        record("alloc", "pair", "a", r#","size":2048"#),
        record("alloc", "pair", "b", r#","size":256"#).replace("3.5", "null"),
        record("alloc", "held", "a", r#","size":256,"threads":2"#),
        record("alloc", "held", "a", r#","size":256,"threads":32"#),
        record("alloc", "held", "a", r#","size":2048,"threads":2"#),
        record(
            "alloc",
            "spike",
            "a",
            r#","at_s":0.5,"survivors_percent":1,"measure":"rss""#,
        ),
        record(
            "alloc",
            "spike",
            "a",
            r#","at_s":0.5,"survivors_percent":0,"measure":"rss""#,
        ),
        record("alloc", "novel", "a", r#","bin":4"#),
    ];
    let results = results(&records);
    let section = results
        .sections
        .iter()
        .find(|s| s.experiment.name == "alloc");
    let section = section.expect("alloc");
    let mut seen: Vec<*const Row> = Vec::new();
    let blocks = block::blocks(section);
    for block in blocks.iter().flat_map(|(_, blocks)| blocks) {
        seen.extend(
            block
                .rows()
                .iter()
                .map(|row| std::ptr::from_ref::<Row>(row)),
        );
    }
    seen.sort_unstable();
    let mut all: Vec<*const Row> = section.rows.iter().map(std::ptr::from_ref).collect();
    all.sort_unstable();
    assert_eq!(seen, all);
    // Two sizes, and the designs skipped in the first of them.
    let counts: Vec<usize> = blocks.iter().map(|(_, blocks)| blocks.len()).collect();
    assert_eq!(counts, [2, 2, 2, 1]);
}

#[test]
fn bar_lengths_follow_the_figures() {
    // Breaks when a bar's length does not fit its number, or a bar out of scale is not marked.
    let of =
        |design: &str, median: &str| record("refs", "first", design, "").replace("3.5", median);
    let page = render(&results(&[
        of("a", "2"),
        of("b", "4"),
        of("c", "4"),
        of("d", "1"),
    ]));
    let widths = [("a", "50.00%"), ("b", "100.00%"), ("d", "25.00%")];
    for (design, width) in widths {
        let line = page
            .split("<tr")
            .find(|line| line.contains(&format!(">{design}<")));
        assert!(
            line.expect(design).contains(&format!("width=\"{width}\"")),
            "{design}: {line:?}"
        );
    }
    assert!(!page.contains("class=\"torn\""));
    let one = ["1", "1", "1", "1", "1", "900"];
    let page = render(&results(&one.map(|median| of(median, median))));
    assert_eq!(page.matches("class=\"torn\"").count(), 2);
    let page = render(&results(&[of("a", "0"), of("b", "0")]));
    assert!(page.contains("0: a, b") && !page.contains("class=\"bars\""));
}

#[test]
fn every_experiment_has_all_parts_of_a_section() {
    // Breaks when an experiment is registered twice, or has no claim, essay, caveat, or quicker run than the normal
    // one.
    let mut names: Vec<&str> = experiments().iter().map(|one| one.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), experiments().len());
    for experiment in experiments() {
        let name = experiment.name;
        assert!(!experiment.claims.is_empty(), "{name}");
        assert!(
            experiment
                .claims
                .iter()
                .all(|claim| claim.seed.starts_with("seed 00") || claim.seed == OUR_TARGET),
            "{name}"
        );
        let texts = [
            experiment.title,
            experiment.essay,
            experiment.reading,
            experiment.caveats,
        ];
        assert!(texts.iter().all(|text| !text.is_empty()), "{name}");
        let marks = texts.iter().map(|text| text.matches('`').count());
        assert!(marks.into_iter().all(|n| n % 2 == 0), "{name}");
        let seconds = Pace::ALL.map(|pace| pace.pick(experiment.seconds));
        assert!(seconds.is_sorted() && seconds[0] < 20, "{name}");
    }
}

#[test]
fn claims_are_not_judged_without_records() {
    // Breaks when the verdict on an unmeasured claim is that it holds.
    let page = render(&results(&[]));
    for verdict in [
        Verdict::Holds,
        Verdict::Partly,
        Verdict::Fails,
        Verdict::Given,
    ] {
        assert!(
            !page.contains(&format!("{}</span>", verdict.words())),
            "{verdict:?}"
        );
    }
    assert!(page.contains("it was not run"));
}

#[test]
fn a_claim_is_judged_by_its_own_designs() {
    // Breaks when a figure of ours makes a claim of a seed hold that its own design does not bear out.
    let of = |design: &str, median: &str| {
        record("alloc", "pair", design, r#","size":256,"ours":true"#).replace("3.5", median)
    };
    let records = [
        of("freebsd4", "10"),
        of("uma2004", "100"),
        of("mbuma-rseq", "1"),
    ];
    let results = results(&records);
    let section = results
        .sections
        .iter()
        .find(|s| s.experiment.name == "alloc");
    let section = section.expect("alloc");
    let claims = section.experiment.claims.iter();
    let found: Vec<_> = claims.filter_map(|claim| judged(section, claim)).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (found[0].verdict, found[0].ratio),
        (Verdict::Fails, Some(0.1))
    );
}
