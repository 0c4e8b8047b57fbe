//! Tests of the comparison: every hand-off delivers all packets, and the output can be parsed.

use super::*;
use crate::Comparison;
use crate::harness::test_output::{json_lines, output};

/// A run that takes little time.
fn short() -> Options {
    Options {
        common: Comparison::short(0.04, 2),
        wakeups: 400,
        ..Options::default()
    }
}

#[test]
fn every_case_runs_and_its_lines_are_json() {
    // Breaks when a case panics or loses packets with ours or the control, or prints output that a program cannot
    // parse.
    let mut options = short();
    options.common.json = true;
    let lines = json_lines(&output(|out| run(&options, out)));
    for case in Case::ALL {
        assert!(
            lines.iter().any(|l| l["case"] == case.name()),
            "{}",
            case.name()
        );
    }
    for line in &lines {
        assert_eq!(line["experiment"], "epair");
        let right = line["design"] == "mbuma" || line["design"] == "control";
        if right && line["measure"] == "lost" {
            assert_eq!(line["median"], 0.0, "{line}");
        }
        let skipped = line["note"]
            .as_str()
            .is_some_and(|n| n.starts_with("skipped: "));
        assert!(line["median"].is_number() != skipped, "{line}");
    }
}

#[test]
fn tables_fit_and_show_histograms() {
    // Breaks when a table is wider than a terminal, or a histogram is missing.
    let mut options = short();
    options.common.cases = vec!["waits".to_owned(), "stream".to_owned()];
    // The output has the same shape after fewer wakeups.
    options.wakeups = 60;
    options.common.seconds_per_case = 0.02;
    options.common.reps = 1;
    let text = output(|out| run(&options, out));
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    assert_eq!(text.matches("Distribution").count(), Design::ALL.len());
    for design in Design::ALL {
        assert!(text.contains(design.name()));
    }
}

#[test]
fn a_wrong_name_is_answered_with_the_right_ones() {
    // Breaks when a wrong name is not refused.
    let mut options = short();
    options.common.designs = vec!["two-ring".to_owned()];
    let error = run(&options, &mut Vec::new())
        .expect_err("a typo")
        .to_string();
    assert!(
        error.contains("`two-ring`") && error.contains("two-rings"),
        "{error}"
    );
    let mut none = short();
    none.common.reps = 0;
    assert!(run(&none, &mut Vec::new()).is_err());
}
