//! Synthetic contestants, whose true figure is known.

use super::*;
use std::cell::Cell;

/// The rate of a warm source, in units a second.
const TRUE_RATE: f64 = 40.0;

/// The rate that a reading finds of a source whose every start takes this time.
fn started_anew(start: Duration, length: Duration) -> f64 {
    TRUE_RATE * length.saturating_sub(start).as_secs_f64() / length.as_secs_f64()
}

#[test]
fn readings_grow_until_a_start_is_negligible() {
    // Breaks when a start that takes most of a short reading, as first touches of memory do, is taken for the
    // contestant's speed: 22 of 27 ms make 40 look like 7.
    for ms in [0, 1, 5, 22, 30] {
        let start = Duration::from_millis(ms);
        let length = length_for(Duration::from_millis(27), |l| started_anew(start, l));
        let found = started_anew(start, length);
        let is_near = found > 0.9 * TRUE_RATE;
        assert!(is_near, "a start of {ms} ms: {found:.1} in {length:?}");
    }
}

#[test]
fn readings_that_agree_keep_their_length() {
    // Breaks when a contestant that is warm at once takes more than the requested time.
    let asked = Duration::from_millis(27);
    assert_eq!(length_for(asked, |_| TRUE_RATE), asked);
    let unsteady = Cell::new(1.0);
    let doubled = |_: Duration| unsteady.replace(unsteady.get() * 2.0);
    assert_eq!(length_for(LENGTH_ENOUGH, doubled), LENGTH_ENOUGH);
    assert_eq!(length_for(LENGTH_LEAST, doubled), LENGTH_LEAST * LONGER_MAX);
    let short = LENGTH_LEAST / 2;
    assert_eq!(length_for(short, doubled), short);
}

#[test]
fn a_source_that_keeps_its_memory_is_read_until_it_is_warm() {
    // Breaks when the rounds begin while readings still fall, or a contestant that never agrees is read for ever.
    let reads = Cell::new(0);
    let warming = || {
        reads.set(reads.get() + 1);
        // Each reading touches half of the pages that the one before left.
        TRUE_RATE * (1.0 + 4.0 / f64::from(1 << reads.get()))
    };
    settle(warming);
    let rest = 4.0 / f64::from(1 << reads.get());
    assert!(rest < AGREE, "{} readings leave {rest}", reads.get());
    reads.set(0);
    settle(|| {
        reads.set(reads.get() + 1);
        f64::from(1 + reads.get() % 2)
    });
    assert_eq!(reads.get(), READINGS_MAX as i32);
}

#[test]
fn noise_does_not_end_the_warm_up() {
    // Breaks when two noisy readings of a cold contestant that agree by chance are believed: one reading in three shows
    // the warm figure.
    let start = Duration::from_millis(22);
    let reads = Cell::new(0);
    let noisy = |length| {
        reads.set(reads.get() + 1);
        let found = started_anew(start, length);
        if reads.get() % 3 == 0 {
            TRUE_RATE
        } else {
            found
        }
    };
    let length = length_for(Duration::from_millis(27), noisy);
    let found = started_anew(start, length);
    assert!(found > 0.9 * TRUE_RATE, "{found:.1} in {length:?}");
}

#[test]
fn a_contestant_that_fails_is_not_read_again() {
    // Breaks when a peer that is not installed is started again and again.
    let mut reads = 0;
    let found = lengthen(LENGTH_LEAST, |_| {
        reads += 1;
        Err::<f64, _>("absent")
    });
    assert_eq!((found, reads), (Err("absent"), 1));
}
