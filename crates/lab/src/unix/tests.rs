//! The programs run over each kind of socket, and end; their arguments and output are parsed right.

use super::*;

/// Breaks if a socket loses bytes or does not end: then the program hangs or prints no figures.
#[test]
fn both_programs_run_over_each_kind_and_end() {
    let effort = Effort::new(1, 1.0).expect("sane");
    for entry in CATALOG {
        for place in [Place::Free, Place::Same, Place::Cross] {
            for work in [
                Work::PingPong { pairs: 3, size: 64 },
                Work::Stream { chunk: 64 << 10 },
            ] {
                // On a busy machine a short run may be over before both threads had a CPU; a flow that stalls also
                // stalls in a long run.
                let run = |ms| (entry.run)(work, place, &effort, Duration::from_millis(ms));
                let moves = [20, 500, 10_000].into_iter().any(|ms| run(ms).rate > 0.0);
                assert!(moves, "{} {work:?}: it stalls", entry.name);
            }
        }
    }
}

/// Breaks if a job is parsed as another one.
#[test]
fn a_job_is_parsed_as_typed() {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let pairs = Work::PingPong {
        pairs: 11,
        size: 64,
    };
    let chunk = Work::Stream { chunk: 65_536 };
    let second = Duration::from_secs(1);
    let is = |line| parse(&words(line));
    assert_eq!(is("unixpp 11 1 64"), Some((pairs, Place::Free, second)));
    assert_eq!(
        is("unixpp 11 1 64 same"),
        Some((pairs, Place::Same, second))
    );
    assert_eq!(
        is("unixst 1 65536 cross"),
        Some((chunk, Place::Cross, second))
    );
    for bad in [
        "unixpp 0 1 64",
        "unixst 1",
        "unixst 1 0",
        "unixst 1 9 near",
        "unixpp 1 -1 64",
        "x 1 2",
    ] {
        assert_eq!(is(bad), None, "{bad}");
    }
}

/// Breaks if the slowest round trips of a case are not recorded, so that a claim about them finds no row.
#[test]
fn round_trips_have_the_time_of_the_slowest() {
    let figures = Figures {
        rate: 1000.0,
        us: [1.0, 7.0, 9.0],
        cpu: 1.0,
    };
    for case in CASES {
        let rounds = [(figures, None), (figures, None)];
        let found = records(case, &CATALOG[0], &rounds);
        let found: Vec<_> = found.iter().map(|row| (row.measure, row.median)).collect();
        let rate = (None, Some(1000.0));
        match case.work {
            Work::PingPong { .. } => assert_eq!(found, [rate, (Some("p99"), Some(7.0))]),
            Work::Stream { .. } => assert_eq!(found, [rate]),
        }
    }
}
