//! Breaks when a row of numbers does not stand under the words of its header.

use super::*;

#[test]
fn columns_stand_under_their_headings() {
    // Breaks when a column is added to the row and not to the header, or the other way round.
    let stats = ZoneStats {
        name: "cluster",
        size: 2048,
        limit: Some(1000),
        used: 12,
        backend: Backend::Locked,
        cached_by_cpus: 2,
        cached_in_depot: 1,
        free_in_slabs: 17,
        requests: 100,
        frees: 88,
        failures: 1,
        sleeps: 0,
        misses: 3,
        imports: 2,
        shortages: 0,
        closings: 0,
        contentions: 0,
        bucket_items: 16,
        bytes: 65_536,
        bytes_peak: 131_072,
        bytes_live: 24_576,
    };
    let (header, row) = (ZoneStats::header(), stats.to_string());
    assert_eq!(header.len(), row.len());
    assert_eq!(
        header.split_whitespace().count(),
        row.split_whitespace().count()
    );
    let end_of = |line: &str, word: &str| line.find(word).unwrap() + word.len();
    for (heading, number) in [
        ("SIZE", "2048"),
        ("LIMIT", "1000"),
        ("KBYTES", "64"),
        ("PEAKK", "128"),
    ] {
        assert_eq!(end_of(header, heading), end_of(&row, number), "{heading}");
    }
}
