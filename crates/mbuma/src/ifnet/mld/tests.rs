//! Tests of a listener's reports and their times, each named after its point.

use super::*;

const NOW: Time = Time::from_secs(1000);

fn group(n: u16) -> Ipv6Addr {
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, n)
}

fn query(group: Option<Ipv6Addr>, is_v1: bool) -> MldQuery {
    robust_query(group, is_v1, 0)
}

fn robust_query(group: Option<Ipv6Addr>, is_v1: bool, robustness: u8) -> MldQuery {
    let mut body = group.unwrap_or(Ipv6Addr::UNSPECIFIED).octets().to_vec();
    if !is_v1 {
        body.extend([robustness, 125, 0, 0]);
    }
    MldQuery::parse([0x03, 0xe8, 0, 0], &body).unwrap()
}

/// All reports until none is due any more, with their times.
fn said(mld: &Mld) -> Vec<(Time, MldReport)> {
    let random = &mut Random::from_seed(1);
    let mut all = Vec::new();
    while let Some(at) = mld.deadline() {
        all.extend(
            mld.run_timers(at, random)
                .into_iter()
                .map(|report| (at, report)),
        );
    }
    all
}

fn records(kind: MldRecordType, groups: &[u16]) -> MldReport {
    let record = |n: &u16| MldRecord {
        kind,
        group: group(*n),
    };
    MldReport::Records(groups.iter().map(record).collect())
}

/// A listener in these groups that has reported them.
fn settled(groups: &[u16]) -> Mld {
    let mld = Mld::new();
    let groups: Vec<_> = groups.iter().map(|n| group(*n)).collect();
    mld.set_groups(NOW, &groups);
    said(&mld);
    mld
}

#[test]
fn m1_a_change_is_said_twice_within_a_second() {
    // Breaks if a router that misses one message does not hear of a group, or that it was left.
    let mld = Mld::new();
    mld.set_groups(NOW, &[group(1)]);
    let all = said(&mld);
    assert_eq!(all.len(), 2);
    assert!(
        all.iter()
            .all(|(_, r)| *r == records(MldRecordType::ToExclude, &[1]))
    );
    assert_eq!(all[0].0, NOW);
    assert!(all[1].0 > NOW && all[1].0 <= NOW + CHANGE_INTERVAL);
    mld.set_groups(NOW, &[group(1)]);
    assert!(said(&mld).is_empty(), "nothing changed");
    mld.begin_anew(NOW);
    assert_eq!(said(&mld).len(), 2);
    mld.set_groups(NOW, &[]);
    let all = said(&mld);
    assert_eq!(all.len(), 2);
    assert!(
        all.iter()
            .all(|(_, r)| *r == records(MldRecordType::ToInclude, &[1]))
    );
    // A group that is joined again before its end was reported counts as joined.
    mld.set_groups(NOW, &[group(2)]);
    mld.set_groups(NOW, &[]);
    mld.set_groups(NOW, &[group(2)]);
    assert!(
        said(&mld)
            .iter()
            .all(|(_, r)| *r == records(MldRecordType::ToExclude, &[2]))
    );
}

#[test]
fn m2_a_question_is_answered_once_within_its_limit() {
    // Breaks if a router gets no report, all hosts report at once, or two queries get the same report twice.
    let random = &mut Random::from_seed(7);
    let mld = settled(&[1, 2]);
    mld.queried(NOW, &query(None, false), random);
    mld.queried(NOW, &query(None, false), random);
    let all = said(&mld);
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].1, records(MldRecordType::IsExclude, &[1, 2]));
    assert!(all[0].0 <= NOW + Duration::from_secs(1));
    mld.queried(NOW, &query(Some(group(2)), false), random);
    mld.queried(NOW, &query(Some(group(9)), false), random);
    let all = said(&mld);
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].1, records(MldRecordType::IsExclude, &[2]));
    mld.queried(NOW, &robust_query(None, false, 4), random);
    said(&mld);
    mld.set_groups(NOW, &[group(1)]);
    assert_eq!(said(&mld).len(), 4, "as the router asks for");
}

#[test]
fn m2_and_m3_a_router_of_version_1_is_spoken_to_in_its_version() {
    // Breaks if a router of version 1 does not understand a host, a host reports a group that another has reported, or
    // uses the old version for ever.
    let random = &mut Random::from_seed(7);
    let mld = settled(&[1, 2, 3]);
    mld.queried(NOW, &query(None, false), random);
    mld.queried(NOW, &query(None, true), random);
    mld.heard(NOW, group(2));
    let mut all: Vec<_> = said(&mld).into_iter().map(|(_, report)| report).collect();
    all.sort_by_key(|report| format!("{report:?}"));
    assert_eq!(
        all,
        [
            MldReport::Listening(group(1)),
            MldReport::Listening(group(3))
        ]
    );
    mld.set_groups(NOW, &[group(1)]);
    let all: Vec<_> = said(&mld).into_iter().map(|(_, report)| report).collect();
    assert_eq!(all, [MldReport::Done(group(2)), MldReport::Done(group(3))]);
    let later = NOW + V1_PRESENT;
    mld.queried(later, &query(None, false), random);
    let all = said(&mld);
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].1, records(MldRecordType::IsExclude, &[1]));
}

#[test]
fn a_report_of_many_groups_is_cut_to_fit() {
    // Breaks if a report is larger than the smallest MTU, or leaves groups out.
    let mld = Mld::new();
    let groups: Vec<_> = (0..150).map(group).collect();
    mld.set_groups(NOW, &groups);
    let reports = mld.run_timers(NOW, &mut Random::from_seed(1));
    let lens: Vec<_> = reports
        .iter()
        .map(|report| match report {
            MldReport::Records(records) => records.len(),
            _ => 0,
        })
        .collect();
    assert_eq!(lens, [60, 60, 30]);
}
