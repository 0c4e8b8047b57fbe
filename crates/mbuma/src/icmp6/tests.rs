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
