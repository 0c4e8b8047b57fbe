//! Tests of the rounds.

use super::*;

fn plan(reps: usize) -> Plan {
    Plan {
        title: "t".to_owned(),
        reps,
        reading: Duration::from_millis(1),
        crosses: None,
    }
}

fn took(ops: u64, lost: f64) -> Took {
    Took {
        time: Duration::from_nanos(ops * 1000),
        lost,
    }
}

#[test]
fn contestants_take_turns() {
    // Breaks when one contestant has all its runs before the next has any.
    let turns = std::cell::RefCell::new(String::new());
    let run = |name: char| -> Run<'_> {
        let turns = &turns;
        Box::new(move |ops| {
            turns.borrow_mut().push(name);
            took(ops, 0.0)
        })
    };
    let mut two = [
        Contestant {
            name: "a",
            run: run('a'),
        },
        Contestant {
            name: "b",
            run: run('b'),
        },
    ];
    let readings = interleave(&mut two, &plan(3), &mut Progress::new(false));
    assert_eq!(
        *turns.borrow(),
        "aaaabbbbaabbaabbaabb",
        "each warms up, then runs, in turns"
    );
    assert!(readings.iter().all(|r| r.len() == 3));
    assert!(
        readings
            .iter()
            .flatten()
            .all(|r| (r.ns - 1000.0).abs() < 1.0)
    );
}

#[test]
fn a_slow_first_run_makes_no_short_readings() {
    // Breaks when the fixed cost of a run, such as starting threads, counts as the cost of its operations: readings
    // are then a hundredth as long as they should be, and measure the start.
    let once = Duration::from_millis(30);
    let mut runs = 0;
    let mut run: Run<'_> = Box::new(|ops| {
        runs += 1;
        let time = Duration::from_nanos(ops * 10);
        Took::with_wait(
            time + if runs == 1 { once } else { Duration::ZERO },
            Duration::ZERO,
        )
    });
    let reading = Duration::from_millis(27);
    assert_eq!(calibrate(&mut run, reading), 2_700_000);
}

#[test]
fn the_two_modes_do_not_mix() {
    // Breaks when near and far readings end in one median.
    let reading = |ns, xcore_ns| Reading {
        ns,
        xcore_ns: Some(xcore_ns),
        disturbed: false,
    };
    let groups = by_mode(&[
        reading(10.0, 50.0),
        reading(30.0, 200.0),
        reading(12.0, 60.0),
    ]);
    let seen: Vec<_> = groups
        .iter()
        .map(|g| (g.mode, g.summary.median, g.summary.n))
        .collect();
    assert_eq!(
        seen,
        [(Some(Mode::Near), 11.0, 2), (Some(Mode::Far), 30.0, 1)]
    );
}

#[test]
fn a_disturbed_reading_is_taken_again() {
    // Breaks when a figure that another program disturbed is kept although a clean one is possible, or when the harness
    // waits for ever on a machine that is always disturbed.
    for (spoiled, disturbed, ns) in [(2, 0, 1000.0), (100, 1, 2000.0)] {
        let mut runs = 0;
        let run: Run<'_> = Box::new(move |ops| {
            // Two runs calibrate, two warm up; then each attempt has two, of which the second counts. The third attempt
            // is the least disturbed of the bad ones.
            runs += 1;
            let attempt = runs / 2 - 2;
            match runs % 2 == 0 && runs > 4 && attempt <= spoiled {
                true => took(
                    ops * if attempt == 3 { 2 } else { 5 },
                    if attempt == 3 { 0.3 } else { 0.5 },
                ),
                false => took(ops, 0.0),
            }
        });
        let mut one = [Contestant { name: "a", run }];
        let readings = interleave(&mut one, &plan(1), &mut Progress::new(false));
        let group = &by_mode(&readings[0])[0];
        assert_eq!(
            (group.disturbed, group.summary.median),
            (disturbed, ns),
            "{spoiled} spoiled"
        );
    }
}
