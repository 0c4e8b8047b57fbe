//! The figures are computed from the clients' output.

use super::case::{CASES, Case};
use super::client::{of_s_time, of_wrk};
use super::quota::{CpuQuota, was_limit};
use super::report::EXPERIMENT;
use super::slow::were_kept;
use crate::harness::process::Kept;
use crate::report::{Row, Rows, Verdict};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

#[test]
fn a_reading_with_failures_is_none() {
    // Breaks when error pages count as the file, and a server that refuses everything is the fastest.
    let text = "Running 1s test\nfigures 100 123456 1000000 0 12.0 34.5\n  100 requests in 1.00s\n";
    let answers = of_wrk(text).expect("figures");
    assert_eq!((answers.count, answers.bytes), (100, 123_456));
    assert_eq!((answers.seconds, answers.p99_us), (1.0, Some(34.5)));
    assert!(of_wrk("figures 100 123456 1000000 3 12.0 34.5\n").is_err());
    assert!(of_wrk("unable to connect\n").is_err());
}

#[test]
fn without_a_whole_answer_there_is_no_latency() {
    // Breaks when a file that takes longer than the reading has a latency of 0.
    let answers = of_wrk("figures 0 99 1000000 0 0.0 0.0\n").expect("figures");
    assert_eq!((answers.p50_us, answers.p99_us), (None, None));
}

#[test]
fn handshakes_are_those_that_were_made() {
    // Breaks when the connections for each second of the client's CPU are taken for the number of connections.
    let text = "\n\n1234 connections in 1.02s; 1209.80 connections/user sec, bytes read 0\n\
                1234 connections in 3 real seconds, 0 bytes read per connection\n";
    assert_eq!(of_s_time(text).ok(), Some(1234));
    assert!(of_s_time("ERROR").is_err());
}

#[test]
fn each_case_has_a_name_of_its_own() {
    // Breaks when two cases have the same name.
    for case in CASES {
        assert_eq!(Case::find(case.name), Some(case));
    }
}

#[test]
fn a_reading_that_the_client_limits_is_none() {
    // Breaks when the handshakes that a client can make are taken for those that a server can.
    assert!(was_limit(10, 0.1, 1.0).is_ok());
    assert!(was_limit(10, 0.05, 1.0).is_err());
}

#[test]
fn a_reading_beside_clients_that_were_shut_out_is_none() {
    // Breaks when a server that ends all slow clients at once is said to serve others well beside them.
    assert!(were_kept(9_500, 10_000).is_ok());
    assert!(were_kept(8_000, 10_000).is_err());
}

#[test]
fn latencies_beside_slow_clients_are_of_the_same_mode() {
    // Breaks when CPUs that are far from each other in one case pass for the effect of the slow clients.
    let row = |case: &str, mode: &str, n, median| Row {
        case: case.to_owned(),
        design: "mbuma".to_owned(),
        mode: Some(mode.to_owned()),
        n,
        median: Some(median),
        measure: Some("p99".to_owned()),
        ..Row::default()
    };
    let verdict = |beside_far| {
        let rows = [
            row("1k-16", "far", 7, 100.0),
            row("1k-16-slow", "near", 6, 900.0),
            row("1k-16-slow", "far", 1, beside_far),
        ];
        let claim = EXPERIMENT
            .claims
            .iter()
            .find(|claim| claim.says.contains("never end"));
        let found = (claim.expect("it is there").judge)(&Rows::of(&rows));
        found.map(|found| found.verdict)
    };
    assert_eq!(verdict(190.0), Some(Verdict::Holds));
    assert_eq!(verdict(210.0), Some(Verdict::Fails));
}

#[test]
fn a_server_is_in_its_group_and_the_group_ends_with_it() {
    // Breaks when a server starts outside of its group and has no bound, or a run leaves a group behind.
    let Ok(quota) = CpuQuota::new(50) else {
        return; // This machine lets this process make none.
    };
    let mut command = quota.inside(&Command::new("cat"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut kept = Kept::start(&mut command).expect("a shell");
    // The program answers, so the shell has been replaced by it.
    writeln!(kept.input().expect("piped"), "there").expect("it reads");
    let mut line = String::new();
    let output = kept.output().expect("piped");
    BufReader::new(output)
        .read_line(&mut line)
        .expect("it answers");
    let of_server = fs::read_to_string(format!("/proc/{}/cgroup", kept.id())).expect("it lives");
    let group = quota.path().file_name().expect("a name").to_string_lossy();
    assert!(of_server.contains(&*group), "{of_server}");
    quota.impose().expect("a bound");
    let path = quota.path().to_owned();
    drop(kept);
    drop(quota);
    assert!(!path.exists());
}
