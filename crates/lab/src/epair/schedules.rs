//! The schemes under shuttle, in random orders: the two-ring schemes strand a packet, ours and the control do not.
//!
//! Locks: the checker's.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test --release -p mbuma-lab --lib epair::schedules`

use super::scheme::{Line, Scheme};
use super::schemes::{Always, MutexState, TwoRings, TwoRingsFlags};
use kern::Taskqueue;
use kern::prim::{AtomicBool, AtomicUsize, Ordering};
use shuttle::thread;
use std::sync::Arc;

/// Packets of each of two transmitters.
const PACKETS: usize = 2;

/// Two transmitters and the thread of a taskqueue. When all is quiet, every packet was taken in.
fn nothing_is_stranded<S: Scheme<usize>>() {
    let woken = Arc::new(AtomicBool::new(false));
    let wakes = Arc::clone(&woken);
    let queue = Arc::new(Taskqueue::new(move || {
        wakes.swap(true, Ordering::AcqRel);
    }));
    let seen = Arc::new(AtomicUsize::new(0));
    let sees = Arc::clone(&seen);
    let line = Arc::new(Line::<usize, S>::new(4, &queue, move |item| {
        sees.fetch_add(item, Ordering::AcqRel);
    }));
    let run = move |queue: &Taskqueue| {
        if woken.swap(false, Ordering::AcqRel) {
            while queue.run(1).more {}
        }
    };
    let transmit = |line: &Line<usize, S>| {
        (0..PACKETS).for_each(|_| assert!(line.send(1).is_ok(), "there is room"));
    };
    let other = Arc::clone(&line);
    let transmitter = thread::spawn(move || transmit(&other));
    let (runs, runner_queue) = (run.clone(), Arc::clone(&queue));
    let runner = thread::spawn(move || (0..3).for_each(|_| runs(&runner_queue)));
    transmit(&line);
    transmitter.join().expect("no panic");
    runner.join().expect("no panic");
    run(&queue);
    let seen = seen.load(Ordering::Acquire);
    assert_eq!(seen, 2 * PACKETS, "a packet is stranded");
}

fn check<S: Scheme<usize>>() {
    // Those that fail do so in some hundred.
    kern::model::Model::new(S::NAME).check(nothing_is_stranded::<S>);
}

#[test]
#[should_panic(expected = "a packet is stranded")]
fn two_rings_lose_a_wakeup() {
    // Breaks if the model is blind to the fault that the first fix was for.
    check::<TwoRings<usize>>();
}

#[test]
#[should_panic(expected = "a packet is stranded")]
fn two_rings_with_flags_lose_a_wakeup() {
    // Breaks if the model is blind to the fault that seed 003 is about.
    check::<TwoRingsFlags<usize>>();
}

#[test]
fn mutex_and_state_lose_none() {
    // Breaks if an order exists in which ours strands a packet.
    check::<MutexState<usize>>();
}

#[test]
fn the_control_loses_none() {
    // Breaks if the line or the model itself strands packets.
    check::<Always<usize>>();
}
