//! Tests of the watch's patience, without a thread and without a clock.

use super::*;

/// The looks, by number, at which it told.
fn told(heartbeats: &[u64]) -> Vec<usize> {
    let mut detectors = StallDetector::default();
    let looks = heartbeats.iter().enumerate();
    looks
        .filter_map(|(n, heartbeat)| detectors.look(*heartbeat).then_some(n))
        .collect()
}

#[test]
fn a_round_that_lasts_is_told_of_once() {
    // Breaks when a loop that hangs is not told of, or again and again.
    assert_eq!(told(&[7; 20]), [LOOKS as usize]);
    assert_eq!(told(&[[7; 10], [9; 10]].concat()), [4, 14]);
}

#[test]
fn sleep_and_work_are_no_hangs() {
    // Breaks when an idle gateway, or a busy one, is taken for one that hangs.
    assert!(told(&[8; 100]).is_empty());
    let busy: Vec<u64> = (0..100).map(|n| 2 * n + 1).collect();
    assert!(told(&busy).is_empty());
    // Found awake now and then, but not in the same round.
    assert!(told(&[1, 1, 1, 1, 3, 3, 3, 3, 4, 5, 5, 5, 5, 7]).is_empty());
}

#[test]
fn a_pulse_goes_round() {
    // Breaks when the loop's first round looks like sleep, or its sleep like a round.
    let heartbeat = Heartbeat::default();
    assert_eq!(heartbeat.get() % 2, 1, "it has not slept yet");
    heartbeat.beat();
    assert_eq!(heartbeat.get() % 2, 0);
    heartbeat.beat();
    assert_eq!(heartbeat.get() % 2, 1);
}
