//! Tests of the run over all experiments, with a shell in the place of this program: that a failed experiment ends
//! neither the run nor the report, and that the saved results make the same page again.

use super::*;
use crate::harness::test_output::{json_lines, output};
use crate::report::experiments;
use std::process;

/// A directory of this test's own, gone with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("lab-all-{test}-{}", process::id()));
        let _ = fs::remove_dir_all(&dir);
        Self(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Options under which a shell script is each experiment: `$1` is its name.
fn with_script(script: &str, out: &Scratch) -> Options {
    Options {
        out: out.0.clone(),
        program: ["sh", "-c", script, "sh"].map(OsString::from).into(),
        ..Options::default()
    }
}

const RECORD: &str =
    r#"echo '{"experiment":"'$1'","case":"c","design":"d","unit":"ns","median":1.5}'"#;

fn report(out: &Scratch) -> String {
    fs::read_to_string(out.0.join("index.html")).expect("a page")
}

#[test]
fn a_failed_experiment_ends_neither_the_run_nor_the_report() {
    // Breaks when a crash loses the others' results, or the report does not name the missing experiment.
    let out = Scratch::new("fails");
    let script =
        format!("{RECORD}; if [ $1 = extpgs ]; then echo 'no & such <page>' >&2; exit 3; fi");
    let options = with_script(&script, &out);
    let mut text = Vec::new();
    let failed = run(&options, &mut text).expect("a run");
    assert_eq!(failed, ["extpgs"]);
    let page = report(&out);
    assert!(
        page.contains("no &amp; such &lt;page&gt; (exit status: 3)"),
        "{page}"
    );
    let saved = Results::read(&out.0.join("results.jsonl")).expect("results");
    assert!(saved.sections.iter().all(|section| section.rows.len() == 1));
    let text = String::from_utf8(text).expect("text");
    assert!(text.contains("failed           extpgs"), "{text}");
}

#[test]
fn a_claim_about_zeros_is_not_measured() {
    // Breaks when a claim holds because both sides have 0.0, as after a peer that failed.
    for (one, other, verdict) in [("0.0", "0.0", "not measured"), ("2.0", "1.0", "holds")] {
        let out = Scratch::new(&format!("nothing-{one}"));
        let row = |case: &str, design: &str, median: &str| {
            format!(
                r#"echo '{{"experiment":"unix","case":"{case}","design":"{design}","unit":"x",'\
                    '"median":{median},"n":3}}';"#
            )
        };
        let both = |case| row(case, "mbuma", one) + &row(case, "kernel", other);
        let script: String = ["pp1", "pp1-same", "pp1-cross"].map(both).concat();
        let options = Options {
            only: vec!["unix".to_owned()],
            ..with_script(&script, &out)
        };
        let mut text = Vec::new();
        run(&options, &mut text).expect("a run");
        let text = String::from_utf8(text).expect("text");
        let first = text.lines().next().unwrap_or_default();
        assert!(first.starts_with(verdict), "{text}");
        assert_eq!(report(&out).contains("verdict holds"), verdict == "holds");
    }
}

#[test]
fn saved_results_make_the_same_page() {
    // Breaks when a page has data that the saved results lack, so that it can't be checked.
    let out = Scratch::new("saved");
    let options = with_script(RECORD, &out);
    run(&options, &mut Vec::new()).expect("a run");
    let first = report(&out);
    fs::remove_file(out.0.join("index.html")).expect("it is there");
    let again = Options {
        from: Some(out.0.join("results.jsonl")),
        program: Vec::new(),
        ..options
    };
    run(&again, &mut Vec::new()).expect("a page");
    assert_eq!(report(&out), first);
}

#[test]
fn a_line_that_is_no_record_fails_the_experiment() {
    // Breaks when a table for people, or the records of another experiment, get into the results.
    for said in [
        "echo design median",
        r#"echo '{"experiment":"other","case":"c"}'"#,
    ] {
        let out = Scratch::new("none");
        let options = Options {
            only: vec!["refs".to_owned()],
            ..with_script(said, &out)
        };
        assert_eq!(run(&options, &mut Vec::new()).expect("a run"), ["refs"]);
        let saved = Results::read(&out.0.join("results.jsonl")).expect("results");
        assert!(saved.sections[0].rows.is_empty());
        assert!(saved.sections[1].ended.is_none(), "it was not chosen");
    }
}

#[test]
fn json_is_passed_on() {
    // Breaks when a program that reads the results sees a summary for people among them.
    let out = Scratch::new("json");
    let options = Options {
        json: true,
        ..with_script(RECORD, &out)
    };
    let lines = json_lines(&output(|out| run(&options, out).map(drop)));
    assert_eq!(lines.len(), experiments().len());
}

#[test]
fn an_experiment_that_takes_too_long_is_killed() {
    // Breaks when an experiment that hangs hangs all of them.
    let command = ["sh", "-c", "echo out; exec sleep 1000"].map(OsString::from);
    let mut heard = String::new();
    let ran = child::run(&command, Duration::from_millis(300), |said| {
        if let Said::Result(line) = said {
            heard += line;
        }
        Ok(())
    });
    assert_eq!(ran, Err("it did not end within 0 s".to_owned()));
    assert_eq!(heard, "out");
}

#[test]
fn a_wrong_name_is_answered_with_the_right_ones() {
    // Breaks when a wrong name is not refused.
    let typo = || vec!["aloc".to_owned()];
    for options in [
        Options {
            only: typo(),
            ..Options::default()
        },
        Options {
            skip: typo(),
            ..Options::default()
        },
    ] {
        let error = options.choose().err().expect("a typo").to_string();
        assert!(
            error.contains("`aloc`") && error.contains("alloc"),
            "{error}"
        );
    }
    let names = || {
        experiments()
            .iter()
            .map(|one| one.name.to_owned())
            .collect()
    };
    let none = Options {
        skip: names(),
        ..Options::default()
    };
    assert!(none.choose().is_err());
    let some = Options {
        only: vec!["sizes".to_owned(), "refs".to_owned()],
        ..Options::default()
    };
    let chosen = some.choose().expect("two");
    assert_eq!(
        chosen.iter().map(|one| one.name).collect::<Vec<_>>(),
        ["refs", "sizes"]
    );
}
