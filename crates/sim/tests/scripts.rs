//! The packet scripts under `scripts/`, each named after the clause that it checks; and that a wrong one fails.
//!
//! Some rules have tests in Rust instead:
//!
//! | rule | why a script can't show it |
//! |---|---|
//! | ports and their secrecy (RFC 6056), `tests/tcp/open.rs` | the runner takes the ports of a script for the stack's |
//! | initial sequence numbers, clocks per pair of ends (RFC 6528, RFC 7323 7.1), `tests/tcp/open.rs`, `timestamps.rs` | the language's numbers are relative to the first ones |
//! | the cubic curve, rate samples (RFC 9438 4.2 to 4.4), unit tests of `mbuma` | it needs windows of hundreds of segments |
//! | a pair in TIME-WAIT used again (RFC 6191), `tests/tcp/time_wait.rs` | a script chooses no local port of a client |
//! | data in front of the handshake's end (RFC 9768 3.2.2.1), `tests/tcp/ecn_receiver.rs` | both systems' sockets refuse such a write |
//! | random streams of blocks, forged segments by the million, `tests/tcp/sack.rs`, `attacks.rs` | they are random |

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use sim::script::{Script, ScriptReport, ScriptVerdict, Settings};

fn run(name: &str, text: &str) -> ScriptReport {
    let script = Script::parse(name, text, &BTreeSet::new());
    let script = script.unwrap_or_else(|error| panic!("{name}: {error}"));
    script.run(&Settings::default())
}

/// Whether the script is about IPv4 alone.
fn is_of_ipv4(text: &str) -> bool {
    text.contains("--ip_version=ipv4")
}

fn run_over_ipv6(name: &str, text: &str) -> ScriptReport {
    let script = Script::parse(name, text, &BTreeSet::new());
    let script = script.unwrap_or_else(|error| panic!("{name}: {error}"));
    script.run(&Settings::default().over_ipv6())
}

fn find(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().expect("the folder is there") {
        let path = entry.expect("a readable entry").path();
        match path.is_dir() {
            true => find(&path, into),
            false => into.push(path),
        }
    }
}

#[test]
fn all_scripts_pass() {
    // Breaks when TCP breaks a clause that has a script, over IPv4 or over IPv6, or the runner reads a script in
    // another way.
    let mut files = Vec::new();
    find(
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts")),
        &mut files,
    );
    files.sort();
    assert!(files.len() >= 50, "{} scripts", files.len());
    let (mut failed, mut over_both) = (0, 0);
    for file in &files {
        let text = std::fs::read_to_string(file).expect("a readable script");
        let name = file.display().to_string();
        let mut reports = vec![run(&name, &text)];
        if !is_of_ipv4(&text) {
            over_both += 1;
            reports.push(run_over_ipv6(&format!("{name} over IPv6"), &text));
        }
        for report in reports {
            if !report.passed() || !report.notes.is_empty() {
                failed += 1;
                println!("{report}");
            }
        }
    }
    assert!(10 * over_both > 9 * files.len(), "{over_both} over both");
    assert_eq!(failed, 0, "of {} scripts", files.len());
}

/// A handshake, data both ways and a close; `(right, wrong)` takes one line's place.
const GOOD: &str = "\
0    socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0   bind(3, ..., ...) = 0
+0   listen(3, 1) = 0
+0   < S 0:0(0) win 5000 <mss 1000>
+0   > S. 0:0(0) ack 1 win 65535 <mss 1460>
+.1  < . 1:1(0) ack 1 win 5000
+0   accept(3, ..., ...) = 4
+0   < P. 1:2(1) ack 1 win 5000
+0   write(4, ..., 1000) = 1000
+0   > P. 1:1001(1000) ack 2
+.1  < P. 2:101(99) ack 1001 win 5000
+.04 > . 1001:1001(0) ack 101
+0   read(4, ..., 1000) = 100
+0   fcntl(4, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0   read(4, ..., 1000) = -1 EAGAIN (nothing there)
+0   %{ assert tcpi_snd_mss == 1000, tcpi_snd_mss }%
+0   `sockstat -s | grep -c ESTABLISHED`
+0   poll([{fd=4, events=POLLIN|POLLOUT, revents=POLLOUT}], 1, 0) = 1
+0   close(4) = 0
+0   > F. 1001:1001(0) ack 101
";

/// The line of [`GOOD`] that `right` stands in.
fn line_of(right: &str) -> u32 {
    let line = GOOD.lines().position(|line| line.contains(right));
    line.expect("it is in the script") as u32 + 1
}

#[test]
fn a_wrong_expectation_fails_and_names_its_line() {
    // Breaks when the runner ignores a part of a line, or names another line in its message.
    assert!(run("good", GOOD).passed());
    let wrongs = [
        ("> S. 0:0(0) ack 1", "> S. 0:0(0) ack 2", "ack 1, not 2"),
        ("win 65535 <mss 1460>", "win 65534 <mss 1460>", "win 65535"),
        ("<mss 1460>", "<mss 1400>", "options differ"),
        ("<mss 1460>", "<mss 1460,sackOK>", "options differ"),
        ("> P. 1:1001(1000)", "> . 1:1001(1000)", "flags P."),
        ("> P. 1:1001(1000)", "> P. 2:1002(1000)", "seq 1, not 2"),
        (
            "> P. 1:1001(1000)",
            "> P. 1:1000(999)",
            "1000 bytes of data",
        ),
        ("> P. 1:1001(1000)", "> [ect0] P. 1:1001(1000)", "ECN field"),
        (
            "> P. 1:1001(1000)",
            "> [ttl 63] P. 1:1001(1000)",
            "time to live",
        ),
        ("> P. 1:1001(1000) ack 2", "> udp (1000)", "another kind"),
        ("+.04 >", "+.02 >", "did not send this"),
        ("+.04 >", "+.06 >", "another time"),
        ("+.04 >", "+.05~+.07 >", "another time"),
        (
            "read(4, ..., 1000) = 100",
            "read(4, ..., 1000) = 99",
            "something else",
        ),
        ("-1 EAGAIN", "-1 EPIPE", "something else"),
        ("-1 EAGAIN", "0", "something else"),
        (
            "tcpi_snd_mss == 1000",
            "tcpi_snd_mss == 999",
            "does not hold",
        ),
        ("grep -c ESTABLISHED", "grep -c TIME_WAIT", "other states"),
        ("revents=POLLOUT", "revents=POLLIN", "revents"),
        (
            "accept(3, ..., ...) = 4",
            "accept(3, ..., ...) = -1 EAGAIN",
            "something else",
        ),
    ];
    for (right, wrong, says) in wrongs {
        let report = run(wrong, &GOOD.replace(right, wrong));
        let ScriptVerdict::Failed(failure) = &report.verdict else {
            panic!("{wrong} must fail: {report}");
        };
        assert_eq!(failure.line, line_of(right), "{report}");
        assert!(failure.message.contains(says), "{says}: {report}");
        let text = report.to_string();
        assert!(text.contains(&format!(":{}: ", failure.line)), "{text}");
        assert!(
            text.contains("> S. 0:0(0) ack 1"),
            "the trace is shown: {text}"
        );
    }
}

#[test]
fn a_packet_that_no_line_expects_meets_the_next_expectation() {
    // Breaks when the runner passes over packets of the connection.
    let text = GOOD.replace("+0   > P. 1:1001(1000) ack 2\n", "");
    let report = run("unexpected", &text);
    let ScriptVerdict::Failed(failure) = &report.verdict else {
        panic!("it must fail: {report}");
    };
    assert_eq!(failure.line, line_of("+.04 >") - 1);
    assert!(failure.got.starts_with("P. 1:1001(1000)"), "{report}");
}

#[test]
fn a_call_that_blocks_must_say_so_and_end_in_time() {
    // Breaks when a call may block without `a...b`, may return before, or end at another time.
    let connect = |when: &str| {
        format!(
            "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
             {when} connect(3, ..., ...) = 0
             +0 > S 0:0(0) <...>
             +.1 < S. 0:0(0) ack 1 win 5000 <mss 1460>
             +0 > . 1:1(0) ack 1"
        )
    };
    assert!(run("good", &connect("+0...0.1")).passed());
    for (when, says) in [
        ("+0", "the call blocks"),
        ("+0...0.2", "another time"),
        ("+0...0.05", "another time"),
    ] {
        let report = run(when, &connect(when));
        let ScriptVerdict::Failed(failure) = &report.verdict else {
            panic!("{when} must fail: {report}");
        };
        assert_eq!(failure.line, 2);
        assert!(failure.message.contains(says), "{report}");
    }
}

#[test]
fn what_the_runner_does_not_know_is_never_passed_over() {
    // Breaks when an unknown sysctl, option, call or flag is ignored in silence.
    let sysctl = format!("`sysctl -w net.inet.tcp.nonsense=1`\n{GOOD}");
    let report = run("sysctl", &sysctl);
    assert!(report.passed());
    assert!(report.notes[0].contains("nonsense"), "{report}");
    let open = GOOD.lines().take(17).collect::<Vec<_>>().join("\n");
    for line in [
        "+0 setsockopt(4, SOL_TCP, TCP_NONSENSE, [1], 4) = 0",
        "+0 dance(4) = 0",
        "+0 write(4, ..., 5, MSG_NONSENSE) = 5",
        "+0 %{ assert tcpi_nonsense == 1 }%",
        "+0 socket(AF_INET6, SOCK_STREAM, IPPROTO_TCP) = 9",
        "+0 < encap psp spi 1 . 101:101(0) ack 1001 win 5000",
        "+0 > encap psp spi 1 . 1001:1001(0) ack 101",
        "+0 < . 101:101(0) ack 1001 win 5000 {mut tcp mss; ins ipv4 34 2}",
        "+0 > . 1001:1001(0) ack 101 {rep tcp win_size 0}",
        "+0 sendmsg(4, {msg_iov(1)=[{..., 5}], msg_control=[{cmsg_type=X}]}, 0) = 5",
    ] {
        let report = run(line, &format!("{open}\n{line}\n"));
        let unsupported = matches!(report.verdict, ScriptVerdict::Unsupported { line: 18, .. });
        assert!(unsupported, "{line}: {report}");
    }
    let sent = "> P. 1:1001(1000) ack 2";
    let random = run(
        "random",
        &GOOD.replace(sent, &format!("{sent} {{mut tcp mss}}")),
    );
    assert!(random.passed(), "{random}");
    assert!(random.notes[0].contains("`mut tcp mss` has no effect"));
}

/// A script for Linux: PSH, and the results of a message.
const FOR_LINUX: &str = "\
`defaults.sh`
0    socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0   bind(3, ..., ...) = 0
+0   listen(3, 1) = 0
+0   < S 0:0(0) win 65535 <mss 1000>
+0   > S. 0:0(0) ack 1 <mss 1460>
+.01 < . 1:1(0) ack 1 win 65535
+0   accept(3, ..., ...) = 4
+0   write(4, ..., 12000) = 12000
+0   > P. 1:10001(10000) ack 1
+.01 < . 1:1(0) ack 10001 win 65535
+0   > P. 10001:12001(2000) ack 1
+.01 < . 1:1001(1000) ack 12001 win 65535
*    > . 12001:12001(0) ack 1001
+0   setsockopt(4, SOL_TCP, TCP_INQ, [1], 4) = 0
+0   recvmsg(4, {msg_iov(1)=[{..., 300}], msg_flags=0, msg_control=[{cmsg_type=TCP_CM_INQ, cmsg_data=700}]}, 0) = 300
";

#[test]
fn only_a_push_of_a_buffer_that_is_not_empty_may_be_missing() {
    // Breaks when a segment that empties the buffer may lack its PSH, or have one that the script does not expect, or a
    // script for BSD takes a segment without it.
    assert!(run("good", FOR_LINUX).passed());
    let replaced = FOR_LINUX.replace("> P. 10001", "> . 10001");
    let report = run("the last", &replaced);
    assert!(report.to_string().contains("flags P., not ."), "{report}");
    let script = Script::parse("bsd", FOR_LINUX, &BTreeSet::new()).expect("a good script");
    let mut settings = Settings::default();
    settings.dialect = Some(sim::script::Dialect::Bsd);
    let report = script.run(&settings);
    assert!(report.to_string().contains("flags ., not P."), "{report}");
}

#[test]
fn the_results_of_a_message_are_compared() {
    // Breaks when recvmsg's flags or control messages may be any.
    for (right, wrong, says) in [
        ("msg_flags=0", "msg_flags=MSG_TRUNC", "msg_flags is 0x0"),
        ("cmsg_data=700", "cmsg_data=701", "TCP_CM_INQ is 700"),
        ("TCP_INQ, [1]", "TCP_INQ, [0]", "TCP_INQ is off"),
        (
            "[{cmsg_type=TCP_CM_INQ, cmsg_data=700}]",
            "[]",
            "has a TCP_CM_INQ",
        ),
        ("TCP_CM_INQ", "SCM_RIGHTS", "the control message SCM_RIGHTS"),
    ] {
        let report = run(wrong, &FOR_LINUX.replace(right, wrong));
        assert!(report.to_string().contains(says), "{says}: {report}");
    }
}

#[test]
fn an_ipv6_address_of_a_script_is_noted() {
    // Breaks when a script with such an address is called none, or the address is ignored in silence.
    let report = run("addresses", &format!("--local_ip=fd::1\n{GOOD}"));
    assert!(report.passed(), "{report}");
    assert_eq!(report.notes, ["line 1: --local_ip has no effect"]);
    let wrong = format!("--local_ip=fd::x\n{GOOD}");
    assert!(Script::parse("wrong", &wrong, &BTreeSet::new()).is_err());
}

#[test]
fn an_mtu_ends_with_an_error_or_works() {
    // Breaks when an MTU that a script gives overflows, or makes the stack's interface impossible: over IPv6 it is 20
    // bytes larger.
    let begin =
        "+0 connect(3, ..., ...) = -1 EINPROGRESS\n+0 < icmp unreachable frag_needed mtu 65535\n";
    for mtu in [0, 1, 20, 40, 41, 68, 1279, 1280, 65_534, 65_535] {
        for version in ["", "--ip_version=ipv4", "--ip_version=ipv6"] {
            let text = format!(
                "--mtu={mtu}\n{version}\n0 socket(..., SOCK_STREAM|SOCK_NONBLOCK, IPPROTO_TCP) = 3\n{begin}"
            );
            let too_small = mtu < if version.ends_with('6') { 1280 } else { 68 };
            let parsed = Script::parse("mtu", &text, &BTreeSet::new());
            assert_eq!(parsed.is_err(), too_small, "{mtu} {version}");
            if !too_small {
                run("mtu", &text);
                let report = run_over_ipv6("mtu", &text);
                let says_why = report.to_string().contains("needs an MTU of 1280");
                assert_eq!(says_why, version.is_empty() && mtu < 1260, "{report}");
            }
        }
    }
}

#[test]
fn only_freebsd_may_be_later_than_a_timeout_announce_more_and_repeat_a_fin() {
    // Breaks when the leeways of FreeBSD's dialect hold for other scripts, or for more than they are for.
    let slow = "\
0    socket(..., SOCK_STREAM|SOCK_NONBLOCK, IPPROTO_TCP) = 3
+0   connect(3, ..., ...) = -1 EINPROGRESS
+0   > S 0:0(0) <...>
+1   > S 0:0(0) <...>
+2.2 > S 0:0(0) <...>
+.1  < S. 0:0(0) ack 1 win 5000 <mss 1460>
+0   > . 1:1(0) ack 1 win 65535
+.1  < F. 1:1(0) ack 1 win 5000
+0   > . 1:1(0) ack 2 win 65535
";
    let of_bsd = |text: &str| run("bsd", &format!("--dialect=bsd\n{text}"));
    assert!(of_bsd(slow).passed(), "{}", of_bsd(slow));
    for (right, wrong, says) in [
        ("+2.2", "+2.5", "another time"),
        ("+2.2", "+1.9", "did not send this"),
        ("ack 2 win 65535", "ack 2 win 65533", "win 65535"),
    ] {
        let report = of_bsd(&slow.replace(right, wrong));
        assert!(report.to_string().contains(says), "{wrong}: {report}");
    }
    let report = run("own", slow);
    assert!(report.to_string().contains("another time"), "{report}");
    let crossed = "\
0    socket(..., SOCK_STREAM|SOCK_NONBLOCK, IPPROTO_TCP) = 3
+0   connect(3, ..., ...) = -1 EINPROGRESS
+0   > S 0:0(0) <...>
+.1  < S. 0:0(0) ack 1 win 5000 <mss 1460>
+0   > . 1:1(0) ack 1
+0   shutdown(3, SHUT_WR) = 0
+0   > F. 1:1(0) ack 1
+.1  < F. 1:1(0) ack 1 win 5000
+0   > F. 1:1(0) ack 2
";
    assert!(of_bsd(crossed).passed(), "{}", of_bsd(crossed));
    let report = run("own", crossed);
    assert!(report.to_string().contains("flags ., not F."), "{report}");
}

#[test]
fn a_reader_that_closes_its_pipe_ends_the_output() {
    // Breaks when the program panics because its reader, such as `head`, has read enough.
    let scripts = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/sack");
    for args in [&["script", scripts][..], &["--seed", "1", "--plan"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut program = Command::new(env!("CARGO_BIN_EXE_mbuma-sim"));
        program.args(args).stdout(writer);
        let ended = program.output().expect("the program runs");
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!((ended.status.code(), &*said), (Some(0), ""), "{args:?}");
    }
}
