use std::net::Ipv4Addr;
use std::task::Waker;

use kern::Random;
use mbuf::Live;

use super::*;
use crate::device::epair::{EpairConfig, EpairEnd, Input};
use crate::{Config, IfConfig};

const ALL: Budget = Budget {
    frames: usize::MAX,
    bytes: usize::MAX,
};

/// Breaks if a kept queue gives frames of an interface that is gone, or of its successor.
#[test]
fn a_queue_ends_with_its_interface() {
    let clock = Arc::new(kern::MonotonicClock::new());
    let stack = Stack::new(Config::new(clock, Random::from_seed(1))).unwrap();
    let (mut end, far) = EpairEnd::pair(EpairConfig::default());
    let config = || IfConfig::new("epair0").with_addr(Ipv4Addr::new(192, 0, 2, 1), 24);
    let index = end
        .attach(&stack, config(), Input::Polled(Waker::noop().clone()))
        .unwrap();

    let queue = stack.rx_queue(index, 0).unwrap();
    assert!(stack.rx_queue(index, 1).is_err());
    assert!(!queue.poll(ALL).unwrap());

    let again = end
        .attach(&stack, config(), Input::Polled(Waker::noop().clone()))
        .unwrap();
    let kind = |poll: io::Result<bool>| poll.unwrap_err().kind();
    assert_eq!(kind(queue.poll(ALL)), io::ErrorKind::NotFound);
    assert_eq!(
        kind(stack.poll_queue(index, 0, ALL)),
        io::ErrorKind::NotFound
    );
    assert!(!stack.rx_queue(again, 0).unwrap().poll(ALL).unwrap());

    let pool = stack.pool().clone();
    drop((end, far, queue, stack));
    assert_eq!(pool.live(), Live::NONE);
}
