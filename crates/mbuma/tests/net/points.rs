//! The list of points: each has a test that is named after it.

use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, io};

/// The letter of a group of points, and their numbers.
const POINTS: [(&str, &[&str]); 10] = [
    ("h", &NUMBERS_OF_11),
    (
        "f",
        &[
            "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12",
        ],
    ),
    ("i", &["1", "2", "3", "4", "5", "6", "7", "8"]),
    (
        "n",
        &[
            "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13",
        ],
    ),
    ("a", &NUMBERS_OF_11),
    ("s", &["1", "2", "3", "5", "5_5", "6", "7", "8", "9"]),
    ("m", &["1", "2", "3", "4"]),
    ("p", &["1", "2", "3", "4"]),
    ("l", &["1"]),
    (
        "r",
        &[
            "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12",
        ],
    ),
];
const NUMBERS_OF_11: [&str; 11] = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"];

/// The points that the name of a function begins with, such as `r10_and_r12_a_stack_`.
fn points_of(name: &str) -> Vec<String> {
    let mut points = Vec::new();
    for part in name.split("_and_") {
        let (letter, rest) = part.split_at_checked(1).unwrap_or_default();
        let mut numbers = rest.split('_').peekable();
        let Some(number) = numbers.next().filter(|number| is_number(number)) else {
            break;
        };
        let point = match numbers.peek().filter(|next| is_number(next)) {
            Some(half) => format!("{letter}{number}_{half}"),
            None => format!("{letter}{number}"),
        };
        points.push(point);
    }
    points
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Adds the points of the tests below a directory.
fn look(dir: &Path, found: &mut BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            look(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path)?;
            let tests = text.split("#[test]").skip(1);
            let names = tests.filter_map(|test| test.split_once("fn ")?.1.split_once('('));
            found.extend(names.flat_map(|(name, _)| points_of(name)));
        }
    }
    Ok(())
}

#[test]
fn each_point_has_a_test_of_its_name() {
    // Breaks when a point of the list is not shown by any test, or its test got a name by which it is not found.
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    if !crates.join("cli").is_dir() {
        return; // A package, without the other crates.
    }
    let mut found = BTreeSet::new();
    for of in ["mbuma", "wire", "cli"] {
        look(&crates.join(of).join("src"), &mut found).expect("the sources are there");
    }
    look(&crates.join("mbuma/tests"), &mut found).expect("the tests are there");
    let points = POINTS.iter().flat_map(|(letter, numbers)| {
        let point = move |number| format!("{letter}{number}");
        numbers.iter().map(point)
    });
    let all: Vec<String> = points.collect();
    let missing: Vec<_> = all.iter().filter(|point| !found.contains(*point)).collect();
    assert!(missing.is_empty(), "{missing:?} of {}", all.len());
    assert_eq!(all.len(), 85);
}
