//! The loops carry their bytes over any transport; arguments and output of programs are right.

use super::case::{Job, Mode};
use super::designs::{CATALOG, alone};
use super::figures::Figures;
use super::flow::End;
use super::ours::{Drive, Setup, connected};
use super::programs;
use super::sums::Work;
use super::*;
use crate::Comparison;
use crate::harness::test_output::output;
use std::time::Duration;

fn job(mode: Mode, two: bool, sums: bool) -> Job {
    Job {
        mode,
        mtu: 1500,
        two,
        sums,
    }
}

/// Breaks if a way of joining two stacks loses, repeats or changes a byte.
#[test]
fn every_way_of_joining_carries_the_bytes() {
    let ways = [
        (Work::None, Drive::Direct),
        (Work::None, Drive::Polled),
        (Work::Sum, Drive::Polled),
        (Work::Cut, Drive::Polled),
    ];
    for (work, drive) in ways {
        let [mut from, mut to] = connected(Setup {
            mtu: 1500,
            work,
            drive,
            by_ref: false,
        });
        let sent: Vec<u8> = (0..100_000u32).map(|n| (n % 251) as u8).collect();
        let (mut at, mut got, mut buf) = (0, Vec::new(), [0; 5000]);
        while got.len() < sent.len() {
            at += from.send(&sent[at..]);
            from.turn();
            to.turn();
            let n = to.recv(&mut buf);
            got.extend_from_slice(&buf[..n]);
        }
        assert!(got == sent, "{work:?}, {drive:?}");
    }
}

/// On a busy machine two spinning threads may not both get a CPU in a short run, and then no bytes arrive. A flow that
/// stalls also stalls in a long run.
const PATIENCE: [Duration; 3] = [
    Duration::from_millis(20),
    Duration::from_millis(500),
    Duration::from_secs(10),
];

/// Breaks if a design without outside programs does not run, or its line is not read as it was written.
#[test]
fn built_in_designs_run_and_their_lines_parse() {
    let built_in = CATALOG
        .iter()
        .filter(|e| e.kind == Kind::Ours || e.name == "kernel-lo");
    for entry in built_in {
        for (mode, two) in [
            (Mode::Stream, false),
            (Mode::Stream, true),
            (Mode::Rr, true),
        ] {
            if entry.name == "mbuma-ref" && mode == Mode::Rr {
                continue;
            }
            let run = |time| {
                let figures = alone(entry, job(mode, two, true), time);
                figures.unwrap_or_else(|why| panic!("{}: {why}", entry.name))
            };
            let figures = PATIENCE.into_iter().map(run).find(|f| f.main() > 0.0);
            let figures = figures.unwrap_or_else(|| panic!("{}: it stalls", entry.name));
            let read = Figures::parse(&figures.to_json()).expect("a line of its own");
            assert!((read.main() - figures.main()).abs() <= 0.006, "{read:?}");
        }
    }
}

/// Breaks if smoltcp's settings are not the best for the job, or the note gives other settings.
#[test]
fn smoltcp_runs_with_the_settings_of_its_note() {
    let dir = std::env::temp_dir().join(format!("lab-smoltcp-{}", std::process::id()));
    let bin = dir.join("target/release");
    std::fs::create_dir_all(&bin).expect("a directory");
    let script = r#"#!/bin/sh
[ "$* $SLOTS $TICK" = "stream 65535 one 0.100 csum 262144 128 256" ] || exit 1
echo '{"gbps":40,"cpu_s_per_GB":0.2}'
"#;
    let program = bin.join("smoltcp_bench");
    std::fs::write(&program, script).expect("a file");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).expect("it is ours");
    let job = Job {
        mtu: 65_535,
        ..job(Mode::Stream, false, true)
    };
    let figures = programs::smoltcp(&dir, job, Duration::from_millis(100));
    let _ = std::fs::remove_dir_all(&dir);
    assert_eq!(figures.map(|f| f.main()), Ok(40.0));
    let note = programs::SmoltcpSettings::best(job).to_string();
    assert_eq!(note, "128 slots, 256 KiB buffers, clock 1:256");
}

/// Breaks if a job is parsed as another one.
#[test]
fn a_job_is_parsed_as_typed() {
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let parsed = programs::parse(&words("rr 1500 two 0.5 nocsum"));
    assert_eq!(
        parsed,
        Some((job(Mode::Rr, true, false), Duration::from_millis(500)))
    );
    for bad in [
        "rr 1500 two 0.5",
        "rr 1500 three 0.5 csum",
        "rr 67 two 0.5 csum",
        "rr 1500 two -1 csum",
        "tx 1500 two 1 csum",
        "rr 70000 two 1 csum",
    ] {
        assert_eq!(programs::parse(&words(bad)), None, "{bad}");
    }
}

/// Breaks if a program that is missing stops the others, or goes unsaid.
#[test]
fn a_missing_program_is_named() {
    let options = Options {
        common: Comparison {
            cases: vec!["stream-1500-one".to_owned()],
            designs: vec!["mbuma".to_owned(), "smoltcp".to_owned()],
            ..Comparison::short(0.02, 2)
        },
        peers: Some("/nowhere".into()),
        child: Vec::new(),
    };
    let text = output(|out| run(&options, out));
    assert!(text.contains("smoltcp       skipped: not built"), "{text}");
    assert!(text.contains("mbuma  "), "{text}");
}
