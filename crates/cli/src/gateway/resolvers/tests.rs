use std::net::SocketAddr;
use std::time::Duration;

use kern::Time;

use super::{DOWN, Resolvers};

const START: Time = Time::from_secs(100);

fn three() -> (Resolvers, [SocketAddr; 3]) {
    let addr = |n: u8| ([192, 0, 2, n], 53).into();
    let all = [addr(1), addr(2), addr(3)];
    (Resolvers::from_addrs(all.to_vec()), all)
}

#[test]
fn a_server_that_failed_is_asked_again_after_a_while() {
    // RFC 9520 3.2: breaks if a server that failed is never asked again, or is asked again at once.
    let (mut resolvers, [first, second, third]) = three();
    resolvers.refused(first, START);
    assert_eq!(resolvers.first(START), Some(second));
    assert_eq!(resolvers.next_after(second, START), Some(third));
    assert_eq!(
        resolvers.next_after(third, START),
        Some(second),
        "the first is down"
    );
    assert_eq!(resolvers.first(START + DOWN), Some(first));
    resolvers.refused(first, START);
    resolvers.answered(first, START);
    assert_eq!(resolvers.first(START), Some(first));
}

#[test]
fn one_slow_name_does_not_move_all_others() {
    // Breaks if a server that answers other questions is taken for dead because of one that it did not answer.
    let (mut resolvers, [first, second, _]) = three();
    let later = START + Duration::from_secs(3);
    resolvers.answered(first, START + Duration::from_secs(1));
    resolvers.silent(first, START, later);
    assert_eq!(resolvers.first(later), Some(first));
    assert_eq!(
        resolvers.next_after(first, later),
        Some(second),
        "the slow question itself"
    );
    resolvers.silent(first, later, later + Duration::from_secs(3));
    assert_eq!(
        resolvers.first(later + Duration::from_secs(3)),
        Some(second)
    );
}

#[test]
fn if_all_are_down_the_one_that_failed_first_is_asked() {
    // Breaks if once all servers have failed, the gateway asks none of them any more.
    let (mut resolvers, [first, second, third]) = three();
    for (n, addr) in [third, first, second].into_iter().enumerate() {
        resolvers.refused(addr, START + Duration::from_millis(n as u64));
    }
    assert_eq!(resolvers.first(START), Some(third));
}

#[test]
fn no_resolver_is_no_panic() {
    // Breaks when a host without name servers takes the gateway down with the first question.
    let mut resolvers = Resolvers::from_addrs(Vec::new());
    assert_eq!((resolvers.first(START), resolvers.len()), (None, 0));
    let addr = "192.0.2.1:53".parse().expect("an address");
    resolvers.refused(addr, START);
    assert_eq!(resolvers.next_after(addr, START), None);
}

#[test]
fn another_list_reaches_each_worker_with_what_is_known() {
    // Breaks if a worker goes on asking the servers of a network that the host has left, or forgets that a server in
    // both lists is down.
    let (mut resolvers, [first, second, third]) = three();
    let mut other_worker = resolvers.clone();
    other_worker.refused(second, START);
    let fourth = ([192, 0, 2, 4], 53).into();
    resolvers.replace_all(vec![second, fourth]);
    assert_eq!(resolvers.first(START), Some(second));
    assert_eq!(other_worker.first(START), Some(fourth));
    assert_eq!(other_worker.len(), 2);
    for gone in [first, third] {
        other_worker.refused(gone, START);
    }
    assert_eq!(other_worker.first(START + DOWN), Some(second));
}

#[test]
fn a_server_with_port_853_closed_is_still_asked_at_port_53() {
    // Breaks if a closed port 853 also stops plain questions to the server, or a new list reaches only one of the two
    // ports.
    let (mut resolvers, [first, second, _]) = three();
    let mut encrypted = resolvers.encrypted();
    let [first_tls, second_tls] = [first, second].map(|addr| (addr.ip(), 853).into());
    assert_eq!(encrypted.first(START), Some(first_tls));
    encrypted.refused(first_tls, START);
    assert_eq!(encrypted.first(START), Some(second_tls));
    assert_eq!(resolvers.first(START), Some(first));
    resolvers.replace_all(vec![second]);
    assert_eq!(encrypted.first(START), Some(second_tls));
    assert_eq!(resolvers.first(START), Some(second));
}
