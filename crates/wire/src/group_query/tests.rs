//! Tests of queries and of records, each named after its point.

use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

use super::*;
use GroupVersion::{Leaves, Reports, Sources};

proptest! {
    /// Breaks if any bytes make the parser panic, or a version is read from a length that it does not have.
    #[test]
    fn m2_any_query_is_read(is_mld: bool, rest: [u8; 4], body in prop::collection::vec(any::<u8>(), 0..80)) {
        let (read, addr_len, older) = match is_mld {
            true => (GroupQuery::parse_mld(rest, &body), 16, Leaves),
            false => (GroupQuery::parse_igmp(rest[0], &body), 4, if rest[0] == 0 { Reports } else { Leaves }),
        };
        let head_len = addr_len + 4;
        let is_whole = body.len() == addr_len || body.len() >= head_len;
        prop_assert_eq!(read.is_ok(), is_whole);
        if let Ok(query) = read {
            let is_old = body.len() == addr_len;
            prop_assert_eq!(query.version, if is_old { older } else { Sources });
            prop_assert_eq!(query.group.map_or_else(|| vec![0; addr_len], octets), &body[..addr_len]);
            let sources: Vec<_> = query.sources(&body).collect();
            let there = body.len().saturating_sub(head_len) / addr_len;
            prop_assert_eq!(sources.len(), there.min(query.source_count.into()));
            let len = head_len + addr_len * usize::from(query.source_count);
            prop_assert_eq!(query.len(), if is_old { addr_len } else { len });
            for (source, bytes) in sources.iter().zip(body[head_len.min(body.len())..].chunks(addr_len)) {
                prop_assert_eq!(octets(*source), bytes);
            }
        }
    }

    /// Breaks if a record of a report is not written as RFC 9776 section 4.2 and RFC 9777 section 5.2 draw it.
    #[test]
    fn m1_a_record_begins_with_its_kind(source_count: u16) {
        let head = GroupRecordHead { kind: GroupRecordType::ToExclude, source_count };
        let [n1, n0] = source_count.to_be_bytes();
        prop_assert_eq!(head.to_bytes(), [4, 0, n1, n0]);
    }
}

fn octets(addr: IpAddr) -> Vec<u8> {
    match addr {
        IpAddr::V4(addr) => addr.octets().to_vec(),
        IpAddr::V6(addr) => addr.octets().to_vec(),
    }
}

#[test]
fn m2_a_query_is_read_by_its_version() {
    // Breaks if the version is not taken from the length, or a large time is read as its code (RFC 9777 section
    // 5.1.3).
    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);
    let of = |rest, body: &[u8]| GroupQuery::parse_mld(rest, body);
    let v1 = of([0x27, 0x10, 0, 0], &group.octets()).expect("it is whole");
    assert_eq!(
        (v1.version, v1.group, v1.max_delay_ms),
        (Leaves, Some(group.into()), 10_000)
    );
    let mut body = [0; 20];
    body[16] = 0x0a;
    body[17] = 125;
    let v2 = of([0x83, 0xe8, 0, 0], &body).expect("it is whole");
    assert_eq!((v2.version, v2.group, v2.robustness), (Sources, None, 2));
    assert_eq!((v2.max_delay_ms, v2.interval_s), (0x13e8 << 3, 125));
    body[17] = 0xff;
    assert_eq!(of([0; 4], &body).expect("whole").interval_s, 0x1f << 10);
    assert_eq!(
        of([0xff; 4], &body).expect("whole").max_delay_ms,
        0x1fff << 10
    );
    for len in [0, 15, 17, 19] {
        assert_eq!(
            of([0; 4], &body[..len]),
            Err(ParseError::Truncated),
            "{len}"
        );
    }
}

#[test]
fn a_query_of_igmp_is_read_by_its_version() {
    // RFC 9776 sections 4.1.1 and 7.1: breaks if the version is not taken from length and code, a time of tenths of a
    // second is read as another unit or as its code, or the oldest routers, which name no time, are answered at once.
    let group = Ipv4Addr::new(239, 1, 2, 3);
    let of = |code, body: &[u8]| GroupQuery::parse_igmp(code, body);
    let v1 = of(0, &[0; 4]).expect("it is whole");
    assert_eq!(
        (v1.version, v1.group, v1.max_delay_ms),
        (Reports, None, 10_000)
    );
    let v2 = of(200, &group.octets()).expect("it is whole");
    assert_eq!(
        (v2.version, v2.group, v2.max_delay_ms),
        (Leaves, Some(group.into()), 20_000)
    );
    let v3 = of(0x7f, &[239, 1, 2, 3, 0x0a, 125, 0, 0]).expect("it is whole");
    assert_eq!((v3.version, v3.group), (Sources, Some(group.into())));
    assert_eq!(
        (v3.max_delay_ms, v3.interval_s, v3.robustness),
        (12_700, 125, 2)
    );
    let slow = of(0x93, &[0; 8]).expect("it is whole");
    assert_eq!(slow.max_delay_ms, (0x13 << 4) * 100);
    assert_eq!(
        of(0xff, &[0; 8]).expect("whole").max_delay_ms,
        (0x1f << 10) * 100
    );
    for len in [0, 3, 5, 7] {
        assert_eq!(of(0, &[0; 8][..len]), Err(ParseError::Truncated), "{len}");
    }
}
