//! Tests of the acknowledgement policy.

use super::*;

const FULL: u32 = 1448;

fn path(rtt_ms: u64) -> PathTiming {
    PathTiming {
        rtt: Some(rtt_ms * 1_000_000),
        rto: 200_000_000,
        delay_max: Duration::from_millis(40),
    }
}

fn segment(len: u32, unacknowledged: u32) -> InOrder {
    InOrder {
        len,
        full: FULL,
        unacknowledged,
        filled_gap: false,
    }
}

fn at(ms: u64) -> Time {
    Time::from_millis(1000 + ms)
}

fn within(ms: u64) -> AckDue {
    AckDue::Within(Duration::from_millis(ms))
}

#[test]
fn the_first_sixteen_full_segments_are_acknowledged_one_by_one() {
    // Breaks if a peer in slow start waits for a delayed acknowledgement, or the stack acknowledges each segment for
    // ever.
    let mut policy = AckPolicy::new(at(0));
    for n in 0..16 {
        assert_eq!(
            policy.on_data(segment(FULL, FULL), &path(50), at(n)),
            AckDue::Now
        );
    }
    assert_eq!(
        policy.on_data(segment(FULL, FULL), &path(50), at(16)),
        within(40)
    );
    assert_eq!(
        policy.on_data(segment(FULL, 2 * FULL), &path(50), at(17)),
        AckDue::Now
    );
    // After a pause the peer's window is small again.
    assert_eq!(
        policy.on_data(segment(FULL, FULL), &path(50), at(300)),
        AckDue::Now
    );
}

#[test]
fn a_repair_makes_the_next_segments_quick() {
    // RFC 5681 4.2: breaks if the segment that fills a gap waits, or the peer's window after a loss grows by half.
    let mut policy = AckPolicy::new(at(0));
    policy.quick = 0;
    let repair = InOrder {
        filled_gap: true,
        ..segment(100, 100)
    };
    assert_eq!(policy.on_data(repair, &path(50), at(0)), AckDue::Now);
    assert_eq!(
        policy.on_data(segment(FULL, FULL), &path(50), at(1)),
        AckDue::Now
    );
}

#[test]
fn a_request_waits_for_its_answer() {
    // Breaks if requests of a byte, or of a full segment on a connection that answers, cost an acknowledgement each.
    let mut policy = AckPolicy::new(at(0));
    policy.largest = 1;
    for n in 0..10 {
        let now = at(1000 * n);
        let wait = if n == 0 { 1 } else { 40 };
        assert_eq!(policy.on_data(segment(1, 1), &path(1), now), within(wait));
        policy.on_answer(Duration::from_millis(40), now + Duration::from_millis(30));
        let next = now + Duration::from_millis(300);
        assert_eq!(
            policy.on_data(segment(FULL, FULL), &path(1), next),
            within(40)
        );
    }
}

#[test]
fn the_first_small_segments_wait_for_a_moment_only() {
    // RFC 896: breaks if a peer that writes its request in two parts, and holds the second one back until the first is
    // acknowledged, waits for 40 ms; or if small segments are acknowledged so for ever.
    let mut policy = AckPolicy::new(at(0));
    for n in 0..16 {
        assert_eq!(policy.on_data(segment(9, 9), &path(500), at(n)), within(1));
    }
    assert_eq!(
        policy.on_data(segment(9, 9), &path(500), at(16)),
        within(40)
    );
    // The longest delay bounds this one, too.
    let none = PathTiming {
        delay_max: Duration::ZERO,
        ..path(500)
    };
    let mut policy = AckPolicy::new(at(0));
    assert_eq!(policy.on_data(segment(9, 9), &none, at(0)), within(0));
}

#[test]
fn the_first_request_of_a_client_is_no_answer() {
    // Breaks if a client that sends its request at once delays the acknowledgement of the first segment of the answer.
    let mut policy = AckPolicy::new(at(0));
    policy.on_answer(Duration::from_millis(40), at(2));
    assert_eq!(
        policy.on_data(segment(FULL, FULL), &path(1), at(4)),
        AckDue::Now
    );
}

#[test]
fn two_delays_in_vain_make_the_next_one_shorter() {
    // Breaks if a peer that only sends, and waits for each acknowledgement, waits for 40 ms each time; or if one answer
    // late makes every request cost an acknowledgement.
    let mut policy = AckPolicy::new(at(0));
    (policy.largest, policy.quick) = (1, 0);
    for n in 0..2 {
        assert_eq!(policy.on_data(segment(1, 1), &path(10), at(n)), within(40));
        policy.on_delay_over();
    }
    assert_eq!(policy.on_data(segment(1, 1), &path(10), at(50)), within(5));
    policy.on_delay_over();
    assert_eq!(policy.on_data(segment(1, 1), &path(0), at(60)), within(1));
    assert_eq!(
        policy.on_data(segment(1, 2), &path(500), at(70)),
        within(40)
    );
    let delay_max = Duration::from_millis(40);
    policy.on_answer(delay_max, at(71));
    assert_eq!(policy.on_data(segment(1, 1), &path(10), at(80)), within(5));
    policy.on_answer(delay_max, at(81));
    assert_eq!(policy.on_data(segment(1, 1), &path(10), at(90)), within(40));
}

#[test]
fn a_request_in_two_parts_waits_twice_at_most() {
    // RFC 896: breaks if the answer to the second part, which the peer held back until the delay of the first was over,
    // makes the next request wait for as long; or if answers that are only late do so.
    let delay_max = Duration::from_millis(40);
    let ask = |policy: &mut AckPolicy, ms, wait| {
        let due = policy.on_data(segment(1, 1), &path(1), at(ms));
        assert_eq!(due, within(wait), "after {ms} ms");
    };
    let mut policy = AckPolicy::new(at(0));
    (policy.largest, policy.quick) = (1, 0);
    for (ms, wait) in [(0, 40), (100, 40), (200, 1), (300, 1)] {
        ask(&mut policy, ms, wait);
        policy.on_delay_over();
        ask(&mut policy, ms + 41, if ms == 0 { 40 } else { 1 });
        policy.on_answer(delay_max, at(ms + 41));
        policy.on_answer(delay_max, at(ms + 42));
    }
    // A request in one part, with an answer in time.
    ask(&mut policy, 400, 1);
    policy.on_answer(delay_max, at(400));
    ask(&mut policy, 500, 40);
    // An answer later than the delay of a first segment.
    let mut policy = AckPolicy::new(at(0));
    policy.largest = 1;
    ask(&mut policy, 0, 1);
    policy.on_delay_over();
    policy.on_answer(delay_max, at(5));
    ask(&mut policy, 100, 40);
}

#[test]
fn duplicates_are_held_back_for_a_far_peer_that_knows_sack() {
    // RFC 5681 4.2: breaks if a peer without SACK misses a duplicate that it counts, or one with SACK is sent one for
    // each segment behind a gap.
    let mut policy = AckPolicy::new(at(0));
    for _ in 0..100 {
        assert_eq!(policy.on_out_of_order(false, 1, &path(50)), AckDue::Now);
        assert_eq!(policy.on_out_of_order(true, 1, &path(19)), AckDue::Now);
    }
    let mut policy = AckPolicy::new(at(0));
    let due: Vec<_> = (0..100)
        .map(|_| policy.on_out_of_order(true, 1, &path(50)))
        .collect();
    let now: Vec<_> = (0..100).filter(|&n| due[n] == AckDue::Now).collect();
    assert_eq!(now, [0, 1, 2, 47, 92]);
    // The gap is filled: the next one begins anew.
    let _ = policy.on_data(segment(FULL, FULL), &path(50), at(1));
    assert_eq!(policy.on_out_of_order(true, 1, &path(50)), AckDue::Now);
}
