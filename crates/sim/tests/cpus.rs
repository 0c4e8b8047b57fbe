//! Two hundred networks whose stacks have virtual CPUs: the one that runs next is drawn at every hand-off.
//!
//! Breaks when a CPU sleeps over packets, a timer or a task that another gave it, when a flow's packets
//! overtake each other on their way between CPUs, and when any rule of `seeds.rs` does not hold.

use std::time::Instant;

use sim::scenario::{Scenario, Topology};

/// Seeds a CI run looks at. `cargo run -p mbuma-sim --release -- --cpus --seeds A..B` looks at more.
const SEEDS: u64 = 200;

#[test]
fn every_seed_keeps_the_rules_on_several_cpus() {
    let (began, mut failed) = (Instant::now(), Vec::new());
    let (mut turns, mut datagrams, mut epairs, mut moved) = (0, 0, 0, 0);
    for seed in 0..SEEDS {
        let scenario = Scenario::on_cpus_from_seed(seed);
        epairs += usize::from(scenario.topology == Topology::Epair);
        moved += scenario.crowd.iter().map(|c| c.moves.len()).sum::<usize>();
        let outcome = scenario.run();
        turns += outcome.turns;
        datagrams += outcome.datagrams;
        if !outcome.violations.is_empty() {
            println!(
                "{outcome}\n  replay: cargo run -p mbuma-sim --release -- --cpus --seed {seed}"
            );
            failed.push(seed);
        }
    }
    let real = began.elapsed().as_secs_f64();
    println!("{turns} turns, {datagrams} datagrams, {epairs} epairs, {moved} moves in {real:.1} s");
    assert_eq!(failed, [0; 0], "these seeds failed");
    // Networks with little traffic would find few faults.
    assert!(turns > 100_000 && datagrams > 10_000 && epairs > 20 && moved > 20);
}

#[test]
fn a_seed_replays_bit_for_bit_turn_for_turn() {
    // Breaks when anything but the seed decides which CPU runs next.
    for seed in [3, 4, 17, 258] {
        let run = || Scenario::on_cpus_from_seed(seed).run();
        let (one, two) = (run(), run());
        assert_eq!(one.trace_hash, two.trace_hash, "seed {seed}");
        assert_eq!(
            (one.turns, one.bytes),
            (two.turns, two.bytes),
            "seed {seed}"
        );
    }
}
