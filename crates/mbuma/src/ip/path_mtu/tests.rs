//! Tests of the table of paths.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;

const NOW: Time = Time::from_secs(1);

const UDP: IpProto = IpProto::UDP;

fn addr(last: u16) -> IpAddr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last).into()
}

#[test]
fn p1_a_report_lowers_is_never_below_1280_and_ends() {
    // Breaks if a path grows by a report, shrinks below any link's MTU, or stays small for ever.
    let paths = PathMtus::new();
    let dst = addr(1);
    assert_eq!(paths.get(UDP, dst, 0, NOW), None);
    paths.reported(UDP, addr(1), 0, 1400, NOW);
    paths.reported(UDP, addr(1), 7, 1450, NOW);
    assert_eq!(
        paths.get(UDP, dst, 3, NOW),
        Some(1400),
        "a global address has no zone"
    );
    paths.reported(UDP, addr(1), 0, 300, NOW);
    assert_eq!(paths.get(UDP, dst, 0, NOW), Some(1280));
    assert_eq!(paths.get(UDP, dst, 0, NOW + LIFETIME), None);
    paths.reported(UDP, addr(1), 0, 1400, NOW + LIFETIME);
    assert_eq!(paths.get(UDP, dst, 0, NOW + LIFETIME), Some(1400));
}

#[test]
fn each_version_has_its_own_minimum() {
    // Breaks if a path over IPv4 is taken for larger than it is reported, or one that no link of IPv4 has is believed.
    let paths = PathMtus::new();
    for (last, reported, kept) in [(1, 600, 600), (2, 20, 68)] {
        let dst = Ipv4Addr::new(192, 0, 2, last).into();
        paths.reported(IpProto::TCP, dst, 0, reported, NOW);
        assert_eq!(paths.get(IpProto::TCP, dst, 0, NOW), Some(kept));
    }
}

#[test]
fn reports_are_bounded() {
    // Breaks if reports take memory without bound, or a new one evicts the newest.
    let paths = PathMtus::new();
    for n in 0..2000 {
        paths.reported(
            UDP,
            addr(n),
            0,
            1300,
            NOW + Duration::from_millis(u64::from(n)),
        );
    }
    assert_eq!(paths.table.read().len(), PATHS_MAX);
    assert!(paths.get(UDP, addr(1999), 0, NOW).is_some());
    assert!(paths.get(UDP, addr(0), 0, NOW).is_none());
}

#[test]
fn p3_a_report_counts_only_for_its_protocol() {
    // Breaks if a host that knows only its own ping or question makes the segments of TCP small, or evicts its paths
    // (RFC 8201 section 4, RFC 5927 section 7).
    let paths = PathMtus::new();
    paths.reported(IpProto::TCP, addr(0), 0, 1400, NOW);
    for n in 0..2000 {
        paths.reported(
            IpProto::ICMPV6,
            addr(n),
            0,
            1280,
            NOW + Duration::from_secs(1),
        );
        paths.reported(UDP, addr(n), 0, 1300, NOW + Duration::from_secs(1));
    }
    assert_eq!(paths.get(IpProto::TCP, addr(0), 0, NOW), Some(1400));
    assert_eq!(paths.get(IpProto::TCP, addr(1999), 0, NOW), None);
    assert_eq!(paths.get(UDP, addr(1999), 0, NOW), Some(1300));
    assert_eq!(paths.table.read().len(), 1 + 2 * PATHS_MAX);
}
