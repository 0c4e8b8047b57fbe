//! Tests of the arithmetic of a dip.

use super::*;

#[test]
fn half_the_speed_is_a_dip_of_fifty() {
    // Breaks when a dip has the wrong sign, or a sample at the edge of the purge counts in full.
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(ms);
    // A sample each millisecond, and during the purge one every two milliseconds.
    let notes = (0..=500)
        .chain((502..=600).step_by(2))
        .map(at)
        .collect::<Vec<_>>();
    let purged = Purged {
        quiet: Duration::from_millis(250),
        begin: at(500),
        end: at(600),
        busy: Duration::from_millis(100),
        bytes: 4096 * 1000,
        disturbed: true,
    };
    let purge = evaluate(&notes, &purged);
    assert!((purge.dip_percent - 50.0).abs() < 0.1, "{purge:?}");
    assert_eq!((purge.pages, purge.ns_per_page), (1000, 100_000.0));
    assert!(purge.disturbed);
}
