//! Neighbour discovery, router discovery, probes for duplicates and multicast listeners over bad wires, in virtual time
//! (RFC 4861, 4862, 7527, 8981, 9777).
//!
//! ```text
//!   host, host, ...  ---+--- hub: loss, bursts, duplicates, packets seconds late, delay: drawn from the seed
//!   router, querier  ---+
//! ```
//!
//! | phase | wires | rule at its end |
//! |---|---|---|
//! | traffic, groups joined and left | bad | no station sends more than [`RATE_MAX`](world::RATE_MAX) frames a second, here and later |
//! | configuration | good | a host has all its addresses, but those that another station has |
//! | questions | good | each station answers each other, at each address; a host with temporary addresses asks from one |
//! | a query | good | the querier hears of each group of each host, and of no other |
//! | a host is gone, then silence | good | no station sends anything, but for probes of the next temporary address |
//! | the end | good | a host with temporary addresses has some, and none of those that it had before the questions |
//!
//! At the end no buffer is left. `DISCOVERY_SEEDS=10000` runs so many seeds.

mod querier;
mod router;
mod world;

use mbuma::StackFault;
use world::World;

/// Seeds of a run without the variable.
const SEEDS: u64 = 100;
/// Seeds that a bug may stay hidden in.
const BUG_SEEDS_MAX: u64 = 40;

fn seeds() -> u64 {
    let said = std::env::var("DISCOVERY_SEEDS").ok();
    said.map_or(SEEDS, |said| said.parse().expect("a number of seeds"))
}

#[test]
fn every_seed_ends_in_a_network_that_works() {
    // Breaks when loss, duplication or reordering leaves an address tentative, a neighbour unknown, a question without
    // end or a group unreported.
    let mut failed = Vec::new();
    for seed in 0..seeds() {
        let violations = World::from_seed(seed).run();
        for violation in &violations {
            println!("seed {seed}: {violation}");
        }
        if !violations.is_empty() {
            failed.push(seed);
        }
    }
    assert_eq!(failed, [0; 0], "these seeds failed");
}

#[test]
fn the_seeds_have_conflicts_and_both_kinds_of_wires() {
    // Breaks when the drawing of worlds changes so that no world tests some rule.
    let worlds: Vec<_> = (0..SEEDS).map(World::from_seed).collect();
    let count = |is: fn(&World) -> bool| worlds.iter().filter(|world| is(world)).count();
    assert!(count(World::is_on_good_wires) >= 5);
    assert!(count(World::has_conflict) >= 20);
    assert!(count(|world| world.has_conflict() && world.is_on_good_wires()) >= 2);
    assert!(count(World::has_temporary) >= 30);
}

/// A seed finds the bug, and the finding has these words.
fn found(bug: StackFault, words: &str) {
    let _planted = kern::fault::plant(bug);
    let finds = |seed| {
        let violations = World::from_seed(seed).run();
        violations.iter().any(|violation| violation.contains(words))
    };
    let seed = (0..BUG_SEEDS_MAX).find(|&seed| finds(seed));
    println!("{bug:?}: seed {seed:?}");
    assert!(seed.is_some(), "{bug:?} was not found");
}

#[test]
fn a_neighbour_that_is_asked_for_once_only_is_found() {
    // Breaks when no rule requires answers.
    found(StackFault::LostQuestion, "does not answer");
}

#[test]
fn a_check_without_end_is_found() {
    // Breaks when questions for a neighbour that is gone are not counted.
    found(StackFault::EndlessCheck, "in silence");
}

#[test]
fn an_address_that_is_probed_for_ever_is_found() {
    // Breaks when no rule requires the addresses of a host.
    found(StackFault::EndlessProbes, "has the addresses");
}

#[test]
fn a_query_without_an_answer_is_found() {
    // Breaks when the querier's list of groups is not compared with the hosts'.
    found(StackFault::UnansweredQuery, "reports the groups");
}

#[test]
fn a_temporary_address_without_a_successor_is_found() {
    // Breaks when no rule requires temporary addresses after the first.
    found(StackFault::NoNextAddress, "has no temporary address");
}

#[test]
fn a_host_that_can_be_followed_by_its_address_is_found() {
    // Breaks when no rule checks the source address of a question.
    found(StackFault::StableSource, "which is not temporary");
}
