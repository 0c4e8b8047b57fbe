//! The programs of both sides find each other over any joint; the output names a contestant that does not run. With
//! tools between: the tool's end-to-end tests.

use super::bulk::{Span, Way};
use super::case::Job;
use super::client::Servers;
use super::result::measures;
use super::server::{self, Ports};
use super::*;
use crate::Comparison;
use crate::harness::test_output::output;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

fn on_loopback() -> Servers {
    let any = Ports {
        orders: 0,
        pages: 0,
        downloads: 0,
    };
    Servers {
        addr: Ipv4Addr::LOCALHOST.into(),
        ports: server::start(false, any).expect("three ports").0,
    }
}

/// On a busy machine a short reading may be over before all threads have had a CPU.
const READINGS: [Duration; 3] = [
    Duration::from_millis(20),
    Duration::from_millis(500),
    Duration::from_secs(10),
];

#[test]
fn every_case_has_its_measures() {
    // Breaks when a case hangs, counts no bytes, or leaves out one of its figures.
    let servers = on_loopback();
    servers.answer().expect("they answer");
    for case in CASES.iter().filter(|case| case.job.needs_no_tool()) {
        let read = |reading| {
            let found = servers.ask(case.job, reading);
            let mut found = found.unwrap_or_else(|why| panic!("{}: {why}", case.name));
            assert_eq!(found.failed, 0, "{}", case.name);
            // Only a tool has any.
            (found.cpu_s_per_gb, found.peak_mb) = (Some(1.0), Some(1.0));
            let alone = matches!(case.job, Job::RoundTrips { beside: None });
            let measures = measures(case.job);
            let due = measures
                .iter()
                .filter(|m| !alone || m.name != Some("stream"));
            due.map(|m| (m.of)(&found)).all(|figure| figure > Some(0.0))
        };
        assert!(READINGS.into_iter().any(read), "{}", case.name);
    }
}

#[test]
fn bytes_outside_of_the_period_do_not_count() {
    // Breaks when a stream's start, or bytes in flight at its end, make it faster than it is.
    let span = Span::of(Duration::from_secs(10));
    let at = |seconds| span.counts(Duration::from_secs_f64(seconds));
    assert!(!at(0.0) && !at(1.9) && at(2.1) && at(9.9) && !at(10.1));
    // The other end sends all bytes at once and closes, before the measured period begins.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let addr = listener.local_addr().expect("bound");
    let sender = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        stream.write_all(&[1; 1000]).expect("written");
    });
    let stream = TcpStream::connect(addr).expect("connected");
    let got = bulk::receive(&stream, Span::of(Duration::from_secs(3600))).expect("an end");
    assert_eq!((got.counted, got.all), (0, 1000));
    sender.join().expect("it sent");
}

#[test]
fn a_disturbed_stream_is_compared_with_an_undisturbed_one() {
    // Breaks when the share that a scan leaves is taken of the wrong reading, or the tool's CPU time of one of two.
    let of = |gbps, bytes| Found {
        gbps: Some(gbps),
        bytes,
        ..Found::default()
    };
    let found = of(9.0, 90).compared_with(&of(10.0, 100));
    assert_eq!((found.kept_percent, found.gbps), (Some(90.0), Some(9.0)));
    assert_eq!(found.bytes, 190);
}

#[test]
fn an_unexpected_answer_is_a_failure() {
    // Breaks when a tool that closes early, or answers in the place of the host, gets a good figure.
    for said in ["", "HTTP/1.1 502 Bad Gateway\r\n\r\n"] {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.read(&mut [0; 100]);
                let _ = stream.write_all(said.as_bytes());
            }
        });
        let servers = Servers {
            addr: Ipv4Addr::LOCALHOST.into(),
            ports: Ports {
                orders: port,
                pages: port,
                downloads: port,
            },
        };
        let job = Job::Connects { clients: 2 };
        let found = servers.ask(job, Duration::from_millis(20)).expect("counts");
        assert_eq!(found.per_s, Some(0.0));
        assert!(found.failed > 0, "{said:?}");
    }
}

fn options(common: Comparison) -> Options {
    let common = Comparison {
        progress: false,
        ..common
    };
    Options {
        common,
        ..Options::default()
    }
}

#[test]
fn a_contestant_that_cannot_run_is_listed_as_skipped() {
    // Breaks when a machine without namespaces fails the whole report, or shows an empty table.
    let options = options(Comparison {
        cases: vec!["up1".to_owned(), "rr".to_owned()],
        json: true,
        ..Comparison::default()
    });
    let text = output(|out| run(&options, out));
    assert_eq!(text.lines().count(), 2 * CATALOG.len(), "{text}");
    assert!(text.lines().all(|l| l.contains("\"note\":\"skipped: ")));
}

#[test]
fn a_process_that_fails_is_quoted() {
    // Breaks when the output lacks a tool's error message.
    let said = r#"echo '{"Failed":"not installed"}'"#;
    let words = ["sh", "-c", said].map(OsString::from);
    let mut command = Command::new(&words[0]);
    let peer = Peer::start(command.args(&words[1..]));
    let why = peer.err().expect("it failed").to_string();
    assert_eq!(why, "not installed");
}

#[test]
fn wrong_words_are_answered_with_the_right_ones() {
    // Breaks when a wrong name is not refused.
    let mut wrong = options(Comparison::default());
    wrong.common.designs = vec!["slirp".to_owned()];
    let error = run(&wrong, &mut Vec::new()).expect_err("a typo");
    assert!(error.to_string().contains("slirp4netns"), "{error}");
    let mut large = options(Comparison::default());
    large.mtu = 65_521;
    assert!(run(&large, &mut Vec::new()).is_err());
    for job in ["", "guests", "pasta", "pasta x", "past 1500"] {
        assert!(
            child(job, &[], Path::new(""), &mut Vec::new()).is_err(),
            "{job}"
        );
    }
    let text = list();
    assert!(text.contains("rr-up") && text.contains("pasta"), "{text}");
    // Both directions are cases.
    for way in [Way::Up, Way::Down] {
        let is = |case: &&Case| case.job == Job::Bulk { way, streams: 1 };
        assert_eq!(CASES.iter().filter(is).count(), 1);
    }
}
