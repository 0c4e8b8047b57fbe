use super::{Phase, Quiescence};
use crate::runtime::test_worker_set::{take, worker_set};

#[test]
fn the_service_ends_only_when_no_worker_holds_anything() {
    // Breaks when bytes that one worker has handed to another are lost at the end.
    let worker_set = worker_set(2);
    assert!(
        !worker_set.vote(0, Quiescence::Idle),
        "the other has not said so"
    );
    worker_set.ready(0).waker_for(1_u64).wake();
    assert!(
        !worker_set.vote(1, Quiescence::Idle),
        "something lies on the first one's list"
    );
    worker_set.retract_vote(0);
    assert_eq!(take(&worker_set, 0), 1);
    assert!(
        !worker_set.vote(1, Quiescence::Idle),
        "the first is in the middle of it"
    );
    assert!(worker_set.vote(0, Quiescence::Idle));
}

#[test]
fn a_worker_that_has_waited_long_enough_is_done_whatever_comes() {
    // Breaks when a guest whose processes go on is served for ever, or one that still sends is cut off.
    let worker_set = worker_set(2);
    worker_set.ready(0).waker_for(1_u64).wake();
    assert!(!worker_set.vote(0, Quiescence::TimedOut));
    worker_set.retract_vote(0);
    assert!(
        worker_set.vote(1, Quiescence::Idle),
        "the other's vote stands"
    );
    assert!(
        !worker_set.vote(0, Quiescence::Busy),
        "but it may vote again"
    );
    assert!(!worker_set.vote(1, Quiescence::TimedOut));
    assert!(worker_set.vote(0, Quiescence::TimedOut));
}

#[test]
fn the_last_vote_wakes_the_first_worker() {
    // Breaks when the end is noticed a quarter of a second late.
    let worker_set = worker_set(2);
    assert!(!worker_set.vote(0, Quiescence::Idle));
    assert!(worker_set.vote(1, Quiescence::Idle));
    assert_eq!(take(&worker_set, 0), 1);
}

#[test]
fn a_worker_that_left_is_not_waited_for_and_the_first_hears_of_it() {
    // Breaks when an error of one worker leaves the others serving half a guest, or waiting for ever.
    let worker_set = worker_set(3);
    worker_set.lose(2);
    assert!(worker_set.has_lost_one());
    assert_eq!(take(&worker_set, 0), 1);
    assert!(!worker_set.vote(0, Quiescence::Idle));
    assert!(worker_set.vote(1, Quiescence::Idle));
}

#[test]
fn the_phase_never_goes_back() {
    // Breaks when a late request to linger keeps workers that were told to end.
    let worker_set = worker_set(2);
    worker_set.advance(Phase::End);
    worker_set.advance(Phase::Linger);
    assert_eq!(worker_set.phase(), Phase::End);
    assert_eq!([0, 1].map(|n| take(&worker_set, n)), [1, 1]);
}
