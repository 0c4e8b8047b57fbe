//! How long a cache line takes from one CPU to the other, sampled beside each run that depends on it.
//!
//! The host moves virtual CPUs: the same two are sometimes on neighbouring cores and sometimes on far ones, and
//! transfers between them then take two or three times as long. Without the mode of each run, a comparison would show
//! the difference of the modes as one between contestants.

use super::summary::Summary;
use super::sys;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Which of its two modes the machine was in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The CPUs share a cache near by.
    Near,
    /// They do not.
    Far,
}

impl Mode {
    /// The mode for this time of a line.
    pub(crate) fn of(one_way_ns: f64) -> Self {
        if one_way_ns < NEAR_NS_MAX {
            Self::Near
        } else {
            Self::Far
        }
    }

    /// As it is written in tables and in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Far => "far",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The one-way latency of a cache line between two CPUs, in nanoseconds: two threads count one word up in turns, for
/// as long as [`SAMPLE`] or twice as long as the reading that it is for.
pub(crate) fn one_way_ns((near, far): (usize, usize), reading: Duration) -> f64 {
    let sample = SAMPLE.min(reading * 2);
    #[repr(align(128))]
    struct Line(AtomicU64);
    // Even: the near thread's turn. Relaxed would do for the count; AcqRel, as real hand-overs use.
    let line = &Line(AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(move || {
            let _ = sys::pin(&[far]);
            let mut turn = 1;
            while turn_of(&line.0, turn) != DONE {
                line.0.store(turn + 1, Ordering::Release);
                turn += 2;
            }
        });
        let timing = scope.spawn(move || {
            let _ = sys::pin(&[near]);
            let mut turn = 0;
            // Slices in which another program had one of the CPUs are long: the lower quartile leaves them out.
            // On a machine that is full the two threads seldom run at once: the sample is then short of slices.
            let start = Instant::now();
            let slices: Vec<f64> = (0..SLICES)
                .take_while(|nth| *nth == 0 || start.elapsed() < sample * 3)
                .map(|_| slice(&line.0, &mut turn, sample / SLICES))
                .collect();
            line.0.store(DONE, Ordering::Release);
            Summary::of(slices).map_or(f64::NAN, |slices| slices.p25)
        });
        timing.join().unwrap_or(f64::NAN)
    })
}

/// Plays the near side for this time or a little longer, from an even turn to an even turn; returns the nanoseconds of
/// a turn.
fn slice(line: &AtomicU64, turn: &mut u64, at_least: Duration) -> f64 {
    let begin = *turn;
    let start = Instant::now();
    loop {
        for _ in 0..TURNS {
            turn_of(line, *turn);
            line.store(*turn + 1, Ordering::Release);
            *turn += 2;
        }
        turn_of(line, *turn);
        let elapsed = start.elapsed();
        if elapsed >= at_least {
            return elapsed.as_nanos() as f64 / (*turn - begin) as f64;
        }
    }
}

/// Waits until it is `turn`, or all is done.
fn turn_of(line: &AtomicU64, turn: u64) -> u64 {
    let mut spins = 0u32;
    loop {
        let now = line.load(Ordering::Acquire);
        if now == turn || now == DONE {
            return now;
        }
        spins += 1;
        // The other side may have lost its CPU to another program.
        if spins.is_multiple_of(1 << 14) {
            thread::yield_now();
        }
        std::hint::spin_loop();
    }
}

/// How long one sample takes, at most.
const SAMPLE: Duration = Duration::from_millis(40);
/// Turns between two looks at the clock.
const TURNS: u32 = 32;
/// In how many parts.
const SLICES: u32 = 20;
/// Longer than this from one CPU to the other is far. The two modes seen are 26 to 95 and 170 to 235.
const NEAR_NS_MAX: f64 = 120.0;
/// The turn after which there is none.
const DONE: u64 = u64::MAX;
