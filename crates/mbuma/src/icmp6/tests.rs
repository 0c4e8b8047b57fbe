use super::*;
use std::sync::Arc;

use kern::VirtualClock;

/// Breaks if the rate limit drops answers to traceroute, which sends 16 probes at once, or passes a flood.
#[test]
fn a_host_gets_the_errors_of_one_traceroute_at_once() {
    /// More than fit into one burst, even with the smallest random costs.
    const FLOOD: usize = 60;
    let now = Time::from_secs(1);
    for seed in 0..100 {
        let mut random = Random::from_seed(seed);
        let clock = Arc::new(VirtualClock::new(now));
        let config = Config::new(clock, random.fork());
        let state = Icmp6State::new(&config, &mut random);
        let to = Ipv6Addr::from(u128::from(seed));
        let sent = (0..FLOOD).take_while(|_| state.admit_error(to, IfIndex(1), now));
        let sent = sent.count();
        assert!((16..FLOOD).contains(&sent), "seed {seed}: {sent} errors");
    }
}

/// Breaks if a host that forges sources gets more errors out of an interface than its limit, or uses up the limit of
/// another interface.
#[test]
fn i4_each_interface_has_its_limit() {
    let mut random = Random::from_seed(1);
    let now = Time::from_secs(1);
    let config = Config::new(Arc::new(VirtualClock::new(now)), random.fork());
    let per_s = config.icmp_errors_per_s as usize;
    let state = Icmp6State::new(&config, &mut random);
    let host = |n: usize| Ipv6Addr::from(n as u128);
    let sent = |by, hosts: std::ops::Range<usize>| {
        let hosts = hosts.filter(|n| state.admit_error(host(*n), by, now));
        hosts.count()
    };
    // A burst of a tenth of a second, of messages that cost half of their share at least.
    let all = sent(IfIndex(1), 0..per_s);
    assert!((per_s / 20..per_s / 4).contains(&all), "{all} of {per_s}");
    assert_eq!(sent(IfIndex(1), per_s..2 * per_s), 0);
    assert!(sent(IfIndex(2), 2 * per_s..3 * per_s) > 0);
}
