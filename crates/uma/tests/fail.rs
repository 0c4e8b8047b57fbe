//! Fail points: breaks when anything that may fail leaks, panics or miscounts if it does.
//!
//! Each scenario of `fail/scenarios.rs` runs once as it is, and each of its zones says how often it
//! consulted each fail point. Then it runs again with the n-th of those calls failing, for every
//! zone, every point and every n, once and for ever; and a few times with failures by chance. After
//! each run all must be as before: nothing live, as many frees as requests, as many `fini` as
//! `init`, as many `dtor` as `ctor`, no memory held.

#![cfg(feature = "invariants")]

mod common;
#[path = "fail/scenarios.rs"]
mod scenarios;
#[path = "fail/world.rs"]
mod world;

use common::builder;
use std::panic::{AssertUnwindSafe, catch_unwind};
use uma::{AllocError, FailPlan, FailPoint};
use world::{POINTS, Plan, Scenario, World};

/// Runs a scenario under a plan; how often each zone consulted each point.
fn run(name: &str, scenario: Scenario, plan: Option<Plan>) -> Vec<[u64; POINTS.len()]> {
    let world = World::new(plan);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let result = scenario(&world);
        if plan.is_none() {
            assert_eq!(result, Ok(()), "fails even if nothing does");
        }
        world.check()
    }));
    match outcome {
        Ok(consulted) => consulted,
        Err(_) => panic!("scenario '{name}' with {plan:?}"),
    }
}

/// All plans for a fail point that was consulted `count` times.
fn plans(count: u64) -> impl Iterator<Item = FailPlan> {
    let nth = (1..=count).flat_map(|n| [false, true].map(|forever| FailPlan::Nth { n, forever }));
    let seeded = (0..if count == 0 { 0 } else { 4 }).map(|seed| FailPlan::Seeded {
        seed,
        one_in: 2 + seed,
    });
    nth.chain(seeded)
}

#[test]
fn every_failure_of_every_scenario_is_survived() {
    // Breaks when a path that hardly ever runs loses an item, runs a hook too often or never, or
    // leaves a count behind.
    let mut runs = 0;
    let mut by_point = [0; POINTS.len()];
    for &(name, scenario) in scenarios::ALL {
        let consulted = run(name, scenario, None);
        let any: u64 = consulted.iter().flatten().sum();
        assert!(any > 0, "scenario '{name}' consults no fail point");
        for (zone, counts) in consulted.iter().enumerate() {
            for (at, &point) in POINTS.iter().enumerate() {
                for plan in plans(counts[at]) {
                    run(name, scenario, Some(Plan { zone, point, plan }));
                    runs += 1;
                    by_point[at] += 1;
                }
            }
        }
    }
    println!(
        "{} scenarios, {runs} runs with a failure; by point: {POINTS:?} {by_point:?}",
        scenarios::ALL.len()
    );
    assert!(scenarios::ALL.len() >= 40);
    assert!(
        by_point.iter().all(|&runs| runs > 0),
        "a point that nothing consults"
    );
}

#[test]
fn the_nth_allocation_fails() {
    // Breaks when a plan does not count from its beginning, or fails another call.
    let zone = builder(64, 8).build().unwrap();
    let items: Vec<_> = (0..5).map(|_| zone.alloc().unwrap()).collect();
    zone.fail(FailPlan::Nth {
        n: 3,
        forever: false,
    });
    let results: Vec<_> = (0..5).map(|_| zone.alloc()).collect();
    assert_eq!(results[2], Err(AllocError::NoMemory));
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 4);
    assert_eq!(zone.consulted(FailPoint::Alloc), 5);
    assert_eq!(zone.stats().failures, 1);
    zone.fail(FailPlan::Nth {
        n: 1,
        forever: true,
    });
    assert!((0..5).all(|_| zone.alloc().is_err()));
    zone.fail(FailPlan::Off);
    for item in items.into_iter().chain(results.into_iter().flatten()) {
        common::free(&zone, item);
    }
    common::assert_balance(&zone);
}

#[test]
fn a_program_is_made_to_fail_from_outside() {
    // Breaks when UMA_FAIL is not read, or fails zones of other names. In a process of its own.
    const ROLE: &str = "UMA_FAIL_TEST_CHILD";
    if std::env::var_os(ROLE).is_none() {
        let this = std::env::current_exe().unwrap();
        let status = std::process::Command::new(this)
            .args(["--exact", "a_program_is_made_to_fail_from_outside"])
            .env(ROLE, "1")
            .env("UMA_FAIL", "victim:2+,nobody:1")
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    let zone = |name| {
        uma::RawZone::builder(name, common::layout(64, 8))
            .build()
            .unwrap()
    };
    let (victim, other) = (zone("victim"), zone("other"));
    let first = victim.alloc().expect("the first is spared");
    assert_eq!(victim.alloc(), Err(AllocError::NoMemory));
    assert_eq!(victim.alloc(), Err(AllocError::NoMemory));
    let item = other.alloc().expect("not meant");
    common::free(&other, item);
    common::free(&victim, first);
}
