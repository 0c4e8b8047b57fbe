//! Tests of a listener's reports and their times, each named after its point.

use proptest::collection::vec;
use wire::GroupRecordType;

use super::record::RECORDS6_LEN_MAX;
use super::*;
use crate::ifnet::source_filter::{FilterMode, SOURCES_MAX};

const NOW: Time = Time::from_secs(1000);

fn group(n: u16) -> IpAddr {
    IpAddr::from([0xff02, 0, 0, 0, 0, 0, 1, n])
}

fn query(group: Option<IpAddr>, is_v1: bool) -> GroupQuery {
    robust_query(group, is_v1, 0)
}

fn robust_query(group: Option<IpAddr>, is_v1: bool, robustness: u8) -> GroupQuery {
    let mut body = match group {
        Some(IpAddr::V6(group)) => group.octets().to_vec(),
        _ => vec![0; 16],
    };
    if !is_v1 {
        body.extend([robustness, 125, 0, 0]);
    }
    GroupQuery::parse_mld([0x03, 0xe8, 0, 0], &body).unwrap()
}

/// All reports until none is due any more, with their times.
fn said(mld: &GroupReports) -> Vec<(Time, GroupReport)> {
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

fn record(kind: GroupRecordType, n: u16, sources: &[u16]) -> GroupRecord {
    GroupRecord {
        kind,
        group: group(n),
        sources: sources.iter().copied().map(source).collect(),
    }
}

/// Records without sources.
fn records(kind: GroupRecordType, groups: &[u16]) -> GroupReport {
    GroupReport::Records(groups.iter().map(|n| record(kind, *n, &[])).collect())
}

fn source(n: u16) -> IpAddr {
    IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, n])
}

fn include(sources: &[u16]) -> SourceFilter {
    SourceFilter::include(sources.iter().copied().map(source))
}

fn exclude(sources: &[u16]) -> SourceFilter {
    SourceFilter::exclude(sources.iter().copied().map(source))
}

/// Sets these groups, for all senders.
fn set(mld: &GroupReports, groups: &[u16]) {
    let groups: Vec<_> = groups
        .iter()
        .map(|n| (group(*n), SourceFilter::all()))
        .collect();
    mld.set_groups(NOW, || groups.clone());
}

/// A listener in these groups that has reported them.
fn settled(groups: &[u16]) -> GroupReports {
    let mld = GroupReports::new();
    set(&mld, groups);
    said(&mld);
    mld
}

#[test]
fn m1_a_change_is_said_twice_within_a_second() {
    // Breaks if a router that misses one message does not hear of a group, or that it was left.
    let mld = GroupReports::new();
    set(&mld, &[1]);
    let all = said(&mld);
    assert_eq!(all.len(), 2);
    assert!(
        all.iter()
            .all(|(_, r)| *r == records(GroupRecordType::ToExclude, &[1]))
    );
    assert_eq!(all[0].0, NOW);
    assert!(all[1].0 > NOW && all[1].0 <= NOW + CHANGE_INTERVAL);
    set(&mld, &[1]);
    assert!(said(&mld).is_empty(), "nothing changed");
    mld.begin_anew(NOW);
    assert_eq!(said(&mld).len(), 2);
    set(&mld, &[]);
    let all = said(&mld);
    assert_eq!(all.len(), 2);
    assert!(
        all.iter()
            .all(|(_, r)| *r == records(GroupRecordType::ToInclude, &[1]))
    );
    // A group that is joined again before its end was reported counts as joined.
    set(&mld, &[2]);
    set(&mld, &[]);
    set(&mld, &[2]);
    assert!(
        said(&mld)
            .iter()
            .all(|(_, r)| *r == records(GroupRecordType::ToExclude, &[2]))
    );
}

#[test]
fn m2_a_question_is_answered_once_within_its_limit() {
    // Breaks if a router gets no report, all hosts report at once, or two queries get the same report twice.
    let random = &mut Random::from_seed(7);
    let mld = settled(&[1, 2]);
    mld.queried(NOW, &query(None, false), &[], random);
    mld.queried(NOW, &query(None, false), &[], random);
    let all = said(&mld);
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].1, records(GroupRecordType::IsExclude, &[1, 2]));
    assert!(all[0].0 <= NOW + Duration::from_secs(1));
    mld.queried(NOW, &query(Some(group(2)), false), &[], random);
    mld.queried(NOW, &query(Some(group(9)), false), &[], random);
    let all = said(&mld);
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].1, records(GroupRecordType::IsExclude, &[2]));
    mld.queried(NOW, &robust_query(None, false, 4), &[], random);
    said(&mld);
    set(&mld, &[1]);
    assert_eq!(said(&mld).len(), 4, "as the router asks for");
}

#[test]
fn m2_questions_without_end_get_few_answers() {
    // Breaks if a station of the link makes a listener send many messages for each of its own, by questions that must
    // be answered at once.
    for (is_v1, about) in [(false, None), (false, Some(group(1))), (true, None)] {
        let mld = settled(&[1]);
        let mut at_once = query(about, is_v1);
        at_once.max_delay_ms = 0;
        let random = &mut Random::from_seed(7);
        let mut answers = 0;
        for ms in 0..1000 {
            let now = NOW + Duration::from_millis(ms);
            mld.queried(now, &at_once, &[], random);
            let said = mld.run_timers(now, random).len();
            assert!(ms > 0 || said == 1, "the first is answered at once");
            answers += said;
        }
        assert_eq!(answers, 100);
    }
}

#[test]
fn m2_and_m3_a_router_of_version_1_is_spoken_to_in_its_version() {
    // Breaks if a router of version 1 does not understand a host, a host reports a group that another has reported, or
    // uses the old version for ever.
    let random = &mut Random::from_seed(7);
    let mld = settled(&[1, 2, 3]);
    mld.queried(NOW, &query(None, false), &[], random);
    mld.queried(NOW, &query(None, true), &[], random);
    mld.heard(NOW, group(2));
    let mut all: Vec<_> = said(&mld).into_iter().map(|(_, report)| report).collect();
    all.sort_by_key(|report| format!("{report:?}"));
    assert_eq!(
        all,
        [
            GroupReport::Listening(group(1), GroupVersion::Leaves),
            GroupReport::Listening(group(3), GroupVersion::Leaves)
        ]
    );
    set(&mld, &[1]);
    let all: Vec<_> = said(&mld).into_iter().map(|(_, report)| report).collect();
    assert_eq!(
        all,
        [GroupReport::Done(group(2)), GroupReport::Done(group(3))]
    );
    let later = NOW + OLDER_PRESENT;
    mld.queried(later, &query(None, false), &[], random);
    let all = said(&mld);
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].1, records(GroupRecordType::IsExclude, &[1]));
}

#[test]
fn m3_another_version_ends_what_is_under_way() {
    // RFC 9777 section 8.2.1, RFC 9776 section 7.2.1: breaks if answers or repetitions that were under way come in the
    // form of another version, or if a change that no report had yet is lost.
    let random = &mut Random::from_seed(7);
    let reports = |mld: &GroupReports| -> Vec<_> {
        let all = said(mld).into_iter();
        all.map(|(_, report)| report).collect()
    };
    let first = |mld: &GroupReports, random: &mut Random| mld.run_timers(NOW, random).len();
    // A router of version 1 comes while a report of version 2 waits for its repetition, and an answer for its time.
    let about_group_9 = query(Some(group(9)), true);
    let mld = settled(&[1]);
    set(&mld, &[1, 2]);
    assert_eq!(first(&mld, random), 1);
    mld.queried(NOW, &query(None, false), &[], random);
    mld.queried(NOW, &about_group_9, &[], random);
    assert_eq!((reports(&mld), mld.deadline()), (vec![], None));
    // The next change does not bring the repetition back.
    let listening = |n| GroupReport::Listening(group(n), GroupVersion::Leaves);
    set(&mld, &[1, 2, 3]);
    assert_eq!(reports(&mld), [listening(3), listening(3)]);
    // The change that it overtakes is reported in its form.
    let mld = settled(&[1]);
    set(&mld, &[1, 2]);
    mld.queried(NOW, &about_group_9, &[], random);
    assert_eq!(reports(&mld), [listening(2), listening(2)]);
    // A router of version 1 is gone while its answers wait.
    let mld = settled(&[1]);
    mld.queried(NOW, &query(None, true), &[], random);
    let gone = NOW + OLDER_PRESENT;
    assert_eq!(mld.run_timers(gone, random), []);
    assert_eq!(mld.deadline(), None);
    // A change that comes with the end of the old version is reported in the new one.
    let mld = settled(&[1]);
    mld.queried(NOW, &about_group_9, &[], random);
    let both = || [1, 2].map(|n| (group(n), SourceFilter::all())).to_vec();
    mld.set_groups(gone, both);
    let joined = || records(GroupRecordType::ToExclude, &[2]);
    assert_eq!(reports(&mld), [joined(), joined()]);
}

#[test]
fn a_report_of_many_groups_is_cut_to_fit() {
    // Breaks if a report is larger than the smallest MTU, or leaves groups out.
    let mld = GroupReports::new();
    let groups: Vec<_> = (0..150).collect();
    set(&mld, &groups);
    let reports = mld.run_timers(NOW, &mut Random::from_seed(1));
    let lens: Vec<_> = reports
        .iter()
        .map(|report| match report {
            GroupReport::Records(records) => records.len(),
            _ => 0,
        })
        .collect();
    assert_eq!(lens, [61, 61, 28]);
}

#[test]
fn a_report_of_many_groups_of_ipv4_is_cut_to_fit() {
    // RFC 9776 section 4.2.16: breaks if a report is larger than the packet that each host takes, or leaves groups out.
    let igmp = GroupReports::new();
    let groups = (0..150).map(|n| (group4(n), SourceFilter::all()));
    let groups: Vec<_> = groups.collect();
    igmp.set_groups(NOW, || groups.clone());
    let reports = igmp.run_timers(NOW, &mut Random::from_seed(1));
    let records = reports.iter().map(|report| match report {
        GroupReport::Records(records) => records,
        other => panic!("{other:?}"),
    });
    let lens: Vec<_> = records.map(Vec::len).collect();
    assert_eq!(lens, [68, 68, 14]);
}

/// A group of IPv4.
fn group4(n: u8) -> IpAddr {
    IpAddr::from([239, 1, 2, n])
}

#[test]
fn igmp_speaks_to_the_oldest_router_that_is_present() {
    // RFC 9776 section 7.2.1, RFC 2236 sections 4 and 3: breaks if a router of an older version does not understand a
    // host, if one of the oldest version hears of the end of a listener, which it does not know; if an earlier query is
    // answered in the version of its own router after one of an older router; or if a version is used for ever, or not
    // long enough.
    use GroupVersion::{Leaves, Reports};
    let random = &mut Random::from_seed(7);
    let igmp = GroupReports::new();
    let set = |now: Time, groups: &[u8]| {
        let groups: Vec<_> = groups
            .iter()
            .map(|n| (group4(*n), SourceFilter::all()))
            .collect();
        igmp.set_groups(now, || groups.clone());
        said(&igmp)
            .into_iter()
            .map(|(_, report)| report)
            .collect::<Vec<_>>()
    };
    let mut ask = |now: Time, code: u8, len: usize| {
        let query = GroupQuery::parse_igmp(code, &[0; 8][..len]).unwrap();
        igmp.queried(now, &query, &[], random);
    };
    let answers = || {
        said(&igmp)
            .into_iter()
            .map(|(_, report)| report)
            .collect::<Vec<_>>()
    };
    let is = |kind, n| {
        let (group, sources) = (group4(n), Vec::new());
        GroupReport::Records(vec![GroupRecord {
            kind,
            group,
            sources,
        }])
    };
    let listening = |version| GroupReport::Listening(group4(1), version);
    let twice = |report: fn(u8) -> GroupReport, n| vec![report(n), report(n)];
    assert_eq!(set(NOW, &[1]).len(), 2);
    ask(NOW, 10, 8);
    ask(NOW, 10, 4);
    assert_eq!(answers(), [listening(Leaves)]);
    let joined = |n| GroupReport::Listening(group4(n), Leaves);
    assert_eq!(set(NOW, &[1, 2]), twice(joined, 2));
    assert_eq!(set(NOW, &[1]), [GroupReport::Done(group4(2))]);
    let second = Duration::from_secs(1);
    ask(NOW + second, 10, 4);
    ask(NOW + second, 0, 4);
    assert_eq!(answers(), [listening(Reports)]);
    let joined = |n| GroupReport::Listening(group4(n), Reports);
    assert_eq!(set(NOW + second, &[1, 2]), twice(joined, 2));
    assert_eq!(set(NOW + second, &[1]), []);
    // Two routers: the older one counts until it has been silent for long.
    let later = NOW + second + OLDER_PRESENT;
    let last = NOW + OLDER_PRESENT - second;
    ask(last, 10, 4);
    assert_eq!(answers(), [listening(Reports)]);
    ask(later, 10, 8);
    assert_eq!(answers(), [listening(Leaves)]);
    let later = last + OLDER_PRESENT;
    ask(later, 10, 8);
    assert_eq!(answers(), [is(GroupRecordType::IsExclude, 1)]);
}

/// The reports of a change of group 1 from one filter to another, and of further changes that follow at once.
fn changes(filters: &[SourceFilter]) -> Vec<GroupReport> {
    let mld = GroupReports::new();
    let (first, rest) = filters.split_first().unwrap();
    mld.set_groups(NOW, || vec![(group(1), first.clone())]);
    said(&mld);
    let mut random = Random::from_seed(1);
    let mut all = Vec::new();
    for filter in rest {
        mld.set_groups(NOW, || vec![(group(1), filter.clone())]);
        all.extend(mld.run_timers(NOW, &mut random));
    }
    all.extend(said(&mld).into_iter().map(|(_, report)| report));
    all
}

#[test]
fn m1_a_change_of_sources_is_said_as_the_table_of_the_rfc_has_it() {
    // RFC 9777 section 6.1: breaks if a router goes on sending what no program takes, or does not begin to send what
    // one takes.
    use GroupRecordType::*;
    for (from, to, said) in [
        (include(&[]), include(&[1]), vec![(AllowNew, &[1][..])]),
        (
            include(&[1, 2]),
            include(&[2, 3]),
            vec![(AllowNew, &[3]), (BlockOld, &[1])],
        ),
        (include(&[1, 2]), include(&[]), vec![(BlockOld, &[1, 2])]),
        (
            exclude(&[1, 2]),
            exclude(&[2, 3]),
            vec![(AllowNew, &[1]), (BlockOld, &[3])],
        ),
        (include(&[1]), exclude(&[2]), vec![(ToExclude, &[2])]),
        (exclude(&[2]), include(&[1]), vec![(ToInclude, &[1])]),
        (exclude(&[2]), include(&[]), vec![(ToInclude, &[])]),
    ] {
        let expected = said
            .into_iter()
            .map(|(kind, sources)| record(kind, 1, sources));
        let report = GroupReport::Records(expected.collect());
        let seen = changes(&[from.clone(), to.clone()]);
        assert_eq!(seen.len(), 2, "{from:?} to {to:?}");
        assert!(seen.iter().all(|seen| *seen == report), "{seen:?}");
    }
}

#[test]
fn m1_a_change_is_merged_with_one_that_must_be_said_again() {
    // RFC 9777 section 6.1: breaks if a second change takes the place of the first before a lost report of that was
    // repeated.
    use GroupRecordType::*;
    let report = |all: &[(GroupRecordType, &[u16])]| {
        let all = all.iter().map(|(kind, sources)| record(*kind, 1, sources));
        GroupReport::Records(all.collect())
    };
    // The first change is said twice in all, and so is the second.
    let seen = changes(&[include(&[9]), include(&[1, 9]), include(&[1])]);
    let both = report(&[(AllowNew, &[1]), (BlockOld, &[9])]);
    let second = report(&[(BlockOld, &[9])]);
    assert_eq!(seen, [report(&[(AllowNew, &[1])]), both, second]);
    // A source that is given up again at once is blocked, although a router may have heard nothing of it.
    let seen = changes(&[include(&[9]), include(&[1, 9]), include(&[9])]);
    let block = || report(&[(BlockOld, &[1])]);
    assert_eq!(seen, [report(&[(AllowNew, &[1])]), block(), block()]);
    // While the whole filter is said, it has the later change in it; then that change is said alone, until it was said
    // twice.
    let seen = changes(&[include(&[9]), exclude(&[]), exclude(&[1])]);
    let whole = [&[][..], &[1]].map(|sources| report(&[(ToExclude, sources)]));
    assert_eq!(seen[..2], whole);
    assert_eq!(seen[2..], [report(&[(BlockOld, &[1])])]);
}

#[test]
fn m2_a_question_about_sources_is_answered_with_those_that_are_taken() {
    // RFC 9777 sections 6.2 and 6.3: breaks if a router believes that the last listener of a source has left, or gets
    // an answer about sources that it has not asked for.
    use GroupRecordType::*;
    let random = &mut Random::from_seed(7);
    let about = |sources: &[u16]| sources.iter().copied().map(source).collect::<Vec<_>>();
    let one = query(Some(group(1)), false);
    for (filter, asked, answer) in [
        (include(&[1, 2]), vec![], Some((IsInclude, &[1, 2][..]))),
        (include(&[1, 2]), vec![2, 3], Some((IsInclude, &[2]))),
        (include(&[1, 2]), vec![3], None),
        (exclude(&[1, 2]), vec![], Some((IsExclude, &[1, 2]))),
        (exclude(&[1, 2]), vec![2, 3], Some((IsInclude, &[3]))),
        (exclude(&[1, 2]), vec![1], None),
    ] {
        let mld = GroupReports::new();
        mld.set_groups(NOW, || vec![(group(1), filter.clone())]);
        said(&mld);
        mld.queried(NOW, &one, &about(&asked), random);
        let seen: Vec<_> = said(&mld).into_iter().map(|(_, report)| report).collect();
        let answer = answer.map(|(kind, sources)| record(kind, 1, sources));
        let answer: Vec<_> = answer
            .map(|record| GroupReport::Records(vec![record]))
            .into_iter()
            .collect();
        assert_eq!(seen, answer, "{filter:?}, asked for {asked:?}");
    }
    // Two questions are answered together, and one about the whole group covers those about sources.
    let mld = GroupReports::new();
    mld.set_groups(NOW, || vec![(group(1), include(&[1, 2, 3]))]);
    said(&mld);
    for (asked, answer) in [
        (vec![vec![1], vec![2, 9]], vec![1, 2]),
        (vec![vec![1], vec![]], vec![1, 2, 3]),
    ] {
        for asked in asked {
            mld.queried(NOW, &one, &about(&asked), random);
        }
        let seen = said(&mld);
        let expected = GroupReport::Records(vec![record(IsInclude, 1, &answer)]);
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].1, expected);
    }
}

#[test]
fn m2_a_router_that_asks_for_ever_new_sources_takes_no_memory() {
    // Breaks if a hostile querier makes the list of asked sources grow.
    let random = &mut Random::from_seed(7);
    let mld = settled(&[1]);
    for n in 0..1000 {
        mld.queried(
            NOW,
            &query(Some(group(1)), false),
            &[source(2 * n), source(2 * n + 1)],
            random,
        );
        let state = mld.state.lock();
        let asked = state.groups[0].answer.as_ref().unwrap();
        assert!(asked.sources.len() <= SOURCES_MAX);
    }
    assert_eq!(said(&mld)[0].1, records(GroupRecordType::IsExclude, &[1]));
}

#[test]
fn m3_a_router_of_version_1_hears_of_groups_and_not_of_sources() {
    // Breaks if a listener of some sources gets nothing by a router of version 1, or does not say that it has left.
    let random = &mut Random::from_seed(7);
    let mld = settled(&[]);
    mld.queried(NOW, &query(None, true), &[], random);
    let set = |filter: SourceFilter| -> Vec<_> {
        mld.set_groups(NOW, || vec![(group(1), filter.clone())]);
        let all = said(&mld).into_iter().map(|(_, report)| report);
        all.collect()
    };
    let listening = || GroupReport::Listening(group(1), GroupVersion::Leaves);
    assert_eq!(set(include(&[1])), [listening(), listening()]);
    assert_eq!(set(include(&[])), [GroupReport::Done(group(1))]);
    assert_eq!(set(include(&[])), []);
}

#[test]
fn m3_a_router_of_version_1_hears_of_no_group_of_source_specific_multicast() {
    // Breaks if such a router is asked for all senders of a group that has listeners to named senders only (RFC 4604).
    let random = &mut Random::from_seed(7);
    let one = IpAddr::from([0xff35, 0, 0, 0, 0, 0, 0, 1]);
    let mld = settled(&[]);
    let set = |filter: SourceFilter| {
        mld.set_groups(NOW, || {
            vec![(group(1), filter.clone()), (one, filter.clone())]
        });
        let reports = said(&mld).into_iter().map(|(_, report)| report);
        reports.collect::<Vec<_>>()
    };
    mld.queried(NOW, &query(None, true), &[], random);
    let listening = || GroupReport::Listening(group(1), GroupVersion::Leaves);
    assert_eq!(set(include(&[1])), [listening(), listening()]);
    for about in [None, Some(one)] {
        mld.queried(NOW, &query(about, true), &[], random);
        let said = said(&mld).len();
        assert_eq!(said, usize::from(about.is_none()));
    }
    assert_eq!(set(include(&[])), [GroupReport::Done(group(1))]);
}

proptest::proptest! {
    /// Breaks if a router that misses one of two reports, the first of each change if it can, does not know in the end
    /// what the interface takes; or if a message does not fit the smallest MTU.
    #[test]
    fn m1_a_router_knows_in_the_end_what_is_taken(
        steps in vec((proptest::bool::ANY, vec(0..6_u16, 0..4), 0..3_u8), 1..12),
        seed: u64,
    ) {
        use GroupRecordType::*;
        let mut random = Random::from_seed(seed);
        let mld = GroupReports::new();
        let mut router = Vec::new();
        let mut now = NOW;
        let mut last = SourceFilter::none();
        let mut was_missed = false;
        let mut hear = |reports: Vec<GroupReport>, is_missed: bool| {
            if reports.is_empty() {
                return;
            }
            was_missed = is_missed && !was_missed;
            for report in reports {
                let GroupReport::Records(records) = report else { panic!("version 2") };
                assert!(records.iter().map(GroupRecord::len).sum::<usize>() <= RECORDS6_LEN_MAX);
                if !was_missed {
                    router.extend(records);
                }
            }
        };
        for (is_include, sources, reports) in steps {
            last = if is_include { include(&sources) } else { exclude(&sources) };
            mld.set_groups(now, || vec![(group(1), last.clone())]);
            // The report that goes at once is missed; further ones may come before the next change.
            hear(mld.run_timers(now, &mut random), true);
            for _ in 0..reports {
                if let Some(at) = mld.deadline() {
                    now = at;
                    hear(mld.run_timers(at, &mut random), false);
                }
            }
        }
        while let Some(at) = mld.deadline() {
            hear(mld.run_timers(at, &mut random), false);
        }
        // The router's state of the group, by RFC 9777 section 7.4: a source is forwarded or not.
        let mut known = SourceFilter::none();
        for record in router {
            let listed = |filter: &SourceFilter, add: &[IpAddr], remove: &[IpAddr]| {
                let kept = filter.sources().iter().filter(|s| !remove.contains(s));
                kept.chain(add).copied().collect::<Vec<_>>()
            };
            known = match (record.kind, known.mode()) {
                (ToInclude, _) => SourceFilter::include(record.sources),
                (ToExclude, _) => SourceFilter::exclude(record.sources),
                (AllowNew, FilterMode::Include) => SourceFilter::include(listed(&known, &record.sources, &[])),
                (AllowNew, FilterMode::Exclude) => SourceFilter::exclude(listed(&known, &[], &record.sources)),
                (BlockOld, FilterMode::Include) => SourceFilter::include(listed(&known, &[], &record.sources)),
                (BlockOld, FilterMode::Exclude) => SourceFilter::exclude(listed(&known, &record.sources, &[])),
                (IsInclude | IsExclude, _) => panic!("no question was asked"),
            };
        }
        proptest::prop_assert_eq!(known, last);
    }
}

proptest::proptest! {
    /// Breaks if a router that asks what it likes, in both versions, makes a list grow, the listener send more than an
    /// answer for each question and the repetitions of each change, or send without end; or if an honest router hears
    /// the wrong filter later.
    #[test]
    fn m2_a_hostile_router_costs_no_more_than_its_answers(
        steps in vec((0..3_u8, 0..3_u16, vec(0..200_u16, 0..70), 0..8_u8, 0..4_u64), 1..60),
        seed: u64,
    ) {
        let mut random = Random::from_seed(seed);
        let mld = GroupReports::new();
        let mut now = NOW;
        let mut last = std::collections::BTreeMap::new();
        let (mut sent, mut limit) = (0, 0);
        for (kind, n, sources, robustness, pause) in steps {
            // 0: no group.
            let about = (n > 0).then(|| group(n));
            match (kind, about) {
                (0, Some(about)) => {
                    let list = &sources[..sources.len().min(9)];
                    let filter = if robustness % 2 == 0 { include(list) } else { exclude(list) };
                    last.insert(about, filter);
                    let wanted: Vec<_> = last.clone().into_iter().collect();
                    mld.set_groups(now, || wanted.clone());
                    // A message for each of the reports, and one that the filters of both groups may not fit.
                    limit += 2 * (7 + 1);
                }
                _ => {
                    let sources: Vec<_> = sources.iter().copied().map(source).collect();
                    let sources = if about.is_some() && sources.len() <= SOURCES_MAX { sources } else { Vec::new() };
                    mld.queried(now, &robust_query(about, kind == 1, robustness), &sources, &mut random);
                    limit += 2;
                }
            }
            now += Duration::from_millis(300 * pause);
            sent += mld.run_timers(now, &mut random).len();
            let state = mld.state.lock();
            proptest::prop_assert!(state.groups.len() <= 2);
            for known in &state.groups {
                let asked = known.answer.as_ref().map_or(0, |answer| answer.sources.len());
                proptest::prop_assert!(asked <= SOURCES_MAX);
                // Each change adds at most those of two filters, and is forgotten after seven reports.
                proptest::prop_assert!(known.source_reports.len() <= 7 * 2 * 9);
            }
        }
        while let Some(at) = mld.deadline() {
            now = now.max(at);
            sent += mld.run_timers(now, &mut random).len();
            proptest::prop_assert!(sent <= limit, "{} of {}", sent, limit);
        }
        // The router of version 1 is silent for long.
        let later = now + OLDER_PRESENT;
        mld.queried(later, &query(None, false), &[], &mut random);
        let mut seen = std::collections::BTreeMap::new();
        for (_, report) in said(&mld) {
            let GroupReport::Records(records) = report else { panic!("version 2") };
            for record in records {
                let filter = match record.kind {
                    GroupRecordType::IsInclude => SourceFilter::include(record.sources),
                    GroupRecordType::IsExclude => SourceFilter::exclude(record.sources),
                    other => panic!("{other:?}"),
                };
                seen.insert(record.group, filter);
            }
        }
        last.retain(|_, filter| !filter.is_none());
        proptest::prop_assert_eq!(seen, last);
    }
}
