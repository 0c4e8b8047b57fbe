//! Tests of the table of paths.

use super::*;

const NOW: Time = Time::from_secs(1);

fn pair(last: u16) -> Pair<Ipv6Addr> {
    Pair {
        local: Ipv6Addr::LOCALHOST,
        peer: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last),
        local_port: 1,
        peer_port: 2,
    }
}

#[test]
fn p1_a_report_lowers_is_never_below_1280_and_ends() {
    // Breaks if a path grows by a report, shrinks below any link's MTU, or stays small for ever.
    let paths = PathMtus::new();
    let dst = pair(1).peer;
    assert_eq!(paths.get(dst, 0, NOW), None);
    paths.reported(&pair(1), 0, 1400, NOW);
    paths.reported(&pair(1), 7, 1450, NOW);
    assert_eq!(
        paths.get(dst, 3, NOW),
        Some(1400),
        "a global address has no zone"
    );
    paths.reported(&pair(1), 0, 300, NOW);
    assert_eq!(paths.get(dst, 0, NOW), Some(1280));
    assert_eq!(paths.get(dst, 0, NOW + LIFETIME), None);
    paths.reported(&pair(1), 0, 1400, NOW + LIFETIME);
    assert_eq!(paths.get(dst, 0, NOW + LIFETIME), Some(1400));
}

#[test]
fn reports_are_bounded() {
    // Breaks if reports take memory without bound, or a new one evicts the newest.
    let paths = PathMtus::new();
    for n in 0..2000 {
        paths.reported(&pair(n), 0, 1300, NOW + Duration::from_millis(u64::from(n)));
    }
    assert_eq!(paths.table.read().len(), PATHS_MAX);
    assert!(paths.get(pair(1999).peer, 0, NOW).is_some());
    assert!(paths.get(pair(0).peer, 0, NOW).is_none());
}
