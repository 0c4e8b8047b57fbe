use super::*;
use crate::Comparison;
use crate::harness::test_output::{json_lines, output};

fn run_quickly(common: Comparison) -> String {
    let options = Options {
        common: Comparison {
            seconds_per_case: 0.02,
            reps: 1,
            progress: false,
            ..common
        },
        queries: 20,
    };
    output(|out| run(&options, out))
}

#[test]
fn every_program_ends_in_every_design() {
    // Breaks if a program hangs or loses its answers under Giant, without it, or over the system's sockets.
    let text = run_quickly(Comparison {
        json: true,
        ..Comparison::default()
    });
    let rows = json_lines(&text);
    for case in Case::ALL {
        for design in Design::ALL.into_iter().filter(|d| d.is_in(case)) {
            let of = |row: &&serde_json::Value| {
                row["case"] == case.name()
                    && row["design"] == design.name()
                    && row["measure"] == "throughput"
            };
            for row in rows.iter().filter(of) {
                assert!(row["median"].as_f64() > Some(0.0), "{row}");
                assert_eq!(row["note"], "", "{row}");
            }
            assert!(rows.iter().any(|row| of(&row)));
        }
    }
}

#[test]
fn tables_have_the_seeds_ratios() {
    // Breaks if the seed's figures do not stand beside ours.
    let text = run_quickly(Comparison {
        cases: vec!["mysql".to_owned()],
        ..Comparison::default()
    });
    assert!(text.contains("mysql, 1 CPU: 11 clients"), "{text}");
    if text.contains("2 CPUs") {
        assert!(text.contains("seed: 1.07") && text.contains("seed: 1.42"));
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100));
}

#[test]
fn waits_for_giant_are_counted() {
    // Breaks if the design that is called giant runs without, or the counts around a run miss it.
    let world = world::World::new(Design::Giant, &[0]);
    let world::World::Stack(driven) = &world else {
        panic!("a stack");
    };
    assert!(driven.stack.stats().giant.over_all);
    let around = around::Around::begin();
    let taken = || {
        kern::lock_stats()
            .class("giant")
            .map_or(0, |c| c.acquisitions)
    };
    let before = taken();
    let pairs = world.pairs(Case::Mysql, 4).expect("sockets");
    load::queries(pairs, 2000).expect("answers");
    // Sampled in release, but that many are not missed.
    assert!(
        taken() >= before + 4 * 2000,
        "each query takes it four times"
    );
    // On one CPU, or by luck, no two threads may have met.
    let cost = around.end();
    if let Some(giant) = cost.classes.iter().find(|c| c.class == "giant") {
        assert!(giant.times > 0);
    }
}

#[test]
fn unknown_names_are_refused() {
    // Breaks if a wrong name is not refused.
    let mut options = Options::default();
    options.common.designs = vec!["gaint".to_owned()];
    assert!(run(&options, &mut Vec::new()).is_err());
    let text = list();
    assert!(text.contains("udp-rr") && text.contains("kernel"));
}
