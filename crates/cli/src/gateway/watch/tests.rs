//! Tests of the detector of stalls, without a thread and without a clock.

use super::*;

/// The numbers of the checks that reported a stall.
fn told(heartbeats: &[u64]) -> Vec<usize> {
    let mut detectors = StallDetector::default();
    let looks = heartbeats.iter().enumerate();
    looks
        .filter_map(|(n, heartbeat)| detectors.look(*heartbeat).then_some(n))
        .collect()
}

#[test]
fn a_round_that_lasts_is_told_of_once() {
    // Breaks when a stalled loop is not reported, or is reported again and again.
    assert_eq!(told(&[7; 20]), [LOOKS as usize]);
    assert_eq!(told(&[[7; 10], [9; 10]].concat()), [4, 14]);
}

#[test]
fn sleep_and_work_are_no_hangs() {
    // Breaks when an idle or busy gateway is reported as stalled.
    assert!(told(&[8; 100]).is_empty());
    let busy: Vec<u64> = (0..100).map(|n| 2 * n + 1).collect();
    assert!(told(&busy).is_empty());
    // The checks find the loop awake, but in a different round each time.
    assert!(told(&[1, 1, 1, 1, 3, 3, 3, 3, 4, 5, 5, 5, 5, 7]).is_empty());
}

#[test]
fn a_pulse_goes_round() {
    // Breaks when the check takes the loop's first round for sleep, or its sleep for a round.
    let heartbeat = Heartbeat::default();
    assert_eq!(heartbeat.get() % 2, 1, "it has not slept yet");
    heartbeat.beat();
    assert_eq!(heartbeat.get() % 2, 0);
    heartbeat.beat();
    assert_eq!(heartbeat.get() % 2, 1);
}
