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
