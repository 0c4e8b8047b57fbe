//! The choice of samples: breaks when a weight is lost or counted twice, or a sample comes too often.

use super::table::NO_SLOTS;
use super::{Sampler, Samples};
use core::sync::atomic::Ordering::Relaxed;

#[test]
fn a_turn_comes_after_so_many_refills() {
    // Breaks when a turn is early, or the items before it are not its weight.
    let sampler = Sampler::new(3);
    sampler.refilled(10);
    sampler.refilled(20);
    assert_eq!(sampler.claim(0), None);
    sampler.refilled(30);
    assert_eq!(sampler.claim(1), None, "half as often");
    assert_eq!(sampler.claim(0), Some((60, true)));
    assert_eq!((sampler.claim(0), sampler.unsampled()), (None, 0));
}

#[test]
fn a_turn_is_handed_on_once() {
    // Breaks when a pair of allocation and free keeps a zone in the slow path.
    let sampler = Sampler::new(2);
    sampler.refilled(5);
    sampler.refilled(5);
    assert_eq!(sampler.claim(0), Some((10, true)));
    sampler.handed_on.store(1, Relaxed);
    sampler.hand_on(10, 0);
    assert_eq!(sampler.claim(0), Some((10, false)));
}

#[test]
fn a_rate_of_zero_takes_no_sample() {
    // Breaks when a zone without samples has one.
    let sampler = Sampler::new(0);
    (0..100).for_each(|_| sampler.refilled(1));
    assert_eq!(sampler.claim(0), None);
    assert!(!Samples::new(None).has_slots());
    assert_eq!(Samples::new(None).shift_of(0), NO_SLOTS);
}

#[test]
fn samples_get_rarer_as_slots_run_out() {
    // Breaks when the last slots go as fast as the first.
    let mut samples = Samples::new(None);
    samples.slots = 256;
    let shifts = [256, 129, 128, 64, 2, 1].map(|free| samples.shift_of(free));
    assert_eq!(shifts, [0, 0, 1, 2, 7, 8]);
}
