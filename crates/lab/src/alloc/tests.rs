//! Tests of the comparison: that every design is an allocator, and that the output can be parsed.

use super::catalog::Kind;
use super::design::Absent;
use super::*;
use crate::Comparison;
use crate::harness::table;
use crate::harness::test_output::{json_lines, output};

/// A run that takes no time worth mentioning.
fn short() -> Options {
    Options {
        common: Comparison::short(0.002, 2),
        sizes: vec![256],
        spike_megabytes: 8,
        spike_seconds: 0.05,
        ..Options::default()
    }
}

#[test]
fn no_design_loses_or_doubles_an_item() {
    // Breaks when a design hands an item to two owners, moves its bytes, or loses it: each owner's word is in the
    // item for as long as it is owned, across threads and a reclaim.
    for entry in CATALOG.iter().filter(|entry| entry.kind != Kind::Floor) {
        for size in [256, 2048] {
            match (entry.make)(size) {
                Ok(subject) => subject.check(size, 4, 10_000),
                Err(why) => eprintln!("{}: {why}", entry.name),
            }
        }
    }
}

#[test]
fn every_case_runs_and_its_lines_are_json() {
    // Breaks when a case panics on some design, or prints output that a program cannot parse.
    let mut options = short();
    options.common.json = true;
    let lines = json_lines(&output(|out| run(&options, out)));
    for case in Case::ALL {
        let of_case = |line: &serde_json::Value| line["case"] == case.name();
        assert!(lines.iter().any(of_case), "{case}");
        for line in lines.iter().filter(|line| of_case(line)) {
            assert_eq!(line["experiment"], "alloc");
            let positive = !matches!(case, Case::Spike | Case::PurgeDip);
            let measured = line["median"]
                .as_f64()
                .is_some_and(|median| median > 0.0 || !positive);
            let skipped = line["note"]
                .as_str()
                .is_some_and(|note| note.starts_with("skipped: "));
            assert!(measured != skipped, "{line}");
        }
    }
}

#[test]
fn a_wrong_name_is_answered_with_the_right_ones() {
    // Breaks when a wrong name is not refused.
    let mut options = short();
    options.common.designs = vec!["jmalloc".to_owned()];
    let error = run(&options, &mut Vec::new())
        .expect_err("a typo")
        .to_string();
    assert!(
        error.contains("`jmalloc`") && error.contains("freebsd4"),
        "{error}"
    );
    let odd = Options {
        sizes: vec![100],
        ..short()
    };
    let mut none = short();
    none.common.reps = 0;
    for bad in [odd, none] {
        assert!(run(&bad, &mut Vec::new()).is_err(), "{bad:?}");
    }
}

#[test]
fn the_list_names_everything() {
    // Breaks when a design or a case is missing from --list, or a line does not fit a terminal.
    let text = list();
    for name in CATALOG
        .iter()
        .map(|e| e.name)
        .chain(Case::ALL.map(Case::name))
    {
        assert!(text.contains(&format!("  {name} ")), "{name}");
    }
    assert!(text.lines().all(|line| line == table::cut(line)), "{text}");
}

#[test]
fn absent_says_what_to_do() {
    // Breaks when a skipped design looks like a failed one.
    assert_eq!(Absent("why".to_owned()).to_string(), "skipped: why");
}
