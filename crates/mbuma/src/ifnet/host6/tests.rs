//! Tests of the decisions of a host, each named after the point that it stands for.

use wire::{PrefixInfo, RouterAdvert, is_same_prefix};

use super::*;

mod temporary;

const NOW: Time = Time::from_secs(1000);
const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

fn host_with(dad_transmits: u8, secret: u8) -> Host6 {
    Host6::new(Autoconf {
        dad_transmits,
        optimistic: false,
        accept_routers: true,
        secret: [secret; 16],
        temporary: None,
    })
}

fn prefix(n: u16, preferred_s: u32, valid_s: u32) -> PrefixInfo {
    PrefixInfo {
        prefix_len: 64,
        on_link: true,
        autonomous: true,
        valid_s,
        preferred_s,
        prefix: Ipv6Addr::new(0x2001, 0xdb8, 0, n, 0, 0, 0, 0),
    }
}

fn advert(lifetime: u16) -> RouterAdvert {
    RouterAdvert {
        hop_limit: 0,
        managed: false,
        other: false,
        lifetime,
        reachable_ms: 0,
        retrans_ms: 0,
    }
}

fn hears(host: &Host6, now: Time, prefixes: &[PrefixInfo]) -> Vec<HostAction> {
    let random = &mut Random::from_seed(1);
    host.advertised(now, ROUTER, &advert(1800), prefixes.iter().copied(), random)
}

/// No new address is to be made.
fn no_random() -> Random {
    panic!("an address is made")
}

fn added(actions: &[HostAction]) -> Vec<Ipv6Addr> {
    let added = actions.iter().filter_map(|action| match action {
        HostAction::Add(addr) => Some(addr.addr),
        _ => None,
    });
    added.collect()
}

fn secs(s: u64) -> Duration {
    Duration::from_secs(s)
}

#[test]
fn a5_a_prefix_makes_an_address_only_if_it_is_fit_for_one() {
    // Breaks if a prefix that is not for addresses makes one (RFC 4862 section 5.5.3).
    let fit = prefix(1, 100, 200);
    let unfit = [
        PrefixInfo {
            autonomous: false,
            ..fit
        },
        PrefixInfo {
            prefix_len: 63,
            ..fit
        },
        PrefixInfo {
            preferred_s: 201,
            ..fit
        },
        PrefixInfo {
            valid_s: 0,
            preferred_s: 0,
            ..fit
        },
        PrefixInfo {
            prefix: ROUTER,
            ..fit
        },
        PrefixInfo {
            prefix: wire::ALL_NODES,
            ..fit
        },
    ];
    for unfit in unfit {
        assert!(
            added(&hears(&host_with(0, 1), NOW, &[unfit])).is_empty(),
            "{unfit:?}"
        );
    }
    assert_eq!(added(&hears(&host_with(0, 1), NOW, &[fit])).len(), 1);
}

#[test]
fn a_neighbour_is_believed_for_an_hour_at_most() {
    // RFC 4861 6.3.4: breaks if one advertisement makes a host send to dead neighbours for weeks.
    let long = [3_600_000, 3_600_001, u32::MAX].map(|reachable_ms| {
        let advert = RouterAdvert {
            reachable_ms,
            ..advert(1800)
        };
        let random = &mut Random::from_seed(1);
        let actions = host_with(0, 1).advertised(NOW, ROUTER, &advert, [].into_iter(), random);
        let is_time = |action: &HostAction| matches!(action, HostAction::Reachable(_));
        actions.iter().any(is_time)
    });
    assert_eq!(long, [true, false, false]);
}

#[test]
fn a5_a_router_can_not_end_an_address_within_two_hours() {
    // Breaks if a forged advertisement takes a host's addresses away (RFC 4862 section 5.5.3 e).
    let host = host_with(0, 1);
    hears(&host, NOW, &[prefix(1, 50_000, 100_000)]);
    hears(&host, NOW, &[prefix(1, 1, 1)]);
    let later = NOW + secs(7199);
    assert!(
        !host
            .run_timers(later, no_random)
            .iter()
            .any(|a| matches!(a, HostAction::Remove(_)))
    );
    // Less than two hours are left: no shorter, longer is possible.
    hears(&host, later, &[prefix(1, 0, 0)]);
    hears(&host, later, &[prefix(1, 100, 300)]);
    assert!(
        !host
            .run_timers(later + secs(299), no_random)
            .iter()
            .any(|a| matches!(a, HostAction::Remove(_)))
    );
    let over = host.run_timers(later + secs(300), no_random);
    assert!(
        over.iter().any(|a| matches!(a, HostAction::Remove(_))),
        "{over:?}"
    );
}

#[test]
fn a6_an_address_is_deprecated_before_it_goes() {
    // Breaks if new connections begin from an address that is about to go.
    let host = host_with(0, 1);
    let addr = added(&hears(&host, NOW, &[prefix(1, 100, 10_000)]))[0];
    assert!(host.deprecated().is_empty());
    assert_eq!(host.deadline(), Some(NOW + secs(100)));
    host.run_timers(NOW + secs(100), no_random);
    assert_eq!(host.deprecated(), [addr]);
    assert_ne!(host.deadline(), Some(NOW + secs(100)));
    hears(&host, NOW + secs(200), &[prefix(1, 100, 10_000)]);
    assert!(host.deprecated().is_empty(), "a new advertisement");
}

#[test]
fn a7_prefixes_routers_and_redirects_are_bounded() {
    // Breaks if a station that invents prefixes, routers or destinations takes memory without bound.
    let host = host_with(1, 1);
    for n in 0..100 {
        hears(&host, NOW, &[prefix(n, 100, 200)]);
        let other = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 1, n);
        host.advertised(
            NOW,
            other,
            &advert(1800),
            [prefix(n, 100, 200)].into_iter(),
            &mut Random::from_seed(1),
        );
        host.redirected(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, n));
    }
    let state = host.state.lock();
    assert_eq!(state.tentative.addrs().count(), PREFIXES_MAX, "addresses");
    assert_eq!(state.assigned.deadlines().count(), 2 * PREFIXES_MAX);
    let bound = link::ROUTERS_MAX + PREFIXES_MAX + link::REDIRECTS_MAX;
    assert_eq!(state.routes.removals().count(), bound);
}

#[test]
fn a8_addresses_are_stable_differ_by_network_and_can_not_be_guessed() {
    // Breaks if a host can be followed from network to network, or changes its address in one (RFC 7217).
    let of = |secret, n| added(&hears(&host_with(0, secret), NOW, &[prefix(n, 100, 200)]))[0];
    assert_eq!(of(1, 1), of(1, 1));
    let id = |addr: Ipv6Addr| addr.to_bits() as u64;
    assert_ne!(id(of(1, 1)), id(of(1, 2)));
    assert_ne!(id(of(1, 1)), id(of(2, 1)));
    assert!(is_same_prefix(of(1, 1), prefix(1, 0, 0).prefix, 64));
    assert!(
        stable::is_reserved(0)
            && stable::is_reserved(0xfdff_ffff_ffff_ff80)
            && !stable::is_reserved(1)
    );
}

#[test]
fn a3_a_stable_address_that_another_has_is_followed_by_three_others() {
    // Breaks if a duplicate leaves a host without an address, or makes it try for ever (RFC 7217 section 6).
    let host = host_with(1, 1);
    hears(&host, NOW, &[prefix(1, 1000, 2000)]);
    let mut tried = Vec::new();
    while let Some(addr) = {
        let state = host.state.lock();
        state.tentative.addrs().next()
    } {
        assert!(!tried.contains(&addr));
        tried.push(addr);
        let follow = host.claimed(NOW, addr, None, &mut Random::from_seed(2));
        assert!(follow.is_empty() && !host.is_tentative(addr));
    }
    assert_eq!(tried.len(), 1 + usize::from(TRIES_MAX));
    assert_eq!(host.given_up(), 1, "once, and not for each");
}

#[test]
fn a_prefix_of_no_bits_is_not_the_link() {
    // Breaks if a router can make a host look for all destinations on its link.
    let host = host_with(0, 1);
    let all = PrefixInfo {
        prefix_len: 0,
        ..prefix(1, 100, 200)
    };
    let actions = hears(
        &host,
        NOW,
        &[
            all,
            PrefixInfo {
                prefix_len: 1,
                ..all
            },
        ],
    );
    let on_link = actions
        .iter()
        .filter(|a| matches!(a, HostAction::AddPrefix(_)));
    assert_eq!(on_link.count(), 1);
}

#[test]
fn a8_the_secret_is_not_printed() {
    // Breaks if a log tells strangers which addresses a host will have (RFC 7217 section 5).
    let text = format!("{:?}", host_with(0, 0xa7));
    assert!(!text.contains("167") && !text.contains("a7"), "{text}");
    assert!(text.contains("dad_transmits"), "{text}");
}

#[test]
fn routers_are_asked_less_and_less_often_until_one_answers() {
    // Breaks if a host on a link without routers floods it, or stops asking (RFC 7559).
    let host = host_with(0, 1);
    let random = &mut Random::from_seed(1);
    host.begin(NOW, &[], random);
    let mut now = NOW;
    let mut waits = Vec::new();
    for _ in 0..14 {
        let next = host.deadline().unwrap();
        waits.push((next - now).as_secs());
        now = next;
        assert_eq!(host.run_timers(now, no_random), [HostAction::Solicit]);
    }
    assert_eq!(waits[1..5], [4, 8, 16, 32]);
    assert_eq!(waits.last(), Some(&3600));
    hears(&host, now, &[]);
    assert_eq!(host.deadline(), Some(now + secs(1800)), "the router's end");
    // It must not be asked for afterwards either (RFC 4861 section 6.3.7).
    let over = host.run_timers(now + secs(1800), no_random);
    assert_eq!(over, [HostAction::RemoveRouter(ROUTER)]);
    assert_eq!(host.deadline(), None);
}
