use super::catalog::{CATALOG, Case};
use super::design::{RECORD, Spec, of_bytes, of_pages};
use super::phases::ROW;
use super::{Options, run};
use crate::Comparison;
use crate::harness::test_output::{json_lines, output};

const RECORDS: usize = 5 * ROW + 3;

fn options() -> Options {
    Options {
        common: Comparison::short(0.3, 2),
        records: RECORDS,
    }
}

/// The sum of a walk over the n-th record, computed without an mbuf.
fn expected(number: u64) -> u64 {
    let spec = Spec::new(number);
    let last = spec.first_off + RECORD - 4 * 4096;
    let lens = [4096 - spec.first_off, 4096, 4096, 4096, last];
    let pieces = spec.pages.iter().zip(lens).enumerate();
    let pages = pieces.map(|(at, (&page, len))| {
        let off = if at == 0 { spec.first_off } else { 0 };
        of_pages(page, off, len)
    });
    pages.fold(0, u64::wrapping_add) + of_bytes(&spec.header) + of_bytes(&spec.trailer)
}

#[test]
fn all_page_lists_describe_the_same() {
    // Breaks if a design loses a record, a page, a byte of header or trailer: it would be faster for that.
    let sum = (0..RECORDS as u64).map(expected).fold(0, u64::wrapping_add);
    for entry in CATALOG.iter().filter(|entry| entry.name != "clusters") {
        let mut subject = (entry.make)(RECORDS);
        for _ in 0..3 {
            assert_eq!(subject.sum(), sum, "{}", entry.name);
        }
    }
}

#[test]
fn a_record_is_one_mbuf_or_nine() {
    // Breaks if a page list takes a second mbuf, or a cluster is counted that is not there.
    for entry in CATALOG {
        let mbufs = if entry.name == "clusters" { 9.0 } else { 1.0 };
        let weight = (entry.make)(RECORDS).weigh();
        assert_eq!(weight.mbufs_per_mib, 64.0 * mbufs, "{}", entry.name);
    }
}

#[test]
fn every_case_has_a_figure_of_every_design() {
    // Breaks if a case is measured and not shown.
    let text = output(|out| run(&options(), out));
    for case in Case::ALL {
        assert!(text.contains(case.about()), "{text}");
    }
    let lines = |name: &str| {
        let begins = format!("  {name} ");
        text.lines()
            .filter(|line| line.starts_with(&begins))
            .count()
    };
    // Five cases; and four phases of the savings of the first two.
    assert_eq!([lines("mbuma"), lines("inline")], [9, 9], "{text}");
    assert_eq!([lines("separate"), lines("clusters")], [5, 5], "{text}");
}

#[test]
fn json_is_one_object_a_line() {
    // Breaks if a key that the other experiments have is missing here.
    let mut options = options();
    options.common.json = true;
    options.common.cases = vec!["walk".to_owned(), "saved".to_owned()];
    let records = json_lines(&output(|out| run(&options, out)));
    assert_eq!(records.len(), 4 + 8);
    for record in records {
        assert_eq!(record["experiment"], "extpgs");
        assert_eq!(record["n"], 2);
        for key in [
            "case", "design", "size", "unit", "median", "p25", "p75", "note",
        ] {
            assert!(!record[key].is_null(), "{key} of {record}");
        }
    }
}

#[test]
fn wrong_names_and_numbers_are_refused() {
    // Breaks if a wrong name or number is not refused.
    let refused = |options: Options| run(&options, &mut Vec::new()).map_err(|e| e.to_string());
    let mut unknown = options();
    unknown.common.designs = vec!["sepaate".to_owned()];
    assert!(refused(unknown).is_err_and(|text| text.contains("separate")));
    for (records, reps) in [(ROW - 1, 1), (1_000_000, 1), (ROW, 0)] {
        let mut bad = options();
        (bad.records, bad.common.reps) = (records, reps);
        assert!(refused(bad).is_err());
    }
}
