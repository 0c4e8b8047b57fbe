//! Tests of the saved file: that it is read as it was written, and that no other file is taken for one.

use super::*;

fn first() -> String {
    let head = Head {
        format: FORMAT,
        build: "0.1.0".to_owned(),
        ..Head::default()
    };
    line("report", &head)
}

const RECORD: &str =
    r#"{"experiment":"refs","case":"first","design":"ring","unit":"ns","median":2.5}"#;

fn error(lines: &[&str]) -> String {
    let text = lines.join("\n");
    Results::parse(&text).err().unwrap_or_default()
}

#[test]
fn saved_results_are_read_as_written() {
    // Breaks when a record gets into the section of another experiment, or an end is forgotten.
    let ended = Ended {
        experiment: "refs".to_owned(),
        seconds: 1.5,
        ..Ended::default()
    };
    let text = [first(), RECORD.to_owned(), line("ended", &ended)].join("\n");
    let results = Results::parse(&text).expect("results");
    assert_eq!(results.head.build, "0.1.0");
    let refs = &results.sections[0];
    assert_eq!((refs.experiment.name, refs.rows.len()), ("refs", 1));
    assert_eq!((&refs.ended, refs.trouble()), (&Some(ended), None));
    assert_eq!(results.sections.len(), experiments().len());
    assert_eq!(
        results.sections[1].trouble().as_deref(),
        Some("it was not run")
    );
}

#[test]
fn a_truncated_file_keeps_its_complete_lines() {
    // Breaks when an interrupted run of hours is lost.
    let text = [first(), RECORD.to_owned()].join("\n");
    let results = Results::parse(&text).expect("results");
    assert_eq!(
        results.sections[0].trouble().as_deref(),
        Some("it was interrupted")
    );
}

#[test]
fn a_foreign_line_is_refused_with_its_number() {
    // Breaks when a damaged file makes a report that looks whole, or the message does not say where to look.
    let first = first();
    assert!(error(&[]).starts_with("1: "));
    assert!(error(&[RECORD]).contains("no results of `cargo lab all`"));
    let other = first.replace("\"format\":1", "\"format\":2");
    assert!(error(&[&other]).contains("another format"), "{other}");
    assert!(error(&[&first, RECORD, &RECORD[..40]]).starts_with("3: "));
    assert!(error(&[&first, "[]"]).contains("2: no JSON object"));
    assert!(error(&[&first, "{}"]).contains("neither"));
    let unknown = RECORD.replace("refs", "novel");
    assert!(error(&[&first, &unknown]).contains("`novel`"));
    let wrong = RECORD.replace("2.5", "\"fast\"");
    assert!(error(&[&first, &wrong]).starts_with("2: invalid type"));
    let short = RECORD.replace("\"unit\":\"ns\",", "");
    assert!(error(&[&first, &short]).contains("missing field `unit`"));
}
