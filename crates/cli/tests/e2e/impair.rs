//! `--impair`: real programs over a bad link.

use crate::bulk::fetch_and_send;
use crate::common::needs::{guests, programs};
use crate::common::{Running, alone, output_of, program};

const MB: usize = 1_000_000;

#[test]
fn every_byte_comes_over_a_bad_link() {
    // Breaks when a frame that is lost, late, doubled or damaged on the link changes what a program receives, or a
    // connection stalls; and when buffers are kept: mbuma then says so at its end. `IMPAIR_SEEDS=50` runs so many
    // seeds.
    needs!(guests(), programs(&["curl", "sha256sum"]));
    let _alone = alone();
    let seeds = std::env::var("IMPAIR_SEEDS").map_or(1, |said| said.parse().expect("a number"));
    for seed in 1..=seeds {
        let bad = format!(
            "rate=50mbit,delay=2ms,loss=0.5%,reorder=1%,late=3ms,duplicate=0.5%,corrupt=0.2%,seed={seed}"
        );
        fetch_and_send(2 * MB, &["--host-loopback", "--impair", &bad]);
        let large = format!("loss=1%,seed={}", seed + 1);
        let options = ["--host-loopback", "--impair", &large, "--mtu", "9000"];
        fetch_and_send(2 * MB, &options);
    }
}

#[test]
fn a_ping_takes_the_delays_of_both_directions() {
    // Breaks when a frame comes before its time, or a direction has the delay of the other.
    needs!(guests(), programs(&["ping"]));
    let options = ["--impair", "delay=5ms,up:delay=20ms,down:delay=60ms"];
    let out = output_of(&options, "ping -q -c 3 -i 0.2 10.0.2.2");
    let least = out
        .split(" = ")
        .nth(1)
        .and_then(|times| times.split('/').next());
    let least: f64 = least
        .and_then(|ms| ms.parse().ok())
        .unwrap_or_else(|| panic!("{out}"));
    assert!(least >= 80.0, "{out}");
}

#[test]
fn iperf3_stays_within_the_rate() {
    // Breaks when the rate is not kept, is one for both directions together, or hardly anything passes.
    needs!(guests(), programs(&["iperf3", "jq"]));
    let _alone = alone();
    let options = [
        "--publish",
        "15201:5201",
        "--impair",
        "delay=1ms,queue=100p,up:rate=8mbit,down:rate=16mbit",
    ];
    let mut command = program(crate::MBUMA);
    command
        .arg("run")
        .args(options)
        .args(["--", "iperf3", "-s", "--forceflush"]);
    let server = Running::start(command);
    server.wait_for("Server listening");
    for (word, most) in [("--get-server-output", 16.0), ("--reverse", 8.0)] {
        // The server may still be busy with the test before.
        let script = format!(
            "for i in 1 2 3 4 5; do
               out=$(iperf3 -c 127.0.0.1 -p 15201 -t 3 -J {word})
               case $out in *\"the server is busy\"*) sleep 0.5;; *) break;; esac
             done
             printf %s \"$out\" | jq .error//.end.sum_received.bits_per_second"
        );
        let out = program("sh")
            .args(["-c", &script])
            .output()
            .expect("sh is there");
        let out = String::from_utf8_lossy(&out.stdout).into_owned();
        let rate: f64 = out
            .trim()
            .parse()
            .unwrap_or_else(|_| panic!("{word}: {out}"));
        // What waits in the queue when the time begins or ends is counted on one side only.
        assert!(
            (most * 0.3e6..most * 1.1e6).contains(&rate),
            "{word}: {rate} of {most} Mbit/s"
        );
    }
    server.signal("TERM");
}

#[test]
fn the_link_is_shown() {
    // Breaks when neither `netstat` nor the statistics say that the network is bad on purpose.
    needs!(guests(), programs(&["ping"]));
    let mut command = program(crate::MBUMA);
    // Over IPv4 alone: with IPv6 the guest's kernel reports its groups beside the ping.
    command.args([
        "run",
        "-4",
        "--impair",
        "delay=1ms,down:mtu=1400",
        "--stats",
        "--",
    ]);
    command.args(["ping", "-q", "-c", "1", "10.0.2.2"]);
    let ended = Running::start(command).finish();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(
        ended.err.contains("link up: delay=1ms: 2 packets\n"),
        "{ended:#?}"
    );
    assert!(
        ended
            .err
            .contains("link down: delay=1ms,mtu=1400: 2 packets\n"),
        "{ended:#?}"
    );
}
