//! Random sequences of all operations on several packets and chains at once, against vectors.
//!
//! ```text
//!   seed --> pool, operations --> items          <-- compared after every step --> vectors
//!                                 share storage                                    share nothing
//! ```
//!
//! Storage is shared between items as the operations have it, so a write that another one can see is
//! found at once. Pools are often so small that operations fail in the middle of a sequence: then
//! nothing may have changed. A sequence is a function of its seed:
//!
//! ```text
//!   MBUF_MODEL_SEED=n            runs sequence n alone, and shows it (with -- --nocapture)
//!   MBUF_MODEL_SEQUENCES=1000000 runs so many
//!   MBUF_MODEL_SECONDS=60        runs so long, 8 s unless told (3 s with the feature `invariants`)
//!   MBUF_MODEL_FIRST=n           begins with sequence n, and else anywhere
//! ```
//!
//! `draw.rs` has the random numbers, `ops.rs` the operations, `model.rs` the model of an item,
//! `world.rs` and the files that it names the operations' meaning, `run.rs` and `crash.rs` the
//! runner.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/pages.rs"]
mod pages;

mod change;
mod convert;
mod crash;
mod draw;
mod header;
mod look;
mod make;
mod model;
mod moves;
mod ops;
mod reshape;
mod run;
mod world;

use std::env;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use common::sized;
use ops::sequence;
use run::{Shown, Until, many, one, play};

/// A number from the environment.
fn told(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

#[test]
fn sequences_agree_with_vectors() {
    // Breaks if an operation shows a wrong byte, writes bytes of another item, is half done when no buffers are left,
    // fails although there are buffers, loses a header or a tag, or leaks.
    if let Some(seed) = told("MBUF_MODEL_SEED") {
        let (limits, ops) = sequence(seed);
        println!("sequence {seed}: {} steps, {limits:?}", ops.len());
        one(seed, &mut Shown);
        return;
    }
    let first = told("MBUF_MODEL_FIRST").unwrap_or_else(|| RandomState::new().hash_one(0));
    // With the allocator's own checks the same is run a second time.
    let usual = if cfg!(feature = "invariants") { 3 } else { 8 };
    let seconds = told("MBUF_MODEL_SECONDS").unwrap_or(usual);
    let until = match told("MBUF_MODEL_SEQUENCES") {
        Some(count) => Until::Count(count),
        None if cfg!(miri) => Until::Count(10),
        None => Until::Elapsed(Duration::from_secs(seconds)),
    };
    many(first, until, sized(2, 1));
}

#[test]
fn a_seed_has_one_sequence() {
    // Breaks if a failure could not be replayed: if anything but the seed decides the sequence.
    for seed in 0..sized(200, 2) as u64 {
        let (mut once, mut again) = (String::new(), String::new());
        one(seed, &mut once);
        one(seed, &mut again);
        assert_eq!(once, again);
    }
}

#[test]
fn small_pools_do_run_out() {
    // Breaks if the failures that the model allows for never happen: if it tests nothing there.
    let (mut small, mut large) = (0, 0);
    for seed in 0..sized(400, 8) as u64 {
        let (limits, ops) = sequence(seed);
        let failed = play(limits, &ops, &mut ()).expect("it is checked elsewhere");
        match limits.is_ample() {
            true => large += failed,
            false => small += failed,
        }
    }
    assert_eq!((small > 0, large), (true, 0));
}
