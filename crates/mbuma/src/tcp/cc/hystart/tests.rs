use super::*;

/// One round trip of `n` acknowledgements of 1000 bytes, each with this RTT; what slow start grew by.
fn round(hystart: &mut HyStart, n: usize, rtt_ms: u64) -> Option<u32> {
    let mut grown = 0;
    for i in 0..n {
        let sample = RateSample {
            acked: 1000,
            rtt: Some(rtt_ms * 1_000_000),
            round_start: i == 0,
            ..RateSample::default()
        };
        match hystart.on_ack(&sample) {
            Growth::By(bytes) => grown += bytes,
            Growth::Done => return None,
        }
    }
    Some(grown)
}

/// Breaks when slow start ends without a sign of a queue.
#[test]
fn constant_round_trips_never_end_it() {
    let mut hystart = HyStart::default();
    for _ in 0..100 {
        assert_eq!(round(&mut hystart, 10, 50), Some(10_000));
    }
}

/// Breaks when growing round trips do not slow the growth to a quarter, or CSS does not end after five round trips
/// (RFC 9406 4.2).
#[test]
fn growing_round_trips_end_it() {
    let mut hystart = HyStart::default();
    assert_eq!(round(&mut hystart, 10, 50), Some(10_000));
    // The eighth sample decides: the last three acknowledgements count a quarter.
    assert_eq!(round(&mut hystart, 10, 57), Some(7_000 + 3 * 250));
    for _ in 0..4 {
        assert_eq!(round(&mut hystart, 10, 60), Some(2_500));
    }
    assert_eq!(round(&mut hystart, 10, 60), None);
}

/// Breaks when growth below the threshold (an eighth of 50 ms) counts, or one of 16 ms does not on a long path.
#[test]
fn the_threshold_is_an_eighth_of_the_rtt_within_its_bounds() {
    for (before, after, ends) in [
        (50, 56, false),
        (50, 57, true),
        (1, 4, false),
        (1, 5, true),
        (400, 415, false),
        (400, 416, true),
    ] {
        let mut hystart = HyStart::default();
        let _ = round(&mut hystart, 10, before);
        let _ = round(&mut hystart, 10, after);
        assert_eq!(hystart.css.is_some(), ends, "{before} {after}");
    }
}

/// Breaks when one period of jitter ends slow start for good.
#[test]
fn jitter_is_taken_back() {
    let mut hystart = HyStart::default();
    let _ = round(&mut hystart, 10, 50);
    let _ = round(&mut hystart, 10, 70);
    assert!(hystart.css.is_some());
    let _ = round(&mut hystart, 10, 50);
    assert_eq!(round(&mut hystart, 10, 50), Some(10_000));
}

/// Breaks when single slow acknowledgements among quick ones count.
#[test]
fn only_the_smallest_counts() {
    let mut hystart = HyStart::default();
    for n in 0..100 {
        let sample = RateSample {
            acked: 1000,
            rtt: Some(if n % 3 == 0 { 50 } else { 200 } * 1_000_000),
            round_start: n % 10 == 0,
            ..RateSample::default()
        };
        assert_eq!(hystart.on_ack(&sample), Growth::By(1000));
    }
}
