//! Tests of the table.

use super::*;

fn record(design: &'static str, ours: bool, median: Option<f64>) -> Record {
    Record {
        design,
        ours,
        median,
        note: "n".repeat(120),
        ..Record::default()
    }
}

#[test]
fn ratios_are_to_our_first_row() {
    // Breaks when a ratio is turned round, or is taken to a row that is not ours.
    let rows = [
        record("ours", true, Some(2.0)),
        record("theirs", false, Some(5.0)),
        record("absent", false, None),
    ];
    let text = table("t", &rows);
    let line = |name: &str| {
        text.lines()
            .find(|l| l.starts_with(&format!("  {name}")))
            .expect("a row")
            .to_owned()
    };
    assert!(line("ours ").contains(" 1.00 "), "{text}");
    assert!(line("theirs").contains(" 2.50 "), "{text}");
    assert!(
        text.ends_with("...\n") && line("absent").contains("nnn"),
        "{text}"
    );
}

#[test]
fn fits_the_terminal() {
    // Breaks when a long note makes lines wrap.
    let rows = [
        record("ours", true, Some(123_456.0)),
        record("absent", false, None),
    ];
    assert!(table("t", &rows).lines().all(|l| l.chars().count() <= WIDE));
}
