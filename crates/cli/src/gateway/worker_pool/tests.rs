use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use kern::{Clock, Time, VirtualClock};

use super::{AcceptSteering, BUSY_BYTES, LOAD_RATIO, Phase, Quiescence, WorkerPool};
use crate::gateway::table::{Kind, Token};

fn worker_pool(count: usize) -> std::sync::Arc<WorkerPool> {
    WorkerPool::new(count, false).expect("descriptors")
}

/// Takes what lies on a worker's list; how much it was.
fn take(worker_pool: &WorkerPool, index: usize) -> usize {
    let mut taken = std::collections::VecDeque::new();
    worker_pool.ready(index).take_all(&mut taken);
    taken.iter().for_each(|wake| _ = wake.begin());
    taken.len()
}

#[test]
fn a_connection_knocks_at_the_worker_that_took_it_in() {
    // Breaks when a connection is served by another worker than the one that its packets come to.
    let worker_pool = worker_pool(3);
    let wakes = (0..3).map(|n| {
        worker_pool
            .ready(n)
            .waker_for(Token::only(Kind::Interceptor))
    });
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(Time::ZERO));
    let door: Waker = AcceptSteering::waker(&worker_pool, &clock, wakes.collect());
    let bound = worker_pool.bind(2);
    door.wake_by_ref();
    assert_eq!([0, 1, 2].map(|n| take(&worker_pool, n)), [0, 0, 1]);
    drop(bound);
    door.wake_by_ref();
    assert_eq!([0, 1, 2].map(|n| take(&worker_pool, n)), [1, 0, 0]);
}

#[test]
fn a_connection_goes_to_who_has_less_to_do_if_that_is_much_less() {
    // Breaks when a small request waits behind a bulk stream while another worker sleeps, or when short
    // connections wake other workers for nothing.
    let worker_pool = worker_pool(3);
    let now = Time::ZERO;
    let host = |now| [0, 1, 2].map(|own| worker_pool.worker_for(own, now));
    assert_eq!(host(now), [0, 1, 2]);
    worker_pool.record_load(1, now, BUSY_BYTES - 1);
    assert_eq!(host(now), [0, 1, 2], "not so much");
    assert!(!worker_pool.is_busy(now));
    worker_pool.record_load(1, now, 1);
    assert_eq!(host(now), [0, 0, 2]);
    assert!(worker_pool.is_busy(now), "one is enough");
    worker_pool.record_load(0, now, 1000);
    assert_eq!(host(now), [0, 2, 2]);
    worker_pool.record_load(2, now, BUSY_BYTES / LOAD_RATIO);
    worker_pool.record_load(0, now, BUSY_BYTES / LOAD_RATIO);
    assert_eq!(host(now), [0, 1, 2], "the others are not much cooler");
    worker_pool.record_load(1, now, BUSY_BYTES);
    assert_eq!(host(now), [0, 2, 2]);
    assert_eq!(host(now + Duration::from_secs(1)), [0, 1, 2], "long ago");
}

#[test]
fn a_connection_is_given_away_if_both_workers_have_less_than_one_had() {
    // Breaks when two workers send a stream to and fro, or all of a hot one's go to the other in one round.
    let worker_pool = worker_pool(2);
    let now = Time::ZERO;
    worker_pool.record_load(0, now, 8 * BUSY_BYTES);
    assert_eq!(worker_pool.rebalance_target(0, now, 0), Some(1));
    assert_eq!(
        worker_pool.rebalance_target(1, now, 0),
        None,
        "it is cool itself"
    );
    assert_eq!(
        worker_pool.rebalance_target(0, now, 8 * BUSY_BYTES),
        None,
        "it is the load_average"
    );
    assert_eq!(
        worker_pool.rebalance_target(0, now, 4 * BUSY_BYTES),
        None,
        "each has as much"
    );
    assert_eq!(worker_pool.rebalance_target(0, now, BUSY_BYTES), Some(1));
    worker_pool.record_load(1, now, BUSY_BYTES);
    assert_eq!(
        worker_pool.rebalance_target(0, now, BUSY_BYTES),
        None,
        "the other has enough"
    );
    worker_pool.record_load(1, now, BUSY_BYTES);
    assert_eq!(worker_pool.rebalance_target(0, now, 0), None);
    assert_eq!(worker_pool.rebalance_target(1, now, 0), None);
}

#[test]
fn the_guest_is_done_only_when_nobody_holds_anything() {
    // Breaks when bytes that one worker has handed to another are thrown away at the end.
    let worker_pool = worker_pool(2);
    assert!(
        !worker_pool.vote(0, Quiescence::Idle),
        "the other has not said so"
    );
    worker_pool
        .ready(0)
        .waker_for(Token::only(Kind::Connection))
        .wake();
    assert!(
        !worker_pool.vote(1, Quiescence::Idle),
        "something lies on the first one's list"
    );
    worker_pool.retract_vote(0);
    assert_eq!(take(&worker_pool, 0), 1);
    assert!(
        !worker_pool.vote(1, Quiescence::Idle),
        "the first is in the middle of it"
    );
    assert!(worker_pool.vote(0, Quiescence::Idle));
}

#[test]
fn who_has_waited_long_enough_is_done_whatever_comes() {
    // Breaks when a guest that left much running is served for ever, or one that says more is cut off.
    let worker_pool = worker_pool(2);
    worker_pool
        .ready(0)
        .waker_for(Token::only(Kind::Connection))
        .wake();
    assert!(!worker_pool.vote(0, Quiescence::TimedOut));
    worker_pool.retract_vote(0);
    assert!(
        worker_pool.vote(1, Quiescence::Idle),
        "the other's word stands"
    );
    assert!(
        !worker_pool.vote(0, Quiescence::Busy),
        "but it may take it back"
    );
    assert!(!worker_pool.vote(1, Quiescence::TimedOut));
    assert!(worker_pool.vote(0, Quiescence::TimedOut));
}

#[test]
fn whoever_settles_last_tells_the_first() {
    // Breaks when the end is noticed a quarter of a second late.
    let worker_pool = worker_pool(2);
    assert!(!worker_pool.vote(0, Quiescence::Idle));
    assert!(worker_pool.vote(1, Quiescence::Idle));
    assert_eq!(take(&worker_pool, 0), 1);
}

#[test]
fn a_worker_that_left_is_not_waited_for_and_the_first_hears_of_it() {
    // Breaks when an error of one worker leaves the others serving half a guest, or waiting for ever.
    let worker_pool = worker_pool(3);
    worker_pool.leave(2);
    assert!(worker_pool.has_lost_one());
    assert_eq!(take(&worker_pool, 0), 1);
    assert!(!worker_pool.vote(0, Quiescence::Idle));
    assert!(worker_pool.vote(1, Quiescence::Idle));
}

#[test]
fn the_phase_never_goes_back() {
    // Breaks when a late word to linger keeps workers that were told to end.
    let worker_pool = worker_pool(2);
    worker_pool.advance(Phase::End);
    worker_pool.advance(Phase::Linger);
    assert_eq!(worker_pool.phase(), Phase::End);
    assert_eq!([0, 1].map(|n| take(&worker_pool, n)), [1, 1]);
}
