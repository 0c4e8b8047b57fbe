use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use kern::{Clock, Time, VirtualClock};

use super::{Crew, Door, HOT, HOTTER, Phase, Rest};
use crate::gateway::table::{Kind, Token};

fn crew(count: usize) -> std::sync::Arc<Crew> {
    Crew::new(count).expect("descriptors")
}

/// Takes what lies on a worker's list; how much it was.
fn take(crew: &Crew, index: usize) -> usize {
    let mut taken = std::collections::VecDeque::new();
    crew.ready(index).take_all(&mut taken);
    taken.iter().for_each(|wake| _ = wake.begin());
    taken.len()
}

#[test]
fn a_connection_knocks_at_the_worker_that_took_it_in() {
    // Breaks when a connection is served by another worker than the one that its packets come to.
    let crew = crew(3);
    let wakes = (0..3).map(|n| crew.ready(n).wake_for(Token::only(Kind::Interceptor)));
    let clock: Arc<dyn Clock> = Arc::new(VirtualClock::new(Time::ZERO));
    let door: Waker = Door::waker(&crew, &clock, wakes.collect());
    let bound = crew.bind(2);
    door.wake_by_ref();
    assert_eq!([0, 1, 2].map(|n| take(&crew, n)), [0, 0, 1]);
    drop(bound);
    door.wake_by_ref();
    assert_eq!([0, 1, 2].map(|n| take(&crew, n)), [1, 0, 0]);
}

#[test]
fn a_connection_goes_to_who_has_less_to_do_if_that_is_much_less() {
    // Breaks when a small request waits behind a bulk stream while another worker sleeps, or when short
    // connections wake other workers for nothing.
    let crew = crew(3);
    let now = Time::ZERO;
    let host = |now| [0, 1, 2].map(|own| crew.host_for(own, now));
    assert_eq!(host(now), [0, 1, 2]);
    crew.warm(1, now, HOT - 1);
    assert_eq!(host(now), [0, 1, 2], "not so much");
    assert!(!crew.is_busy(now));
    crew.warm(1, now, 1);
    assert_eq!(host(now), [0, 0, 2]);
    assert!(crew.is_busy(now), "one is enough");
    crew.warm(0, now, 1000);
    assert_eq!(host(now), [0, 2, 2]);
    crew.warm(2, now, HOT / HOTTER);
    crew.warm(0, now, HOT / HOTTER);
    assert_eq!(host(now), [0, 1, 2], "the others are not much cooler");
    crew.warm(1, now, HOT);
    assert_eq!(host(now), [0, 2, 2]);
    assert_eq!(host(now + Duration::from_secs(1)), [0, 1, 2], "long ago");
}

#[test]
fn a_connection_is_given_away_if_both_workers_have_less_than_one_had() {
    // Breaks when two workers send a stream to and fro, or all of a hot one's go to the other in one round.
    let crew = crew(2);
    let now = Time::ZERO;
    crew.warm(0, now, 8 * HOT);
    assert_eq!(crew.relief(0, now, 0), Some(1));
    assert_eq!(crew.relief(1, now, 0), None, "it is cool itself");
    assert_eq!(crew.relief(0, now, 8 * HOT), None, "it is the heat");
    assert_eq!(crew.relief(0, now, 4 * HOT), None, "each has as much");
    assert_eq!(crew.relief(0, now, HOT), Some(1));
    crew.warm(1, now, HOT);
    assert_eq!(crew.relief(0, now, HOT), None, "the other has enough");
    crew.warm(1, now, HOT);
    assert_eq!(crew.relief(0, now, 0), None);
    assert_eq!(crew.relief(1, now, 0), None);
}

#[test]
fn the_guest_is_done_only_when_nobody_holds_anything() {
    // Breaks when bytes that one worker has handed to another are thrown away at the end.
    let crew = crew(2);
    assert!(!crew.settle(0, Rest::Idle), "the other has not said so");
    crew.ready(0).wake_for(Token::only(Kind::Connection)).wake();
    assert!(
        !crew.settle(1, Rest::Idle),
        "something lies on the first one's list"
    );
    crew.unsettle(0);
    assert_eq!(take(&crew, 0), 1);
    assert!(
        !crew.settle(1, Rest::Idle),
        "the first is in the middle of it"
    );
    assert!(crew.settle(0, Rest::Idle));
}

#[test]
fn who_has_waited_long_enough_is_done_whatever_comes() {
    // Breaks when a guest that left much running is served for ever, or one that says more is cut off.
    let crew = crew(2);
    crew.ready(0).wake_for(Token::only(Kind::Connection)).wake();
    assert!(!crew.settle(0, Rest::Late));
    crew.unsettle(0);
    assert!(crew.settle(1, Rest::Idle), "the other's word stands");
    assert!(!crew.settle(0, Rest::No), "but it may take it back");
    assert!(!crew.settle(1, Rest::Late));
    assert!(crew.settle(0, Rest::Late));
}

#[test]
fn whoever_settles_last_tells_the_first() {
    // Breaks when the end is noticed a quarter of a second late.
    let crew = crew(2);
    assert!(!crew.settle(0, Rest::Idle));
    assert!(crew.settle(1, Rest::Idle));
    assert_eq!(take(&crew, 0), 1);
}

#[test]
fn a_worker_that_left_is_not_waited_for_and_the_first_hears_of_it() {
    // Breaks when an error of one worker leaves the others serving half a guest, or waiting for ever.
    let crew = crew(3);
    crew.leave(2);
    assert!(crew.has_lost_one());
    assert_eq!(take(&crew, 0), 1);
    assert!(!crew.settle(0, Rest::Idle));
    assert!(crew.settle(1, Rest::Idle));
}

#[test]
fn the_phase_never_goes_back() {
    // Breaks when a late word to linger keeps workers that were told to end.
    let crew = crew(2);
    crew.advance(Phase::End);
    crew.advance(Phase::Linger);
    assert_eq!(crew.phase(), Phase::End);
    assert_eq!([0, 1].map(|n| take(&crew, n)), [1, 1]);
}
