//! Random packet scripts: no text makes the reader or the runner panic.

use std::collections::BTreeSet;

use proptest::prelude::*;
use sim::script::{Script, Settings};

/// Scripts that together have most of the language.
const SEEDS: [&str; 5] = [
    include_str!("../scripts/handshake/rfc9293-3.5-blocking-connect.pkt"),
    include_str!("../scripts/data/posix-poll-and-epoll.pkt"),
    include_str!("../scripts/sack/rfc2018-4-three-blocks-beside-timestamps.pkt"),
    include_str!("../scripts/data/linux-unread-bytes-with-each-message.pkt"),
    include_str!("../scripts/reset/rfc1191-5-fragmentation-needed.pkt"),
];

/// Words that scripts are made of.
const WORDS: [&str; 52] = [
    "0",
    "+0",
    "+.1",
    "*",
    "0...0.1",
    "+0~+.2",
    "~",
    "<",
    ">",
    "S",
    "S.",
    ".",
    "F.",
    "R.",
    "P.",
    "-",
    "0:0(0)",
    "1:1(0)",
    "1:1001(1000)",
    "1:65536(65535)",
    "ack 1",
    "win 0",
    "urg 3",
    "<mss 1000>",
    "<...>",
    "<sack 1:2,nop>",
    "<TS val 1 ecr 2>",
    "[ce]",
    "[1:2(1)]",
    "udp (9)",
    "icmp unreachable frag_needed mtu 1",
    "close(4) = 0",
    "write(4, ..., 9) = 9",
    "= -1 EAGAIN",
    "`sysctl -w a=1`",
    "`sockstat | grep -c X`",
    "%{ assert (tcpi_rtt) > 0 }%",
    "--mtu=576",
    "#ifdef X",
    "#else",
    "#endif",
    "{a=1, b={2}}",
    "[1, {...}]",
    "\"text\"",
    "P.5",
    ".7",
    "encap",
    "{rep ipv4 version_ihl 0x35}",
    "{rep ipv4 tot_len 5; rep tcp seq_num 1}",
    "{mut tcp mss; ins ipv4 34 2}",
    "%{ a = 1; a /= 0 }%",
    "`defaults.sh; sysctl a=$((1*2+3)) # b`",
];

fn read_and_run(text: &str) {
    if let Ok(script) = Script::parse("fuzz", text, &BTreeSet::new()) {
        script.run(&Settings::default());
    }
}

/// A script with some of its words left out, doubled, or replaced by others.
fn changed(seed: &str, changes: &[(usize, usize)]) -> String {
    let mut words: Vec<&str> = seed.split_inclusive(char::is_whitespace).collect();
    for (at, what) in changes {
        let at = at % words.len();
        match what % (WORDS.len() + 2) {
            0 => words[at] = " ",
            1 => words.insert(at, words[at]),
            n => words[at] = WORDS[n - 2],
        }
    }
    words.join(" ")
}

#[test]
fn a_packet_that_is_too_long_for_ip_ends_the_script_with_an_error() {
    // Breaks when the runner panics, or takes memory of a length that only a mistaken script names.
    for packet in [
        "< . 1:65536(65535) ack 1 win 9",
        "< udp (65530)",
        "< [1:65536(65535)] icmp unreachable host_unreachable",
        "< [udp (65530)] icmp unreachable host_unreachable",
    ] {
        let text = format!("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 {packet}\n");
        let script = Script::parse("long", &text, &BTreeSet::new());
        let script = script.unwrap_or_else(|error| panic!("{packet}: {error}"));
        let report = script.run(&Settings::default()).to_string();
        assert!(report.contains("at most 65535 bytes"), "{packet}: {report}");
    }
}

/// A connection over a path of 100 ms, with data both ways, a loss and a closed window; `head` comes first, and
/// `options` when its socket is there.
fn connection(head: &str, options: &str) -> String {
    format!(
        "\
{head}
0    socket(..., SOCK_STREAM|SOCK_NONBLOCK, IPPROTO_TCP) = 3
{options}
+0   connect(3, ..., ...) = ...
+.1  < S. 0:0(0) ack 1 win 5000 <mss 1460,sackOK,nop,wscale 2>
+0   write(3, ..., 20000) = ...
+.1  < . 1:1001(1000) ack 1 win 5000
+.1  < . 1001:2001(1000) ack 1461 win 5000
+0   read(3, ..., 9000) = ...
+.1  < . 2001:3001(1000) ack 1461 win 5000 <nop,nop,sack 2921:4381>
+.1  < . 3001:4001(1000) ack 4381 win 0
+5   < . 4001:4001(0) ack 4381 win 5000
+1   < F. 4001:4001(0) ack 4381 win 5000
+0   close(3) = ...
+100 close(9) = -1 EBADF
"
    )
}

/// Reads and runs it over both versions of IP.
fn run_both(text: &str) -> String {
    let script = Script::parse("numbers", text, &BTreeSet::new());
    let script = script.unwrap_or_else(|error| panic!("{error} in {text}"));
    let settings = Settings::default();
    script.run(&settings.clone().over_ipv6());
    script.run(&settings).to_string()
}

#[test]
fn the_script_of_extreme_numbers_reaches_its_end() {
    // Breaks when the scripts below end before their numbers matter.
    let report = run_both(&connection("", ""));
    assert!(report.contains("passed"), "{report}");
}

#[test]
fn no_time_that_a_script_gives_overflows() {
    // Breaks when a tolerance, a tick, a slop or the sum of many times is computed without regard to its size.
    let begin = "0 socket(..., SOCK_STREAM|SOCK_NONBLOCK, IPPROTO_TCP) = 3\n+0 connect(3, ..., ...) = ...\n";
    let syns = "+0 > S 0:0(0) <TS val 1 ecr 0>\n+1 > S 0:0(0) <TS val 4294967295 ecr 0>\n";
    let syns = &format!("{begin}+0 > S 0:0(0) <...>\n+1 > S 0:0(0) <...>\n{begin}{syns}");
    let blocked = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0...9 connect(3, ..., ...) = 0\n";
    for n in [i64::MAX, i64::MAX - 5000, i64::MIN, -1] {
        for setting in ["--tolerance_usecs", "--tcp_ts_tick_usecs"] {
            for body in [syns, blocked, &connection("", "")] {
                run_both(&format!("{setting}={n}\n{body}"));
            }
        }
    }
    for n in [
        "9223372036854775",
        "9223372036854775807",
        "18446744073709551615",
    ] {
        run_both(&format!("`sysctl net.inet.tcp.rexmit_slop={n}`\n{syns}"));
    }
    let steps = "+3155760000 close(9) = -1 EBADF\n".repeat(3000);
    let report = run_both(&format!("0 close(9) = -1 EBADF\n{steps}"));
    assert!(report.contains("too far away"), "{report}");
}

#[test]
fn no_number_of_a_sysctl_or_of_an_option_makes_the_stack_panic() {
    // Breaks when the stack multiplies a number of its configuration, or of a socket's options, without regard to its
    // size.
    for name in [
        "net.inet.tcp.initcwnd_segments",
        "net.inet.tcp.recvspace",
        "net.inet.tcp.sendspace",
        "net.inet.tcp.recvbuf_max",
        "net.inet.tcp.sendbuf_max",
        "net.inet.tcp.rexmit_min",
        "net.inet.tcp.delacktime",
        "net.inet.tcp.msl",
        "net.inet.tcp.keepidle",
        "net.inet.tcp.keepintvl",
        "net.inet.tcp.keepcnt",
        "net.inet.tcp.keepinit",
        "net.inet.tcp.finwait2_timeout",
        "net.ipv4.tcp_retries2",
        "net.ipv4.tcp_syn_retries",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_fin_timeout",
        "kern.ipc.maxsockbuf",
    ] {
        for n in [
            0,
            1,
            255,
            u32::MAX.into(),
            1 << 32,
            i64::MAX as u64,
            u64::MAX,
        ] {
            run_both(&connection(&format!("`sysctl {name}={n}`"), ""));
        }
    }
    for (level, name) in [
        ("SOL_SOCKET", "SO_SNDBUF"),
        ("SOL_SOCKET", "SO_RCVBUF"),
        ("SOL_SOCKET", "SO_RCVLOWAT"),
        ("SOL_SOCKET", "SO_SNDLOWAT"),
        ("SOL_SOCKET", "SO_MAX_PACING_RATE"),
        ("IPPROTO_IP", "IP_TOS"),
        ("IPPROTO_IP", "IP_LOCAL_PORT_RANGE"),
        ("IPPROTO_TCP", "TCP_MAXSEG"),
        ("IPPROTO_TCP", "TCP_NOTSENT_LOWAT"),
        ("IPPROTO_TCP", "TCP_USER_TIMEOUT"),
        ("IPPROTO_TCP", "TCP_KEEPINIT"),
        ("IPPROTO_TCP", "TCP_LINGER2"),
        ("IPPROTO_TCP", "TCP_KEEPIDLE"),
        ("IPPROTO_TCP", "TCP_KEEPINTVL"),
        ("IPPROTO_TCP", "TCP_DEFER_ACCEPT"),
    ] {
        for n in [
            0,
            1,
            255,
            i64::from(u32::MAX),
            1 << 32,
            i64::MAX,
            -1,
            -i64::MAX,
        ] {
            let set = |name: &str| format!("+0 setsockopt(3, {level}, {name}, [{n}], 4) = ...\n");
            let keep = "+0 setsockopt(3, SOL_SOCKET, SO_KEEPALIVE, [1], 4) = ...\n";
            let options = format!("{keep}{}", set(name));
            run_both(&connection("", &options));
        }
    }
}

#[test]
fn no_address_or_port_of_a_script_makes_the_runner_panic() {
    // Breaks when an address that no host can have, or a port that no program has, is taken for a good one.
    for addr in [
        "0.0.0.0",
        "255.255.255.255",
        "127.0.0.1",
        "224.0.0.1",
        "192.168.0.2",
        "1.2.3.4",
    ] {
        for name in ["local_ip", "remote_ip", "gateway_ip"] {
            run_both(&connection(&format!("--{name}={addr}"), ""));
        }
    }
    for port in [0, 1, u16::MAX] {
        for name in ["bind_port", "connect_port"] {
            run_both(&connection(&format!("--{name}={port}"), ""));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,200}") {
        // Breaks when the lexer or the parser splits a character, or reads past the end.
        read_and_run(&text);
    }

    #[test]
    fn no_row_of_words_makes_the_runner_panic(row in prop::collection::vec(0..WORDS.len(), 0..40)) {
        // Breaks when a script that makes no sense makes a computation overflow or panic.
        let words: Vec<&str> = row.iter().map(|i| WORDS[*i]).collect();
        read_and_run(&words.join(" "));
    }

    #[test]
    fn no_change_of_a_script_makes_the_runner_panic(
        seed in 0..SEEDS.len(),
        changes in prop::collection::vec((any::<usize>(), any::<usize>()), 1..6),
    ) {
        // Breaks when the runner, or the stack under it, relies on a script that makes sense.
        read_and_run(&changed(SEEDS[seed], &changes));
    }

    #[test]
    fn no_assertion_makes_the_reader_panic(text in "[-+*/%()<>=! a-z0-9,.;#x]{0,60}") {
        // Breaks when an assertion divides, nests or ends where the reader does not expect it.
        read_and_run(&format!("0 %{{ assert {text} }}%"));
    }
}
