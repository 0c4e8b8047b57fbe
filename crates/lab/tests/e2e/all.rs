//! `cargo lab all`: experiments in processes of their own, and one report.

use std::fs;

use crate::common::{MBUMA, Scratch, program};

#[test]
fn the_report_has_what_the_experiments_found() {
    // Breaks when an experiment is started with unknown arguments, its records lack those that its claims need, or no
    // report can be made from the saved records.
    let scratch = Scratch::new();
    let out = scratch.path("report");
    let run = |words: &str| {
        let mut command = program(MBUMA);
        command.args(words.split(' ')).arg("--out").arg(&out);
        let output = command.output().expect("it starts");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let text = run("all --effort quick --only sizes,extpgs");
    let sizes = text.lines().filter(|line| line.contains("  sizes  "));
    assert_eq!(sizes.count(), 6, "{text}");
    assert!(text.contains("  extpgs  "), "{text}");
    let page = fs::read_to_string(out.join("index.html")).expect("a page");
    assert!(page.contains("cargo lab sizes --packets 20000"));
    let saved = out.join("results.jsonl");
    run(&format!("all --from {}", saved.display()));
    assert_eq!(
        fs::read_to_string(out.join("index.html")).expect("a page"),
        page
    );

    fs::write(&saved, "design median\n").expect("written");
    let mut command = program(MBUMA);
    command
        .args(["all", "--from"])
        .arg(&saved)
        .arg("--out")
        .arg(&out);
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("results.jsonl:1: "), "{said}");
}
