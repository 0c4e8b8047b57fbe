//! Tests of the comparison: that every case runs under every policy, and that the output can be parsed.

use super::*;
use crate::Comparison;
use crate::harness::test_output::{json_lines, output};

/// A run that takes little time.
fn short() -> Options {
    Options {
        common: Comparison::short(0.02, 1),
        ..Options::default()
    }
}

#[test]
fn every_case_runs_and_its_lines_are_json() {
    // Breaks when a load stops under a policy, a packet moves under direct, or a line is not JSON.
    let mut options = short();
    options.common.json = true;
    let lines = json_lines(&output(|out| run(&options, out)));
    for case in CASES {
        for design in Design::ALL {
            for workers in [1, 2] {
                let is = |line: &&serde_json::Value, measure: &str| {
                    line["case"] == case.name
                        && line["design"] == design.name()
                        && line["threads"] == workers
                        && line["measure"] == measure
                };
                let rate = lines.iter().find(|line| is(line, "rate")).expect("a rate");
                assert!(rate["median"].as_f64() > Some(0.0), "{rate}");
            }
        }
    }
    // Packets to the stack itself may be left to the CPU that handles others.
    let stays = |line: &&serde_json::Value| {
        let epair = line["case"].as_str().is_some_and(|c| c.ends_with("epair"));
        epair && line["measure"] == "moved" && line["design"] == "direct"
    };
    assert!(lines.iter().filter(stays).all(|line| line["median"] == 0.0));
}

#[test]
fn tables_fit_a_terminal() {
    // Breaks when a table is wider than a terminal.
    let mut options = short();
    options.common.cases = vec!["udp-rr-epair".to_owned()];
    options.workers = vec![2];
    let text = output(|out| run(&options, out));
    assert!(text.contains("udp-rr-epair, 2 workers, us"), "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
}

#[test]
fn unknown_names_and_wrong_numbers_are_refused() {
    // Breaks when an unknown name or a senseless number is not refused.
    let bad = |change: fn(&mut Options)| {
        let mut options = short();
        change(&mut options);
        assert!(run(&options, &mut Vec::new()).is_err());
    };
    bad(|o| o.common.cases = vec!["nothing".to_owned()]);
    bad(|o| o.workers = Vec::new());
    bad(|o| o.workers = vec![0]);
    let text = list();
    assert!(CASES.iter().all(|case| text.contains(case.name)));
}
