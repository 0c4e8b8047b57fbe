//! A9: temporary addresses (RFC 8981).

use super::*;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

fn host_of(dad_transmits: u8) -> Host6 {
    Host6::new(Autoconf {
        dad_transmits,
        secret: [1; 16],
        temporary: Some(TemporaryPolicy::default()),
        ..Autoconf::default()
    })
}

/// All that the host does until then.
fn run(host: &Host6, until: Time, random: &mut Random, mut each: impl FnMut(Time, &HostAction)) {
    for _ in 0..10_000 {
        let Some(at) = host.deadline().filter(|at| *at <= until) else {
            return;
        };
        let actions = host.run_timers(at, || random.fork());
        actions.iter().for_each(|action| each(at, action));
    }
    panic!("it never sleeps");
}

/// Those from which connections may begin.
fn in_use(host: &Host6) -> Vec<Ipv6Addr> {
    let deprecated = host.deprecated();
    let mut temporary = host.temporary();
    temporary.retain(|addr| !deprecated.contains(addr));
    temporary
}

#[test]
fn a9_there_are_none_unless_they_are_asked_for() {
    // Breaks if a server's address changes from day to day.
    let host = host_with(0, 1);
    assert_eq!(
        added(&hears(&host, NOW, &[prefix(1, 100_000, 200_000)])).len(),
        1
    );
    assert!(host.temporary().is_empty() && !host.prefers_temporary());
}

#[test]
fn a9_each_is_followed_by_another_and_goes_a_day_later() {
    // Breaks if an address is used for longer than a day or kept for longer than two, if a moment has none that is fit
    // for new connections, or if all hosts of a network change at once (RFC 8981 sections 3.4, 3.5 and 3.8).
    let (host, random) = (host_of(0), &mut Random::from_seed(7));
    let forever = prefix(1, u32::MAX, u32::MAX);
    let first = added(&hears(&host, NOW, &[forever]));
    assert_eq!(host.temporary(), first[1..]);
    let mut made = vec![(NOW, first[1])];
    let mut over = Vec::new();
    for hour in 1..=10 * 24 {
        let until = NOW + HOUR * hour;
        run(&host, until, random, |at, action| match action {
            HostAction::Add(addr) => made.push((at, addr.addr)),
            HostAction::Remove(addr) => over.push((at, *addr)),
            _ => {}
        });
        let now = in_use(&host);
        assert!(now.len() == 1 || now.len() == 2, "{now:?}");
        assert_eq!(now.last(), Some(&made.last().unwrap().1));
        // A router that repeats itself makes none last longer.
        assert!(added(&hears(&host, until, &[forever])).is_empty());
    }
    let gaps = made.windows(2).map(|two| two[1].0 - two[0].0);
    let gaps: Vec<_> = gaps.collect();
    let least = DAY * 3 / 5 - secs(2);
    assert!(
        gaps.iter().all(|gap| (least..=DAY).contains(gap)),
        "{gaps:?}"
    );
    assert!(gaps.iter().any(|gap| *gap != gaps[0]), "{gaps:?}");
    let ends: Vec<_> = made
        .iter()
        .map(|(at, addr)| (*at + DAY * 2, *addr))
        .collect();
    assert!(over.len() >= 8 && ends.starts_with(&over), "{over:?}");
    let ids: std::collections::BTreeSet<_> = made.iter().map(|(_, addr)| *addr).collect();
    assert_eq!(ids.len(), made.len(), "no address comes again");
}

#[test]
fn a9_it_lasts_no_longer_than_its_prefix() {
    // Breaks if a host begins connections from a network that its router is about to leave, or takes a new address
    // there.
    let (host, random) = (host_of(0), &mut Random::from_seed(7));
    assert_eq!(
        added(&hears(&host, NOW, &[prefix(1, 2, 2000)])).len(),
        1,
        "too short"
    );
    assert_eq!(
        added(&hears(&host, NOW, &[prefix(1, 5000, 10_000)])).len(),
        1,
        "long enough"
    );
    let addr = host.temporary()[0];
    run(&host, NOW + secs(4999), random, |_, action| {
        assert!(
            !matches!(action, HostAction::Add(_)),
            "there is no time for one more"
        );
    });
    assert_eq!(in_use(&host), [addr]);
    assert!(added(&hears(&host, NOW + secs(4999), &[prefix(1, 0, 10_000)])).is_empty());
    assert_eq!(host.deprecated().len(), 2);
    let mut gone = Vec::new();
    run(
        &host,
        NOW + secs(20_000),
        random,
        |_, action| match action {
            HostAction::Add(addr) => panic!("{addr:?}"),
            HostAction::Remove(addr) => gone.push(*addr),
            _ => {}
        },
    );
    assert!(gone.contains(&addr) && host.temporary().is_empty());
}

#[test]
fn a9_none_is_made_after_four_that_others_have() {
    // Breaks if a station that claims every address makes a host try for ever, or takes its stable address with them
    // (RFC 8981 section 3.4, step 7).
    let (host, random) = (host_of(1), &mut Random::from_seed(7));
    hears(&host, NOW, &[prefix(1, 100_000, 200_000)]);
    let stable = host.tentative()[0];
    let mut tried = Vec::new();
    while let Some(addr) = host.tentative().into_iter().find(|addr| *addr != stable) {
        assert!(!tried.contains(&addr));
        tried.push(addr);
        host.claimed(NOW, addr, None, random);
    }
    assert_eq!(tried.len(), 1 + usize::from(TRIES_MAX));
    assert_eq!(host.given_up(), 1, "once, and not for each");
    let mut made = Vec::new();
    for hour in 0..48 {
        hears(&host, NOW + HOUR * hour, &[prefix(1, 100_000, 200_000)]);
        run(&host, NOW + HOUR * (hour + 1), random, |_, action| {
            made.extend(added(&[*action]));
        });
    }
    assert_eq!(made, [stable]);
    // The next network is another matter.
    hears(&host, NOW + HOUR * 48, &[prefix(2, 100_000, 200_000)]);
    assert_eq!(host.tentative().len(), 2);
}

#[test]
fn a9_they_are_bounded() {
    // Breaks if a station that invents prefixes gives a host addresses without bound.
    let (host, random) = (host_of(0), &mut Random::from_seed(7));
    for hour in 0..72 {
        let all: Vec<_> = (0..100).map(|n| prefix(n, u32::MAX, u32::MAX)).collect();
        for some in all.chunks(10) {
            hears(&host, NOW + HOUR * hour, some);
        }
        run(&host, NOW + HOUR * (hour + 1), random, |_, _| ());
        assert!((16..=32).contains(&host.temporary().len()));
    }
    let all = host.state.lock().learnt.len();
    assert!(all <= 3 * PREFIXES_MAX, "{all}");
}
