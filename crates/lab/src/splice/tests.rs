//! Each of our proxies carries the bytes, and every row of the list runs.

use super::ends::joined;
use super::proxy::Work;
use super::*;

/// Breaks if a proxy loses, repeats or changes a byte, or a splice leaves the moving to a program.
#[test]
fn every_proxy_carries_the_bytes() {
    for work in [Work::Splice, Work::HandOn, Work::Copy] {
        let (mut ends, mut proxy) = joined(2, work);
        let sent: Vec<u8> = (0..100_000u32).map(|n| (n % 251) as u8).collect();
        let (mut at, mut got, mut buf) = (0, Vec::new(), [0; 5000]);
        while got.len() < sent.len() {
            at += ends.streams[1][0].send(&sent[at..]).unwrap_or(0);
            proxy.turn();
            ends.turn();
            let n = ends.streams[1][1].recv(&mut buf).unwrap_or(0);
            got.extend_from_slice(&buf[..n]);
        }
        assert!(got == sent, "{work:?}");
        let by_splice = (work == Work::Splice).then_some(sent.len() as u64);
        assert_eq!(proxy.spliced(), by_splice);
    }
}

/// Breaks if one of ours does not run in one of the cases, or stalls.
#[test]
fn ours_run_in_every_case() {
    let cpus = Effort::new(1, 1.0).expect("numbers that do").two_cpus();
    for entry in CATALOG.iter().filter(|entry| entry.kind == Kind::Ours) {
        for case in CASES {
            // On a busy machine two threads that spin may not both have had a CPU in a short run.
            let times = [20, 500, 10_000].map(Duration::from_millis);
            let run = |time| entry.alone(case, cpus, time);
            let moved = times
                .into_iter()
                .any(|time| run(time).is_ok_and(|figures| figures.main() > 0.0));
            assert!(moved, "{} in {}", entry.name, case.name);
        }
    }
}

/// Breaks if a job from the command line is taken for another.
#[test]
fn a_job_that_makes_no_sense_is_refused() {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for bad in ["one", "one -1", "two 1", "one 1 1"] {
        let ran = bench(&["mbuma".to_owned()], &words(bad), &mut Vec::new());
        assert!(ran.is_err(), "{bad}");
    }
}
