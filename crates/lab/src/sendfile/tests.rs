//! All designs send the same records.

use super::designs::CATALOG;
use super::sender::Sender;
use super::source::{RECORD, RECORDS, Source, begin};
use super::{CASES, list, run};
use crate::Comparison;
use crate::extpgs::design::PAGE;
use crate::extpgs::phases::shuffled;
use crate::harness::test_output::output;

#[test]
fn records_begin_everywhere_in_a_page_but_at_its_beginning() {
    // Breaks when the lists are faster for records that lie in four pages, or all records lie alike.
    let offs = (0..PAGE).map(|number| begin(number) % PAGE);
    let offs: std::collections::BTreeSet<usize> = offs.collect();
    assert_eq!(offs.len(), PAGE - 1);
    assert!(!offs.contains(&0));
}

#[test]
fn every_design_sends_the_bytes_of_the_file() {
    // Breaks when a design is fast because it sends other bytes, or fewer.
    let source = Source::new().expect("memory");
    let last = shuffled(RECORDS)[RECORDS - 1];
    for entry in CATALOG {
        let mut sender = Sender::new(false);
        (entry.make)(&source).turn(&mut sender);
        assert_eq!(sender.last(), source.record(last), "{}", entry.name);
        assert_eq!(sender.count(), RECORDS, "{}", entry.name);
    }
}

#[test]
fn encryption_is_the_same_from_either_place() {
    // Breaks when the designs encrypt under other nonces or headers, or one does not encrypt.
    let record = [5; RECORD];
    let (mut one, mut other) = (Sender::new(true), Sender::new(true));
    one.take(&record, [1; 13]);
    let mut there = record;
    let tag = other.take_in_place(&mut there, [1; 13]);
    assert_eq!(one.last(), there);
    assert_ne!(there, record);
    assert_ne!(tag, [0; 16]);
}

#[test]
fn every_case_is_listed_and_measured() {
    // Breaks when a design has no figure, or none beside the list's other place.
    let options = Comparison {
        cases: vec!["tls".to_owned()],
        json: true,
        ..Comparison::short(0.001, 1)
    };
    let text = output(|out| run(&options, out));
    assert_eq!(text.lines().count(), 2 * CATALOG.len() - 1, "{text}");
    let text = list();
    assert!(CASES.iter().all(|case| text.contains(case.name)), "{text}");
}
