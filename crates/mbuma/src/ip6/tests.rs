//! Tests of flow labels.

use std::net::Ipv6Addr;

use kern::Random;

use super::*;
use crate::inet::Pair;

#[test]
fn l1_a_flow_has_one_label_and_none_is_0() {
    // Breaks if a packet that is sent again has another label, flows share one more often than chance has it, or a host
    // that knows the ends of a flow knows its label.
    let [state, other] = [1, 2].map(|seed| {
        let random = &mut Random::from_seed(seed);
        Ip6State::new(&Config::from_system(), random)
    });
    let label_of = |state: &Ip6State, port| {
        let pair = Pair {
            local: Ipv6Addr::LOCALHOST,
            peer: Ipv6Addr::LOCALHOST,
            local_port: port,
            peer_port: 80,
        };
        state.flow_label(&Ends::V6(pair, 0))
    };
    let label = |port| label_of(&state, port);
    let same = (1..=1000).filter(|port| label(*port) == label_of(&other, *port));
    assert!(same.count() < 10);
    let mut all: Vec<u32> = (1..=1000).map(label).collect();
    assert!(all.iter().all(|label| (1..1 << 20).contains(label)));
    assert_eq!(label(1), all[0]);
    all.sort_unstable();
    all.dedup();
    assert!(all.len() > 990);
}
