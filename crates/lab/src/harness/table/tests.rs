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
fn a_progress_line_fits_the_terminal() {
    // Breaks when a long note makes lines wrap.
    let rows = [
        record("ours", true, Some(123_456.0)),
        record("absent", false, None),
    ];
    assert!(table("t", &rows).lines().all(|l| l.chars().count() <= WIDE));
}

#[test]
fn a_grid_has_notes_where_there_are_some() {
    // Breaks when a grid has an empty column, or a count looks like a mean.
    let line = |note| Line {
        design: "a",
        figures: vec![Some(3.0), Some(3.25), None],
        note,
    };
    let columns = ["1", "2", "4"].map(str::to_owned);
    let without = grid("t", &columns, &[line("")]);
    assert_eq!(
        without,
        "t\n  design              1       2       4\n  a                   3     3.2       -\n"
    );
    let with = grid("t", &columns, &[line(""), line("why")]);
    assert!(
        with.contains("  note\n") && with.ends_with("  why\n"),
        "{with}"
    );
}
